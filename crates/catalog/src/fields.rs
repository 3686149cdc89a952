//! The searchable text of a tool, by field.

use serde_json::Value;

use crate::tool::Tool;

/// The number of fields.
pub(crate) const FIELD_COUNT: usize = 6;
/// The most bytes of one field that are indexed.
const MAX_FIELD_BYTES: usize = 16 * 1024;
/// The most bytes of a server's description that are indexed: it counts for each of its tools.
const MAX_SERVER_BYTES: usize = 1_000;
/// The most parameters that are indexed, and the deepest level of them.
const MAX_PARAMETERS: usize = 200;
const MAX_DEPTH: usize = 2;
/// The most values of an enumeration that are indexed.
const MAX_ENUM_VALUES: usize = 50;
/// The most characters of a description whose spelling counts.
pub(crate) const MAX_SPELLED_CHARS: usize = 400;

/// The part of a tool's definition in which a word occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchField {
    Server,
    Name,
    Description,
    Parameters,
    ParameterTexts,
    ServerDescription,
}

impl SearchField {
    /// The weight of the spelling of its words.
    pub(crate) fn spelling_weight(self) -> f32 {
        match self {
            SearchField::Server | SearchField::Description => 1.0,
            SearchField::Name => 2.0,
            SearchField::Parameters | SearchField::ParameterTexts | SearchField::ServerDescription => 0.0,
        }
    }

    /// Whether the field is the tool's own statement of what it does: its name or its description.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, SearchField::Name | SearchField::Description)
    }
}

/// The texts of `tool`, one for each field.
pub(crate) fn field_texts(tool: &Tool, server: &str) -> Vec<(SearchField, String)> {
    let definition = &tool.definition;
    let (mut names, mut said) = (String::new(), String::new());
    let mut left = MAX_PARAMETERS;
    collect_parameters(&definition.input, MAX_DEPTH, &mut left, &mut names, &mut said);
    let title = definition.title.as_deref().unwrap_or_default();
    let mut description = truncate_bytes(&definition.description, MAX_FIELD_BYTES).to_owned();
    for tag in definition.tags.iter().take(MAX_ENUM_VALUES) {
        description.push_str(" \n");
        description.push_str(truncate_bytes(tag, MAX_SPELLED_CHARS));
    }
    vec![
        (SearchField::Server, tool.server().to_owned()),
        (
            SearchField::Name,
            format!(
                "{} {}",
                tool.short_name(),
                if repeats_name(title, tool.short_name()) {
                    ""
                } else {
                    truncate_bytes(title, MAX_SPELLED_CHARS)
                }
            ),
        ),
        (SearchField::Description, description),
        (SearchField::Parameters, names),
        (SearchField::ParameterTexts, said),
        (
            SearchField::ServerDescription,
            truncate_bytes(server, MAX_SERVER_BYTES).to_owned(),
        ),
    ]
}

/// Whether a title only repeats the name, so that it must not count twice.
fn repeats_name(title: &str, name: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .collect()
    };
    plain(title) == plain(name)
}

fn collect_parameters(schema: &Value, depth: usize, left: &mut usize, names: &mut String, said: &mut String) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        if *left == 0 || names.len() > MAX_FIELD_BYTES || said.len() > MAX_FIELD_BYTES {
            return;
        }
        *left -= 1;
        append_text(names, name);
        if let Some(text) = property.get("description").and_then(Value::as_str) {
            append_text(said, text);
        }
        for value in property
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .take(MAX_ENUM_VALUES)
        {
            append_text(said, value.as_str().unwrap_or_default());
        }
        if depth > 1 {
            collect_parameters(property, depth - 1, left, names, said);
            if let Some(items) = property.get("items") {
                collect_parameters(items, depth - 1, left, names, said);
            }
        }
    }
}

fn append_text(text: &mut String, more: &str) {
    text.push_str(truncate_bytes(more, MAX_FIELD_BYTES));
    text.push('\n');
}

/// Truncates a text to a number of bytes, at the end of a character.
pub(crate) fn truncate_bytes(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
