//! The searchable text of a tool, by field.

use serde_json::Value;

use crate::tool::Tool;

/// The number of fields.
pub(crate) const FIELDS: usize = 6;
/// The most bytes of one field that are indexed.
const FIELD: usize = 16 * 1024;
/// The most bytes of a server's description that are indexed: it counts for each of its tools.
const SERVER: usize = 1_000;
/// The most parameters that are indexed, and the deepest level of them.
const PARAMETERS: usize = 200;
const DEPTH: usize = 2;
/// The most values of an enumeration that are indexed.
const VALUES: usize = 50;
/// The most characters of a description whose spelling counts.
pub(crate) const HEAD: usize = 400;

/// The part of a tool's definition in which a word occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Server,
    Name,
    Description,
    Parameters,
    ParameterTexts,
    ServerDescription,
}

impl Field {
    /// The weight of the spelling of its words.
    pub(crate) fn times(self) -> f32 {
        match self {
            Field::Server | Field::Description => 1.0,
            Field::Name => 2.0,
            Field::Parameters | Field::ParameterTexts | Field::ServerDescription => 0.0,
        }
    }

    /// Whether the field is the tool's own statement of what it does: its name or its description.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Field::Name | Field::Description)
    }
}

/// The texts of `tool`, one for each field.
pub(crate) fn texts(tool: &Tool, server: &str) -> Vec<(Field, String)> {
    let definition = &tool.definition;
    let (mut names, mut said) = (String::new(), String::new());
    let mut left = PARAMETERS;
    parameters(&definition.input, DEPTH, &mut left, &mut names, &mut said);
    let title = definition.title.as_deref().unwrap_or_default();
    let mut description = cut(&definition.description, FIELD).to_owned();
    for tag in definition.tags.iter().take(VALUES) {
        description.push_str(" \n");
        description.push_str(cut(tag, HEAD));
    }
    vec![
        (Field::Server, tool.server().to_owned()),
        (
            Field::Name,
            format!(
                "{} {}",
                tool.short(),
                if same(title, tool.short()) {
                    ""
                } else {
                    cut(title, HEAD)
                }
            ),
        ),
        (Field::Description, description),
        (Field::Parameters, names),
        (Field::ParameterTexts, said),
        (Field::ServerDescription, cut(server, SERVER).to_owned()),
    ]
}

/// Whether a title only repeats the name, so that it must not count twice.
fn same(title: &str, name: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .collect()
    };
    plain(title) == plain(name)
}

fn parameters(schema: &Value, depth: usize, left: &mut usize, names: &mut String, said: &mut String) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        if *left == 0 || names.len() > FIELD || said.len() > FIELD {
            return;
        }
        *left -= 1;
        push(names, name);
        if let Some(text) = property.get("description").and_then(Value::as_str) {
            push(said, text);
        }
        for value in property
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .take(VALUES)
        {
            push(said, value.as_str().unwrap_or_default());
        }
        if depth > 1 {
            parameters(property, depth - 1, left, names, said);
            if let Some(items) = property.get("items") {
                parameters(items, depth - 1, left, names, said);
            }
        }
    }
}

fn push(text: &mut String, more: &str) {
    text.push_str(cut(more, FIELD));
    text.push('\n');
}

/// Truncates a text to a number of bytes, at the end of a character.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
