//! What a tool says, field by field: everything a search looks at.

use serde_json::Value;

use crate::tool::Tool;

/// How many fields there are.
pub(crate) const FIELDS: usize = 6;
/// Bytes of one field that are read.
const FIELD: usize = 16 * 1024;
/// Bytes of a server's own description that are read: it counts for every tool of it.
const SERVER: usize = 1_000;
/// Parameters that are read, and how deep.
const PARAMETERS: usize = 200;
const DEPTH: usize = 2;
/// Values of an enumeration that are read.
const VALUES: usize = 50;
/// Characters of a description whose spelling counts.
pub(crate) const HEAD: usize = 400;

/// Where a word stands.
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
    /// How often its words count by their spelling.
    pub(crate) fn times(self) -> f32 {
        match self {
            Field::Server | Field::Description => 1.0,
            Field::Name => 2.0,
            Field::Parameters | Field::ParameterTexts | Field::ServerDescription => 0.0,
        }
    }

    /// Whether it is the tool's own word of what it does.
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

/// A title is most often the name again, and must not count twice then.
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

/// At most so many bytes, at the end of a character.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
