//! `ringfence audit`: prints, verifies, exports and prunes the journal.

mod retention;

use std::io;
use std::process::ExitCode;

use ringfence_journal::{LOST_HINT, Record, VerificationReport};
use ringfence_store::{ExportContents, MissedRecords, Store, rejected_files};
use serde_json::json;

use super::{ids, open_store, session_not_found};
use crate::args::{AuditCommand, AuditExportArgs, AuditTailArgs, AuditVerifyArgs, SessionShowArgs};
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain};
use crate::print::{Printer, Style, counted, event, moment};
use crate::settings::CliSettings;

/// Runs the subcommand of `audit`.
pub(crate) async fn dispatch(
    command: AuditCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let command = match command {
        AuditCommand::Prune(args) => return retention::prune(&args, settings, printer).await,
        AuditCommand::AcceptLoss(args) => return retention::accept_loss(&args, settings, printer).await,
        reading @ (AuditCommand::Tail(_)
        | AuditCommand::Show(_)
        | AuditCommand::Verify(_)
        | AuditCommand::Export(_)) => reading,
    };
    let store = open_store(settings).await?;
    let missed = store.missed_records().await?;
    let result = match command {
        AuditCommand::Tail(follow) => tail_records(&follow, &store, printer).await,
        AuditCommand::Show(show) => self::show_records(&show, &store, printer).await,
        AuditCommand::Verify(verify) => self::verify_chains(&verify, &store, &missed, printer).await,
        AuditCommand::Export(export) => self::export_journal(&export, &store).await,
        AuditCommand::Prune(_) | AuditCommand::AcceptLoss(_) => Ok(ExitCode::SUCCESS),
    };
    store.close_for_exit().await;
    for one in &missed {
        let (records, reason) = (counted(one.records, "record"), &one.reason);
        printer.notice(&format!(
            "{} did not take {records} since {}, last at {}: {reason}; `ringfence audit export` has them",
            one.sink,
            moment(one.since),
            moment(one.last)
        ));
    }
    result
}

async fn tail_records(follow: &AuditTailArgs, store: &Store, printer: &Printer) -> Result<ExitCode, CliFault> {
    let mut tail = store.tail_last(follow.count).await?;
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
            print_record(&numbered.record, follow.json, printer)?;
        }
    }
}

async fn show_records(show: &SessionShowArgs, store: &Store, printer: &Printer) -> Result<ExitCode, CliFault> {
    let id = ids::resolve_session_id(store, &show.session).await?;
    let records = store.session_records(id).await?;
    if records.is_empty() {
        return Err(session_not_found(id));
    }
    for record in &records {
        print_record(record, show.json, printer)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_record(record: &Record, json: bool, printer: &Printer) -> Result<(), CliFault> {
    if json {
        printer.print_exact(&format!("{}\n", record.to_json_line()))
    } else {
        printer.print_line(&event::record_line(record))
    }
}

async fn verify_chains(
    verify: &AuditVerifyArgs,
    store: &Store,
    missed: &[MissedRecords],
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let report = store.verify(|_| ()).await?;
    let aside =
        rejected_files(store.home()).map_err(|error| CliFault::internal("store.folder", error_chain(&error)))?;
    let loss = store.loss();
    let is_ok = report.is_ok() && aside.is_empty() && loss.is_none();
    if verify.json {
        let mut object = json!(report);
        if let Some(object) = object.as_object_mut() {
            object.insert("ok".to_owned(), is_ok.into());
            object.insert("undelivered".to_owned(), json!(missed));
            object.insert("set_aside".to_owned(), json!(aside));
            object.insert("loss".to_owned(), json!(loss.map(|loss| loss.to_string())));
            object.insert("cannot_show".to_owned(), json!(report.limitations()));
        }
        printer.print_json(&object)?;
    } else {
        printer.print_escaped(&report_text(&report, report.is_ok() && loss.is_none(), printer))?;
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
        ExitCode::from(EXIT_CHECK_FAILED)
    })
}

fn report_text(report: &VerificationReport, is_ok: bool, printer: &Printer) -> String {
    let mut lines = Vec::new();
    let (records, sessions) = (counted(report.records, "record"), counted(report.sessions, "session"));
    let checked = format!(
        "{records} in {sessions}, {} checked",
        counted(report.heads, "signed head")
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
            counted(report.pruned_records, "record"),
            counted(report.pruned_sessions, "session"),
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
            let words = event::loss_text(loss.marked, loss.found);
            lines.push(format!("    {at:.0} {words}: {cause}, {by}, record {}", loss.session));
        }
    }
    lines.push("this check cannot show:".to_owned());
    lines.extend(report.limitations().iter().map(|what| format!("  {what}")));
    lines.push(String::new());
    lines.join("\n")
}

async fn export_journal(export: &AuditExportArgs, store: &Store) -> Result<ExitCode, CliFault> {
    let contents = if export.heads {
        ExportContents::RecordsAndHeads
    } else {
        ExportContents::Records
    };
    let out = io::BufWriter::with_capacity(1 << 16, io::stdout());
    store.export(out, contents).await?;
    Ok(ExitCode::SUCCESS)
}
