//! The suite's resources.

use rmcp::model::{ErrorData, ReadResourceResult, Resource, ResourceTemplate};
use serde_json::json;

use super::fixed_tools::IMAGE;
use super::from_json;

/// The resources with a fixed URI.
pub(super) fn list_resources() -> Vec<Resource> {
    let resource = |uri: &str, name: &str, says: &str, mime: &str| {
        Resource::new(uri, name).with_description(says).with_mime_type(mime)
    };
    vec![
        resource("test://static-text", "text", "A text", "text/plain"),
        resource("test://static-binary", "binary", "An image", "image/png"),
        resource(
            "test://watched-resource",
            "watched",
            "A text that can be watched",
            "text/plain",
        ),
    ]
}

/// The resources whose URI has a parameter.
pub(super) fn resource_templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new("test://template/{id}/data", "template");
    vec![
        template
            .with_description("Data by its id")
            .with_mime_type("application/json"),
    ]
}

/// Reads a fixture by its URI.
pub(super) fn read_resource(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let text = |mime: &str, text: String| json!({ "uri": uri, "mimeType": mime, "text": text });
    let contents = match uri {
        "test://static-text" => text(
            "text/plain",
            "This is the content of the static text resource.".to_owned(),
        ),
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": IMAGE }),
        "test://watched-resource" => text("text/plain", "Watched.".to_owned()),
        _ => {
            let id = uri
                .strip_prefix("test://template/")
                .and_then(|rest| rest.strip_suffix("/data"));
            let Some(id) = id else {
                let message = format!("there is no resource `{uri}`");
                return Err(ErrorData::resource_not_found(message, Some(json!({ "uri": uri }))));
            };
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            text("application/json", data.to_string())
        }
    };
    from_json(json!({ "resultType": "complete", "contents": [contents] }))
}
