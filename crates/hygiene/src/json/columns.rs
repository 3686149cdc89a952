//! Tables in JSON: rows as lists, with column names beside them or in the first row; and field-value pairs.

use serde_json::{Map, Value};

use crate::keys::{self, Telling, Whose};

/// Most columns that are read.
const COLUMNS: usize = 256;
/// Most bytes of a column name.
const NAME: usize = 48;

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
pub(crate) struct Columns {
    telling: Vec<Option<Telling>>,
    whose: Whose,
}

/// The position of a value relative to the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The object that holds columns and rows.
    Above,
    /// The list of rows, of which this many at the start are not rows.
    Rows(usize),
    /// A row, whose items are cells.
    Row,
}

impl Level {
    /// Returns the level below a key of an object with columns.
    pub(super) fn under(self, key: &str) -> Option<Level> {
        let rows = matches!(
            key,
            "rows" | "data" | "values" | "records" | "cells" | "body" | "items" | "tuples"
        );
        (self == Level::Above && rows).then_some(Level::Rows(0))
    }
}

impl Columns {
    /// Returns the columns that an object names beside its rows: `{"columns": […], "rows": [[…]]}`.
    pub(crate) fn beside(members: &Map<String, Value>) -> Option<Columns> {
        let names = COLUMNS_OF_ROWS
            .into_iter()
            .find_map(|key| members.get(key)?.as_array())?;
        Columns::of(names)
    }

    /// Returns the columns that the first of several rows names.
    pub(crate) fn heading(items: &[Value]) -> Option<Columns> {
        let [Value::Array(names), Value::Array(row), ..] = items else {
            return None;
        };
        let strings = names.len() > 1 && names.len() == row.len() && names.iter().all(Value::is_string);
        strings.then(|| Columns::of(names)).flatten()
    }

    fn of(names: &[Value]) -> Option<Columns> {
        let name = |value: &'_ Value| -> Option<String> {
            let text = value.as_str().or_else(|| value.get("name")?.as_str())?;
            let good = text.len() <= NAME && !text.contains(['@', '\n']);
            good.then(|| text.to_owned())
        };
        let names: Vec<String> = names.iter().take(COLUMNS).map(name).collect::<Option<_>>()?;
        let telling: Vec<Option<Telling>> = names.iter().map(|name| keys::telling(name)).collect();
        telling.iter().any(Option::is_some).then(|| Columns {
            telling,
            whose: Whose::Unsaid.beside(names.iter().map(String::as_str)),
        })
    }

    pub(super) fn telling(&self, index: usize) -> Option<Telling> {
        self.telling.get(index).copied().flatten()
    }

    pub(super) fn whose(&self) -> Whose {
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
pub(super) fn pair(members: &Map<String, Value>) -> Option<Telling> {
    if !members.keys().any(|key| is_pairs_value(key)) {
        return None;
    }
    let field = FIELDS.into_iter().find_map(|key| members.get(key)?.as_str())?;
    keys::telling(field)
}

/// Whether a key holds a field's value.
pub(crate) fn is_pairs_value(key: &str) -> bool {
    matches!(key, "value" | "val" | "content" | "answer" | "new_value" | "old_value")
}
