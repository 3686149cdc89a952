//! Elicitation: a server asks the user for input during a call, by a form of plain values; never for a secret by URL.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
    FormElicitationCapability,
};
use serde_json::{Map, Value};

/// The elicitation request of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitationRequest {
    /// Configured name of the server.
    pub server: String,
    /// The server's message, which is untrusted.
    pub message: String,
    /// The form: a JSON Schema of plain values.
    pub form: Value,
}

/// The user's answer to an elicitation request.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// The form, filled in; missing values take the form's defaults.
    Accept(Map<String, Value>),
    /// The user declines to answer.
    Decline,
    /// The request ended without an answer.
    Cancel,
}

/// Answers the elicitation requests of servers.
#[derive(Clone)]
pub struct ElicitationHandler(Arc<dyn Fn(ElicitationRequest) -> BoxFuture<'static, ElicitationAnswer> + Send + Sync>);

impl ElicitationHandler {
    /// Creates a handler from a function that asks the user.
    pub fn new(
        answer: impl Fn(ElicitationRequest) -> BoxFuture<'static, ElicitationAnswer> + Send + Sync + 'static,
    ) -> ElicitationHandler {
        ElicitationHandler(Arc::new(answer))
    }

    /// Returns the capabilities of a client with such a handler.
    pub(crate) fn client_capabilities() -> ClientCapabilities {
        let mut offers = ClientCapabilities::default();
        offers.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        offers
    }

    /// Passes a server's request to the handler.
    pub(crate) async fn elicit(&self, server: &str, asked: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = asked
        else {
            let why = "only questions by form are offered";
            return Err(ErrorData::new(ErrorCode::INVALID_PARAMS, why, None));
        };
        let form = serde_json::to_value(requested_schema)
            .map_err(|error| ErrorData::new(ErrorCode::INVALID_PARAMS, error.to_string(), None))?;
        let question = ElicitationRequest {
            server: server.to_owned(),
            message,
            form: form.clone(),
        };
        Ok(match (self.0)(question).await {
            ElicitationAnswer::Accept(given) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(fill_defaults(given, &form)))
            }
            ElicitationAnswer::Decline => ElicitResult::new(ElicitationAction::Decline),
            ElicitationAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }
}

impl fmt::Debug for ElicitationHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Person")
    }
}

/// Fills missing values with the form's defaults.
fn fill_defaults(mut given: Map<String, Value>, form: &Value) -> Map<String, Value> {
    let properties = form.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !given.contains_key(name)) {
            given.insert(name.clone(), default.clone());
        }
    }
    given
}

#[cfg(test)]
mod tests;
