//! `policy explain`: prints the answer, the rule that gives it, and what to do about it.

use std::process::ExitCode;

use ringfence_engine::{PastCall, session_calls, standing_rules};
use ringfence_journal::{EgressSummary, ExecutionId};
use ringfence_policy::{
    ExplainQuery, FileAccess, Host, HttpMethod, PastCallDecision, Policy, RedactedCall, Scheme, StandingRules,
    ToolHints,
};
use serde_json::{Value, json};

use super::learn::session_summary;
use crate::args::{PolicyArgs, PolicyExplainArgs};
use crate::commands::tools::{OperatorCatalog, find_tool};
use crate::commands::{ids, open_store};
use crate::fault::{CliFault, EXIT_CHECK_FAILED, EXIT_USAGE};
use crate::print::event::rule_suffix;
use crate::print::{Printer, escape};
use crate::settings::CliSettings;
use crate::settings::config::Config;
use crate::settings::policy_layers;
use crate::settings::servers::ResolvedServers;

/// The past attempts and calls of a session, and the policy it ran under, if that is recorded.
struct SessionEvidence {
    attempts: Vec<EgressSummary>,
    calls: Vec<PastCall>,
    policy: Option<Policy>,
}

pub(crate) async fn explain_decision(
    explain: &PolicyExplainArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let mut question = explain_question(explain)?;
    let mut past = match (&explain.session, &question) {
        (Some(session), ExplainQuery::Host { host, .. }) => Some(session_evidence(session, host, settings).await?),
        (Some(session), ExplainQuery::Tool { .. }) => Some(session_evidence(session, "", settings).await?),
        _ => None,
    };
    let mut unheard = None;
    if let ExplainQuery::Tool { name, hints, .. } = &mut question {
        let calls = past.iter().flat_map(|past| past.calls.iter().rev());
        match calls.into_iter().find(|call| call.tool == *name) {
            Some(call) => *hints = call.hints,
            None => match hints_of(name, &explain.rules, settings, printer).await? {
                Ok(said) => *hints = said,
                Err(why) => unheard = Some(why),
            },
        }
    }
    // A policy or key on the command line takes precedence over the recorded policy.
    let named = explain.rules.policy.is_some() || !explain.rules.set.is_empty();
    let of_session = past.as_mut().and_then(|past| past.policy.take()).filter(|_| !named);
    if past.is_some() && of_session.is_none() && !named {
        printer.notice("the session's own policy is not kept; the answer is of the policy in force now");
    }
    let policy = match of_session {
        Some(policy) => policy,
        None => policy_in_force(&explain.rules, settings, printer)?,
    };
    let policy = with_standing_rules(&policy, settings, printer)?;
    let mut answer = policy.explain(&question);
    answer.notes.extend(unheard);
    let (attempts, calls) = match (past, &question) {
        (Some(past), ExplainQuery::Tool { name, .. }) => (None, Some(explain_calls(&policy, name, &past.calls))),
        (past, _) => (past.map(|past| past.attempts), None),
    };
    if explain.json {
        let matched: Vec<Value> = answer
            .matched
            .iter()
            .map(|(rule, verdict)| json!({ "rule": rule.to_string(), "verdict": verdict.to_string() }))
            .collect();
        let decision = answer.decision.as_ref();
        let mut object = json!({
            "verdict": decision.map(|decision| decision.effect().to_string()),
            "rule": decision.map(|decision| decision.rule().to_string()),
            "sentence": answer.sentence,
            "matched": matched,
            "notes": answer.notes,
            "hint": answer.next,
            "policy": { "name": policy.name(), "digest": policy.digest() },
        });
        if let Some(attempts) = attempts {
            object["attempts"] = json!(attempts);
        }
        if let Some(calls) = calls {
            object["calls"] = json!(calls);
        }
        printer.print_json(&object)?;
    } else {
        printer.print_line(&answer.to_string())?;
        for line in attempts.iter().flat_map(|attempts| attempt_lines(attempts)) {
            printer.print_line(&line)?;
        }
        for line in calls.iter().flat_map(|calls| call_lines(calls)) {
            printer.print_line(&line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn policy_in_force(rules: &PolicyArgs, settings: &CliSettings, printer: &Printer) -> Result<Policy, CliFault> {
    let config = Config::find(rules.config.as_deref(), settings, printer)?;
    policy_layers::policy_in_force(rules, None, &config).map_err(|fault| fault.with_exit(EXIT_CHECK_FAILED))
}

/// The policy with the standing rules of the data folder, which answer what it asks.
fn with_standing_rules(policy: &Policy, settings: &CliSettings, printer: &Printer) -> Result<Policy, CliFault> {
    let rules = standing_rules::read_rules(&settings.home()?).unwrap_or_else(|error| {
        printer.notice(&format!(
            "answers given for good cannot be read, so people are asked again: {error}"
        ));
        StandingRules::default()
    });
    Ok(policy.with_standing_rules(rules))
}

/// The hints that a tool's server gives, from the last listing or else from a new one; or the reason why they are
/// unknown.
async fn hints_of(
    tool: &str,
    rules: &PolicyArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<Result<ToolHints, String>, CliFault> {
    let unheard = |why: String| {
        Err(format!(
            "{why}: rules with a `hint` are answered as for a tool of which nothing is said"
        ))
    };
    let Some((server, _)) = tool.split_once('.') else {
        return Ok(Ok(ToolHints::none()));
    };
    let config = Config::find(rules.config.as_deref(), settings, printer)?;
    if ResolvedServers::resolve(rules, &config)?.servers.get(server).is_none() {
        return Ok(unheard(format!("no tool server `{server}` is configured here")));
    }
    let desk = OperatorCatalog::open_for(vec![server.to_owned()], rules, settings, printer).await?;
    let upstreams = desk.gateway().upstreams();
    let mut ready = Ok(());
    if upstreams.snapshot().catalog.server(server).is_none() {
        ready = upstreams.ensure_connected(server).await;
    }
    let hints = match (ready, find_tool(&upstreams.snapshot().catalog, tool)) {
        (Err(error), _) => unheard(error.to_string()),
        (Ok(()), Err(fault)) => unheard(fault.message),
        (Ok(()), Ok(tool)) => Ok(tool.hints()),
    };
    desk.shutdown().await;
    Ok(hints)
}

async fn session_evidence(session: &str, host: &str, settings: &CliSettings) -> Result<SessionEvidence, CliFault> {
    let store = open_store(settings).await?;
    let found = async {
        let id = ids::resolve_session_id(&store, session).await?;
        let summary = session_summary(&store, id).await?;
        let json = match &summary.policy {
            Some(policy) => store.policy(policy.digest.as_str()).await?,
            None => None,
        };
        Ok::<_, CliFault>((summary, json, session_calls(&store, id).await?))
    }
    .await;
    store.close_for_exit().await;
    let (summary, json, calls) = found?;
    let json: Option<Value> = json.and_then(|json| serde_json::from_str(&json).ok());
    let digest = summary.policy.map(|policy| policy.digest.to_string());
    let policy = json.as_ref().and_then(Policy::restore);
    let asked: Option<Host> = host.parse().ok();
    let about = |one: &EgressSummary| match &asked {
        Some(asked) => one.to.host.as_str().parse::<Host>().is_ok_and(|tried| tried == *asked),
        None => one.to.host.as_str() == host,
    };
    let egress = summary.executions.into_iter().flat_map(|execution| execution.egress);
    Ok(SessionEvidence {
        attempts: egress.filter(about).collect(),
        calls,
        policy: policy.filter(|policy| Some(policy.digest()) == digest.as_deref()),
    })
}

/// A call of the session and the policy's decision on it.
#[derive(serde::Serialize)]
struct CallExplained {
    execution_id: ExecutionId,
    number: u32,
    arguments: Value,
    verdict: Option<String>,
    rule: String,
    /// The argument with a hidden value that the verdict depends on.
    #[serde(skip_serializing_if = "Option::is_none")]
    depends_on: Option<String>,
}

/// Decides each call of a tool in the session, with the calls before it as history.
fn explain_calls(policy: &Policy, tool: &str, calls: &[PastCall]) -> Vec<CallExplained> {
    let all: Vec<RedactedCall> = calls.iter().map(PastCall::to_policy_call).collect();
    let explained = policy.explain_past_calls(tool, &all).into_iter();
    let explained = explained.filter_map(|(index, judged)| {
        let call = calls.get(index)?;
        let (verdict, rule, depends_on) = match judged {
            PastCallDecision::Decided(decision) => {
                (Some(decision.effect().to_string()), decision.rule().to_string(), None)
            }
            PastCallDecision::Depends { argument, rule } => (None, rule.to_string(), Some(argument)),
        };
        Some(CallExplained {
            execution_id: call.execution,
            number: call.number,
            arguments: call.arguments.clone(),
            verdict,
            rule,
            depends_on,
        })
    });
    explained.collect()
}

fn call_lines(calls: &[CallExplained]) -> Vec<String> {
    if calls.is_empty() {
        return vec!["the session did not call this tool, or its calls are no longer kept".to_owned()];
    }
    let mut lines = vec!["what the session called it with:".to_owned()];
    lines.extend(calls.iter().map(|call| {
        let said = call.verdict.as_deref().unwrap_or("?");
        let arguments = escape::escape_json(&call.arguments.to_string());
        let depends = call.depends_on.as_ref().map_or_else(String::new, |argument| {
            format!(
                ", depends on a value that is hidden (`{}`)",
                escape::escape_text(argument)
            )
        });
        format!(
            "  {:>4} {said:<5} by `{}`{depends}  {arguments}",
            call.number, call.rule
        )
    }));
    lines
}

fn attempt_lines(attempts: &[EgressSummary]) -> Vec<String> {
    if attempts.is_empty() {
        return vec!["the session did not try this host".to_owned()];
    }
    let mut lines = vec!["what the session tried there:".to_owned()];
    lines.extend(attempts.iter().map(|one| {
        let to = &one.to;
        let method = to
            .method
            .as_ref()
            .map_or_else(String::new, |method| format!("{method} "));
        let path = to.path.as_ref().map_or("", |path| path.as_str());
        let status = one.status.map_or_else(String::new, |status| format!(" {status}"));
        let error = one.error.as_ref().map_or_else(String::new, |error| format!(" {error}"));
        format!(
            "  {:<7} {method}{}://{}:{}{path}{status}{error}{}",
            one.outcome.name(),
            to.scheme,
            to.host,
            to.port,
            rule_suffix(one.rule.as_str())
        )
    }));
    lines
}

fn wrong_argument(message: String) -> CliFault {
    CliFault::internal("arguments", message).with_exit(EXIT_USAGE)
}

fn explain_question(explain: &PolicyExplainArgs) -> Result<ExplainQuery, CliFault> {
    if let Some(name) = &explain.tool {
        let args = match &explain.args {
            None => Value::Object(serde_json::Map::new()),
            Some(text) => serde_json::from_str(text).map_err(|error| {
                wrong_argument(format!("--args: not JSON: {error}"))
                    .with_hint("write it like `--args '{\"path\": \"/data/a.csv\"}'`")
            })?,
        };
        return Ok(ExplainQuery::Tool {
            name: name.clone(),
            hints: ToolHints::none(),
            args,
            after: explain.after.clone(),
        });
    }
    if let Some(host) = &explain.host {
        return egress_question(explain, host);
    }
    if let Some(path) = &explain.path {
        let access = if explain.write {
            FileAccess::Write
        } else {
            FileAccess::Read
        };
        return Ok(ExplainQuery::Path {
            path: path.clone(),
            access,
        });
    }
    Ok(ExplainQuery::Limit {
        key: explain.limit.clone().unwrap_or_default(),
    })
}

/// Parses a host or a URL into a question. A host that is not canonical stays so, and the policy decides about it.
fn egress_question(explain: &PolicyExplainArgs, given: &str) -> Result<ExplainQuery, CliFault> {
    let method = explain.method.as_ref().map(|method| parse_method(method)).transpose()?;
    let plain = if explain.http { Scheme::Http } else { Scheme::Https };
    let (scheme, rest) = match given.split_once("://") {
        None => {
            return Ok(ExplainQuery::Host {
                host: given.to_owned(),
                port: explain.port,
                scheme: plain,
                method,
                path: explain.url_path.clone(),
            });
        }
        Some(("https", _)) if explain.http => return Err(wrong_argument(format!("--http: `{given}` is https"))),
        Some(("https", rest)) => (Scheme::Https, rest),
        Some(("http", rest)) => (Scheme::Http, rest),
        Some((other, _)) => return Err(wrong_argument(format!("--host: `{other}` is neither https nor http"))),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split(['?', '#']).next().filter(|path| !path.is_empty());
    let port_at = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
    let (host, port) = match port_at {
        None => (authority, None),
        Some(at) => {
            let port = authority[at + 1..].parse();
            let port = port.map_err(|_| wrong_argument(format!("--host: `{}` is not a port", &authority[at + 1..])))?;
            (&authority[..at], Some(port))
        }
    };
    Ok(ExplainQuery::Host {
        host: host.to_owned(),
        port: explain.port.or(port),
        scheme,
        method,
        path: explain.url_path.clone().or_else(|| path.map(str::to_owned)),
    })
}

fn parse_method(word: &str) -> Result<HttpMethod, CliFault> {
    let name = Value::String(word.to_ascii_uppercase());
    serde_json::from_value(name).map_err(|error| wrong_argument(format!("--method {word}: {error}")))
}
