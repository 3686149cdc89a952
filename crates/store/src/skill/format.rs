//! `SKILL.md`: the front matter of the public Agent Skills format, and this program's keys below `metadata`.
//!
//! This program's keys hold text only, as the public format requires of `metadata`; structured values are JSON in that text. Other keys are
//! preserved.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, MessageFormatter as _, Options, UserMessageFormatter};

use super::{MAX_DESCRIPTION, RequiredTool, SkillError, SkillExtra, SkillLanguage, SkillMeta, SkillName};

pub(super) const SKILL_FILE: &str = "SKILL.md";

const FENCE: &str = "---";
/// The most bytes of the front matter.
const MAX_FRONT_MATTER_BYTES: usize = 256 * 1024;
const MAX_TOOLS: usize = 256;
const LANGUAGE_KEY: &str = "ringfence-language";
const TOOLS_KEY: &str = "ringfence-tools";
const POLICY_KEY: &str = "ringfence-policy";
const INPUTS_KEY: &str = "ringfence-inputs";
const OUTPUTS_KEY: &str = "ringfence-outputs";
const NEEDS_KEY: &str = "ringfence-needs";

/// Formats a `SKILL.md` that reads back equal, or returns why that is impossible.
pub(super) fn write_skill_md(meta: &SkillMeta) -> Result<String, SkillError> {
    validate(meta)?;
    let mut text = format!("{FENCE}\nname: {}\n", meta.name);
    let mut line = |indent: &str, key: &str, value: &Value| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{indent}{}: {}", plain_or_quoted(key), to_flow_yaml(value));
    };
    line("", "description", &meta.description.as_str().into());
    for (key, value) in &meta.extra.keys {
        line("", key, value);
    }
    text.push_str("metadata:\n");
    let mut line = |key: &str, value: &Value| {
        let _ = writeln!(text, "  {}: {}", plain_or_quoted(key), to_flow_yaml(value));
    };
    for (key, value) in &meta.extra.metadata {
        line(key, value);
    }
    line(LANGUAGE_KEY, &meta.language.name().into());
    if !meta.tools.is_empty() {
        line(TOOLS_KEY, &to_json(&meta.tools)?);
    }
    if let Some(policy) = &meta.policy {
        line(POLICY_KEY, &policy.as_str().into());
    }
    for (key, value) in [
        (INPUTS_KEY, &meta.inputs),
        (OUTPUTS_KEY, &meta.outputs),
        (NEEDS_KEY, &meta.needs),
    ] {
        if let Some(value) = value {
            line(key, &to_json(value)?);
        }
    }
    text.push_str(FENCE);
    text.push('\n');
    text.push_str(&meta.extra.text);
    match read_skill_md(&text, meta.language) {
        Ok(again) if again == *meta => Ok(text),
        Ok(_) => Err(SkillError::format(
            SKILL_FILE,
            "what it says cannot be written so that it reads back as the same",
        )),
        Err(error) => Err(error),
    }
}

/// Parses a `SKILL.md` beside a program of this language.
pub(super) fn read_skill_md(text: &str, language: SkillLanguage) -> Result<SkillMeta, SkillError> {
    let (front, after) = split_front_matter(text)?;
    let mut keys: BTreeMap<String, Value> = serde_saphyr::from_str_with_options(front, yaml_options())
        .map_err(|error| SkillError::format(SKILL_FILE, UserMessageFormatter.format_message(&error)))?;
    let name = SkillName::parse(&take_string(&mut keys, "name")?)?;
    let description = take_string(&mut keys, "description")?;
    let mut metadata: BTreeMap<String, Value> = match keys.remove("metadata") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(map)) => map.into_iter().collect(),
        Some(_) => return Err(SkillError::format("`metadata` in SKILL.md", "expected a map")),
    };
    if let Some(said) = metadata.remove(LANGUAGE_KEY)
        && said.as_str().and_then(SkillLanguage::from_name) != Some(language)
    {
        let why = format!("it says {said}, but the program is {}", language.program_file());
        return Err(SkillError::format(metadata_path(LANGUAGE_KEY), why));
    }
    let meta = SkillMeta {
        name,
        description,
        language,
        tools: take_structured::<Vec<RequiredTool>>(&mut metadata, TOOLS_KEY)?.unwrap_or_default(),
        policy: match metadata.remove(POLICY_KEY) {
            None => None,
            Some(Value::String(policy)) => Some(policy),
            Some(_) => return Err(SkillError::format(metadata_path(POLICY_KEY), "expected text")),
        },
        inputs: take_structured(&mut metadata, INPUTS_KEY)?,
        outputs: take_structured(&mut metadata, OUTPUTS_KEY)?,
        needs: take_structured(&mut metadata, NEEDS_KEY)?,
        extra: SkillExtra {
            keys,
            metadata,
            text: after.to_owned(),
        },
    };
    validate(&meta)?;
    Ok(meta)
}

/// Splits the text into front matter and body.
fn split_front_matter(text: &str) -> Result<(&str, &str), SkillError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_fence = |line: &str| line.trim_end() == FENCE;
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if !is_fence(first) {
        let why = "it begins with a line `---`, then `name` and `description`, then `---`";
        return Err(SkillError::format(SKILL_FILE, why));
    }
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            return Ok((&text[first.len()..end], &text[end + line.len()..]));
        }
        end += line.len();
        if end > MAX_FRONT_MATTER_BYTES {
            let why = format!("the front matter has no end within {MAX_FRONT_MATTER_BYTES} bytes");
            return Err(SkillError::format(SKILL_FILE, why));
        }
    }
    Err(SkillError::format(
        SKILL_FILE,
        "the front matter has no closing line `---`",
    ))
}

fn take_string(keys: &mut BTreeMap<String, Value>, key: &str) -> Result<String, SkillError> {
    let what = || format!("`{key}` in SKILL.md");
    match keys.remove(key) {
        Some(Value::String(text)) => Ok(text.trim().to_owned()),
        Some(_) => Err(SkillError::format(what(), "expected text; put it in quotes")),
        None => Err(SkillError::format(what(), "it is missing")),
    }
}

/// Takes a structured value: JSON in a text, or YAML.
fn take_structured<T: DeserializeOwned>(
    metadata: &mut BTreeMap<String, Value>,
    key: &str,
) -> Result<Option<T>, SkillError> {
    let refuse = |error: serde_json::Error| SkillError::format(metadata_path(key), error.to_string());
    match metadata.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => serde_json::from_str(&text).map(Some).map_err(refuse),
        Some(value) => serde_json::from_value(value).map(Some).map_err(refuse),
    }
}

fn metadata_path(key: &str) -> String {
    format!("`metadata.{key}` in SKILL.md")
}

/// Refuses metadata that no skill may have.
fn validate(meta: &SkillMeta) -> Result<(), SkillError> {
    let characters = meta.description.chars().count();
    if characters == 0 || characters > MAX_DESCRIPTION || meta.description.trim() != meta.description {
        let why = format!("expected 1 to {MAX_DESCRIPTION} characters that say what it does and when to use it");
        return Err(SkillError::format("`description`", why));
    }
    let odd = |c: char| c.is_control() && c != '\n' && c != '\t';
    if meta.description.contains(odd) {
        return Err(SkillError::format("`description`", "it has a control character"));
    }
    if meta.tools.len() > MAX_TOOLS {
        let why = format!("{} tools; the most is {MAX_TOOLS}", meta.tools.len());
        return Err(SkillError::format("`tools`", why));
    }
    let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    for tool in &meta.tools {
        let named = tool
            .name
            .split_once('.')
            .is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty());
        if !named || tool.name.len() > 512 || tool.name.contains(char::is_control) || !is_digest(&tool.digest) {
            let why = "expected `server.tool` and the 64 digits of its definition's digest";
            return Err(SkillError::format("`tools`", why));
        }
    }
    if let Some(policy) = &meta.policy
        && (policy.is_empty() || policy.len() > 128 || policy.contains(char::is_control))
    {
        return Err(SkillError::format("`policy`", "expected the digest of a policy"));
    }
    for (key, value) in [
        ("inputs", &meta.inputs),
        ("outputs", &meta.outputs),
        ("needs", &meta.needs),
    ] {
        if value.as_ref().is_some_and(|value| !value.is_object()) {
            return Err(SkillError::format(format!("`{key}`"), "expected an object"));
        }
    }
    Ok(())
}

fn to_json(value: &impl serde::Serialize) -> Result<Value, SkillError> {
    serde_json::to_string(value)
        .map(Value::String)
        .map_err(|error| SkillError::format(SKILL_FILE, error.to_string()))
}

/// A key in YAML, quoted if necessary.
fn plain_or_quoted(key: &str) -> String {
    let mut bytes = key.bytes();
    let plain = bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&key.to_ascii_lowercase().as_str());
    if plain {
        key.to_owned()
    } else {
        to_flow_yaml(&key.into())
    }
}

/// A value on one line that YAML and JSON read the same way.
fn to_flow_yaml(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        // JSON allows these characters, YAML does not; in JSON they occur in strings only.
        if matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        ) {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

fn yaml_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_nodes: 10_000,
            max_depth: 64,
            flow_nesting_limit: 64,
            max_aliases: 100,
            max_anchors: 100,
            max_documents: 1,
            max_total_scalar_bytes: 2 * MAX_FRONT_MATTER_BYTES,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        legacy_octal_numbers: false,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests;
