//! `ringfence audit prune` and `audit accept-loss`: removes old records, and continues after a detected loss.

use std::process::ExitCode;

use ringfence_policy::Period;
use ringfence_store::{Pruned, Store, accept_loss as accept, ago};
use serde_json::json;

use crate::args::{AcceptLossArgs, PruneArgs};
use crate::commands::run::principal;
use crate::fault::{Fault, NOT_HELD, chain};
use crate::print::{Printer, bytes, count};
use crate::settings::config::Config;
use crate::settings::{Settings, rules};

/// Removes sessions that were last used before the retention time, and prints how much was removed.
pub(super) async fn prune(args: &PruneArgs, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let home = settings.journal_home()?;
    let keep = if let Some(text) = &args.keep {
        text.parse::<Period>().map(Period::get).map_err(|error| {
            Fault::ours("args.keep", format!("`--keep {text}`: {error}"))
                .hint("write it like `30d`")
                .exit(NOT_HELD)
        })?
    } else {
        let config = Config::find(args.rules.config.as_deref(), settings, printer)?;
        rules::in_force(&args.rules, None, &config)?.audit().keep
    };
    let before = ago(keep);
    let store = Store::open(&home).await?;
    let mut all = Pruned::default();
    loop {
        let part = match store.prune(before, principal()).await {
            Ok(part) => part,
            Err(error) => {
                store.leave().await;
                return Err(Fault::ours("audit.prune", chain(&error)));
            }
        };
        all.sessions += part.sessions;
        all.records += part.records;
        all.bytes += part.bytes;
        if !part.more {
            break;
        }
    }
    store.leave().await;
    if args.json {
        let (sessions, records, size) = (all.sessions, all.records, all.bytes);
        printer.json(&json!({
            "before": before.to_string(), "sessions": sessions, "records": records, "bytes": size,
        }))?;
    } else {
        printer.line(&format!(
            "removed {} of {}, {}, last used before {before:.0}; their signed heads stay, and the space is used again",
            count(all.records, "record"),
            count(all.sessions, "session"),
            bytes(all.bytes)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Accepts a detected loss, so that the journal is usable again, and writes a record of it.
pub(super) async fn accept_loss(
    args: &AcceptLossArgs,
    settings: &Settings,
    printer: &Printer,
) -> Result<ExitCode, Fault> {
    let home = settings.home()?;
    let accepted = tokio::task::spawn_blocking(move || accept(&home, principal()))
        .await
        .map_err(|error| Fault::ours("start.runtime", error.to_string()))??;
    if args.json {
        printer.json(&json!({
            "accepted": accepted.is_some(),
            "loss": accepted.map(|accepted| accepted.loss.to_string()),
            "record": accepted.map(|accepted| accepted.record.to_string()),
        }))?;
    } else {
        printer.line(&match accepted {
            Some(accepted) => format!(
                "accepted: {}; the record of session {} says so",
                accepted.loss, accepted.record
            ),
            None => "nothing is missing: nothing was accepted".to_owned(),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
