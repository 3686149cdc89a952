//! `policy diff`: prints the changes in words, changes that weaken the policy first.

use std::process::ExitCode;

use ringfence_policy::{ChangeDirection, diff as compare};
use serde_json::json;

use crate::args::PolicyDiffArgs;
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::{Printer, Style};
use crate::settings::policy_layers;

pub(crate) fn diff_policies(args: &PolicyDiffArgs, printer: &Printer) -> Result<ExitCode, CliFault> {
    let read = |path| policy_layers::named_draft(path).map_err(|fault| fault.with_exit(EXIT_CHECK_FAILED));
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let changes = compare(&before, &after);
    let word = |direction| match direction {
        ChangeDirection::Weaker => ("weaker", Style::Bad),
        ChangeDirection::Stricter => ("stricter", Style::Good),
        ChangeDirection::Neutral => ("changed", Style::Faint),
    };
    if args.json {
        let changes: Vec<_> = changes
            .iter()
            .map(|change| {
                let direction = word(change.direction).0;
                json!({ "key": change.key, "before": change.before, "after": change.after, "direction": direction, "sentence": change.sentence })
            })
            .collect();
        printer.print_json(&changes)?;
    } else if changes.is_empty() {
        printer.print_line("no difference: both allow the same")?;
    } else {
        for change in &changes {
            let (word, style) = word(change.direction);
            printer.print_line(&format!(
                "{} {}",
                printer.paint(&format!("{word:<8}"), style),
                change.sentence
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
