//! A person whom a server may ask for something while a call is under way: a form of plain values, never a secret by URL.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
    FormElicitationCapability,
};
use serde_json::{Map, Value};

/// What a server asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The server.
    pub server: String,
    /// Its words, which are untrusted.
    pub message: String,
    /// The form: a JSON Schema of plain values.
    pub form: Value,
}

/// What the person says to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The form, filled in; values left out take the form's defaults.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// Nobody answered.
    Cancel,
}

/// Who answers.
#[derive(Clone)]
pub struct Person(Arc<dyn Fn(Question) -> BoxFuture<'static, Answer> + Send + Sync>);

impl Person {
    /// Whoever answers by this.
    pub fn new(answer: impl Fn(Question) -> BoxFuture<'static, Answer> + Send + Sync + 'static) -> Person {
        Person(Arc::new(answer))
    }

    /// What a client with such a person offers.
    pub(crate) fn offers() -> ClientCapabilities {
        let mut offers = ClientCapabilities::default();
        offers.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        offers
    }

    /// Puts a server's question to the person.
    pub(crate) async fn ask(&self, server: &str, asked: ElicitRequestParams) -> Result<ElicitResult, ErrorData> {
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
        let question = Question {
            server: server.to_owned(),
            message,
            form: form.clone(),
        };
        Ok(match (self.0)(question).await {
            Answer::Accept(given) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(filled(given, &form)))
            }
            Answer::Decline => ElicitResult::new(ElicitationAction::Decline),
            Answer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Person")
    }
}

/// What was left out, as the form has it.
fn filled(mut given: Map<String, Value>, form: &Value) -> Map<String, Value> {
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
