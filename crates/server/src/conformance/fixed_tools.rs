//! Tools that return a fixed result at once.

use rmcp::model::{CallToolRequestParams, CallToolResult, ErrorData};
use serde_json::{Value, json};

use super::from_json;

/// A PNG with a single red pixel, in base64.
pub(super) const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dwn4GBgYGBgQEABQABDQottAAAAABJRU5ErkJggg==";
/// A WAV without any samples, in base64.
const SOUND: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// Calls the tool if this module has it; `None` otherwise.
pub(super) fn call(request: &CallToolRequestParams) -> Result<Option<CallToolResult>, ErrorData> {
    let argument = |name: &str| {
        let value = request.arguments.as_ref().and_then(|given| given.get(name));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let text = |text: String| json!({ "type": "text", "text": text });
    let resource = |uri: &str, mime: &str, text: &str| json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime, "text": text } });
    let image = json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" });
    let content = match request.name.as_ref() {
        "test_simple_text" => vec![text("This is a simple text response for testing.".to_owned())],
        "test_image_content" => vec![image],
        "test_audio_content" => vec![json!({ "type": "audio", "data": SOUND, "mimeType": "audio/wav" })],
        "test_embedded_resource" => vec![resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )],
        "test_multiple_content_types" => vec![
            text("Multiple content types test:".to_owned()),
            image,
            resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ],
        "test_error_handling" => {
            let says = text("This tool intentionally returns an error for testing".to_owned());
            return from_json(json!({ "resultType": "complete", "isError": true, "content": [says] })).map(Some);
        }
        "greet" => vec![text(format!("Hello, {}!", argument("name")))],
        "test_header_parameter" => vec![text(format!("region: {}", argument("region")))],
        "json_schema_2020_12_tool" => vec![text(format!("name: {}", argument("name")))],
        _ => return Ok(None),
    };
    from_json(json!({ "resultType": "complete", "content": content })).map(Some)
}
