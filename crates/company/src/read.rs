//! The tools that read: lists, single records, searches, counts and exports.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::call::Fault;
use crate::cell::{Cell, DAY, moment, shown};
use crate::param::{Argument, Role};
use crate::spec::{Entity, Kind, entity};
use crate::store::{Row, Store};
use crate::tool::{MOST_EXPORT, Tool};

/// Returns one page of the records that match, and the cursor of the next page.
pub(crate) fn list(store: &Store, tool: &Tool, given: &[Argument]) -> Result<Value, Fault> {
    let entity = tool.entity;
    for link in given.iter().filter(|argument| matches!(argument.role, Role::Is(_))) {
        exists(store, entity, link)?;
    }
    let sort = cell(given, Role::Sort).and_then(Cell::text).unwrap_or("created_at");
    let mut rows = matching(store, entity, given);
    order(entity, sort, &mut rows);
    let page = Page::of(tool, given, &rows)?;
    let items: Vec<_> = page.rows(&rows).iter().map(|row| record(entity, row)).collect();
    Ok(json!({ "items": items, "total": rows.len(), "next_cursor": page.next(&rows) }))
}

/// Returns the record that the `id` argument names, with all fields.
pub(crate) fn get(store: &Store, entity: &Entity, given: &[Argument]) -> Result<Value, Fault> {
    row(store, entity, number(given)).map(|row| record(entity, row))
}

/// Finds the records in whose searchable fields every word occurs.
pub(crate) fn search(store: &Store, tool: &Tool, given: &[Argument]) -> Result<Value, Fault> {
    let entity = tool.entity;
    let query = cell(given, Role::Query)
        .and_then(Cell::text)
        .unwrap_or_default()
        .to_lowercase();
    let words: Vec<_> = query.split_whitespace().collect();
    let fields: Vec<_> = entity
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| field.search)
        .collect();
    let mut found: Vec<(usize, &Row)> = Vec::new();
    for row in store
        .table(entity.many)
        .map(crate::store::Table::rows)
        .unwrap_or_default()
    {
        let texts: Vec<_> = fields
            .iter()
            .map(|(at, _)| {
                row.cells
                    .get(*at)
                    .and_then(Cell::text)
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
    let page = Page::of(tool, given, &rows)?;
    let matches = page.rows(&rows).iter().map(|row| {
        let text = |at: usize| row.cells.get(at).and_then(Cell::text).unwrap_or_default();
        let holds = |at: usize| words.iter().any(|word| text(at).to_lowercase().contains(word));
        let (at, name) = fields
            .iter()
            .find(|(at, _)| holds(*at))
            .map_or((0, ""), |(at, field)| (*at, field.name));
        let excerpt: String = text(at).chars().take(160).collect();
        json!({ "id": entity.id(row.number), "title": text(0), "field": name, "excerpt": excerpt })
    });
    Ok(json!({ "matches": matches.collect::<Vec<_>>(), "total": rows.len(), "next_cursor": page.next(&rows) }))
}

/// Counts the matching records, in total and for each value of a field.
pub(crate) fn count(store: &Store, entity: &Entity, given: &[Argument]) -> Value {
    let rows = matching(store, entity, given);
    let by = cell(given, Role::By)
        .and_then(Cell::text)
        .and_then(|name| entity.field(name));
    let mut groups: BTreeMap<Option<String>, usize> = BTreeMap::new();
    if let Some((at, field)) = by {
        for cell in rows.iter().filter_map(|row| row.cells.get(at)) {
            let each = if let Cell::Many(cells) = cell {
                cells
            } else {
                std::slice::from_ref(cell)
            };
            for cell in each {
                *groups.entry(label(cell, field.kind)).or_default() += 1;
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
pub(crate) fn export(store: &Store, entity: &Entity, given: &[Argument]) -> Value {
    let rows = matching(store, entity, given);
    let most = cell(given, Role::Limit).and_then(Cell::rank).unwrap_or(MOST_EXPORT);
    let most = usize::try_from(most).unwrap_or(0);
    let columns: Option<Vec<&str>> = match cell(given, Role::Columns) {
        Some(Cell::Many(cells)) => Some(cells.iter().filter_map(Cell::text).collect()),
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
        let mut object = shown(entity.fields, &row.cells);
        object.retain(|name, _| wanted(name));
        object.insert("id".into(), entity.id(row.number).into());
        object
    });
    let json = cell(given, Role::Format).and_then(Cell::text) == Some("json");
    let (ending, media, content) = if json {
        (
            "json",
            "application/json",
            Value::Array(objects.map(Value::Object).collect()).to_string(),
        )
    } else {
        ("csv", "text/csv", csv(&names, objects))
    };
    let file = format!("{}.{ending}", entity.many);
    json!({ "file_name": file, "media_type": media, "rows": taken, "total": rows.len(), "content": content })
}

fn csv(names: &[&str], objects: impl Iterator<Item = Map<String, Value>>) -> String {
    let mut text = format!("id{}{}\n", if names.is_empty() { "" } else { "," }, names.join(","));
    for object in objects {
        let cells = std::iter::once("id")
            .chain(names.iter().copied())
            .map(|name| match object.get(name) {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => quoted(text),
                Some(other) => quoted(&other.to_string()),
            });
        text.push_str(&cells.collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn label(cell: &Cell, kind: Kind) -> Option<String> {
    match cell.show(kind) {
        Value::Null => None,
        Value::String(text) => Some(text),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => Some(other.to_string()),
    }
}

/// Converts a record to JSON, with its id and the times of creation and last change.
pub(crate) fn record(entity: &Entity, row: &Row) -> Value {
    let mut object = shown(entity.fields, &row.cells);
    object.insert("id".into(), entity.id(row.number).into());
    object.insert("created_at".into(), moment(row.made).into());
    object.insert("updated_at".into(), moment(row.changed).into());
    Value::Object(object)
}

/// Returns the value of the argument with this role, if the call has one.
pub(crate) fn cell(given: &[Argument], role: Role) -> Option<&Cell> {
    given
        .iter()
        .find(|argument| argument.role == role)
        .map(|argument| &argument.cell)
}

/// Returns the record number in the `id` argument; 0, which no record has, where it is absent.
pub(crate) fn number(given: &[Argument]) -> u32 {
    match cell(given, Role::Id) {
        Some(Cell::Link(number)) => *number,
        _ => 0,
    }
}

/// Finds the record with this number, or reports that there is none.
pub(crate) fn row<'a>(store: &'a Store, entity: &Entity, number: u32) -> Result<&'a Row, Fault> {
    let row = store.table(entity.many).and_then(|table| table.row(number));
    row.ok_or_else(|| Fault::NoRecord {
        entity: entity.spoken(),
        id: entity.id(number),
        many: entity.many,
    })
}

/// Checks that a link used as a filter names an existing record.
fn exists(store: &Store, owner: &Entity, argument: &Argument) -> Result<(), Fault> {
    let (Role::Is(at), Cell::Link(number)) = (argument.role, &argument.cell) else {
        return Ok(());
    };
    let target = match owner.fields.get(at).map(|field| field.kind) {
        Some(Kind::Link(many)) => entity(many),
        _ => None,
    };
    target.map_or(Ok(()), |target| row(store, target, *number).map(|_| ()))
}

fn matching<'a>(store: &'a Store, entity: &Entity, given: &[Argument]) -> Vec<&'a Row> {
    let rows = store
        .table(entity.many)
        .map(crate::store::Table::rows)
        .unwrap_or_default();
    rows.iter()
        .filter(|row| given.iter().all(|argument| fits(row, argument)))
        .collect()
}

fn fits(row: &Row, Argument { role, cell }: &Argument) -> bool {
    let at = |place: &usize| row.cells.get(*place).unwrap_or(&Cell::Null);
    let least = || cell.rank().unwrap_or(i64::MIN);
    // A range that ends with a day includes its last second.
    let most = || {
        cell.rank().map_or(i64::MAX, |rank| {
            if matches!(cell, Cell::Day(_)) {
                rank + DAY - 1
            } else {
                rank
            }
        })
    };
    match role {
        Role::Is(place) => at(place) == cell,
        Role::Has(place) => matches!(at(place), Cell::Many(cells) if cells.contains(cell)),
        Role::From(place) => at(place).rank().is_some_and(|rank| rank >= least()),
        Role::To(place) => at(place).rank().is_some_and(|rank| rank <= most()),
        Role::MadeFrom => row.made >= least(),
        Role::MadeTo => row.made <= most(),
        Role::Id
        | Role::Value(_)
        | Role::Taken(_)
        | Role::Sort
        | Role::Limit
        | Role::Cursor
        | Role::Query
        | Role::By
        | Role::Format
        | Role::Columns => true,
    }
}

fn order(entity: &Entity, sort: &str, rows: &mut [&Row]) {
    let (name, down) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
    let place = entity.field(name).map(|(at, _)| at);
    let rank = |row: &Row| place.map_or(Some(row.made), |at| row.cells.get(at).and_then(Cell::rank));
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
struct Page {
    list: u64,
    from: usize,
    to: usize,
}

impl Page {
    /// The requested page. It starts after the record that the cursor names; a cursor of another list is refused.
    fn of(tool: &Tool, given: &[Argument], rows: &[&Row]) -> Result<Self, Fault> {
        let narrowed = given.iter().filter(|it| !matches!(it.role, Role::Cursor | Role::Limit));
        let list = narrowed.fold(fingerprint(0, &tool.name), |print, it| {
            fingerprint(print, &format!("{it:?}"))
        });
        let from = match cell(given, Role::Cursor).and_then(Cell::text) {
            None => 0,
            Some(cursor) => after(cursor, list, rows).ok_or(Fault::StrangeCursor)?,
        };
        let most = cell(given, Role::Limit)
            .and_then(Cell::rank)
            .and_then(|it| usize::try_from(it).ok())
            .unwrap_or(20);
        Ok(Self {
            list,
            from,
            to: from.saturating_add(most).min(rows.len()),
        })
    }

    fn rows<'a, 'b>(&self, rows: &'b [&'a Row]) -> &'b [&'a Row] {
        rows.get(self.from..self.to).unwrap_or_default()
    }

    fn next(&self, rows: &[&Row]) -> Option<String> {
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
fn after(cursor: &str, list: u64, rows: &[&Row]) -> Option<usize> {
    let mut parts = cursor.splitn(3, '.');
    let of = u64::from_str_radix(parts.next()?, 16).ok()?;
    let number: u32 = parts.next()?.parse().ok()?;
    let place: usize = parts.next()?.parse().ok()?;
    let at = rows.iter().position(|row| row.number == number).map(|at| at + 1);
    (of == list).then(|| at.unwrap_or(place.min(rows.len())))
}
