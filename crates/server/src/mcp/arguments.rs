//! Parses arguments as models write them: one string in place of a list, seconds in place of a duration, short names of
//! languages.
//!
//! A form with only one possible meaning is accepted. An unknown or missing argument is refused with the nearest known name.

use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::Value;

use super::fault::McpFault;

/// The arguments of one call, which are taken one by one.
#[derive(Debug)]
pub(super) struct CallArguments {
    given: JsonObject,
    known: Vec<String>,
}

impl CallArguments {
    /// The arguments of a call; an unknown name is refused.
    pub(super) fn new(given: Option<JsonObject>, known: Vec<String>) -> Result<CallArguments, McpFault> {
        let mut given = given.unwrap_or_default();
        given.retain(|_, value| !value.is_null());
        if let Some(unknown) = given.keys().find(|name| !known.contains(name)) {
            return Err(unknown_argument(unknown, &known));
        }
        Ok(CallArguments { given, known })
    }

    /// The remaining arguments, unchanged.
    pub(super) fn into_rest(self) -> JsonObject {
        self.given
    }

    /// Takes an argument of any type.
    pub(super) fn take_any(&mut self, name: &str) -> Option<Value> {
        debug_assert!(self.known.iter().any(|known| known == name), "{name}");
        self.given.remove(name)
    }

    /// Takes an optional text argument.
    pub(super) fn take_text(&mut self, name: &str) -> Result<Option<String>, McpFault> {
        match self.take_any(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_argument(name, "a string", &other)),
        }
    }

    /// Takes the id or name of a session.
    pub(super) fn take_session(&mut self) -> Result<Option<String>, McpFault> {
        Ok(self.take_text("session_id")?.filter(|called| !called.is_empty()))
    }

    /// Takes a required text argument.
    pub(super) fn take_required(&mut self, name: &str, hint: &str) -> Result<String, McpFault> {
        self.take_text(name)?.ok_or_else(|| McpFault {
            code: "arguments.missing".to_owned(),
            message: format!("`{name}` is missing"),
            hint: Some(hint.to_owned()),
            rule: None,
        })
    }

    /// Takes a list of texts. A single text counts as a list, and a list may be given as its JSON text.
    pub(super) fn take_texts(&mut self, name: &str) -> Result<Option<Vec<String>>, McpFault> {
        let value = match self.take_any(name) {
            None => return Ok(None),
            Some(Value::String(text)) => match serde_json::from_str::<Vec<String>>(&text) {
                Ok(list) => return Ok(Some(list)),
                Err(_) => return Ok(Some(vec![text])),
            },
            Some(value) => value,
        };
        let Value::Array(items) = value else {
            return Err(wrong_argument(name, "a list of strings", &value));
        };
        let texts = items.into_iter().map(|item| match item {
            Value::String(text) => Ok(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(wrong_argument(name, "a list of strings", &item))
            }
        });
        texts.collect::<Result<_, _>>().map(Some)
    }

    /// Takes a Boolean argument, false by default.
    pub(super) fn take_flag(&mut self, name: &str) -> Result<bool, McpFault> {
        match self.take_any(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(wrong_argument(name, "true or false", &other)),
        }
    }

    /// Takes a duration: `"30s"`, or a number of seconds.
    pub(super) fn take_duration(&mut self, name: &str) -> Result<Option<Duration>, McpFault> {
        let Some(value) = self.take_any(name) else {
            return Ok(None);
        };
        let seconds = match &value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => match text.trim().parse::<f64>() {
                Ok(seconds) => Some(seconds),
                Err(_) => return parse_duration(name, text).map(Some),
            },
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let length = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        length
            .map(Some)
            .ok_or_else(|| wrong_argument(name, "a length of time such as \"30s\" or a number of seconds", &value))
    }

    /// Takes a number that is not negative.
    pub(super) fn take_count(&mut self, name: &str) -> Result<Option<u64>, McpFault> {
        let Some(value) = self.take_any(name) else {
            return Ok(None);
        };
        let count = match &value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        count
            .map(Some)
            .ok_or_else(|| wrong_argument(name, "a whole number", &value))
    }

    /// Takes one of a few names, by any of its spellings.
    pub(super) fn take_one_of(
        &mut self,
        name: &str,
        spellings: &[(&'static str, &[&str])],
    ) -> Result<Option<&'static str>, McpFault> {
        let Some(text) = self.take_text(name)? else {
            return Ok(None);
        };
        let said = text.trim().to_ascii_lowercase();
        let found = spellings
            .iter()
            .find(|(proper, others)| *proper == said || others.contains(&said.as_str()));
        if let Some((proper, _)) = found {
            return Ok(Some(proper));
        }
        let names: Vec<_> = spellings.iter().map(|(proper, _)| format!("`{proper}`")).collect();
        Err(McpFault {
            code: "arguments.invalid".to_owned(),
            message: format!("`{name}` cannot be `{}`", shorten(&text)),
            hint: Some(format!("say {}", names.join(", "))),
            rule: None,
        })
    }
}

/// Parses a duration with a unit.
fn parse_duration(name: &str, text: &str) -> Result<Duration, McpFault> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let seconds = match unit.trim() {
        "ms" => Some(0.001),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hour" | "hours" => Some(3600.0),
        _ => None,
    };
    let number = number.trim().parse::<f64>().ok();
    number
        .zip(seconds)
        .and_then(|(number, seconds)| Duration::try_from_secs_f64(number * seconds).ok())
        .ok_or_else(|| wrong_argument(name, "a length of time such as \"30s\" or \"2m\"", &text.into()))
}

fn unknown_argument(unknown: &str, known: &[String]) -> McpFault {
    let nearest = known
        .iter()
        .map(|name| (strsim::jaro_winkler(name, unknown), name))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let list: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    let hint = match nearest {
        Some((_, name)) => format!("did you mean `{name}`? known: {}", list.join(", ")),
        None => format!("known: {}", list.join(", ")),
    };
    McpFault {
        code: "arguments.unknown".to_owned(),
        message: format!("there is no argument `{}`", shorten(unknown)),
        hint: Some(hint),
        rule: None,
    }
}

/// The fault of an argument with an invalid value.
pub(super) fn wrong_argument(name: &str, expected: &str, given: &Value) -> McpFault {
    McpFault {
        code: "arguments.invalid".to_owned(),
        message: format!("`{name}` must be {expected}, not `{}`", shorten(&given.to_string())),
        hint: None,
        rule: None,
    }
}

/// The start of the caller's own text, for a message.
fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let mut short: String = text.chars().take(MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
