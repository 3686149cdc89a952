//! Builds the initial records: the same ones on every machine and in every run.

use crate::spec::{COMPANY, Entity, EntityField, FieldKind, FieldOrigin, SeedRule, entity_position, word_lists};
use crate::store::{RecordRow, RecordTable};
use crate::value::{FieldValue, SECONDS_PER_DAY};

/// The company's first day, 2025-01-01.
const COMPANY_START: i64 = 1_735_689_600;
/// The present time of the company, noon of 2026-06-30; the company has no clock.
pub(crate) const COMPANY_NOW: i64 = 1_782_820_800;

/// Builds all initial records of an entity; the tables that the entity links to must be loaded.
pub(crate) fn build_table(entity: &Entity, tables: &[RecordTable]) -> RecordTable {
    let span = COMPANY_NOW - COMPANY_START - SECONDS_PER_DAY;
    let rows = (1..=entity.count).map(|number| {
        let mut chance = SeedSequence::for_record(entity.prefix, number);
        let made = COMPANY_START + span * i64::from(number) / i64::from(entity.count + 1);
        let made = made - made.rem_euclid(60);
        let mut maker = RecordMaker {
            tables,
            entity,
            number,
            made,
            chance: &mut chance,
        };
        let cells = maker.make_values(entity.fields);
        let changed = (made + chance.between(0, 20 * 24 * 60) * 60).min(COMPANY_NOW);
        RecordRow {
            number,
            made,
            changed,
            cells,
        }
    });
    RecordTable::from_rows(rows.collect())
}

/// A pseudorandom sequence that depends only on its start value (splitmix64).
struct SeedSequence(u64);

impl SeedSequence {
    fn for_record(prefix: &str, number: u32) -> Self {
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
    fn skewed_below(&mut self, end: usize) -> usize {
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
struct RecordMaker<'a> {
    tables: &'a [RecordTable],
    entity: &'a Entity,
    number: u32,
    made: i64,
    chance: &'a mut SeedSequence,
}

impl RecordMaker<'_> {
    fn make_values(&mut self, fields: &[EntityField]) -> Vec<FieldValue> {
        let mut cells = Vec::with_capacity(fields.len());
        for field in fields {
            let cell = self.make_value(field, field.seed, fields, &cells);
            cells.push(cell);
        }
        cells
    }

    fn make_value(
        &mut self,
        field: &EntityField,
        make: SeedRule,
        fields: &[EntityField],
        before: &[FieldValue],
    ) -> FieldValue {
        let of = |name: &str| {
            fields
                .iter()
                .position(|it| it.name == name)
                .and_then(|at| before.get(at))
        };
        match make {
            SeedRule::When(name, words, inner) => {
                let holds = of(name)
                    .and_then(FieldValue::text)
                    .is_some_and(|word| words.contains(&word));
                if holds {
                    self.make_value(field, *inner, fields, before)
                } else {
                    FieldValue::Null
                }
            }
            SeedRule::Sometimes(percent, inner) => {
                if self.chance.next() % 100 < percent {
                    self.make_value(field, *inner, fields, before)
                } else {
                    FieldValue::Null
                }
            }
            SeedRule::Through(..) | SeedRule::Sum(..) => {
                derive_value(self.tables, field, fields, before).unwrap_or(FieldValue::Null)
            }
            SeedRule::Handle(name) => {
                let text = of(name).and_then(FieldValue::text).unwrap_or_default();
                FieldValue::Text(make_address(field.kind, text, self.number).into())
            }
            SeedRule::Phrase(phrases) => self.fill_phrase(phrases),
            SeedRule::Any | SeedRule::Early | SeedRule::Between(..) | SeedRule::After(..) => {
                self.make_plain(field, make)
            }
        }
    }

    fn make_plain(&mut self, field: &EntityField, make: SeedRule) -> FieldValue {
        let (least, most) = match (make, field.kind) {
            (SeedRule::Between(least, most) | SeedRule::After(least, most), _)
            | (_, FieldKind::Integer(least, most)) => (least, most),
            _ => (0, 30),
        };
        match field.kind {
            FieldKind::Integer(..) if matches!(make, SeedRule::Early) => {
                let wide = usize::try_from(most - least + 1).unwrap_or(1);
                FieldValue::Integer(least + i64::try_from(self.chance.skewed_below(wide)).unwrap_or(0))
            }
            FieldKind::Integer(..) | FieldKind::Cents => FieldValue::Integer(self.chance.between(least, most)),
            FieldKind::Day => {
                let day = self.made.div_euclid(SECONDS_PER_DAY) + self.chance.between(least, most);
                FieldValue::Day(if field.origin == FieldOrigin::Managed {
                    day.min(COMPANY_NOW.div_euclid(SECONDS_PER_DAY))
                } else {
                    day
                })
            }
            FieldKind::Time => {
                let quarter_hours = self.chance.between(32, 68) * 900;
                let day = self.made.div_euclid(SECONDS_PER_DAY) + self.chance.between(least, most);
                let second = day * SECONDS_PER_DAY + quarter_hours;
                FieldValue::Time(if field.origin == FieldOrigin::Managed {
                    second.min(COMPANY_NOW)
                } else {
                    second
                })
            }
            FieldKind::Flag => FieldValue::Flag(self.chance.next().is_multiple_of(2)),
            FieldKind::Pick(choices) => {
                let early = matches!(make, SeedRule::Early);
                let at = if early {
                    self.chance.skewed_below(choices.len())
                } else {
                    self.chance.below(choices.len())
                };
                choices.get(at).map_or(FieldValue::Null, |word| FieldValue::Word(word))
            }
            FieldKind::Tags(choices) => {
                let places = self.distinct_places(choices.len(), least, most);
                FieldValue::Many(
                    places
                        .filter_map(|at| choices.get(at).map(|word| FieldValue::Word(word)))
                        .collect(),
                )
            }
            FieldKind::Link(many) => self.make_link(many),
            FieldKind::Links(many) => {
                let count = entity_position(many)
                    .and_then(|at| COMPANY.get(at))
                    .map_or(0, |it| it.count);
                let places = self.distinct_places(usize::try_from(count).unwrap_or(0), least, most);
                FieldValue::Many(
                    places
                        .filter_map(|at| u32::try_from(at + 1).ok().map(FieldValue::Link))
                        .collect(),
                )
            }
            FieldKind::Phone => {
                let line = self.chance.between(0, 99);
                FieldValue::Text(format!("+1 202 555 01{line:02}").into())
            }
            FieldKind::Part(fields) => FieldValue::Part(self.make_values(fields)),
            FieldKind::Parts(fields) => {
                let count = self.chance.between(least, most);
                FieldValue::Many((0..count).map(|_| FieldValue::Part(self.make_values(fields))).collect())
            }
            FieldKind::Text(_) | FieldKind::Email | FieldKind::Uri => FieldValue::Word(""),
        }
    }

    /// Some distinct positions below `end`, consecutive modulo `end`.
    fn distinct_places(&mut self, end: usize, least: i64, most: i64) -> impl Iterator<Item = usize> + use<> {
        let count = usize::try_from(self.chance.between(least, most)).unwrap_or(0).min(end);
        let first = self.chance.below(end);
        (0..count).map(move |step| (first + step) % end.max(1))
    }

    /// A link to a random record of the entity; within the same entity, to an earlier record.
    fn make_link(&mut self, many: &str) -> FieldValue {
        let own = many == self.entity.many;
        let count = if own {
            self.number - 1
        } else {
            entity_position(many)
                .and_then(|at| COMPANY.get(at))
                .map_or(0, |it| it.count)
        };
        if count == 0 {
            return FieldValue::Null;
        }
        u32::try_from(self.chance.between(1, i64::from(count))).map_or(FieldValue::Null, FieldValue::Link)
    }

    fn fill_phrase(&mut self, phrases: &[&'static str]) -> FieldValue {
        let phrase = self.chance.pick(phrases);
        if !phrase.contains('{') {
            return FieldValue::Word(phrase);
        }
        let mut text = String::with_capacity(phrase.len() + 24);
        for piece in phrase.split('{') {
            match piece.split_once('}') {
                Some((slot, rest)) => {
                    text.push_str(self.chance.pick(word_lists::words_for_slot(slot)));
                    text.push_str(rest);
                }
                None => text.push_str(piece),
            }
        }
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        FieldValue::Text(text.into())
    }
}

/// The value of a field that follows from other fields, through a link or as a sum; else `None`.
pub(crate) fn derive_value(
    tables: &[RecordTable],
    field: &EntityField,
    fields: &[EntityField],
    cells: &[FieldValue],
) -> Option<FieldValue> {
    let of = |name: &str| fields.iter().zip(cells).find(|(it, _)| it.name == name);
    match field.seed {
        SeedRule::Through(link, name) => {
            let (source, cell) = of(link)?;
            let (FieldKind::Link(many), FieldValue::Link(number)) = (source.kind, cell) else {
                return None;
            };
            let at = entity_position(many)?;
            let (column, _) = COMPANY.get(at)?.field(name)?;
            tables.get(at)?.row(*number)?.cells.get(column).cloned()
        }
        SeedRule::Sum(list, count, each) => {
            let (source, cell) = of(list)?;
            let (FieldKind::Parts(inner), FieldValue::Many(parts)) = (source.kind, cell) else {
                return None;
            };
            let column = |name: &str| inner.iter().position(|it| it.name == name);
            let (count, each) = (column(count)?, column(each)?);
            let sum = parts.iter().map(FieldValue::children).filter_map(|cells| {
                let (count, each) = (cells.get(count)?.sort_key()?, cells.get(each)?.sort_key()?);
                Some(count.saturating_mul(each))
            });
            Some(FieldValue::Integer(sum.fold(0, i64::saturating_add)))
        }
        SeedRule::Any
        | SeedRule::Early
        | SeedRule::Phrase(_)
        | SeedRule::Between(..)
        | SeedRule::After(..)
        | SeedRule::Handle(_)
        | SeedRule::When(..)
        | SeedRule::Sometimes(..) => None,
    }
}

/// An e-mail or web address at example.com, built from a name and the record number.
fn make_address(kind: FieldKind, text: &str, number: u32) -> String {
    let joint = if matches!(kind, FieldKind::Email) { '.' } else { '-' };
    let mut slug = String::with_capacity(text.len() + 24);
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter.to_ascii_lowercase());
        } else if !slug.ends_with(joint) {
            slug.push(joint);
        }
    }
    if matches!(kind, FieldKind::Email) {
        format!("{slug}{joint}{number}@example.com")
    } else {
        format!("https://example.com/{slug}{joint}{number}")
    }
}

#[cfg(test)]
mod tests;
