//! Tables in JSON: rows that are lists, with their columns named beside them or in the first row; and fields with their values.

use serde_json::{Map, Value};

use crate::keys::{self, Telling, Whose};

/// The most columns that are followed.
const COLUMNS: usize = 256;
/// The longest name of a column.
const NAME: usize = 48;

/// Keys of the names of columns beside their rows.
const COLUMNS_OF_ROWS: [&str; 7] = [
    "columns",
    "headers",
    "header",
    "fields",
    "column_names",
    "columnNames",
    "cols",
];

/// Whether a key is one of the names of columns.
pub(crate) fn is_columns(key: &str) -> bool {
    COLUMNS_OF_ROWS.contains(&key)
}

/// What the columns of rows say, of which one at least tells.
#[derive(Debug)]
pub(crate) struct Columns {
    telling: Vec<Option<Telling>>,
    whose: Whose,
}

/// Where a value stands, seen from the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The object that has columns and rows.
    Above,
    /// The list of rows, of which the first so many are none.
    Rows(usize),
    /// A row.
    Row,
}

impl Level {
    /// What is under a key of an object with columns.
    pub(super) fn under(self, key: &str) -> Option<Level> {
        let rows = matches!(
            key,
            "rows" | "data" | "values" | "records" | "cells" | "body" | "items" | "tuples"
        );
        (self == Level::Above && rows).then_some(Level::Rows(0))
    }
}

impl Columns {
    /// The columns that an object names beside its rows: `{"columns": […], "rows": [[…]]}`.
    pub(crate) fn beside(members: &Map<String, Value>) -> Option<Columns> {
        let names = COLUMNS_OF_ROWS
            .into_iter()
            .find_map(|key| members.get(key)?.as_array())?;
        Columns::of(names)
    }

    /// The columns that the first of several rows names.
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

/// Keys of the name of a field whose value stands beside it.
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

/// Whether a key is the one of a field's name.
pub(crate) fn is_pairs_field(key: &str) -> bool {
    FIELDS.contains(&key)
}

/// What the field says that an object gives the value of: `{"field": "phone", "value": "…"}`.
pub(super) fn pair(members: &Map<String, Value>) -> Option<Telling> {
    if !members.keys().any(|key| is_pairs_value(key)) {
        return None;
    }
    let field = FIELDS.into_iter().find_map(|key| members.get(key)?.as_str())?;
    keys::telling(field)
}

/// Whether a key is the one of a field's value.
pub(crate) fn is_pairs_value(key: &str) -> bool {
    matches!(key, "value" | "val" | "content" | "answer" | "new_value" | "old_value")
}
