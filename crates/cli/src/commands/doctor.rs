//! `ringfence doctor`: reports what this machine can enforce, what is missing and how to get it, tested with a real
//! sandbox.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_gateway::Notice;
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_sandbox::is_hard_by_nature;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::inside::{self, Inside};
use crate::args::Machine;
use crate::fault::{Fault, NOT_HELD, chain};
use crate::print::{Printer, Style, count};
use crate::settings::Settings;
use crate::settings::config::Config;

mod machine;

/// The result of one check of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    what: &'static str,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// The rating of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// The item works as it should.
    Good,
    /// The item works, but in a weaker way, or its state is not visible from here.
    Limited,
    /// The item does not work on this machine.
    Missing,
}

impl Finding {
    fn good(what: &'static str, detail: impl Into<String>) -> Finding {
        Finding {
            what,
            state: State::Good,
            detail: detail.into(),
            hint: None,
        }
    }

    fn limited(what: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding {
            state: State::Limited,
            hint: Some(hint.into()),
            ..Finding::good(what, detail)
        }
    }

    fn missing(what: &'static str, detail: impl Into<String>, hint: Option<String>) -> Finding {
        Finding {
            state: State::Missing,
            hint,
            ..Finding::good(what, detail)
        }
    }
}

/// Examines the machine; exit code 1 means that no sandbox can be made.
pub(crate) async fn examine(args: &Machine, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let config = Config::find(args.config.as_deref(), settings, printer)?;
    let policy = Draft::builtin().under(&Ceiling::own_word());
    let policy = policy.map_err(|error| Fault::refused("policy.incomplete", chain(&error)))?;
    let mut findings = vec![machine::system(), machine::user()];
    let seen = inside::look(&policy, None).await;
    match &seen {
        Ok(seen) => findings.extend(sandbox(seen)),
        Err(fault) => findings.push(Finding::missing(
            "sandbox",
            fault.message.clone(),
            Some(machine::why_no_sandbox()),
        )),
    }
    findings.push(machine::landlock());
    findings.push(machine::notify());
    findings.push(python(&policy, config.python.as_deref(), seen.is_ok()).await);
    findings.push(limits());
    findings.push(machine::budget(config.doors.budget));
    findings.push(home(settings));
    findings.extend(checkers(&config, settings));
    for notice in config.servers.notices() {
        let hint = match notice {
            Notice::Host { .. } => "give its entry a `policy` to run it in a sandbox of its own",
            Notice::Ignored { .. } => "remove the key, which other clients know",
        };
        findings.push(Finding::limited("tool server", notice.to_string(), hint));
    }
    let soft = seen.as_ref().map(soft_rules).unwrap_or_default();
    let works = seen.is_ok();
    if args.json {
        let enforcement = seen.as_ref().map(|seen| seen.enforcement.clone()).unwrap_or_default();
        printer.json(
            &serde_json::json!({ "ok": works, "findings": findings, "enforcement": enforcement, "soft": soft }),
        )?;
    } else {
        printer.data(&words(&findings, &soft, works, printer))?;
    }
    Ok(if works {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_HELD)
    })
}

/// Reports the installed type checkers, and how to install the missing ones.
fn checkers(config: &Config, settings: &Settings) -> Vec<Finding> {
    let Ok(home) = settings.home() else { return Vec::new() };
    let tools = config.checkers.clone().or(ringfence_engine::Tools::find(&home));
    let found = [("tsc", &tools.tsc), ("ty", &tools.ty)];
    let mut findings: Vec<Finding> = found
        .into_iter()
        .filter_map(|(name, path)| {
            Some(Finding::good(
                "type checker",
                format!("{name}: {}", path.as_ref()?.display()),
            ))
        })
        .collect();
    let advice = tools.advice(&home);
    findings.extend(advice.into_iter().map(|advice| {
        let hint = format!("{}; or name it as `{}` in `ringfence.yaml`", advice.command, advice.key);
        Finding::limited("type checker", advice.what, hint)
    }));
    findings
}

fn words(findings: &[Finding], soft: &[String], works: bool, printer: &Printer) -> String {
    let mut lines = Vec::new();
    for finding in findings {
        let mark = match finding.state {
            State::Good => printer.paint("good   ", Style::Good),
            State::Limited => printer.paint("limited", Style::Warn),
            State::Missing => printer.paint("missing", Style::Bad),
        };
        lines.push(format!("{mark}  {:<16} {}", finding.what, finding.detail));
        lines.extend(
            finding
                .hint
                .as_ref()
                .map(|hint| format!("         {:<16} hint: {hint}", "")),
        );
    }
    let verdict = match (works, soft) {
        (false, _) => "no sandbox can be made here".to_owned(),
        (true, []) => "every rule is held by the kernel here; `--require-hard` runs".to_owned(),
        (true, soft) => format!(
            "held in a weaker way here: {}; `--require-hard` refuses",
            soft.join(", ")
        ),
    };
    lines.extend([String::new(), verdict, String::new()]);
    lines.join(
        "
",
    )
}

/// The rules that another machine could enforce in a harder way.
fn soft_rules(seen: &Inside) -> Vec<String> {
    let soft = seen
        .enforcement
        .iter()
        .filter(|held| matches!(held.by, "watch" | "rlimit") && !is_hard_by_nature(&held.rule));
    soft.map(|held| format!("`{}` by {}", held.rule, held.by)).collect()
}

fn sandbox(seen: &Inside) -> Vec<Finding> {
    let mut findings = vec![Finding::good(
        "sandbox",
        format!("made one and ran a program in it: {} ms", seen.took.as_millis()),
    )];
    findings.extend(seen.always.iter().map(|fact| match fact.split_once(": ") {
        Some(("own namespaces", kinds)) => Finding::good("namespaces", kinds),
        Some(("system calls", how)) => Finding::good("system calls", how.split(';').next().unwrap_or(how)),
        Some(("capabilities", "none")) => Finding::good("capabilities", "none"),
        Some(("capabilities", kept)) => Finding::missing("capabilities", format!("some are left: {kept}"), None),
        Some(("no new privileges", "yes")) => Finding::good("privileges", "no program can gain new ones"),
        Some(("no new privileges", _)) => Finding::missing("privileges", "a program could gain new ones", None),
        _ => Finding::good("network", "none but an empty loopback"),
    }));
    if let Some(support) = &seen.support {
        findings.extend(machine::control_groups(support));
    }
    findings
}

async fn python(policy: &Policy, configured: Option<&Path>, works: bool) -> Finding {
    const WHAT: &str = "python";
    let known = configured
        .map(Path::to_owned)
        .into_iter()
        .chain(["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from));
    let Some(path) = known.into_iter().find(|path| configured.is_some() || path.exists()) else {
        let hint = "install `python3`, or name an interpreter as `runtimes.python` in `ringfence.yaml`";
        return Finding::limited(
            WHAT,
            "none; TypeScript, JavaScript, shell and programs work without",
            hint,
        );
    };
    let path = path.display();
    if !works {
        return Finding::good(WHAT, format!("{path} (not tried)"));
    }
    match inside::python(policy, configured).await {
        Ok(version) => Finding::good(WHAT, format!("{path}, {version}, runs in a sandbox")),
        Err(fault) => {
            let hint = "look at `runtimes.python` in `ringfence.yaml`";
            Finding::limited(
                WHAT,
                format!("{path} does not run in a sandbox: {fault}"),
                fault.hint.as_deref().unwrap_or(hint),
            )
        }
    }
}

fn limits() -> Finding {
    const ENOUGH: u64 = 1024;
    let files = getrlimit(Resource::Nofile).maximum;
    let processes = getrlimit(Resource::Nproc).maximum;
    let shown = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    let detail = format!("open files {}, processes {}", shown(files), shown(processes));
    if files.is_some_and(|files| files < ENOUGH) {
        return Finding::limited(
            "limits",
            detail,
            "raise the hard limit of open files to 1024 or more (`ulimit -Hn`)",
        );
    }
    Finding::good("limits", detail)
}

fn home(settings: &Settings) -> Finding {
    const WHAT: &str = "data folder";
    let home = match settings.home() {
        Ok(home) => home,
        Err(fault) => return Finding::missing(WHAT, fault.message, fault.hint),
    };
    let shown = home.display();
    let nearest = home.ancestors().find(|folder| folder.exists()).unwrap_or(&home);
    if rustix::fs::access(nearest, rustix::fs::Access::WRITE_OK).is_err() {
        let hint = Some("choose another with `RINGFENCE_HOME`".to_owned());
        return Finding::missing(WHAT, format!("`{shown}` cannot be written"), hint);
    }
    match ringfence_store::set_aside(&home) {
        Ok(aside) if aside.is_empty() => {}
        Ok(aside) => {
            let hint = "`ringfence audit verify` names them; keep them elsewhere once they were looked at";
            let detail = format!("`{shown}`: {} of records put aside", count(aside.len() as u64, "file"));
            return Finding::limited(WHAT, detail, hint);
        }
        Err(error) => return Finding::missing(WHAT, format!("`{shown}` cannot be looked at: {error}"), None),
    }
    let made = if home.exists() { "" } else { ", made at the first run" };
    Finding::good(WHAT, format!("`{shown}`{made}"))
}
