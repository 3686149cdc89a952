//! The schemas of a skill: accepted only where values can be checked against all of them, whichever way the skill comes.

use ringfence_catalog::SchemaChecker;
use serde_json::Value;

use crate::report::ErrorReport;

/// A schema that is not accepted.
#[derive(Debug, thiserror::Error)]
#[error("`{what}` is no usable JSON Schema: {why}")]
pub struct SchemaError {
    what: &'static str,
    why: String,
}

impl SchemaError {
    /// The stable code of this error.
    pub const CODE: &str = "skill.schema";
    /// What to do about such an error.
    pub const HINT: &str =
        "give an object such as {\"type\":\"object\",\"properties\":{\"since\":{\"type\":\"string\"}}}";
}

impl From<SchemaError> for ErrorReport {
    fn from(error: SchemaError) -> ErrorReport {
        ErrorReport {
            code: SchemaError::CODE.to_owned(),
            message: error.to_string(),
            hint: Some(SchemaError::HINT.to_owned()),
            rule: Some(format!("metadata.{}", error.what)),
        }
    }
}

/// Checks that the schemas of a skill can be used to check values.
pub fn check_schemas(inputs: Option<&Value>, outputs: Option<&Value>) -> Result<(), SchemaError> {
    check_schema("inputs", inputs)?;
    check_schema("outputs", outputs)
}

fn check_schema(what: &'static str, schema: Option<&Value>) -> Result<(), SchemaError> {
    let Some(schema) = schema else { return Ok(()) };
    let wrong = |why: String| SchemaError { what, why };
    if !schema.is_object() {
        return Err(wrong("it is no object".to_owned()));
    }
    let takes_objects = schema.get("type").is_none_or(|kind| kind == "object");
    if what == "inputs" && !takes_objects {
        return Err(wrong("a skill takes one object".to_owned()));
    }
    match SchemaChecker::new(schema) {
        Ok(checker) => checker.note().map_or(Ok(()), |note| Err(wrong(note.to_owned()))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
