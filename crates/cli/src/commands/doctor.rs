//! `ringfence doctor`: reports what this machine can enforce, what is missing and how to get it, tested with a real
//! sandbox.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_gateway::ServerNotice;
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_sandbox::is_hard_by_nature;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::inspect::{self, SandboxInspection};
use crate::args::DoctorArgs;
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain};
use crate::print::{Printer, Style, counted};
use crate::settings::CliSettings;
use crate::settings::config::Config;

mod machine;

/// The result of one check of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DoctorFinding {
    what: &'static str,
    state: FindingState,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// The rating of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum FindingState {
    /// The item works as it should.
    Good,
    /// The item works, but in a weaker way, or its state is not visible from here.
    Limited,
    /// The item does not work on this machine.
    Missing,
}

impl DoctorFinding {
    fn good(what: &'static str, detail: impl Into<String>) -> DoctorFinding {
        DoctorFinding {
            what,
            state: FindingState::Good,
            detail: detail.into(),
            hint: None,
        }
    }

    fn limited(what: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> DoctorFinding {
        DoctorFinding {
            state: FindingState::Limited,
            hint: Some(hint.into()),
            ..DoctorFinding::good(what, detail)
        }
    }

    fn missing(what: &'static str, detail: impl Into<String>, hint: Option<String>) -> DoctorFinding {
        DoctorFinding {
            state: FindingState::Missing,
            hint,
            ..DoctorFinding::good(what, detail)
        }
    }
}

/// Examines the machine; exit code 1 means that no sandbox can be made.
pub(crate) async fn examine_machine(
    args: &DoctorArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let config = Config::find(args.config.as_deref(), settings, printer)?;
    let policy = Draft::builtin().under(&Ceiling::unlimited());
    let policy = policy.map_err(|error| CliFault::refused("policy.incomplete", error_chain(&error)))?;
    let mut findings = vec![machine::system_finding(), machine::user_finding()];
    let seen = inspect::inspect_sandbox(&policy, None).await;
    match &seen {
        Ok(seen) => findings.extend(sandbox_findings(seen)),
        Err(fault) => findings.push(DoctorFinding::missing(
            "sandbox",
            fault.message.clone(),
            Some(machine::no_sandbox_reasons()),
        )),
    }
    findings.push(machine::landlock_finding());
    findings.push(machine::notify_finding());
    findings.push(python_finding(&policy, config.python.as_deref(), seen.is_ok()).await);
    findings.push(open_files_finding());
    findings.push(machine::budget_finding(config.doors.budget));
    findings.push(home_finding(settings));
    findings.extend(checker_findings(&config, settings));
    for notice in config.servers.notices() {
        let hint = match notice {
            ServerNotice::Host { .. } => "give its entry a `policy` to run it in a sandbox of its own",
            ServerNotice::Ignored { .. } => "remove the key, which other clients know",
        };
        findings.push(DoctorFinding::limited("tool server", notice.to_string(), hint));
    }
    let soft = seen.as_ref().map(soft_rule_names).unwrap_or_default();
    let works = seen.is_ok();
    if args.json {
        let enforcement = seen.as_ref().map(|seen| seen.enforcement.clone()).unwrap_or_default();
        printer.print_json(
            &serde_json::json!({ "ok": works, "findings": findings, "enforcement": enforcement, "soft": soft }),
        )?;
    } else {
        printer.print_escaped(&findings_text(&findings, &soft, works, printer))?;
    }
    Ok(if works {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_CHECK_FAILED)
    })
}

/// Reports the installed type checkers, and how to install the missing ones.
fn checker_findings(config: &Config, settings: &CliSettings) -> Vec<DoctorFinding> {
    let Ok(home) = settings.home() else { return Vec::new() };
    let tools = config
        .checkers
        .clone()
        .with_fallback(ringfence_engine::CheckerTools::find(&home));
    let found = [("tsc", &tools.tsc), ("ty", &tools.ty)];
    let mut findings: Vec<DoctorFinding> = found
        .into_iter()
        .filter_map(|(name, path)| {
            Some(DoctorFinding::good(
                "type checker",
                format!("{name}: {}", path.as_ref()?.display()),
            ))
        })
        .collect();
    let advice = tools.advice(&home);
    findings.extend(advice.into_iter().map(|advice| {
        let hint = format!("{}; or name it as `{}` in `ringfence.yaml`", advice.command, advice.key);
        DoctorFinding::limited("type checker", advice.what, hint)
    }));
    findings
}

fn findings_text(findings: &[DoctorFinding], soft: &[String], works: bool, printer: &Printer) -> String {
    let mut lines = Vec::new();
    for finding in findings {
        let mark = match finding.state {
            FindingState::Good => printer.paint("good   ", Style::Good),
            FindingState::Limited => printer.paint("limited", Style::Warn),
            FindingState::Missing => printer.paint("missing", Style::Bad),
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
fn soft_rule_names(seen: &SandboxInspection) -> Vec<String> {
    let soft = seen
        .enforcement
        .iter()
        .filter(|held| matches!(held.by, "watch" | "rlimit") && !is_hard_by_nature(&held.rule));
    soft.map(|held| format!("`{}` by {}", held.rule, held.by)).collect()
}

fn sandbox_findings(seen: &SandboxInspection) -> Vec<DoctorFinding> {
    let mut findings = vec![DoctorFinding::good(
        "sandbox",
        format!("made one and ran a program in it: {} ms", seen.took.as_millis()),
    )];
    findings.extend(seen.always.iter().map(|fact| match fact.split_once(": ") {
        Some(("own namespaces", kinds)) => DoctorFinding::good("namespaces", kinds),
        Some(("system calls", how)) => DoctorFinding::good("system calls", how.split(';').next().unwrap_or(how)),
        Some(("capabilities", "none")) => DoctorFinding::good("capabilities", "none"),
        Some(("capabilities", kept)) => DoctorFinding::missing("capabilities", format!("some are left: {kept}"), None),
        Some(("no new privileges", "yes")) => DoctorFinding::good("privileges", "no program can gain new ones"),
        Some(("no new privileges", _)) => DoctorFinding::missing("privileges", "a program could gain new ones", None),
        _ => DoctorFinding::good("network", "none but an empty loopback"),
    }));
    if let Some(support) = &seen.support {
        findings.extend(machine::control_group_findings(support));
    }
    findings
}

async fn python_finding(policy: &Policy, configured: Option<&Path>, works: bool) -> DoctorFinding {
    const WHAT: &str = "python";
    let known = configured
        .map(Path::to_owned)
        .into_iter()
        .chain(["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from));
    let Some(path) = known.into_iter().find(|path| configured.is_some() || path.exists()) else {
        let hint = "install `python3`, or name an interpreter as `runtimes.python` in `ringfence.yaml`";
        return DoctorFinding::limited(
            WHAT,
            "none; TypeScript, JavaScript, shell and programs work without",
            hint,
        );
    };
    let path = path.display();
    if !works {
        return DoctorFinding::good(WHAT, format!("{path} (not tried)"));
    }
    match inspect::python_version(policy, configured).await {
        Ok(version) => DoctorFinding::good(WHAT, format!("{path}, {version}, runs in a sandbox")),
        Err(fault) => {
            let hint = "look at `runtimes.python` in `ringfence.yaml`";
            DoctorFinding::limited(
                WHAT,
                format!("{path} does not run in a sandbox: {fault}"),
                fault.hint.as_deref().unwrap_or(hint),
            )
        }
    }
}

fn open_files_finding() -> DoctorFinding {
    const ENOUGH: u64 = 1024;
    let files = getrlimit(Resource::Nofile).maximum;
    let processes = getrlimit(Resource::Nproc).maximum;
    let shown = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    let detail = format!("open files {}, processes {}", shown(files), shown(processes));
    if files.is_some_and(|files| files < ENOUGH) {
        return DoctorFinding::limited(
            "limits",
            detail,
            "raise the hard limit of open files to 1024 or more (`ulimit -Hn`)",
        );
    }
    DoctorFinding::good("limits", detail)
}

fn home_finding(settings: &CliSettings) -> DoctorFinding {
    const WHAT: &str = "data folder";
    let home = match settings.home() {
        Ok(home) => home,
        Err(fault) => return DoctorFinding::missing(WHAT, fault.message, fault.hint),
    };
    let shown = home.display();
    let nearest = home.ancestors().find(|folder| folder.exists()).unwrap_or(&home);
    if rustix::fs::access(nearest, rustix::fs::Access::WRITE_OK).is_err() {
        let hint = Some("choose another with `RINGFENCE_HOME`".to_owned());
        return DoctorFinding::missing(WHAT, format!("`{shown}` cannot be written"), hint);
    }
    match ringfence_store::rejected_files(&home) {
        Ok(aside) if aside.is_empty() => {}
        Ok(aside) => {
            let hint = "`ringfence audit verify` names them; keep them elsewhere once they were looked at";
            let detail = format!(
                "`{shown}`: {} of records put aside",
                counted(aside.len() as u64, "file")
            );
            return DoctorFinding::limited(WHAT, detail, hint);
        }
        Err(error) => return DoctorFinding::missing(WHAT, format!("`{shown}` cannot be looked at: {error}"), None),
    }
    let made = if home.exists() { "" } else { ", made at the first run" };
    DoctorFinding::good(WHAT, format!("`{shown}`{made}"))
}
