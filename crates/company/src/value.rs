//! The values of record fields: compact in memory, JSON outside.

use jiff::Timestamp;
use jiff::civil;
use serde_json::{Map, Value};

use crate::spec::{EntityField, FieldKind, FieldOrigin, find_entity};

/// The number of seconds in a day.
pub(crate) const SECONDS_PER_DAY: i64 = 86_400;
/// The most members that a list value may have.
pub(crate) const MAX_MEMBERS: usize = 50;
/// The largest amount of money, in euro cents.
pub(crate) const MAX_CENTS: i64 = 100_000_000_000;

/// One field value; the kind of its field tells how to read it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FieldValue {
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
    Many(Vec<FieldValue>),
    Part(Vec<FieldValue>),
}

impl FieldValue {
    /// Returns the text of a `Word` or `Text`, else `None`.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            FieldValue::Word(word) => Some(word),
            FieldValue::Text(text) => Some(text),
            FieldValue::Null
            | FieldValue::Flag(_)
            | FieldValue::Integer(_)
            | FieldValue::Day(_)
            | FieldValue::Time(_)
            | FieldValue::Link(_)
            | FieldValue::Many(_)
            | FieldValue::Part(_) => None,
        }
    }

    /// Returns the members of a list or the field values of a group, else an empty slice.
    pub(crate) fn children(&self) -> &[FieldValue] {
        if let FieldValue::Many(cells) | FieldValue::Part(cells) = self {
            cells
        } else {
            &[]
        }
    }

    /// Returns the key that orders and compares numbers, days and times (in seconds since 1970), else `None`.
    pub(crate) fn sort_key(&self) -> Option<i64> {
        match self {
            FieldValue::Integer(number) => Some(*number),
            FieldValue::Day(day) => Some(day * SECONDS_PER_DAY),
            FieldValue::Time(second) => Some(*second),
            FieldValue::Null
            | FieldValue::Flag(_)
            | FieldValue::Word(_)
            | FieldValue::Text(_)
            | FieldValue::Link(_)
            | FieldValue::Many(_)
            | FieldValue::Part(_) => None,
        }
    }

    /// Converts the value to JSON as a field of this kind shows it; a link becomes an id.
    pub(crate) fn to_json(&self, kind: FieldKind) -> Value {
        match self {
            FieldValue::Null => Value::Null,
            FieldValue::Flag(flag) => Value::Bool(*flag),
            FieldValue::Integer(number) => Value::from(*number),
            FieldValue::Day(day) => Value::String(format_time(day * SECONDS_PER_DAY).chars().take(10).collect()),
            FieldValue::Time(second) => Value::String(format_time(*second)),
            FieldValue::Word(word) => Value::from(*word),
            FieldValue::Text(text) => Value::from(&**text),
            FieldValue::Link(number) => {
                let target = if let FieldKind::Link(many) | FieldKind::Links(many) = kind {
                    find_entity(many)
                } else {
                    None
                };
                target.map_or(Value::Null, |it| it.id(*number).into())
            }
            FieldValue::Many(cells) => Value::Array(cells.iter().map(|cell| cell.to_json(kind)).collect()),
            FieldValue::Part(cells) => {
                let fields = if let FieldKind::Part(fields) | FieldKind::Parts(fields) = kind {
                    fields
                } else {
                    &[]
                };
                Value::Object(fields_to_json(fields, cells))
            }
        }
    }
}

/// Converts field values to a JSON object, keyed by the names of their fields.
pub(crate) fn fields_to_json(fields: &[EntityField], cells: &[FieldValue]) -> Map<String, Value> {
    fields
        .iter()
        .zip(cells)
        .map(|(field, cell)| (field.name.to_owned(), cell.to_json(field.kind)))
        .collect()
}

/// Formats seconds since 1970 as an RFC 3339 time.
pub(crate) fn format_time(second: i64) -> String {
    Timestamp::from_second(second)
        .map(|it| it.to_string())
        .unwrap_or_default()
}

/// Parses a JSON value for this field; returns `None` and adds to `problems` where the value does not fit.
pub(crate) fn parse_value(
    field: &EntityField,
    path: &str,
    value: &Value,
    problems: &mut Vec<String>,
) -> Option<FieldValue> {
    if value.is_null() && field.nullable {
        return Some(FieldValue::Null);
    }
    let read = match field.kind {
        FieldKind::Text(most) => parse_text(
            value,
            usize::from(most),
            usize::from(field.origin == FieldOrigin::Required),
        ),
        FieldKind::Email => parse_matching(value, "must be an e-mail address such as `name@example.com`", is_email),
        FieldKind::Uri => parse_matching(
            value,
            "must be a web address that begins with `https://` or `http://`",
            is_uri,
        ),
        FieldKind::Phone => parse_matching(
            value,
            "must be a telephone number with country code such as `+1 202 555 0100`",
            is_phone,
        ),
        FieldKind::Day => value
            .as_str()
            .and_then(parse_day)
            .map(FieldValue::Day)
            .ok_or("must be a day such as `2026-06-30`".to_owned()),
        FieldKind::Time => value
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
            .map(|it| FieldValue::Time(it.as_second()))
            .ok_or("must be a moment such as `2026-06-30T09:00:00Z`".to_owned()),
        FieldKind::Integer(least, most) => parse_integer(value, least, most),
        FieldKind::Cents => parse_integer(value, 0, MAX_CENTS),
        FieldKind::Flag => value
            .as_bool()
            .map(FieldValue::Flag)
            .ok_or("must be `true` or `false`".to_owned()),
        FieldKind::Pick(choices) => parse_choice(value, choices),
        FieldKind::Link(many) => parse_link(value, many),
        FieldKind::Tags(choices) => parse_list(value, |each| parse_choice(each, choices)),
        FieldKind::Links(many) => parse_list(value, |each| parse_link(each, many)),
        FieldKind::Part(fields) => return parse_group(fields, path, value, problems),
        FieldKind::Parts(fields) => return parse_groups(fields, path, value, problems),
    };
    read.map_err(|problem| problems.push(format!("`{path}` {problem}")))
        .ok()
}

fn parse_text(value: &Value, most: usize, least: usize) -> Result<FieldValue, String> {
    let text = value.as_str().ok_or("must be a text")?;
    match text.chars().count() {
        long if long > most => Err(format!("is too long: {long} characters, at most {most}")),
        short if short < least => Err("must not be empty".to_owned()),
        _ => Ok(FieldValue::Text(text.into())),
    }
}

fn parse_matching(value: &Value, problem: &str, fits: fn(&str) -> bool) -> Result<FieldValue, String> {
    let text = value.as_str().filter(|text| text.len() <= 254 && fits(text));
    text.map(|text| FieldValue::Text(text.into())).ok_or(problem.to_owned())
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
fn parse_day(text: &str) -> Option<i64> {
    let shape = text.bytes().enumerate().all(|(at, byte)| {
        if at == 4 || at == 7 {
            byte == b'-'
        } else {
            byte.is_ascii_digit()
        }
    });
    let date: civil::Date = (shape && text.len() == 10).then(|| text.parse().ok()).flatten()?;
    let midnight = jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
    Some(midnight.as_second().div_euclid(SECONDS_PER_DAY))
}

fn parse_integer(value: &Value, least: i64, most: i64) -> Result<FieldValue, String> {
    // JSON Schema treats `3.0` as a whole number.
    let whole = || {
        value
            .as_f64()
            .filter(|it| it.fract() == 0.0)
            .and_then(|it| format!("{it:.0}").parse().ok())
    };
    let number = value.as_i64().or_else(whole).filter(|it| (least..=most).contains(it));
    number
        .map(FieldValue::Integer)
        .ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

fn parse_choice(value: &Value, choices: &[&'static str]) -> Result<FieldValue, String> {
    let chosen = value
        .as_str()
        .and_then(|text| choices.iter().find(|choice| **choice == text));
    chosen
        .map(|word| FieldValue::Word(word))
        .ok_or_else(|| format!("must be one of `{}`", choices.join("`, `")))
}

fn parse_link(value: &Value, many: &str) -> Result<FieldValue, String> {
    let target = find_entity(many).ok_or("has no target")?;
    let number = value.as_str().and_then(|text| target.number(text));
    number
        .map(FieldValue::Link)
        .ok_or_else(|| format!("must be an id as `list_{many}` gives them, such as `{}`", target.id(1)))
}

fn parse_list(value: &Value, read: impl Fn(&Value) -> Result<FieldValue, String>) -> Result<FieldValue, String> {
    let values = value.as_array().filter(|values| values.len() <= MAX_MEMBERS);
    let values = values.ok_or_else(|| format!("must be a list of at most {MAX_MEMBERS}"))?;
    let mut cells = Vec::with_capacity(values.len());
    for (at, each) in values.iter().enumerate() {
        let cell = read(each).map_err(|problem| format!("{problem} (place {at})"))?;
        if cells.contains(&cell) {
            return Err(format!("must name each only once (place {at})"));
        }
        cells.push(cell);
    }
    Ok(FieldValue::Many(cells))
}

fn parse_group(fields: &[EntityField], path: &str, value: &Value, problems: &mut Vec<String>) -> Option<FieldValue> {
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
            Some(value) => cells.extend(parse_value(field, &inner, value, problems)),
            None if field.origin == FieldOrigin::Required => problems.push(format!("`{inner}` is missing")),
            None => cells.push(blank_value(field)),
        }
    }
    (problems.len() == before).then_some(FieldValue::Part(cells))
}

fn parse_groups(fields: &[EntityField], path: &str, value: &Value, problems: &mut Vec<String>) -> Option<FieldValue> {
    let Some(values) = value
        .as_array()
        .filter(|values| (1..=MAX_MEMBERS).contains(&values.len()))
    else {
        problems.push(format!("`{path}` must be a list of 1 to {MAX_MEMBERS} objects"));
        return None;
    };
    let before = problems.len();
    let read = values
        .iter()
        .enumerate()
        .filter_map(|(at, each)| parse_group(fields, &format!("{path}[{at}]"), each, problems));
    let cells: Vec<_> = read.collect();
    (problems.len() == before).then_some(FieldValue::Many(cells))
}

/// The value that a field has when a new record leaves it out.
pub(crate) fn blank_value(field: &EntityField) -> FieldValue {
    if field.nullable {
        return FieldValue::Null;
    }
    match field.kind {
        FieldKind::Integer(least, _) => FieldValue::Integer(least),
        FieldKind::Cents => FieldValue::Integer(0),
        FieldKind::Flag => FieldValue::Flag(false),
        FieldKind::Pick(choices) => field
            .starts
            .or(choices.first().copied())
            .map_or(FieldValue::Null, FieldValue::Word),
        FieldKind::Tags(_) | FieldKind::Links(_) | FieldKind::Parts(_) => FieldValue::Many(Vec::new()),
        FieldKind::Day => FieldValue::Day(crate::seed::COMPANY_NOW.div_euclid(SECONDS_PER_DAY)),
        FieldKind::Time => FieldValue::Time(crate::seed::COMPANY_NOW),
        FieldKind::Text(_) => FieldValue::Word(""),
        FieldKind::Email | FieldKind::Uri | FieldKind::Phone | FieldKind::Link(_) | FieldKind::Part(_) => {
            FieldValue::Null
        }
    }
}
