//! Resource URIs of the results of an execution: `ringfence://executions/{id}/stdout`, `…/files/{path}`.

use std::fmt::Write as _;

use ringfence_journal::ExecutionId;
use rmcp::model::ResourceTemplate;

const SCHEME: &str = "ringfence://executions/";

/// The URI of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// The execution that the resource belongs to.
    pub(super) execution: ExecutionId,
    /// The part of the execution that the resource holds.
    pub(super) part: Part,
}

/// A part of an execution that can be read as a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
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

impl Link {
    /// Parses a URI; `None` if it has another form.
    pub(super) fn parse(uri: &str) -> Option<Link> {
        let (execution, part) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let part = match part {
            "stdout" => Part::Stdout,
            "stderr" => Part::Stderr,
            "value" => Part::Value,
            "enforcement" => Part::Enforcement,
            file => Part::File(decode(file.strip_prefix("files/")?)?),
        };
        let execution = execution.parse().ok()?;
        Some(Link { execution, part })
    }

    /// The text form of the URI.
    pub(super) fn uri(&self) -> String {
        let id = self.execution;
        match &self.part {
            Part::Stdout => format!("{SCHEME}{id}/stdout"),
            Part::Stderr => format!("{SCHEME}{id}/stderr"),
            Part::Value => format!("{SCHEME}{id}/value"),
            Part::Enforcement => format!("{SCHEME}{id}/enforcement"),
            Part::File(path) => format!("{SCHEME}{id}/files/{}", encode(path)),
        }
    }
}

/// The templates of all resource URIs.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{SCHEME}{{execution_id}}/{{part}}"), "output")
            .with_title("Output of a run")
            .with_description("All of what a run printed or returned, and what held each rule; part is stdout, stderr, value or enforcement"),
        ResourceTemplate::new(format!("{SCHEME}{{execution_id}}/files/{{+path}}"), "file")
            .with_title("File of a run")
            .with_description("A file that a run made or changed, by its path below /workspace"),
    ]
}

fn encode(path: &str) -> String {
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

fn decode(text: &str) -> Option<String> {
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
