//! Tools as JSON: the schemas as they are, the words capped.

use serde_json::{Map, Value, json};

use super::{Offer, tags, text};
use crate::schema::Types;
use crate::tool::Tool;

pub(super) fn stub(offer: &Offer<'_>) -> String {
    entry(offer).to_string()
}

pub(super) fn stubs(offers: &[Offer<'_>]) -> String {
    Value::Array(offers.iter().map(entry).collect()).to_string()
}

fn entry(offer: &Offer<'_>) -> Value {
    let tool = offer.tool;
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(tool.name.as_str()));
    entry.insert(
        "call".to_owned(),
        json!(format!("tools.{}.{}", tool.server_ident, tool.ident)),
    );
    let words = text::quoted(&tool.definition.description);
    if !words.is_empty() {
        entry.insert("server_says".to_owned(), json!(words.join("\n")));
    }
    entry.insert("input".to_owned(), tool.definition.input.clone());
    match (&tool.definition.output, offer.observed) {
        (Some(output), _) => entry.insert("output".to_owned(), output.clone()),
        (None, Some(observed)) => entry.insert("observed_output".to_owned(), observed.clone()),
        (None, None) => None,
    };
    let tags = tags(offer);
    if !tags.is_empty() {
        entry.insert("tags".to_owned(), json!(tags));
    }
    Value::Object(entry)
}

pub(super) fn signature(tool: &Tool) -> String {
    let types = Types::of(&tool.definition.input);
    let mut parameters = Map::new();
    for field in types.arguments().iter().flat_map(|object| &object.fields) {
        let mark = if field.required { "" } else { "?" };
        let shape = super::typescript::brief(&types, &field.shape);
        parameters.insert(format!("{}{mark}", field.name), Value::String(shape));
    }
    json!({ "name": tool.name.as_str(), "parameters": parameters }).to_string()
}
