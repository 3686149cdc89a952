//! Tools that return a question, as the newer revision does: the client repeats the call with its answers.

use std::collections::BTreeMap;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, InputRequests,
    InputRequiredResult, InputResponses, RequestStateCodec,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::made;

/// A form with one field.
pub(super) fn form(message: &str, field: &str, kind: &str) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": { "type": "object", "properties": { field: { "type": kind } }, "required": [field] },
        },
    })
}

fn sampling(prompt: &str, most: u32) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": most } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// A result that asks these questions.
pub(super) fn ask(questions: &[(&str, Value)], state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    let questions: BTreeMap<&str, &Value> = questions.iter().map(|(key, value)| (*key, value)).collect();
    let questions: InputRequests = made(json!(questions))?;
    Ok(InputRequiredResult::new(Some(questions), state))
}

/// The value of a field in the answer to a form; `None` without an answer.
pub(super) fn field<'a>(answers: Option<&'a InputResponses>, key: &str, field: &str) -> Option<&'a Value> {
    let answer = answers?.get(key)?;
    if answer["action"] != "accept" {
        return None;
    }
    answer["content"].get(field)
}

/// Calls the tool if this module has it; `None` otherwise.
pub(super) fn call(
    states: &RequestStateCodec,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Option<CallToolResponse>, ErrorData> {
    let answers = request.input_responses.as_ref();
    let name = request.name.as_ref();
    let response = match name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            match field(answers, "user_name", "name").and_then(Value::as_str) {
                Some(name) => said(format!("Hello, {name}!")),
                None => ask(&[("user_name", form("What is your name?", "name", "string"))], None)?.into(),
            }
        }
        "test_input_required_result_sampling" => match answers.and_then(|given| given.get("capital_question")) {
            Some(answer) => said(format!("the model says: {}", answer["content"])),
            None => ask(
                &[("capital_question", sampling("What is the capital of France?", 100))],
                None,
            )?
            .into(),
        },
        "test_input_required_result_list_roots" => match answers.and_then(|given| given.get("client_roots")) {
            Some(answer) => said(format!("the roots are: {}", answer["roots"])),
            None => ask(&[("client_roots", roots())], None)?.into(),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            confirmed(states, request)?
        }
        "test_input_required_result_multiple_inputs" => several(states, request)?,
        "test_input_required_result_multi_round" => rounds(states, request)?,
        "test_input_required_result_capabilities" => within(context)?,
        _ => return Ok(None),
    };
    Ok(Some(response))
}

fn said(text: String) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// The state that the client carries, if this server issued it for this tool.
fn state(states: &RequestStateCodec, request: &CallToolRequestParams) -> Result<Option<String>, ErrorData> {
    let Some(kept) = &request.request_state else {
        return Ok(None);
    };
    let refused = |_| ErrorData::invalid_params("`requestState` is not what was given", None);
    let opened = states.open_with(kept, request.name.as_bytes()).map_err(refused)?;
    Ok(String::from_utf8(opened).ok())
}

fn sealed(states: &RequestStateCodec, request: &CallToolRequestParams, state: &str) -> String {
    let options = rmcp::model::SealOptions::new().associated_data(request.name.as_bytes());
    states.seal_with(state.as_bytes(), &options)
}

fn confirmed(states: &RequestStateCodec, request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let is_kept = state(states, request)?.as_deref() == Some("asked");
    if is_kept && field(request.input_responses.as_ref(), "confirm", "ok").is_some() {
        return Ok(said("state-ok".to_owned()));
    }
    let question = ("confirm", form("Please confirm", "ok", "boolean"));
    Ok(ask(&[question], Some(sealed(states, request, "asked")))?.into())
}

fn several(states: &RequestStateCodec, request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let questions = [
        ("user_name", form("What is your name?", "name", "string")),
        ("greeting", sampling("Generate a greeting", 50)),
        ("client_roots", roots()),
    ];
    let is_kept = state(states, request)?.is_some();
    let answers = request.input_responses.as_ref();
    if is_kept && answers.is_some_and(|given| questions.iter().all(|(key, _)| given.contains_key(*key))) {
        return Ok(said("all three are answered".to_owned()));
    }
    Ok(ask(&questions, Some(sealed(states, request, "asked")))?.into())
}

fn rounds(states: &RequestStateCodec, request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let kept = state(states, request)?.unwrap_or_default();
    let answers = request.input_responses.as_ref();
    let text = |key: &str, name: &str| field(answers, key, name).and_then(Value::as_str);
    if let (Some(name), Some(color)) = (kept.strip_prefix("second:"), text("step2", "color")) {
        return Ok(said(format!("{name} likes {color}")));
    }
    if let ("first", Some(name)) = (kept.as_str(), text("step1", "name")) {
        let question = ("step2", form("Step 2: What is your favorite color?", "color", "string"));
        return Ok(ask(&[question], Some(sealed(states, request, &format!("second:{name}"))))?.into());
    }
    let question = ("step1", form("Step 1: What is your name?", "name", "string"));
    Ok(ask(&[question], Some(sealed(states, request, "first")))?.into())
}

/// Asks only questions that the client's capabilities cover.
fn within(context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let client = context.client_capabilities().unwrap_or_default();
    let questions = [
        client
            .elicitation
            .is_some()
            .then(|| ("name", form("What is your name?", "name", "string"))),
        client
            .sampling
            .is_some()
            .then(|| ("greeting", sampling("Generate a greeting", 50))),
        client.roots.is_some().then(|| ("roots", roots())),
    ];
    let questions: Vec<_> = questions.into_iter().flatten().collect();
    if questions.is_empty() {
        return Ok(said("the client answers nothing".to_owned()));
    }
    Ok(ask(&questions, None)?.into())
}
