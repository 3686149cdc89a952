//! The suite's prompts.

use rmcp::model::{ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt, PromptArgument};
use serde_json::{Value, json};

use super::fixed_tools::IMAGE;
use super::input_required::{form_field, form_request, require_input};
use super::{from_json, unknown_name};

/// All prompts that the suite expects.
pub(super) fn list_prompts() -> Vec<Prompt> {
    let argument = |name: &str, says: &str| PromptArgument::new(name).with_description(says).with_required(true);
    let two = vec![
        argument("arg1", "First test argument"),
        argument("arg2", "Second test argument"),
    ];
    let uri = vec![argument("resourceUri", "The resource to embed")];
    vec![
        Prompt::new("test_simple_prompt", Some("A text"), None),
        Prompt::new(
            "test_prompt_with_arguments",
            Some("A text with two arguments"),
            Some(two),
        ),
        Prompt::new("test_prompt_with_embedded_resource", Some("A resource"), Some(uri)),
        Prompt::new("test_prompt_with_image", Some("An image"), None),
        Prompt::new(
            "test_input_required_result_prompt",
            Some("A prompt that asks first"),
            None,
        ),
    ]
}

/// Renders the named prompt with its arguments.
pub(super) fn get_prompt(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let value = request.arguments.as_ref().and_then(|given| given.get(name));
        value
            .and_then(|value| json!(value).as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    let text = |text: &str| json!({ "type": "text", "text": text });
    let contents = match request.name.as_str() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let says = "Embedded resource content for testing.";
            let resource = json!({ "uri": argument("resourceUri"), "mimeType": "text/plain", "text": says });
            vec![
                json!({ "type": "resource", "resource": resource }),
                text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => vec![
            json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" }),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => {
            let context =
                form_field(request.input_responses.as_ref(), "user_context", "context").and_then(Value::as_str);
            let Some(context) = context else {
                let question = form_request("What context should the prompt use?", "context", "string");
                return Ok(require_input(&[("user_context", question)], None)?.into());
            };
            vec![text(&format!("The context is: {context}"))]
        }
        name => return Err(unknown_name("prompt", name)),
    };
    let messages = contents
        .into_iter()
        .map(|content| json!({ "role": "user", "content": content }));
    let result: GetPromptResult =
        from_json(json!({ "resultType": "complete", "messages": messages.collect::<Vec<_>>() }))?;
    Ok(result.into())
}
