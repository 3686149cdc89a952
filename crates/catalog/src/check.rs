//! Checks arguments against the input schema of a tool.
//!
//! A schema is compiled once. Nothing is fetched, patterns match in linear time, and a schema whose evaluation could grow without
//! bound is reduced before it is compiled. The checker reports what it does not check.

mod repair;
mod weight;

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::schema::Types;
use crate::stubs;

/// The most mismatches that are reported for one set of arguments.
const PROBLEMS: usize = 5;
/// The most characters of one message.
const MESSAGE: usize = 240;
/// The most parameters that an error lists.
const PARAMETERS: usize = 60;
/// The most bytes of a compiled pattern, and of its cache while matching.
const PATTERN: usize = 256 * 1024;

/// A mismatch between a value and its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The position as a JSON pointer; empty for the arguments themselves.
    pub path: String,
    /// A description of the mismatch, which does not repeat the value.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "arguments" } else { &self.path };
        write!(f, "`{place}`: {}", self.message)
    }
}

/// Arguments that do not match the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("the arguments do not fit: {}; parameters: {parameters}", list(.problems, *.more))]
pub struct BadArguments {
    /// The first mismatches, at most five.
    pub problems: Vec<Problem>,
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
pub struct Checker {
    validator: Validator,
    parameters: String,
    note: Option<String>,
}

impl Checker {
    /// Compiles a schema: unchanged if possible, otherwise without its unusable parts, otherwise only its list of required
    /// parameters.
    pub fn new(schema: &Value) -> Result<Checker, CheckerError> {
        let parameters = parameters(schema);
        if weight::bearable(schema)
            && schema.is_object()
            && let Ok(validator) = compile(&repair::nullable(schema))
        {
            return Ok(Checker {
                validator,
                parameters,
                note: None,
            });
        }
        let (repaired, dropped) = repair::repaired(schema);
        if weight::bearable(&repaired)
            && let Ok(validator) = compile(&repaired)
        {
            let note = format!(
                "not checked, because the schema is not usable as it is: {}",
                dropped.join(", ")
            );
            return Ok(Checker {
                validator,
                parameters,
                note: (!dropped.is_empty()).then_some(note),
            });
        }
        let least = json!({ "type": "object", "required": repair::required(schema) });
        let validator = compile(&least).map_err(|reason| CheckerError::Unusable { reason })?;
        let note =
            "only required parameters are checked, because the schema cannot be compiled within bounds".to_owned();
        Ok(Checker {
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
    pub fn fits(&self, value: &Value) -> Result<(), Problem> {
        match self.validator.iter_errors(value).next() {
            None => Ok(()),
            Some(error) => Err(Problem {
                path: cut(error.instance_path().as_str()),
                message: cut(&error.masked_with("the value").to_string()),
            }),
        }
    }

    /// Checks the arguments of a call, which must be an object.
    pub fn check(&self, arguments: &Value) -> Result<(), BadArguments> {
        if arguments.is_object() && self.validator.is_valid(arguments) {
            return Ok(());
        }
        let mut problems: Vec<Problem> = Vec::new();
        if !arguments.is_object() {
            problems.push(Problem {
                path: String::new(),
                message: "arguments are an object with named fields".to_owned(),
            });
        }
        let errors = self.validator.iter_errors(arguments).map(|error| Problem {
            path: cut(error.instance_path().as_str()),
            message: cut(&error.masked_with("the value").to_string()),
        });
        problems.extend(errors.take(PROBLEMS + 1));
        let more = problems.len() > PROBLEMS;
        problems.truncate(PROBLEMS);
        Err(BadArguments {
            problems,
            more,
            parameters: self.parameters.clone(),
        })
    }
}

/// Compiles a schema without fetching, without format validation, and with patterns that match in linear time.
fn compile(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(PATTERN).dfa_size_limit(PATTERN);
    jsonschema::options()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| cut(&error.to_string()))
}

/// Describes each parameter on a line, required ones first.
fn parameters(schema: &Value) -> String {
    let types = Types::of(schema);
    let objects = types.arguments();
    let mut lines = Vec::new();
    for object in &objects {
        for field in &object.fields {
            let required = if field.required { " (required)" } else { "" };
            let name = stubs::shown(&field.name);
            let line = format!("{name}: {}{required}", stubs::brief(&types, &field.shape));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    if lines.is_empty() {
        return "none".to_owned();
    }
    let more = lines.len().saturating_sub(PARAMETERS);
    lines.truncate(PARAMETERS);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join(", ")
}

fn list(problems: &[Problem], more: bool) -> String {
    let mut texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    if more {
        texts.push("and more".to_owned());
    }
    texts.join("; ")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
