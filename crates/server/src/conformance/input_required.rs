//! Tools that return a question, as the newer revision does: the client repeats the call with its answers.

use std::collections::BTreeMap;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, InputRequests,
    InputRequiredResult, InputResponses, RequestStateCodec,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::from_json;

/// A form with one field.
pub(super) fn form_request(message: &str, field: &str, kind: &str) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": { "type": "object", "properties": { field: { "type": kind } }, "required": [field] },
        },
    })
}

fn sampling_request(prompt: &str, most: u32) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": most } })
}

fn roots_request() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// A result that asks these questions.
pub(super) fn require_input(
    questions: &[(&str, Value)],
    state: Option<String>,
) -> Result<InputRequiredResult, ErrorData> {
    let questions: BTreeMap<&str, &Value> = questions.iter().map(|(key, value)| (*key, value)).collect();
    let questions: InputRequests = from_json(json!(questions))?;
    Ok(InputRequiredResult::new(Some(questions), state))
}

/// The value of a field in the answer to a form; `None` without an answer.
pub(super) fn form_field<'a>(answers: Option<&'a InputResponses>, key: &str, field: &str) -> Option<&'a Value> {
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
            match form_field(answers, "user_name", "name").and_then(Value::as_str) {
                Some(name) => text_response(format!("Hello, {name}!")),
                None => require_input(
                    &[("user_name", form_request("What is your name?", "name", "string"))],
                    None,
                )?
                .into(),
            }
        }
        "test_input_required_result_sampling" => match answers.and_then(|given| given.get("capital_question")) {
            Some(answer) => text_response(format!("the model says: {}", answer["content"])),
            None => require_input(
                &[(
                    "capital_question",
                    sampling_request("What is the capital of France?", 100),
                )],
                None,
            )?
            .into(),
        },
        "test_input_required_result_list_roots" => match answers.and_then(|given| given.get("client_roots")) {
            Some(answer) => text_response(format!("the roots are: {}", answer["roots"])),
            None => require_input(&[("client_roots", roots_request())], None)?.into(),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            call_confirmed(states, request)?
        }
        "test_input_required_result_multiple_inputs" => call_several_inputs(states, request)?,
        "test_input_required_result_multi_round" => call_rounds(states, request)?,
        "test_input_required_result_capabilities" => call_within_capabilities(context)?,
        _ => return Ok(None),
    };
    Ok(Some(response))
}

fn text_response(text: String) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// The state that the client carries, if this server issued it for this tool.
fn verified_state(states: &RequestStateCodec, request: &CallToolRequestParams) -> Result<Option<String>, ErrorData> {
    let Some(kept) = &request.request_state else {
        return Ok(None);
    };
    let refused = |_| ErrorData::invalid_params("`requestState` is not what was given", None);
    let opened = states.open_with(kept, request.name.as_bytes()).map_err(refused)?;
    Ok(String::from_utf8(opened).ok())
}

fn seal_state(states: &RequestStateCodec, request: &CallToolRequestParams, state: &str) -> String {
    let options = rmcp::model::SealOptions::new().associated_data(request.name.as_bytes());
    states.seal_with(state.as_bytes(), &options)
}

fn call_confirmed(states: &RequestStateCodec, request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let is_kept = verified_state(states, request)?.as_deref() == Some("asked");
    if is_kept && form_field(request.input_responses.as_ref(), "confirm", "ok").is_some() {
        return Ok(text_response("state-ok".to_owned()));
    }
    let question = ("confirm", form_request("Please confirm", "ok", "boolean"));
    Ok(require_input(&[question], Some(seal_state(states, request, "asked")))?.into())
}

fn call_several_inputs(
    states: &RequestStateCodec,
    request: &CallToolRequestParams,
) -> Result<CallToolResponse, ErrorData> {
    let questions = [
        ("user_name", form_request("What is your name?", "name", "string")),
        ("greeting", sampling_request("Generate a greeting", 50)),
        ("client_roots", roots_request()),
    ];
    let is_kept = verified_state(states, request)?.is_some();
    let answers = request.input_responses.as_ref();
    if is_kept && answers.is_some_and(|given| questions.iter().all(|(key, _)| given.contains_key(*key))) {
        return Ok(text_response("all three are answered".to_owned()));
    }
    Ok(require_input(&questions, Some(seal_state(states, request, "asked")))?.into())
}

fn call_rounds(states: &RequestStateCodec, request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let kept = verified_state(states, request)?.unwrap_or_default();
    let answers = request.input_responses.as_ref();
    let text = |key: &str, name: &str| form_field(answers, key, name).and_then(Value::as_str);
    if let (Some(name), Some(color)) = (kept.strip_prefix("second:"), text("step2", "color")) {
        return Ok(text_response(format!("{name} likes {color}")));
    }
    if let ("first", Some(name)) = (kept.as_str(), text("step1", "name")) {
        let question = (
            "step2",
            form_request("Step 2: What is your favorite color?", "color", "string"),
        );
        return Ok(require_input(
            &[question],
            Some(seal_state(states, request, &format!("second:{name}"))),
        )?
        .into());
    }
    let question = ("step1", form_request("Step 1: What is your name?", "name", "string"));
    Ok(require_input(&[question], Some(seal_state(states, request, "first")))?.into())
}

/// Asks only questions that the client's capabilities cover.
fn call_within_capabilities(context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let client = context.client_capabilities().unwrap_or_default();
    let questions = [
        client
            .elicitation
            .is_some()
            .then(|| ("name", form_request("What is your name?", "name", "string"))),
        client
            .sampling
            .is_some()
            .then(|| ("greeting", sampling_request("Generate a greeting", 50))),
        client.roots.is_some().then(|| ("roots", roots_request())),
    ];
    let questions: Vec<_> = questions.into_iter().flatten().collect();
    if questions.is_empty() {
        return Ok(text_response("the client answers nothing".to_owned()));
    }
    Ok(require_input(&questions, None)?.into())
}
