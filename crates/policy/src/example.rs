//! Examples in a policy file: questions with the decision that the file's own rules must give.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::decide::{Decision, RuleEffect, RuleSet, strictest};
use crate::draft::{Draft, FileAccess, PolicyExample};
use crate::host::Host;
use crate::net::{HostRequest, HttpMethod, Scheme};
use crate::path::{GuestPath, RelPath};
use crate::pattern::ToolName;
use crate::tools::{CallHistory, ToolHints};
use crate::url::UrlPath;

/// An example whose decision differs from the expected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedExample {
    /// The key of the example, such as `examples[2]`.
    pub key: String,
    /// The question in words, such as ``tool `mail.send` ``.
    pub question: String,
    /// The effect that the example expects.
    pub expected: RuleEffect,
    /// The decision that the rules give; `None` if the example names no tool, host or path, or several of them.
    pub got: Option<Decision>,
}

impl fmt::Display for FailedExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            question,
            expected,
            got,
        } = self;
        match got {
            Some(got) => write!(
                f,
                "`{key}` expects {expected} for {question}, `{}` says {}",
                got.rule(),
                got.effect()
            ),
            None => write!(f, "`{key}` must name exactly one of `tool`, `host`, `path`"),
        }
    }
}

impl Draft {
    /// Checks the examples in this draft, laid over the built-in default.
    pub fn check_examples(&self) -> Result<(), Vec<FailedExample>> {
        let failed = failed_examples(&Self::builtin().layer(self));
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }
}

/// The examples of a complete draft that fail.
pub(crate) fn failed_examples(full: &Draft) -> Vec<FailedExample> {
    let rules = RuleSet {
        prefix: String::new(),
        draft: full.clone(),
    };
    let answered = full.examples.iter().enumerate().map(|(index, example)| {
        let (question, got) = evaluate_example(&rules, example);
        let key = format!("examples[{index}]");
        FailedExample {
            key,
            question,
            expected: example.expect,
            got,
        }
    });
    answered
        .filter(|e| e.got.as_ref().map(Decision::effect) != Some(e.expected))
        .collect()
}

fn evaluate_example(rules: &RuleSet, example: &PolicyExample) -> (String, Option<Decision>) {
    match (&example.tool, &example.host, &example.path) {
        (Some(tool), None, None) => (format!("tool `{tool}`"), Some(evaluate_tool(rules, tool, example))),
        (None, Some(host), None) => (format!("host `{host}`"), Some(evaluate_host(rules, host, example))),
        (None, None, Some(path)) => (format!("path `{path}`"), Some(evaluate_path(rules, path, example))),
        _ => (String::new(), None),
    }
}

fn evaluate_tool(rules: &RuleSet, tool: &str, example: &PolicyExample) -> Decision {
    let Ok(name) = tool.parse::<ToolName>() else {
        return Decision::new(RuleEffect::Deny, "builtin.names");
    };
    let mut history = CallHistory::new();
    for before in example.after.iter().flatten() {
        match before.parse() {
            Ok(name) => history.record(name),
            Err(_) => return Decision::new(RuleEffect::Deny, "builtin.names"),
        }
    }
    let args = example.args.clone().unwrap_or_default();
    strictest(rules.decide_tool(
        &name,
        ToolHints::none(),
        &Value::Object(args.into_iter().collect()),
        &history,
    ))
}

fn evaluate_host(rules: &RuleSet, host: &str, example: &PolicyExample) -> Decision {
    let port = example.port.unwrap_or(443);
    let path = example.url_path.as_deref().unwrap_or("/").parse::<UrlPath>();
    let (Ok(host), Ok(path)) = (host.parse::<Host>(), path) else {
        return Decision::new(RuleEffect::Deny, "builtin.hosts");
    };
    strictest(rules.decide_host(&HostRequest {
        host,
        scheme: if port == 80 { Scheme::Http } else { Scheme::Https },
        port,
        method: Some(example.method.unwrap_or(HttpMethod::Get)),
        path: Some(path),
    }))
}

fn evaluate_path(rules: &RuleSet, path: &str, example: &PolicyExample) -> Decision {
    let decisions = if path.starts_with('/') {
        let access = example.access.unwrap_or(FileAccess::Read);
        path.parse::<GuestPath>()
            .map(|path| rules.decide_guest_path(&path, access))
    } else {
        path.parse::<RelPath>().map(|path| rules.decide_host_file(&path))
    };
    match decisions {
        Ok(decisions) => strictest(decisions),
        Err(_) => Decision::new(RuleEffect::Deny, "builtin.paths"),
    }
}

#[cfg(test)]
mod tests;
