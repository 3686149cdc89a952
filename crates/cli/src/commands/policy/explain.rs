//! `policy explain`: the answer, the rule that gives it, and what to do about it.

use std::process::ExitCode;

use ringfence_policy::{Access, Method, Question, Scheme};
use serde_json::{Value, json};

use crate::args::Explain;
use crate::fault::{Fault, NOT_HELD};
use crate::print::Printer;
use crate::settings::Settings;
use crate::settings::config::Config;
use crate::settings::rules;

pub(crate) fn explain(explain: &Explain, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let question = question(explain)?;
    let config = Config::find(explain.rules.config.as_deref(), settings, printer)?;
    let policy = rules::in_force(&explain.rules, None, &config).map_err(|fault| fault.exit(NOT_HELD))?;
    let answer = policy.explain(&question);
    if explain.json {
        let matched: Vec<Value> = answer
            .matched
            .iter()
            .map(|(rule, verdict)| json!({ "rule": rule.to_string(), "verdict": verdict.to_string() }))
            .collect();
        let decision = answer.decision.as_ref();
        printer.json(&json!({
            "verdict": decision.map(|decision| decision.verdict().to_string()),
            "rule": decision.map(|decision| decision.rule().to_string()),
            "sentence": answer.sentence,
            "matched": matched,
            "hint": answer.next,
            "policy": { "name": policy.name(), "digest": policy.digest() },
        }))?;
    } else {
        printer.line(&answer.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn question(explain: &Explain) -> Result<Question, Fault> {
    let wrong = |message: String| Fault::ours("arguments", message).exit(2);
    if let Some(name) = &explain.tool {
        let args = match &explain.args {
            None => Value::Object(serde_json::Map::new()),
            Some(text) => serde_json::from_str(text).map_err(|error| {
                wrong(format!("--args: not JSON: {error}")).hint("write it like `--args '{\"path\": \"/data/a.csv\"}'`")
            })?,
        };
        return Ok(Question::Tool {
            name: name.clone(),
            args,
            after: explain.after.clone(),
        });
    }
    if let Some(host) = &explain.host {
        let method = explain.method.as_ref().map(|method| method_of(method)).transpose()?;
        let scheme = if explain.http { Scheme::Http } else { Scheme::Https };
        return Ok(Question::Host {
            host: host.clone(),
            port: explain.port,
            scheme,
            method,
            path: explain.url_path.clone(),
        });
    }
    if let Some(path) = &explain.path {
        let access = if explain.write { Access::Write } else { Access::Read };
        return Ok(Question::Path {
            path: path.clone(),
            access,
        });
    }
    Ok(Question::Limit {
        key: explain.limit.clone().unwrap_or_default(),
    })
}

fn method_of(word: &str) -> Result<Method, Fault> {
    let name = Value::String(word.to_ascii_uppercase());
    serde_json::from_value(name).map_err(|error| Fault::ours("arguments", format!("--method {word}: {error}")).exit(2))
}
