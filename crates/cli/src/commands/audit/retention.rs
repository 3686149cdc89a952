//! `ringfence audit prune` and `audit accept-loss`: removes old records, and continues after a detected loss.

use std::process::ExitCode;

use ringfence_policy::Period;
use ringfence_store::{PruneSummary, Store, accept_loss as accept, retention_cutoff};
use serde_json::json;

use crate::args::{AcceptLossArgs, PruneArgs};
use crate::commands::run::local_principal;
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain};
use crate::print::{Printer, byte_text, counted};
use crate::settings::config::Config;
use crate::settings::{CliSettings, policy_layers};

/// Removes sessions that were last used before the retention time, and prints how much was removed.
pub(super) async fn prune(args: &PruneArgs, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let home = settings.journal_home()?;
    let keep = if let Some(text) = &args.keep {
        text.parse::<Period>().map(Period::get).map_err(|error| {
            CliFault::internal("args.keep", format!("`--keep {text}`: {error}"))
                .with_hint("write it like `30d`")
                .with_exit(EXIT_CHECK_FAILED)
        })?
    } else {
        let config = Config::find(args.rules.config.as_deref(), settings, printer)?;
        policy_layers::policy_in_force(&args.rules, None, &config)?.audit().keep
    };
    let before = retention_cutoff(keep);
    let store = Store::open(&home).await?;
    let mut all = PruneSummary::default();
    loop {
        let part = match store.prune(before, local_principal()).await {
            Ok(part) => part,
            Err(error) => {
                store.close_for_exit().await;
                return Err(CliFault::internal("audit.prune", error_chain(&error)));
            }
        };
        all.sessions += part.sessions;
        all.records += part.records;
        all.bytes += part.bytes;
        if !part.more {
            break;
        }
    }
    store.close_for_exit().await;
    if args.json {
        let (sessions, records, size) = (all.sessions, all.records, all.bytes);
        printer.print_json(&json!({
            "before": before.to_string(), "sessions": sessions, "records": records, "bytes": size,
        }))?;
    } else {
        printer.print_line(&format!(
            "removed {} of {}, {}, last used before {before:.0}; their signed heads stay, and the space is used again",
            counted(all.records, "record"),
            counted(all.sessions, "session"),
            byte_text(all.bytes)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Accepts a detected loss, so that the journal is usable again, and writes a record of it.
pub(super) async fn accept_loss(
    args: &AcceptLossArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let home = settings.home()?;
    let accepted = tokio::task::spawn_blocking(move || accept(&home, local_principal()))
        .await
        .map_err(|error| CliFault::internal("start.runtime", error.to_string()))??;
    if args.json {
        printer.print_json(&json!({
            "accepted": accepted.is_some(),
            "loss": accepted.map(|accepted| accepted.loss.to_string()),
            "record": accepted.map(|accepted| accepted.record.to_string()),
        }))?;
    } else {
        printer.print_line(&match accepted {
            Some(accepted) => format!(
                "accepted: {}; the record of session {} says so",
                accepted.loss, accepted.record
            ),
            None => "nothing is missing: nothing was accepted".to_owned(),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
