//! Input files of a call: a map from names to texts, or a list, as text or base64.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use ringfence_policy::{RelPath, check_input_files};
use serde_json::Value;

use super::arguments::wrong_argument;
use super::fault::McpFault;

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Parses the files of `value`, each with its path below the workspace.
pub(super) fn parse_files(value: Value) -> Result<Vec<(RelPath, Vec<u8>)>, McpFault> {
    let files = parse_entries(value)?;
    let names = files.iter().map(|(name, _)| name.as_str());
    check_input_files(names).map_err(|error| McpFault::new("arguments.invalid", error.to_string(), &error.hint))?;
    Ok(files)
}

fn parse_entries(value: Value) -> Result<Vec<(RelPath, Vec<u8>)>, McpFault> {
    match value {
        Value::Object(map) => map
            .into_iter()
            .map(|(name, content)| parse_file(&name, content))
            .collect(),
        Value::Array(list) => list.into_iter().map(parse_listed_file).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(wrong_argument("files", "an object {name: text}", &value))
        }
    }
}

fn parse_listed_file(mut entry: Value) -> Result<(RelPath, Vec<u8>), McpFault> {
    let name = ["path", "name"].iter().find_map(|key| entry.get(key)?.as_str());
    let Some(name) = name.map(str::to_owned) else {
        return Err(wrong_argument(
            "files",
            "a list of {path, text} or {path, base64}",
            &entry,
        ));
    };
    if let Value::Object(fields) = &mut entry {
        fields.shift_remove("path");
        fields.shift_remove("name");
    }
    parse_file(&name, entry)
}

fn parse_file(name: &str, content: Value) -> Result<(RelPath, Vec<u8>), McpFault> {
    Ok((parse_path(name)?, decode_content(name, content)?))
}

fn parse_path(name: &str) -> Result<RelPath, McpFault> {
    let below = name
        .strip_prefix("/workspace/")
        .or_else(|| name.strip_prefix("./"))
        .unwrap_or(name);
    below.parse().map_err(|error| {
        McpFault::new(
            "arguments.invalid",
            format!(
                "a file cannot be called `{}`: {error}",
                name.escape_default().take(80).collect::<String>()
            ),
            "give a path below /workspace, such as `data/input.csv`",
        )
    })
}

fn decode_content(name: &str, content: Value) -> Result<Vec<u8>, McpFault> {
    let field = |key: &str| content.get(key).and_then(Value::as_str);
    if let Value::String(text) = content {
        return Ok(text.into_bytes());
    }
    if let Some(text) = field("text").or_else(|| field("content")) {
        return Ok(text.as_bytes().to_vec());
    }
    let Some(coded) = field("base64") else {
        return Err(wrong_argument(
            "files",
            "an object {name: text} or {name: {base64}}",
            &content,
        ));
    };
    let coded: Vec<u8> = coded.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(coded).map_err(|error| {
        McpFault::new(
            "arguments.invalid",
            format!("the base64 of `{name}` is none: {error}"),
            "use the standard alphabet, with or without padding",
        )
    })
}

#[cfg(test)]
mod tests;
