//! Whether arguments are what a tool's schema asks for.
//!
//! A schema is compiled once. Nothing is fetched, patterns match in linear time, and a schema whose evaluation could grow without
//! bound is not compiled as it is. What is then not checked is said, never passed over.

mod repair;
mod weight;

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::schema::Types;
use crate::stubs;

/// Problems that are told of one set of arguments.
const PROBLEMS: usize = 5;
/// Characters of one problem.
const MESSAGE: usize = 240;
/// Parameters that are listed.
const PARAMETERS: usize = 60;
/// Bytes of a compiled pattern, and of what it keeps while matching.
const PATTERN: usize = 256 * 1024;

/// One thing that is wrong with arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where, as a JSON pointer; empty for the arguments themselves.
    pub path: String,
    /// What. It does not repeat the value.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "arguments" } else { &self.path };
        write!(f, "`{place}`: {}", self.message)
    }
}

/// Arguments that do not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("the arguments do not fit: {}; parameters: {parameters}", list(.problems, *.more))]
pub struct BadArguments {
    /// What is wrong: the first few.
    pub problems: Vec<Problem>,
    /// Whether there is more.
    pub more: bool,
    /// Every parameter with its type, and which of them are required.
    pub parameters: String,
}

/// Why a schema cannot be checked against at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckerError {
    /// Not even its required parameters can be told.
    #[error("the input schema cannot be compiled: {reason}")]
    Unusable {
        /// What the compiler says.
        reason: String,
    },
}

/// A tool's input schema, compiled.
#[derive(Debug)]
pub struct Checker {
    validator: Validator,
    parameters: String,
    note: Option<String>,
}

impl Checker {
    /// Compiles a schema: as it is, else without the parts that cannot be used, else only the names of what is required.
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

    /// What of the schema is not checked, if anything.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Checks any value, as a result may be.
    pub fn fits(&self, value: &Value) -> Result<(), Problem> {
        match self.validator.iter_errors(value).next() {
            None => Ok(()),
            Some(error) => Err(Problem {
                path: cut(error.instance_path().as_str()),
                message: cut(&error.masked_with("the value").to_string()),
            }),
        }
    }

    /// Checks arguments.
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

/// Compiles with no way out: no fetching, formats as words only, patterns that match in linear time.
fn compile(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(PATTERN).dfa_size_limit(PATTERN);
    jsonschema::options()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| cut(&error.to_string()))
}

/// The parameters in one line each, required ones first.
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
