//! `policy diff`: prints the changes in words, changes that weaken the policy first.

use std::process::ExitCode;

use ringfence_policy::{Direction, diff as compare};
use serde_json::json;

use crate::args::Compare;
use crate::fault::{Fault, NOT_HELD};
use crate::print::{Printer, Style};
use crate::settings::rules;

pub(crate) fn diff(args: &Compare, printer: &Printer) -> Result<ExitCode, Fault> {
    let read = |path| rules::named(path).map_err(|fault| fault.exit(NOT_HELD));
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let changes = compare(&before, &after);
    let word = |direction| match direction {
        Direction::Weaker => ("weaker", Style::Bad),
        Direction::Stricter => ("stricter", Style::Good),
        Direction::Neutral => ("changed", Style::Faint),
    };
    if args.json {
        let changes: Vec<_> = changes
            .iter()
            .map(|change| {
                let direction = word(change.direction).0;
                json!({ "key": change.key, "before": change.before, "after": change.after, "direction": direction, "sentence": change.sentence })
            })
            .collect();
        printer.json(&changes)?;
    } else if changes.is_empty() {
        printer.line("no difference: both allow the same")?;
    } else {
        for change in &changes {
            let (word, style) = word(change.direction);
            printer.line(&format!(
                "{} {}",
                printer.paint(&format!("{word:<8}"), style),
                change.sentence
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
