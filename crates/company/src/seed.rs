//! Builds the initial records: the same ones on every machine and in every run.

use crate::cell::{Cell, DAY};
use crate::spec::{COMPANY, Entity, Field, Given, Kind, Make, place, words};
use crate::store::{Row, Table};

/// The company's first day, 2025-01-01.
const START: i64 = 1_735_689_600;
/// The present time of the company, noon of 2026-06-30; the company has no clock.
pub(crate) const NOW: i64 = 1_782_820_800;

/// Builds all initial records of an entity; the tables that the entity links to must be loaded.
pub(crate) fn table(entity: &Entity, tables: &[Table]) -> Table {
    let span = NOW - START - DAY;
    let rows = (1..=entity.count).map(|number| {
        let mut chance = Chance::of(entity.prefix, number);
        let made = START + span * i64::from(number) / i64::from(entity.count + 1);
        let made = made - made.rem_euclid(60);
        let mut maker = Maker {
            tables,
            entity,
            number,
            made,
            chance: &mut chance,
        };
        let cells = maker.cells(entity.fields);
        let changed = (made + chance.between(0, 20 * 24 * 60) * 60).min(NOW);
        Row {
            number,
            made,
            changed,
            cells,
        }
    });
    Table::of(rows.collect())
}

/// A pseudorandom sequence that depends only on its start value (splitmix64).
struct Chance(u64);

impl Chance {
    fn of(prefix: &str, number: u32) -> Self {
        let start = prefix.bytes().fold(u64::from(number), |seed, byte| {
            (seed << 8) ^ (seed >> 56) ^ u64::from(byte)
        });
        Self(start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    /// A number below `end` in which small numbers are more frequent.
    fn early(&mut self, end: usize) -> usize {
        let wide = self.below(end.saturating_mul(end));
        let root = wide.isqrt();
        end.saturating_sub(1).saturating_sub(root)
    }

    fn between(&mut self, least: i64, most: i64) -> i64 {
        let wide = usize::try_from(most.saturating_sub(least).saturating_add(1)).unwrap_or(1);
        least + i64::try_from(self.below(wide)).unwrap_or(0)
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices.get(self.below(choices.len())).copied().unwrap_or_default()
    }
}

/// Builds the field values of one record.
struct Maker<'a> {
    tables: &'a [Table],
    entity: &'a Entity,
    number: u32,
    made: i64,
    chance: &'a mut Chance,
}

impl Maker<'_> {
    fn cells(&mut self, fields: &[Field]) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(fields.len());
        for field in fields {
            let cell = self.cell(field, field.make, fields, &cells);
            cells.push(cell);
        }
        cells
    }

    fn cell(&mut self, field: &Field, make: Make, fields: &[Field], before: &[Cell]) -> Cell {
        let of = |name: &str| {
            fields
                .iter()
                .position(|it| it.name == name)
                .and_then(|at| before.get(at))
        };
        match make {
            Make::When(name, words, inner) => {
                let holds = of(name).and_then(Cell::text).is_some_and(|word| words.contains(&word));
                if holds {
                    self.cell(field, *inner, fields, before)
                } else {
                    Cell::Null
                }
            }
            Make::Sometimes(percent, inner) => {
                if self.chance.next() % 100 < percent {
                    self.cell(field, *inner, fields, before)
                } else {
                    Cell::Null
                }
            }
            Make::Through(..) | Make::Sum(..) => derived(self.tables, field, fields, before).unwrap_or(Cell::Null),
            Make::Handle(name) => {
                let text = of(name).and_then(Cell::text).unwrap_or_default();
                Cell::Text(address(field.kind, text, self.number).into())
            }
            Make::Phrase(phrases) => self.phrase(phrases),
            Make::Any | Make::Early | Make::Between(..) | Make::After(..) => self.plain(field, make),
        }
    }

    fn plain(&mut self, field: &Field, make: Make) -> Cell {
        let (least, most) = match (make, field.kind) {
            (Make::Between(least, most) | Make::After(least, most), _) | (_, Kind::Integer(least, most)) => {
                (least, most)
            }
            _ => (0, 30),
        };
        match field.kind {
            Kind::Integer(..) if matches!(make, Make::Early) => {
                let wide = usize::try_from(most - least + 1).unwrap_or(1);
                Cell::Integer(least + i64::try_from(self.chance.early(wide)).unwrap_or(0))
            }
            Kind::Integer(..) | Kind::Cents => Cell::Integer(self.chance.between(least, most)),
            Kind::Day => {
                let day = self.made.div_euclid(DAY) + self.chance.between(least, most);
                Cell::Day(if field.given == Given::Kept {
                    day.min(NOW.div_euclid(DAY))
                } else {
                    day
                })
            }
            Kind::Time => {
                let quarter_hours = self.chance.between(32, 68) * 900;
                let day = self.made.div_euclid(DAY) + self.chance.between(least, most);
                let second = day * DAY + quarter_hours;
                Cell::Time(if field.given == Given::Kept {
                    second.min(NOW)
                } else {
                    second
                })
            }
            Kind::Flag => Cell::Flag(self.chance.next().is_multiple_of(2)),
            Kind::Pick(choices) => {
                let early = matches!(make, Make::Early);
                let at = if early {
                    self.chance.early(choices.len())
                } else {
                    self.chance.below(choices.len())
                };
                choices.get(at).map_or(Cell::Null, |word| Cell::Word(word))
            }
            Kind::Tags(choices) => {
                let places = self.places(choices.len(), least, most);
                Cell::Many(
                    places
                        .filter_map(|at| choices.get(at).map(|word| Cell::Word(word)))
                        .collect(),
                )
            }
            Kind::Link(many) => self.link(many),
            Kind::Links(many) => {
                let count = place(many).and_then(|at| COMPANY.get(at)).map_or(0, |it| it.count);
                let places = self.places(usize::try_from(count).unwrap_or(0), least, most);
                Cell::Many(
                    places
                        .filter_map(|at| u32::try_from(at + 1).ok().map(Cell::Link))
                        .collect(),
                )
            }
            Kind::Phone => {
                let line = self.chance.between(0, 99);
                Cell::Text(format!("+1 202 555 01{line:02}").into())
            }
            Kind::Part(fields) => Cell::Part(self.cells(fields)),
            Kind::Parts(fields) => {
                let count = self.chance.between(least, most);
                Cell::Many((0..count).map(|_| Cell::Part(self.cells(fields))).collect())
            }
            Kind::Text(_) | Kind::Email | Kind::Uri => Cell::Word(""),
        }
    }

    /// Some distinct positions below `end`, consecutive modulo `end`.
    fn places(&mut self, end: usize, least: i64, most: i64) -> impl Iterator<Item = usize> + use<> {
        let count = usize::try_from(self.chance.between(least, most)).unwrap_or(0).min(end);
        let first = self.chance.below(end);
        (0..count).map(move |step| (first + step) % end.max(1))
    }

    /// A link to a random record of the entity; within the same entity, to an earlier record.
    fn link(&mut self, many: &str) -> Cell {
        let own = many == self.entity.many;
        let count = if own {
            self.number - 1
        } else {
            place(many).and_then(|at| COMPANY.get(at)).map_or(0, |it| it.count)
        };
        if count == 0 {
            return Cell::Null;
        }
        u32::try_from(self.chance.between(1, i64::from(count))).map_or(Cell::Null, Cell::Link)
    }

    fn phrase(&mut self, phrases: &[&'static str]) -> Cell {
        let phrase = self.chance.pick(phrases);
        if !phrase.contains('{') {
            return Cell::Word(phrase);
        }
        let mut text = String::with_capacity(phrase.len() + 24);
        for piece in phrase.split('{') {
            match piece.split_once('}') {
                Some((slot, rest)) => {
                    text.push_str(self.chance.pick(words::list(slot)));
                    text.push_str(rest);
                }
                None => text.push_str(piece),
            }
        }
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Cell::Text(text.into())
    }
}

/// The value of a field that follows from other fields, through a link or as a sum; else `None`.
pub(crate) fn derived(tables: &[Table], field: &Field, fields: &[Field], cells: &[Cell]) -> Option<Cell> {
    let of = |name: &str| fields.iter().zip(cells).find(|(it, _)| it.name == name);
    match field.make {
        Make::Through(link, name) => {
            let (source, cell) = of(link)?;
            let (Kind::Link(many), Cell::Link(number)) = (source.kind, cell) else {
                return None;
            };
            let at = place(many)?;
            let (column, _) = COMPANY.get(at)?.field(name)?;
            tables.get(at)?.row(*number)?.cells.get(column).cloned()
        }
        Make::Sum(list, count, each) => {
            let (source, cell) = of(list)?;
            let (Kind::Parts(inner), Cell::Many(parts)) = (source.kind, cell) else {
                return None;
            };
            let column = |name: &str| inner.iter().position(|it| it.name == name);
            let (count, each) = (column(count)?, column(each)?);
            let sum = parts.iter().map(Cell::inner).filter_map(|cells| {
                let (count, each) = (cells.get(count)?.rank()?, cells.get(each)?.rank()?);
                Some(count.saturating_mul(each))
            });
            Some(Cell::Integer(sum.fold(0, i64::saturating_add)))
        }
        Make::Any
        | Make::Early
        | Make::Phrase(_)
        | Make::Between(..)
        | Make::After(..)
        | Make::Handle(_)
        | Make::When(..)
        | Make::Sometimes(..) => None,
    }
}

/// An e-mail or web address at example.com, built from a name and the record number.
fn address(kind: Kind, text: &str, number: u32) -> String {
    let joint = if matches!(kind, Kind::Email) { '.' } else { '-' };
    let mut slug = String::with_capacity(text.len() + 24);
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter.to_ascii_lowercase());
        } else if !slug.ends_with(joint) {
            slug.push(joint);
        }
    }
    if matches!(kind, Kind::Email) {
        format!("{slug}{joint}{number}@example.com")
    } else {
        format!("https://example.com/{slug}{joint}{number}")
    }
}

#[cfg(test)]
mod tests;
