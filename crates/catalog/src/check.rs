//! Checks arguments against the input schema of a tool.
//!
//! A schema is compiled once. Nothing is fetched, patterns match in linear time, and a schema whose evaluation could grow without
//! bound is reduced before it is compiled. The checker reports what it does not check.

mod cost;
mod repair;

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::schema::SchemaTypes;
use crate::stubs;

/// The most mismatches that are reported for one set of arguments.
const MAX_PROBLEMS: usize = 5;
/// The most characters of one message.
const MAX_MESSAGE_CHARS: usize = 240;
/// The most parameters that an error lists.
const MAX_PARAMETERS: usize = 60;
/// The most bytes of a compiled pattern, and of its cache while matching.
const MAX_PATTERN_BYTES: usize = 256 * 1024;

/// A mismatch between a value and its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaMismatch {
    /// The position as a JSON pointer; empty for the arguments themselves.
    pub path: String,
    /// A description of the mismatch, which does not repeat the value.
    pub message: String,
}

impl fmt::Display for SchemaMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "arguments" } else { &self.path };
        write!(f, "`{place}`: {}", self.message)
    }
}

/// Arguments that do not match the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("the arguments do not fit: {}; parameters: {parameters}", list_problems(.problems, *.more))]
pub struct BadArguments {
    /// The first mismatches, at most five.
    pub problems: Vec<SchemaMismatch>,
    /// Whether there are more mismatches than listed.
    pub more: bool,
    /// Every parameter with its type, and whether it is required.
    pub parameters: String,
}

/// The reason why a schema cannot be used for checks at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckerError {
    /// Not even the list of required parameters compiles.
    #[error("the input schema cannot be compiled: {reason}")]
    Unusable {
        /// The error message of the compiler.
        reason: String,
    },
}

/// A compiled input schema of a tool.
#[derive(Debug)]
pub struct SchemaChecker {
    validator: Validator,
    parameters: String,
    note: Option<String>,
}

impl SchemaChecker {
    /// Compiles a schema: unchanged if possible, otherwise without its unusable parts, otherwise only its list of required
    /// parameters.
    pub fn new(schema: &Value) -> Result<SchemaChecker, CheckerError> {
        let parameters = describe_parameters(schema);
        if cost::is_affordable(schema)
            && schema.is_object()
            && let Ok(validator) = compile_validator(&repair::expand_nullable(schema))
        {
            return Ok(SchemaChecker {
                validator,
                parameters,
                note: None,
            });
        }
        let (repaired, dropped) = repair::repair_schema(schema);
        if cost::is_affordable(&repaired)
            && let Ok(validator) = compile_validator(&repaired)
        {
            let note = format!(
                "not checked, because the schema is not usable as it is: {}",
                dropped.join(", ")
            );
            return Ok(SchemaChecker {
                validator,
                parameters,
                note: (!dropped.is_empty()).then_some(note),
            });
        }
        let least = json!({ "type": "object", "required": repair::required_names(schema) });
        let validator = compile_validator(&least).map_err(|reason| CheckerError::Unusable { reason })?;
        let note =
            "only required parameters are checked, because the schema cannot be compiled within bounds".to_owned();
        Ok(SchemaChecker {
            validator,
            parameters,
            note: Some(note),
        })
    }

    /// The parts of the schema that are not checked; `None` if all are.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Checks any value, such as a result.
    pub fn check_value(&self, value: &Value) -> Result<(), SchemaMismatch> {
        match self.validator.iter_errors(value).next() {
            None => Ok(()),
            Some(error) => Err(SchemaMismatch {
                path: truncate(error.instance_path().as_str()),
                message: truncate(&error.masked_with("the value").to_string()),
            }),
        }
    }

    /// Checks the arguments of a call, which must be an object.
    pub fn check_arguments(&self, arguments: &Value) -> Result<(), BadArguments> {
        if arguments.is_object() && self.validator.is_valid(arguments) {
            return Ok(());
        }
        let mut problems: Vec<SchemaMismatch> = Vec::new();
        if !arguments.is_object() {
            problems.push(SchemaMismatch {
                path: String::new(),
                message: "arguments are an object with named fields".to_owned(),
            });
        }
        let errors = self.validator.iter_errors(arguments).map(|error| SchemaMismatch {
            path: truncate(error.instance_path().as_str()),
            message: truncate(&error.masked_with("the value").to_string()),
        });
        problems.extend(errors.take(MAX_PROBLEMS + 1));
        let more = problems.len() > MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        Err(BadArguments {
            problems,
            more,
            parameters: self.parameters.clone(),
        })
    }
}

/// Compiles a schema without fetching, without format validation, and with patterns that match in linear time.
fn compile_validator(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::regex()
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    jsonschema::options()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| truncate(&error.to_string()))
}

/// Describes each parameter on a line, required ones first.
fn describe_parameters(schema: &Value) -> String {
    let types = SchemaTypes::from_schema(schema);
    let objects = types.argument_objects();
    let mut lines = Vec::new();
    for object in &objects {
        for field in &object.fields {
            let required = if field.required { " (required)" } else { "" };
            let name = stubs::field_name_text(&field.name);
            let line = format!("{name}: {}{required}", stubs::brief_type(&types, &field.shape));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    if lines.is_empty() {
        return "none".to_owned();
    }
    let more = lines.len().saturating_sub(MAX_PARAMETERS);
    lines.truncate(MAX_PARAMETERS);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join(", ")
}

fn list_problems(problems: &[SchemaMismatch], more: bool) -> String {
    let mut texts: Vec<String> = problems.iter().map(SchemaMismatch::to_string).collect();
    if more {
        texts.push("and more".to_owned());
    }
    texts.join("; ")
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
