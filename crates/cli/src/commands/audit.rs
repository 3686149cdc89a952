//! `ringfence audit`: prints, verifies, exports and prunes the journal.

mod retention;

use std::io;
use std::process::ExitCode;

use ringfence_journal::{LOST_HINT, Record, Report};
use ringfence_store::{Contents, Missed, Store, set_aside};
use serde_json::json;

use super::{ids, no_session, store};
use crate::args::{Audit, Export, Follow, Show, Verify};
use crate::fault::{Fault, NOT_HELD, chain};
use crate::print::{Printer, Style, count, event};
use crate::settings::Settings;

/// Runs the subcommand of `audit`.
pub(crate) async fn start(command: Audit, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let command = match command {
        Audit::Prune(args) => return retention::prune(&args, settings, printer).await,
        Audit::AcceptLoss(args) => return retention::accept_loss(&args, settings, printer).await,
        reading @ (Audit::Tail(_) | Audit::Show(_) | Audit::Verify(_) | Audit::Export(_)) => reading,
    };
    let store = store(settings).await?;
    let missed = store.undelivered().await?;
    let result = match command {
        Audit::Tail(follow) => tail(&follow, &store, printer).await,
        Audit::Show(show) => self::show(&show, &store, printer).await,
        Audit::Verify(verify) => self::verify(&verify, &store, &missed, printer).await,
        Audit::Export(export) => self::export(&export, &store).await,
        Audit::Prune(_) | Audit::AcceptLoss(_) => Ok(ExitCode::SUCCESS),
    };
    store.leave().await;
    for one in &missed {
        let (records, reason) = (count(one.records, "record"), &one.reason);
        printer.notice(&format!(
            "{} did not take {records} since {}, last at {}: {reason}; `ringfence audit export` has them",
            one.sink, one.since, one.last
        ));
    }
    result
}

async fn tail(follow: &Follow, store: &Store, printer: &Printer) -> Result<ExitCode, Fault> {
    let mut tail = store.tail(follow.count).await?;
    loop {
        let page = if follow.more {
            tail.next_page().await?
        } else {
            tail.page().await?
        };
        if page.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        for numbered in &page {
            print(&numbered.record, follow.json, printer)?;
        }
    }
}

async fn show(show: &Show, store: &Store, printer: &Printer) -> Result<ExitCode, Fault> {
    let id = ids::session(store, &show.session).await?;
    let records = store.show(id).await?;
    if records.is_empty() {
        return Err(no_session(id));
    }
    for record in &records {
        print(record, show.json, printer)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(record: &Record, json: bool, printer: &Printer) -> Result<(), Fault> {
    if json {
        printer.exact(&format!("{}\n", record.line()))
    } else {
        printer.line(&event::words(record))
    }
}

async fn verify(verify: &Verify, store: &Store, missed: &[Missed], printer: &Printer) -> Result<ExitCode, Fault> {
    let report = store.verify(|_| ()).await?;
    let aside = set_aside(store.home()).map_err(|error| Fault::ours("store.folder", chain(&error)))?;
    let loss = store.loss();
    let is_ok = report.is_ok() && aside.is_empty() && loss.is_none();
    if verify.json {
        let mut object = json!(report);
        if let Some(object) = object.as_object_mut() {
            object.insert("ok".to_owned(), is_ok.into());
            object.insert("undelivered".to_owned(), json!(missed));
            object.insert("set_aside".to_owned(), json!(aside));
            object.insert("loss".to_owned(), json!(loss.map(|loss| loss.to_string())));
            object.insert("cannot_show".to_owned(), json!(report.cannot_show()));
        }
        printer.json(&object)?;
    } else {
        printer.data(&words(&report, report.is_ok() && loss.is_none(), printer))?;
    }
    if let Some(loss) = loss {
        printer.notice(&format!("nothing is written: {loss}; {LOST_HINT}"));
    }
    for file in &aside {
        printer.notice(&format!(
            "`{}` has records of a process that died and that fit nowhere in the journal; keep it elsewhere once it was looked at",
            file.display()
        ));
    }
    Ok(if is_ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_HELD)
    })
}

fn words(report: &Report, is_ok: bool, printer: &Printer) -> String {
    let mut lines = Vec::new();
    let (records, sessions) = (count(report.records, "record"), count(report.sessions, "session"));
    let checked = format!(
        "{records} in {sessions}, {} checked",
        count(report.heads, "signed head")
    );
    if is_ok {
        lines.push(format!("{}: {checked}", printer.paint("unbroken", Style::Good)));
    } else {
        lines.push(format!("{}: {checked}", printer.paint("BROKEN", Style::Bad)));
    }
    for verdict in &report.broken {
        if let Some(broken) = &verdict.broken {
            lines.push(format!(
                "  session {}, record {}: {}",
                verdict.session, broken.number, broken.fault
            ));
        }
    }
    if let Some(more) = report
        .broken_sessions
        .checked_sub(report.broken.len() as u64)
        .filter(|more| *more > 0)
    {
        lines.push(format!("  and {more} more sessions"));
    }
    if let Some(broken) = &report.broken_head {
        lines.push(format!("  signed head {}: {}", broken.number, broken.fault));
    }
    if report.pruned_sessions > 0 {
        let (records, sessions) = (
            count(report.pruned_records, "record"),
            count(report.pruned_sessions, "session"),
        );
        lines.push(format!(
            "  removed since, as signed records say: {records} in {sessions}"
        ));
    }
    if report.accepted_losses > 0 {
        lines.push(format!(
            "  losses accepted, as signed records say: {}",
            report.accepted_losses
        ));
        for loss in &report.losses {
            let (at, cause, by) = (loss.at, loss.cause.name(), loss.by);
            let words = event::loss_words(loss.marked, loss.found);
            lines.push(format!("    {at:.0} {words}: {cause}, {by}, record {}", loss.session));
        }
    }
    lines.push("this check cannot show:".to_owned());
    lines.extend(report.cannot_show().iter().map(|what| format!("  {what}")));
    lines.push(String::new());
    lines.join("\n")
}

async fn export(export: &Export, store: &Store) -> Result<ExitCode, Fault> {
    let contents = if export.heads {
        Contents::RecordsAndHeads
    } else {
        Contents::Records
    };
    let out = io::BufWriter::with_capacity(1 << 16, io::stdout());
    store.export(out, contents).await?;
    Ok(ExitCode::SUCCESS)
}
