//! `policy check`: parses the file, runs its examples, and reports what this version does not support.

use std::process::ExitCode;

use ringfence_engine::Engine;
use ringfence_policy::{Ceiling, Draft, Policy, PolicyExample};
use ringfence_sandbox::{Spec, SpecError, SpecOptions};
use serde_json::json;

use crate::args::PolicyCheckArgs;
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::{Printer, counted};
use crate::settings::policy_layers;

pub(crate) fn check_policy(check: &PolicyCheckArgs, printer: &Printer) -> Result<ExitCode, CliFault> {
    let draft =
        policy_layers::named_draft_with_all_errors(&check.file).map_err(|fault| fault.with_exit(EXIT_CHECK_FAILED))?;
    let failed = draft.check_examples().err().unwrap_or_default();
    let examples: Vec<(String, bool)> = draft
        .examples
        .iter()
        .enumerate()
        .map(|(index, example)| {
            (
                example_text(example),
                !failed.iter().any(|failed| failed.key == format!("examples[{index}]")),
            )
        })
        .collect();
    let (mut unbuilt, mut refused) = (Vec::new(), None);
    if failed.is_empty() {
        let policy = build_policy(&draft)?;
        unbuilt = policy.unsupported(&Engine::capabilities());
        if unbuilt.is_empty() {
            refused = cannot_be_shown(&policy);
        }
    }
    if check.json {
        let held: Vec<_> = examples
            .iter()
            .map(|(example, held)| json!({ "example": example, "held": held }))
            .collect();
        let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
        printer.print_json(&json!({ "name": draft.name, "ok": failed.is_empty(), "examples": held, "failed": failed, "unbuilt": unbuilt,
            "refused": refused.as_ref().map(|error| json!({ "key": error.rule(), "why": error.whole(), "hint": error.hint() })),
        }))?;
    } else {
        for (example, held) in &examples {
            printer.print_line(&format!("  {} {example}", if *held { "holds" } else { "FAILS" }))?;
        }
    }
    if !failed.is_empty() {
        let lines: Vec<String> = failed.iter().map(|failed| format!("  {failed}")).collect();
        let message = format!(
            "policy `{}` does not keep its own examples:\n{}",
            draft.name,
            lines.join("\n")
        );
        return Err(CliFault::refused("policy.example", message)
            .with_rule("examples")
            .with_hint("correct the rule or the example")
            .with_exit(EXIT_CHECK_FAILED));
    }
    if !check.json {
        let examples = match examples.len() {
            0 => "it has no examples of its own".to_owned(),
            number => format!("{} checked", counted(number as u64, "example")),
        };
        printer.print_line(&format!("policy `{}` is good: {examples}", draft.name))?;
        for one in unbuilt {
            printer.notice(&format!(
                "`{}` {}, so a session with this policy is refused; {}",
                one.key, one.why, one.hint
            ));
        }
        if let Some(error) = refused {
            printer.notice(&format!(
                "`{}`: {}, so a session with this policy is refused on this machine; {}",
                error.rule(),
                error.whole(),
                error.hint()
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds a mount of a host path that no session could have on this machine, with the check that a session uses.
fn cannot_be_shown(policy: &Policy) -> Option<SpecError> {
    let options = SpecOptions {
        // The folder where writable folders would be created; this check creates none.
        folders: Some(std::env::temp_dir()),
        ..SpecOptions::default()
    };
    Spec::new(policy, &options).err()
}

fn build_policy(draft: &Draft) -> Result<Policy, CliFault> {
    let policy = draft.clone().under(&Ceiling::unlimited());
    policy.map_err(|error| CliFault::refused("policy.incomplete", error.to_string()).with_exit(EXIT_CHECK_FAILED))
}

/// Formats an example as the expected answer followed by the question.
fn example_text(example: &PolicyExample) -> String {
    let about = [
        ("tool", &example.tool),
        ("host", &example.host),
        ("path", &example.path),
    ];
    let about = about
        .into_iter()
        .find_map(|(kind, name)| name.as_ref().map(|name| format!("{kind} {name}")));
    let access = match example.access {
        Some(ringfence_policy::FileAccess::Write) => " for writing",
        _ => "",
    };
    format!(
        "{:<5} {}{access}",
        example.expect.to_string(),
        about.unwrap_or_else(|| "nothing".to_owned())
    )
}
