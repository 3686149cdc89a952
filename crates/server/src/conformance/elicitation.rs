//! Tools that ask the client during a call, as older revisions of the protocol do.
#![expect(deprecated, reason = "the suite tries what older revisions have")]

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ContentBlock, CreateMessageRequestParams,
    ElicitRequestParams, ErrorData, SamplingMessage,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::from_json;

/// Calls the tool if this module has it; `None` otherwise.
pub(super) async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Option<CallToolResult>, ErrorData> {
    let argument = |name: &str| {
        let value = request.arguments.as_ref().and_then(|given| given.get(name));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let result = match request.name.as_ref() {
        "test_sampling" => request_sampling(context, &argument("prompt")).await,
        "test_elicitation" => {
            request_elicitation(context, &argument("message"), "User response", person_schema()).await?
        }
        "test_elicitation_sep1034_defaults" => {
            request_elicitation(context, "Defaults", "Elicitation completed", defaults_schema()).await?
        }
        "test_elicitation_sep1330_enums" => {
            request_elicitation(context, "Choices", "Elicitation completed", choices_schema()).await?
        }
        "test_missing_capability" => {
            let client = context.client_capabilities().unwrap_or_default();
            if client.sampling.is_none() {
                let needed = ClientCapabilities::builder().enable_sampling().build();
                return Err(ErrorData::missing_required_client_capability(needed));
            }
            CallToolResult::success(vec![ContentBlock::text("the client samples")])
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

async fn request_sampling(context: &RequestContext<RoleServer>, prompt: &str) -> CallToolResult {
    let ask = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    match context.peer.create_message(ask).await {
        Ok(answer) => {
            let first = answer.message.content.first().and_then(|content| content.as_text());
            let text = first.map_or("", |text| text.text.as_str());
            CallToolResult::success(vec![ContentBlock::text(format!("LLM response: {text}"))])
        }
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
    }
}

async fn request_elicitation(
    context: &RequestContext<RoleServer>,
    message: &str,
    says: &str,
    schema: Value,
) -> Result<CallToolResult, ErrorData> {
    let ask = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: from_json(schema)?,
    };
    Ok(match context.peer.create_elicitation(ask).await {
        Ok(answer) => {
            let action = json!(answer.action);
            let said = answer.content.unwrap_or_default();
            let text = format!("{says}: action={}, content={said}", action.as_str().unwrap_or_default());
            CallToolResult::success(vec![ContentBlock::text(text)])
        }
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
    })
}

fn person_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    })
}

fn defaults_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
            "verified": { "type": "boolean", "default": true },
        },
    })
}

fn choices_schema() -> Value {
    let titled = |word: &str| {
        let places = ["First", "Second", "Third"].iter().zip(1..);
        let choices = places
            .map(|(place, number)| json!({ "const": format!("value{number}"), "title": format!("{place} {word}") }));
        Value::Array(choices.collect())
    };
    let plain = json!(["option1", "option2", "option3"]);
    let names = json!(["Option One", "Option Two", "Option Three"]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled("Option") },
            "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
        },
    })
}
