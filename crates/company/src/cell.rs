//! The values of record fields: compact in memory, JSON outside.

use jiff::Timestamp;
use jiff::civil;
use serde_json::{Map, Value};

use crate::spec::{Field, Given, Kind, entity};

/// The number of seconds in a day.
pub(crate) const DAY: i64 = 86_400;
/// The most members that a list value may have.
pub(crate) const MOST_MEMBERS: usize = 50;
/// The largest amount of money, in euro cents.
pub(crate) const MOST_CENTS: i64 = 100_000_000_000;

/// One field value; the kind of its field tells how to read it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Flag(bool),
    Integer(i64),
    /// A day, counted from 1970-01-01.
    Day(i64),
    /// A time in seconds since 1970-01-01, UTC.
    Time(i64),
    Word(&'static str),
    Text(Box<str>),
    /// The number of the record that the field links to.
    Link(u32),
    Many(Vec<Cell>),
    Part(Vec<Cell>),
}

impl Cell {
    /// Returns the text of a `Word` or `Text`, else `None`.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Cell::Word(word) => Some(word),
            Cell::Text(text) => Some(text),
            Cell::Null
            | Cell::Flag(_)
            | Cell::Integer(_)
            | Cell::Day(_)
            | Cell::Time(_)
            | Cell::Link(_)
            | Cell::Many(_)
            | Cell::Part(_) => None,
        }
    }

    /// Returns the members of a list or the field values of a group, else an empty slice.
    pub(crate) fn inner(&self) -> &[Cell] {
        if let Cell::Many(cells) | Cell::Part(cells) = self {
            cells
        } else {
            &[]
        }
    }

    /// Returns the key that orders and compares numbers, days and times (in seconds since 1970), else `None`.
    pub(crate) fn rank(&self) -> Option<i64> {
        match self {
            Cell::Integer(number) => Some(*number),
            Cell::Day(day) => Some(day * DAY),
            Cell::Time(second) => Some(*second),
            Cell::Null
            | Cell::Flag(_)
            | Cell::Word(_)
            | Cell::Text(_)
            | Cell::Link(_)
            | Cell::Many(_)
            | Cell::Part(_) => None,
        }
    }

    /// Converts the value to JSON as a field of this kind shows it; a link becomes an id.
    pub(crate) fn show(&self, kind: Kind) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Flag(flag) => Value::Bool(*flag),
            Cell::Integer(number) => Value::from(*number),
            Cell::Day(day) => Value::String(moment(day * DAY).chars().take(10).collect()),
            Cell::Time(second) => Value::String(moment(*second)),
            Cell::Word(word) => Value::from(*word),
            Cell::Text(text) => Value::from(&**text),
            Cell::Link(number) => {
                let target = if let Kind::Link(many) | Kind::Links(many) = kind {
                    entity(many)
                } else {
                    None
                };
                target.map_or(Value::Null, |it| it.id(*number).into())
            }
            Cell::Many(cells) => Value::Array(cells.iter().map(|cell| cell.show(kind)).collect()),
            Cell::Part(cells) => {
                let fields = if let Kind::Part(fields) | Kind::Parts(fields) = kind {
                    fields
                } else {
                    &[]
                };
                Value::Object(shown(fields, cells))
            }
        }
    }
}

/// Converts field values to a JSON object, keyed by the names of their fields.
pub(crate) fn shown(fields: &[Field], cells: &[Cell]) -> Map<String, Value> {
    fields
        .iter()
        .zip(cells)
        .map(|(field, cell)| (field.name.to_owned(), cell.show(field.kind)))
        .collect()
}

/// Formats seconds since 1970 as an RFC 3339 time.
pub(crate) fn moment(second: i64) -> String {
    Timestamp::from_second(second)
        .map(|it| it.to_string())
        .unwrap_or_default()
}

/// Parses a JSON value for this field; returns `None` and adds to `problems` where the value does not fit.
pub(crate) fn read(field: &Field, path: &str, value: &Value, problems: &mut Vec<String>) -> Option<Cell> {
    if value.is_null() && field.nullable {
        return Some(Cell::Null);
    }
    let read = match field.kind {
        Kind::Text(most) => words(value, usize::from(most), usize::from(field.given == Given::Needed)),
        Kind::Email => plain(value, "must be an e-mail address such as `name@example.com`", is_email),
        Kind::Uri => plain(
            value,
            "must be a web address that begins with `https://` or `http://`",
            is_uri,
        ),
        Kind::Phone => plain(
            value,
            "must be a telephone number with country code such as `+1 202 555 0100`",
            is_phone,
        ),
        Kind::Day => value
            .as_str()
            .and_then(day)
            .map(Cell::Day)
            .ok_or("must be a day such as `2026-06-30`".to_owned()),
        Kind::Time => value
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
            .map(|it| Cell::Time(it.as_second()))
            .ok_or("must be a moment such as `2026-06-30T09:00:00Z`".to_owned()),
        Kind::Integer(least, most) => between(value, least, most),
        Kind::Cents => between(value, 0, MOST_CENTS),
        Kind::Flag => value
            .as_bool()
            .map(Cell::Flag)
            .ok_or("must be `true` or `false`".to_owned()),
        Kind::Pick(choices) => pick(value, choices),
        Kind::Link(many) => link(value, many),
        Kind::Tags(choices) => several(value, |each| pick(each, choices)),
        Kind::Links(many) => several(value, |each| link(each, many)),
        Kind::Part(fields) => return part(fields, path, value, problems),
        Kind::Parts(fields) => return parts(fields, path, value, problems),
    };
    read.map_err(|problem| problems.push(format!("`{path}` {problem}")))
        .ok()
}

fn words(value: &Value, most: usize, least: usize) -> Result<Cell, String> {
    let text = value.as_str().ok_or("must be a text")?;
    match text.chars().count() {
        long if long > most => Err(format!("is too long: {long} characters, at most {most}")),
        short if short < least => Err("must not be empty".to_owned()),
        _ => Ok(Cell::Text(text.into())),
    }
}

fn plain(value: &Value, problem: &str, fits: fn(&str) -> bool) -> Result<Cell, String> {
    let text = value.as_str().filter(|text| text.len() <= 254 && fits(text));
    text.map(|text| Cell::Text(text.into())).ok_or(problem.to_owned())
}

fn is_email(text: &str) -> bool {
    let clean = !text.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    let sides = text.split_once('@');
    clean && sides.is_some_and(|(name, host)| !name.is_empty() && host.contains('.') && !host.contains('@'))
}

fn is_uri(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let clean = !text.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    clean && rest.is_some_and(|rest| !rest.is_empty())
}

fn is_phone(text: &str) -> bool {
    let rest = text.strip_prefix('+').unwrap_or_default();
    let plain = rest
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b' ' || byte == b'-');
    plain && (6..=25).contains(&rest.len()) && rest.starts_with(|first: char| first.is_ascii_digit())
}

/// Parses a day such as `2026-06-30` into days since 1970.
fn day(text: &str) -> Option<i64> {
    let shape = text.bytes().enumerate().all(|(at, byte)| {
        if at == 4 || at == 7 {
            byte == b'-'
        } else {
            byte.is_ascii_digit()
        }
    });
    let date: civil::Date = (shape && text.len() == 10).then(|| text.parse().ok()).flatten()?;
    let midnight = jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
    Some(midnight.as_second().div_euclid(DAY))
}

fn between(value: &Value, least: i64, most: i64) -> Result<Cell, String> {
    // JSON Schema treats `3.0` as a whole number.
    let whole = || {
        value
            .as_f64()
            .filter(|it| it.fract() == 0.0)
            .and_then(|it| format!("{it:.0}").parse().ok())
    };
    let number = value.as_i64().or_else(whole).filter(|it| (least..=most).contains(it));
    number
        .map(Cell::Integer)
        .ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

fn pick(value: &Value, choices: &[&'static str]) -> Result<Cell, String> {
    let chosen = value
        .as_str()
        .and_then(|text| choices.iter().find(|choice| **choice == text));
    chosen
        .map(|word| Cell::Word(word))
        .ok_or_else(|| format!("must be one of `{}`", choices.join("`, `")))
}

fn link(value: &Value, many: &str) -> Result<Cell, String> {
    let target = entity(many).ok_or("has no target")?;
    let number = value.as_str().and_then(|text| target.number(text));
    number
        .map(Cell::Link)
        .ok_or_else(|| format!("must be an id as `list_{many}` gives them, such as `{}`", target.id(1)))
}

fn several(value: &Value, read: impl Fn(&Value) -> Result<Cell, String>) -> Result<Cell, String> {
    let values = value.as_array().filter(|values| values.len() <= MOST_MEMBERS);
    let values = values.ok_or_else(|| format!("must be a list of at most {MOST_MEMBERS}"))?;
    let mut cells = Vec::with_capacity(values.len());
    for (at, each) in values.iter().enumerate() {
        let cell = read(each).map_err(|problem| format!("{problem} (place {at})"))?;
        if cells.contains(&cell) {
            return Err(format!("must name each only once (place {at})"));
        }
        cells.push(cell);
    }
    Ok(Cell::Many(cells))
}

fn part(fields: &[Field], path: &str, value: &Value, problems: &mut Vec<String>) -> Option<Cell> {
    let Some(given) = value.as_object() else {
        problems.push(format!("`{path}` must be an object"));
        return None;
    };
    let before = problems.len();
    for unknown in given
        .keys()
        .filter(|key| !fields.iter().any(|field| field.name == key.as_str()))
    {
        problems.push(format!("`{path}.{unknown}` is unknown"));
    }
    let mut cells = Vec::with_capacity(fields.len());
    for field in fields {
        let inner = format!("{path}.{}", field.name);
        match given.get(field.name) {
            Some(value) => cells.extend(read(field, &inner, value, problems)),
            None if field.given == Given::Needed => problems.push(format!("`{inner}` is missing")),
            None => cells.push(blank(field)),
        }
    }
    (problems.len() == before).then_some(Cell::Part(cells))
}

fn parts(fields: &[Field], path: &str, value: &Value, problems: &mut Vec<String>) -> Option<Cell> {
    let Some(values) = value
        .as_array()
        .filter(|values| (1..=MOST_MEMBERS).contains(&values.len()))
    else {
        problems.push(format!("`{path}` must be a list of 1 to {MOST_MEMBERS} objects"));
        return None;
    };
    let before = problems.len();
    let read = values
        .iter()
        .enumerate()
        .filter_map(|(at, each)| part(fields, &format!("{path}[{at}]"), each, problems));
    let cells: Vec<_> = read.collect();
    (problems.len() == before).then_some(Cell::Many(cells))
}

/// The value that a field has when a new record leaves it out.
pub(crate) fn blank(field: &Field) -> Cell {
    if field.nullable {
        return Cell::Null;
    }
    match field.kind {
        Kind::Integer(least, _) => Cell::Integer(least),
        Kind::Cents => Cell::Integer(0),
        Kind::Flag => Cell::Flag(false),
        Kind::Pick(choices) => field.starts.or(choices.first().copied()).map_or(Cell::Null, Cell::Word),
        Kind::Tags(_) | Kind::Links(_) | Kind::Parts(_) => Cell::Many(Vec::new()),
        Kind::Day => Cell::Day(crate::seed::NOW.div_euclid(DAY)),
        Kind::Time => Cell::Time(crate::seed::NOW),
        Kind::Text(_) => Cell::Word(""),
        Kind::Email | Kind::Uri | Kind::Phone | Kind::Link(_) | Kind::Part(_) => Cell::Null,
    }
}
