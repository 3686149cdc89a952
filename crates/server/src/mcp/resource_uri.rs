//! Resource URIs of the results of an execution: `ringfence://executions/{id}/stdout`, `…/files/{path}`.

use std::fmt::Write as _;

use ringfence_journal::ExecutionId;
use rmcp::model::ResourceTemplate;

const URI_PREFIX: &str = "ringfence://executions/";

/// The URI of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResourceUri {
    /// The execution that the resource belongs to.
    pub(super) execution: ExecutionId,
    /// The part of the execution that the resource holds.
    pub(super) part: ResourcePart,
}

/// A part of an execution that can be read as a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResourcePart {
    /// The standard output of the program.
    Stdout,
    /// The standard error of the program.
    Stderr,
    /// The value that the program returned.
    Value,
    /// The mechanism that enforced each rule.
    Enforcement,
    /// A file, by its path below the workspace.
    File(String),
}

impl ResourceUri {
    /// Parses a URI; `None` if it has another form.
    pub(super) fn parse(uri: &str) -> Option<ResourceUri> {
        let (execution, part) = uri.strip_prefix(URI_PREFIX)?.split_once('/')?;
        let part = match part {
            "stdout" => ResourcePart::Stdout,
            "stderr" => ResourcePart::Stderr,
            "value" => ResourcePart::Value,
            "enforcement" => ResourcePart::Enforcement,
            file => ResourcePart::File(decode_path(file.strip_prefix("files/")?)?),
        };
        let execution = execution.parse().ok()?;
        Some(ResourceUri { execution, part })
    }

    /// The text form of the URI.
    pub(super) fn to_text(&self) -> String {
        let id = self.execution;
        match &self.part {
            ResourcePart::Stdout => format!("{URI_PREFIX}{id}/stdout"),
            ResourcePart::Stderr => format!("{URI_PREFIX}{id}/stderr"),
            ResourcePart::Value => format!("{URI_PREFIX}{id}/value"),
            ResourcePart::Enforcement => format!("{URI_PREFIX}{id}/enforcement"),
            ResourcePart::File(path) => format!("{URI_PREFIX}{id}/files/{}", encode_path(path)),
        }
    }
}

/// The templates of all resource URIs.
pub(super) fn resource_templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{URI_PREFIX}{{execution_id}}/{{part}}"), "output")
            .with_title("Output of a run")
            .with_description("All of what a run printed or returned, and what held each rule; part is stdout, stderr, value or enforcement"),
        ResourceTemplate::new(format!("{URI_PREFIX}{{execution_id}}/files/{{+path}}"), "file")
            .with_title("File of a run")
            .with_description("A file that a run made or changed, by its path below /workspace"),
    ]
}

fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _infallible = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn decode_path(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
