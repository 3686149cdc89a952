//! The JSON Schema of a policy file, for editors and for other programs.

use serde_json::Value;

use crate::draft::Draft;

/// The JSON Schema (2020-12) of the policy file, with a description of every key.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Draft);
    schema.insert("$id".to_owned(), "urn:ringfence:policy:1".into());
    schema.to_value()
}

#[cfg(test)]
mod tests;
