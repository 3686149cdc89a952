//! The tools that read: lists, single records, searches, counts and exports.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::call::CompanyFault;
use crate::params::{CheckedArgument, ParamRole};
use crate::spec::{Entity, FieldKind, find_entity};
use crate::store::{CompanyStore, RecordRow};
use crate::tool::{CompanyTool, MAX_EXPORT_ROWS};
use crate::value::{FieldValue, SECONDS_PER_DAY, fields_to_json, format_time};

/// Returns one page of the records that match, and the cursor of the next page.
pub(crate) fn list_records(
    store: &CompanyStore,
    tool: &CompanyTool,
    given: &[CheckedArgument],
) -> Result<Value, CompanyFault> {
    let entity = tool.entity;
    for link in given
        .iter()
        .filter(|argument| matches!(argument.role, ParamRole::Is(_)))
    {
        check_link(store, entity, link)?;
    }
    let sort = argument_value(given, ParamRole::Sort)
        .and_then(FieldValue::text)
        .unwrap_or("created_at");
    let mut rows = matching_rows(store, entity, given);
    sort_rows(entity, sort, &mut rows);
    let page = RecordPage::requested(tool, given, &rows)?;
    let items: Vec<_> = page.rows(&rows).iter().map(|row| record_json(entity, row)).collect();
    Ok(json!({ "items": items, "total": rows.len(), "next_cursor": page.next_cursor(&rows) }))
}

/// Returns the record that the `id` argument names, with all fields.
pub(crate) fn get_record(
    store: &CompanyStore,
    entity: &Entity,
    given: &[CheckedArgument],
) -> Result<Value, CompanyFault> {
    find_row(store, entity, id_argument(given)).map(|row| record_json(entity, row))
}

/// Finds the records in whose searchable fields every word occurs.
pub(crate) fn search_records(
    store: &CompanyStore,
    tool: &CompanyTool,
    given: &[CheckedArgument],
) -> Result<Value, CompanyFault> {
    let entity = tool.entity;
    let query = argument_value(given, ParamRole::Query)
        .and_then(FieldValue::text)
        .unwrap_or_default()
        .to_lowercase();
    let words: Vec<_> = query.split_whitespace().collect();
    let fields: Vec<_> = entity
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| field.search)
        .collect();
    let mut found: Vec<(usize, &RecordRow)> = Vec::new();
    for row in store
        .table(entity.many)
        .map(crate::store::RecordTable::rows)
        .unwrap_or_default()
    {
        let texts: Vec<_> = fields
            .iter()
            .map(|(at, _)| {
                row.cells
                    .get(*at)
                    .and_then(FieldValue::text)
                    .unwrap_or_default()
                    .to_lowercase()
            })
            .collect();
        let first = |word: &str| texts.iter().position(|text| text.contains(word));
        let places: Option<Vec<_>> = words.iter().map(|word| first(word)).collect();
        found.extend(
            places
                .filter(|places| !places.is_empty())
                .map(|places| (places.iter().sum::<usize>(), row)),
        );
    }
    found.sort_by_key(|(rank, row)| (*rank, row.number));
    let rows: Vec<_> = found.into_iter().map(|(_, row)| row).collect();
    let page = RecordPage::requested(tool, given, &rows)?;
    let matches = page.rows(&rows).iter().map(|row| {
        let text = |at: usize| row.cells.get(at).and_then(FieldValue::text).unwrap_or_default();
        let holds = |at: usize| words.iter().any(|word| text(at).to_lowercase().contains(word));
        let (at, name) = fields
            .iter()
            .find(|(at, _)| holds(*at))
            .map_or((0, ""), |(at, field)| (*at, field.name));
        let excerpt: String = text(at).chars().take(160).collect();
        json!({ "id": entity.id(row.number), "title": text(0), "field": name, "excerpt": excerpt })
    });
    Ok(json!({ "matches": matches.collect::<Vec<_>>(), "total": rows.len(), "next_cursor": page.next_cursor(&rows) }))
}

/// Counts the matching records, in total and for each value of a field.
pub(crate) fn count_records(store: &CompanyStore, entity: &Entity, given: &[CheckedArgument]) -> Value {
    let rows = matching_rows(store, entity, given);
    let by = argument_value(given, ParamRole::By)
        .and_then(FieldValue::text)
        .and_then(|name| entity.field(name));
    let mut groups: BTreeMap<Option<String>, usize> = BTreeMap::new();
    if let Some((at, field)) = by {
        for cell in rows.iter().filter_map(|row| row.cells.get(at)) {
            let each = if let FieldValue::Many(cells) = cell {
                cells
            } else {
                std::slice::from_ref(cell)
            };
            for cell in each {
                *groups.entry(group_label(cell, field.kind)).or_default() += 1;
            }
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let groups: Vec<_> = groups
        .into_iter()
        .map(|(value, count)| json!({ "value": value, "count": count }))
        .collect();
    json!({ "total": rows.len(), "groups": groups })
}

/// Writes the matching records into the text of a file.
pub(crate) fn export_records(store: &CompanyStore, entity: &Entity, given: &[CheckedArgument]) -> Value {
    let rows = matching_rows(store, entity, given);
    let most = argument_value(given, ParamRole::Limit)
        .and_then(FieldValue::sort_key)
        .unwrap_or(MAX_EXPORT_ROWS);
    let most = usize::try_from(most).unwrap_or(0);
    let columns: Option<Vec<&str>> = match argument_value(given, ParamRole::Columns) {
        Some(FieldValue::Many(cells)) => Some(cells.iter().filter_map(FieldValue::text).collect()),
        _ => None,
    };
    let wanted = |name: &str| columns.as_ref().is_none_or(|columns| columns.contains(&name));
    let names: Vec<_> = entity
        .fields
        .iter()
        .map(|field| field.name)
        .filter(|name| wanted(name))
        .collect();
    let taken = rows.len().min(most);
    let objects = rows.iter().take(most).map(|row| {
        let mut object = fields_to_json(entity.fields, &row.cells);
        object.retain(|name, _| wanted(name));
        object.insert("id".into(), entity.id(row.number).into());
        object
    });
    let json = argument_value(given, ParamRole::Format).and_then(FieldValue::text) == Some("json");
    let (ending, media, content) = if json {
        (
            "json",
            "application/json",
            Value::Array(objects.map(Value::Object).collect()).to_string(),
        )
    } else {
        ("csv", "text/csv", to_csv(&names, objects))
    };
    let file = format!("{}.{ending}", entity.many);
    json!({ "file_name": file, "media_type": media, "rows": taken, "total": rows.len(), "content": content })
}

fn to_csv(names: &[&str], objects: impl Iterator<Item = Map<String, Value>>) -> String {
    let mut text = format!("id{}{}\n", if names.is_empty() { "" } else { "," }, names.join(","));
    for object in objects {
        let cells = std::iter::once("id")
            .chain(names.iter().copied())
            .map(|name| match object.get(name) {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => quote_csv(text),
                Some(other) => quote_csv(&other.to_string()),
            });
        text.push_str(&cells.collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

fn quote_csv(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn group_label(cell: &FieldValue, kind: FieldKind) -> Option<String> {
    match cell.to_json(kind) {
        Value::Null => None,
        Value::String(text) => Some(text),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => Some(other.to_string()),
    }
}

/// Converts a record to JSON, with its id and the times of creation and last change.
pub(crate) fn record_json(entity: &Entity, row: &RecordRow) -> Value {
    let mut object = fields_to_json(entity.fields, &row.cells);
    object.insert("id".into(), entity.id(row.number).into());
    object.insert("created_at".into(), format_time(row.made).into());
    object.insert("updated_at".into(), format_time(row.changed).into());
    Value::Object(object)
}

/// Returns the value of the argument with this role, if the call has one.
pub(crate) fn argument_value(given: &[CheckedArgument], role: ParamRole) -> Option<&FieldValue> {
    given
        .iter()
        .find(|argument| argument.role == role)
        .map(|argument| &argument.cell)
}

/// Returns the record number in the `id` argument; 0, which no record has, where it is absent.
pub(crate) fn id_argument(given: &[CheckedArgument]) -> u32 {
    match argument_value(given, ParamRole::Id) {
        Some(FieldValue::Link(number)) => *number,
        _ => 0,
    }
}

/// Finds the record with this number, or reports that there is none.
pub(crate) fn find_row<'a>(
    store: &'a CompanyStore,
    entity: &Entity,
    number: u32,
) -> Result<&'a RecordRow, CompanyFault> {
    let row = store.table(entity.many).and_then(|table| table.row(number));
    row.ok_or_else(|| CompanyFault::NoRecord {
        entity: entity.spoken_name(),
        id: entity.id(number),
        many: entity.many,
    })
}

/// Checks that a link used as a filter names an existing record.
fn check_link(store: &CompanyStore, owner: &Entity, argument: &CheckedArgument) -> Result<(), CompanyFault> {
    let (ParamRole::Is(at), FieldValue::Link(number)) = (argument.role, &argument.cell) else {
        return Ok(());
    };
    let target = match owner.fields.get(at).map(|field| field.kind) {
        Some(FieldKind::Link(many)) => find_entity(many),
        _ => None,
    };
    target.map_or(Ok(()), |target| find_row(store, target, *number).map(|_| ()))
}

fn matching_rows<'a>(store: &'a CompanyStore, entity: &Entity, given: &[CheckedArgument]) -> Vec<&'a RecordRow> {
    let rows = store
        .table(entity.many)
        .map(crate::store::RecordTable::rows)
        .unwrap_or_default();
    rows.iter()
        .filter(|row| given.iter().all(|argument| row_matches(row, argument)))
        .collect()
}

fn row_matches(row: &RecordRow, CheckedArgument { role, cell }: &CheckedArgument) -> bool {
    let at = |place: &usize| row.cells.get(*place).unwrap_or(&FieldValue::Null);
    let least = || cell.sort_key().unwrap_or(i64::MIN);
    // A range that ends with a day includes its last second.
    let most = || {
        cell.sort_key().map_or(i64::MAX, |rank| {
            if matches!(cell, FieldValue::Day(_)) {
                rank + SECONDS_PER_DAY - 1
            } else {
                rank
            }
        })
    };
    match role {
        ParamRole::Is(place) => at(place) == cell,
        ParamRole::Has(place) => matches!(at(place), FieldValue::Many(cells) if cells.contains(cell)),
        ParamRole::From(place) => at(place).sort_key().is_some_and(|rank| rank >= least()),
        ParamRole::To(place) => at(place).sort_key().is_some_and(|rank| rank <= most()),
        ParamRole::MadeFrom => row.made >= least(),
        ParamRole::MadeTo => row.made <= most(),
        ParamRole::Id
        | ParamRole::Value(_)
        | ParamRole::Taken(_)
        | ParamRole::Sort
        | ParamRole::Limit
        | ParamRole::Cursor
        | ParamRole::Query
        | ParamRole::By
        | ParamRole::Format
        | ParamRole::Columns => true,
    }
}

fn sort_rows(entity: &Entity, sort: &str, rows: &mut [&RecordRow]) {
    let (name, down) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
    let place = entity.field(name).map(|(at, _)| at);
    let rank = |row: &RecordRow| place.map_or(Some(row.made), |at| row.cells.get(at).and_then(FieldValue::sort_key));
    rows.sort_by(|a, b| {
        let (left, right) = (rank(a), rank(b));
        let by = if down { right.cmp(&left) } else { left.cmp(&right) };
        // Records without the value come last in both directions.
        left.is_none()
            .cmp(&right.is_none())
            .then(by)
            .then(a.number.cmp(&b.number))
    });
}

/// The range of one page in a sorted list, and the fingerprint of that list.
struct RecordPage {
    list: u64,
    from: usize,
    to: usize,
}

impl RecordPage {
    /// The requested page. It starts after the record that the cursor names; a cursor of another list is refused.
    fn requested(tool: &CompanyTool, given: &[CheckedArgument], rows: &[&RecordRow]) -> Result<Self, CompanyFault> {
        let narrowed = given
            .iter()
            .filter(|it| !matches!(it.role, ParamRole::Cursor | ParamRole::Limit));
        let list = narrowed.fold(fingerprint(0, &tool.name), |print, it| {
            fingerprint(print, &format!("{it:?}"))
        });
        let from = match argument_value(given, ParamRole::Cursor).and_then(FieldValue::text) {
            None => 0,
            Some(cursor) => cursor_position(cursor, list, rows).ok_or(CompanyFault::StrangeCursor)?,
        };
        let most = argument_value(given, ParamRole::Limit)
            .and_then(FieldValue::sort_key)
            .and_then(|it| usize::try_from(it).ok())
            .unwrap_or(20);
        Ok(Self {
            list,
            from,
            to: from.saturating_add(most).min(rows.len()),
        })
    }

    fn rows<'a, 'b>(&self, rows: &'b [&'a RecordRow]) -> &'b [&'a RecordRow] {
        rows.get(self.from..self.to).unwrap_or_default()
    }

    fn next_cursor(&self, rows: &[&RecordRow]) -> Option<String> {
        let last = (self.to < rows.len()).then(|| self.rows(rows).last()).flatten()?;
        Some(format!("{:016x}.{}.{}", self.list, last.number, self.to))
    }
}

/// Hashes `text` into a fingerprint of a list, the same in every build (FNV-1a).
fn fingerprint(before: u64, text: &str) -> u64 {
    let start = before ^ 0xcbf2_9ce4_8422_2325;
    text.bytes().fold(start, |print, byte| {
        (print ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The position after the record that the cursor names; if that record is gone, the position it had.
fn cursor_position(cursor: &str, list: u64, rows: &[&RecordRow]) -> Option<usize> {
    let mut parts = cursor.splitn(3, '.');
    let of = u64::from_str_radix(parts.next()?, 16).ok()?;
    let number: u32 = parts.next()?.parse().ok()?;
    let place: usize = parts.next()?.parse().ok()?;
    let at = rows.iter().position(|row| row.number == number).map(|at| at + 1);
    (of == list).then(|| at.unwrap_or(place.min(rows.len())))
}
