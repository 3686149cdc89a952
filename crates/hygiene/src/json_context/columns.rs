//! Tables in JSON: rows as lists, with column names beside them or in the first row; and field-value pairs.

use serde_json::{Map, Value};

use crate::keys::{self, KeyHint, NameOwner};

/// Most columns that are read.
const MAX_COLUMNS: usize = 256;
/// Most bytes of a column name.
const MAX_NAME_BYTES: usize = 48;

/// Keys that hold column names beside their rows.
const COLUMNS_OF_ROWS: [&str; 7] = [
    "columns",
    "headers",
    "header",
    "fields",
    "column_names",
    "columnNames",
    "cols",
];

/// Whether a key holds column names.
pub(crate) fn is_columns(key: &str) -> bool {
    COLUMNS_OF_ROWS.contains(&key)
}

/// The key hints of columns, at least one of which says something.
#[derive(Debug)]
pub(crate) struct JsonColumns {
    telling: Vec<Option<KeyHint>>,
    whose: NameOwner,
}

/// The position of a value relative to the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnLevel {
    /// The object that holds columns and rows.
    Above,
    /// The list of rows, of which this many at the start are not rows.
    Rows(usize),
    /// A row, whose items are cells.
    Row,
}

impl ColumnLevel {
    /// Returns the level below a key of an object with columns.
    pub(super) fn below_key(self, key: &str) -> Option<ColumnLevel> {
        let rows = matches!(
            key,
            "rows" | "data" | "values" | "records" | "cells" | "body" | "items" | "tuples"
        );
        (self == ColumnLevel::Above && rows).then_some(ColumnLevel::Rows(0))
    }
}

impl JsonColumns {
    /// Returns the columns that an object names beside its rows: `{"columns": […], "rows": [[…]]}`.
    pub(crate) fn from_members(members: &Map<String, Value>) -> Option<JsonColumns> {
        let names = COLUMNS_OF_ROWS
            .into_iter()
            .find_map(|key| members.get(key)?.as_array())?;
        JsonColumns::from_names(names)
    }

    /// Returns the columns that the first of several rows names.
    pub(crate) fn from_first_row(items: &[Value]) -> Option<JsonColumns> {
        let [Value::Array(names), Value::Array(row), ..] = items else {
            return None;
        };
        let strings = names.len() > 1 && names.len() == row.len() && names.iter().all(Value::is_string);
        strings.then(|| JsonColumns::from_names(names)).flatten()
    }

    fn from_names(names: &[Value]) -> Option<JsonColumns> {
        let name = |value: &'_ Value| -> Option<String> {
            let text = value.as_str().or_else(|| value.get("name")?.as_str())?;
            let good = text.len() <= MAX_NAME_BYTES && !text.contains(['@', '\n']);
            good.then(|| text.to_owned())
        };
        let names: Vec<String> = names.iter().take(MAX_COLUMNS).map(name).collect::<Option<_>>()?;
        let telling: Vec<Option<KeyHint>> = names.iter().map(|name| keys::key_hint(name)).collect();
        telling.iter().any(Option::is_some).then(|| JsonColumns {
            telling,
            whose: NameOwner::Unknown.with_siblings(names.iter().map(String::as_str)),
        })
    }

    pub(super) fn hint_at(&self, index: usize) -> Option<KeyHint> {
        self.telling.get(index).copied().flatten()
    }

    pub(super) fn name_owner(&self) -> NameOwner {
        self.whose
    }
}

/// Keys that hold a field's name, with its value beside it.
const FIELDS: [&str; 8] = [
    "field",
    "key",
    "name",
    "label",
    "attribute",
    "property",
    "column",
    "question",
];

/// Whether a key holds a field's name.
pub(crate) fn is_pairs_field(key: &str) -> bool {
    FIELDS.contains(&key)
}

/// Returns the hint for the value of a pair: `{"field": "phone", "value": "…"}`.
pub(super) fn field_value_hint(members: &Map<String, Value>) -> Option<KeyHint> {
    if !members.keys().any(|key| is_field_value_key(key)) {
        return None;
    }
    let field = FIELDS.into_iter().find_map(|key| members.get(key)?.as_str())?;
    keys::key_hint(field)
}

/// Whether a key holds a field's value.
pub(crate) fn is_field_value_key(key: &str) -> bool {
    matches!(key, "value" | "val" | "content" | "answer" | "new_value" | "old_value")
}
