//! Examples in a policy file: questions with the decision that the file's own rules must give.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::decide::{Decision, RuleSet, Verdict, strictest};
use crate::draft::{Access, Draft, Example};
use crate::host::Host;
use crate::net::{HostRequest, Method, Scheme};
use crate::path::{GuestPath, RelPath};
use crate::pattern::ToolName;
use crate::tools::{Hints, History};
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
    pub expected: Verdict,
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
                got.verdict()
            ),
            None => write!(f, "`{key}` must name exactly one of `tool`, `host`, `path`"),
        }
    }
}

impl Draft {
    /// Checks the examples in this draft, laid over the built-in default.
    pub fn check_examples(&self) -> Result<(), Vec<FailedExample>> {
        let failed = check(&Self::builtin().layer(self));
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }
}

/// The examples of a complete draft that fail.
pub(crate) fn check(full: &Draft) -> Vec<FailedExample> {
    let rules = RuleSet {
        prefix: String::new(),
        draft: full.clone(),
    };
    let answered = full.examples.iter().enumerate().map(|(index, example)| {
        let (question, got) = answer(&rules, example);
        let key = format!("examples[{index}]");
        FailedExample {
            key,
            question,
            expected: example.expect,
            got,
        }
    });
    answered
        .filter(|e| e.got.as_ref().map(Decision::verdict) != Some(e.expected))
        .collect()
}

fn answer(rules: &RuleSet, example: &Example) -> (String, Option<Decision>) {
    match (&example.tool, &example.host, &example.path) {
        (Some(tool), None, None) => (format!("tool `{tool}`"), Some(tool_answer(rules, tool, example))),
        (None, Some(host), None) => (format!("host `{host}`"), Some(host_answer(rules, host, example))),
        (None, None, Some(path)) => (format!("path `{path}`"), Some(path_answer(rules, path, example))),
        _ => (String::new(), None),
    }
}

fn tool_answer(rules: &RuleSet, tool: &str, example: &Example) -> Decision {
    let Ok(name) = tool.parse::<ToolName>() else {
        return Decision::new(Verdict::Deny, "builtin.names");
    };
    let mut history = History::new();
    for before in example.after.iter().flatten() {
        match before.parse() {
            Ok(name) => history.record(name),
            Err(_) => return Decision::new(Verdict::Deny, "builtin.names"),
        }
    }
    let args = example.args.clone().unwrap_or_default();
    strictest(rules.tool(
        &name,
        Hints::none(),
        &Value::Object(args.into_iter().collect()),
        &history,
    ))
}

fn host_answer(rules: &RuleSet, host: &str, example: &Example) -> Decision {
    let port = example.port.unwrap_or(443);
    let path = example.url_path.as_deref().unwrap_or("/").parse::<UrlPath>();
    let (Ok(host), Ok(path)) = (host.parse::<Host>(), path) else {
        return Decision::new(Verdict::Deny, "builtin.hosts");
    };
    strictest(rules.host(&HostRequest {
        host,
        scheme: if port == 80 { Scheme::Http } else { Scheme::Https },
        port,
        method: Some(example.method.unwrap_or(Method::Get)),
        path: Some(path),
    }))
}

fn path_answer(rules: &RuleSet, path: &str, example: &Example) -> Decision {
    let decisions = if path.starts_with('/') {
        let access = example.access.unwrap_or(Access::Read);
        path.parse::<GuestPath>().map(|path| rules.guest(&path, access))
    } else {
        path.parse::<RelPath>().map(|path| rules.file(&path))
    };
    match decisions {
        Ok(decisions) => strictest(decisions),
        Err(_) => Decision::new(Verdict::Deny, "builtin.paths"),
    }
}

#[cfg(test)]
mod tests;
