//! Formats one record of the journal on one line.

use ringfence_journal::{CleanText, EgressTarget, Event, EventKind, FileOut, Record, ServerPlace};

use super::{byte_text, counted};

/// The time, the session and a description of the record. Text from programs was sanitized when it was recorded.
pub(crate) fn record_line(record: &Record) -> String {
    match record.event() {
        Ok(event) => event_line(&event),
        Err(error) => format!("{} record {}: cannot be read: {error}", record.session, record.seq),
    }
}

fn event_line(event: &Event) -> String {
    let at = format!("{:.3}", event.at).replace('T', " ");
    format!(
        "{} {} {:<17} {}",
        at.trim_end_matches('Z'),
        event.session,
        event.kind.name(),
        describe_event(&event.kind)
    )
}

/// Describes the event without its time and session.
pub(crate) fn describe_event(kind: &EventKind) -> String {
    match kind {
        EventKind::SessionOpened {
            policy,
            principal,
            backend,
            ..
        } => format!("policy `{}`, {backend}, {principal}", policy.name),
        EventKind::ExecutionStarted {
            language,
            program,
            bytes,
            files,
            ..
        } => started_text(language, program.as_ref(), *bytes, files.len() as u64),
        EventKind::Output { stream, number, text } => format!("{} {number}: {text}", stream_name(*stream)),
        EventKind::ExecutionEnded {
            status,
            exit_code,
            error,
            usage,
            ..
        } => {
            let code = exit_code.map_or_else(String::new, |code| format!(", exit {code}"));
            let error = error.as_ref().map_or_else(String::new, |error| format!(", {error}"));
            let (wall, memory) = (usage.wall_ms, byte_text(usage.peak_memory_bytes));
            format!("{}{code}{error}, {wall} ms, {memory}", status.name())
        }
        EventKind::Violation { what, detail, rule } => {
            let tried = tried(what.as_str(), detail.as_str());
            format!("{tried} refused{}", rule_suffix(rule.as_str()))
        }
        EventKind::LimitHit { code, rule, .. } | EventKind::Refused { code, rule, .. } => {
            format!("{code}{}", rule_suffix(rule.as_str()))
        }
        EventKind::StopRequested { by } => format!("by {by}"),
        EventKind::Swept { what, count, lease } => format!("{count} {what} of {lease}"),
        EventKind::FilesOut { files } => files_text(files),
        EventKind::ServerUsed { .. }
        | EventKind::CallStarted { .. }
        | EventKind::CallEnded { .. }
        | EventKind::CallRefused { .. }
        | EventKind::ToolDrifted { .. } => describe_call_event(kind),
        EventKind::EgressStarted { .. }
        | EventKind::EgressEnded { .. }
        | EventKind::EgressRefused { .. }
        | EventKind::CredentialUsed { .. }
        | EventKind::CredentialMisused { .. }
        | EventKind::PolicyChanged { .. } => describe_egress_event(kind),
        EventKind::ApprovalAsked { .. }
        | EventKind::ApprovalAnswered { .. }
        | EventKind::ExecutionSuspended { .. }
        | EventKind::ExecutionResumed { .. } => describe_wait_event(kind),
        EventKind::DataHidden { .. }
        | EventKind::DataRevealed { .. }
        | EventKind::AliasRevealed { .. }
        | EventKind::DataCapped { .. } => describe_data_event(kind),
        EventKind::WorkspaceOpened { bytes: held, files } => format!("{files} entries, {}", byte_text(*held)),
        EventKind::WorkspaceRemoved {
            mounts,
            why,
            bytes: held,
            files,
        } => format!("{}, {why}: {files} entries, {}", join_texts(mounts), byte_text(*held)),
        EventKind::Repeated { .. } | EventKind::LossAccepted { .. } | EventKind::JournalPruned { .. } => {
            describe_journal_event(kind)
        }
        EventKind::SessionClosed { reason } => reason.to_string(),
    }
}

fn started_text(language: &CleanText, program: Option<&CleanText>, bytes: u64, files: u64) -> String {
    let program = program.map(|program| format!(" `{program}`")).unwrap_or_default();
    let files = match files {
        0 => String::new(),
        number => format!(", {} in", counted(number, "file")),
    };
    format!("{language}{program}, {}{files}", byte_text(bytes))
}

/// Describes events about the journal itself, and counts of repeated events.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
fn describe_journal_event(kind: &EventKind) -> String {
    match kind {
        EventKind::Repeated {
            of,
            what,
            code,
            rule,
            count,
        } => format!("{count} more {of} of `{what}`: {code}{}", rule_suffix(rule.as_str())),
        EventKind::LossAccepted {
            marked,
            found,
            cause,
            by,
        } => {
            format!("{}: {}, {by}", loss_text(*marked, *found), cause.name())
        }
        EventKind::JournalPruned {
            before,
            sessions,
            records,
            bytes: size,
            by,
        } => format!(
            "{} with {}, {}, last used before {before:.0}, {by}",
            counted(sessions.len() as u64, "session"),
            counted(*records, "record"),
            byte_text(*size)
        ),
        other => other.name().to_owned(),
    }
}

/// Describes the difference between the external mark and the journal.
pub(crate) fn loss_text(marked: Option<u64>, found: u64) -> String {
    let marked = marked.map_or_else(|| "no mark".to_owned(), |marked| format!("the mark at head {marked}"));
    format!("{marked}, the journal at head {found}")
}

fn stream_name(stream: ringfence_journal::OutputStream) -> &'static str {
    match stream {
        ringfence_journal::OutputStream::Stdout => "stdout",
        ringfence_journal::OutputStream::Stderr => "stderr",
    }
}

fn join_texts(texts: &[CleanText]) -> String {
    let texts: Vec<&str> = texts.iter().map(CleanText::as_str).collect();
    texts.join(", ")
}

/// Describes events about redacted and withheld data.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
fn describe_data_event(kind: &EventKind) -> String {
    match kind {
        EventKind::DataHidden { number, found, blocked } => {
            let what: Vec<String> = found.iter().map(|one| format!("{} {}", one.count, one.what)).collect();
            let place = number.map_or_else(
                || "the result".to_owned(),
                |number| format!("the answer to call {number}"),
            );
            let done = if *blocked { "held back for" } else { "without" };
            format!("{place} {done} {}", what.join(", "))
        }
        EventKind::DataRevealed { number, count } => format!("{number}: {count} aliases became their values"),
        EventKind::AliasRevealed { alias, of } => format!("{alias} of session {of}, to a person"),
        EventKind::DataCapped {
            part,
            bytes: size,
            left_out,
            neutralised,
        } => format!(
            "{part}: {} of {} left out, {neutralised} made harmless",
            byte_text(*left_out),
            byte_text(*size)
        ),
        other => other.name().to_owned(),
    }
}

/// Describes events about the network.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
fn describe_egress_event(kind: &EventKind) -> String {
    match kind {
        EventKind::EgressStarted {
            number,
            to,
            address,
            rule,
        } => format!(
            "{number} {} at {address}{}",
            target_text(to),
            rule_suffix(rule.as_str())
        ),
        EventKind::EgressEnded {
            number,
            status,
            error,
            bytes_out,
            bytes_in,
            duration_ms,
        } => {
            let status = status.map_or_else(String::new, |status| format!(", {status}"));
            let error = error.as_ref().map_or_else(String::new, |error| format!(", {error}"));
            let (out, back) = (byte_text(*bytes_out), byte_text(*bytes_in));
            format!("{number}{status}{error}, {duration_ms} ms, {out} out, {back} in")
        }
        EventKind::EgressRefused { number, to, code, rule } => {
            format!("{number} {} {code}{}", target_text(to), rule_suffix(rule.as_str()))
        }
        EventKind::CredentialUsed { number, credential } => format!("{number} `{credential}` attached"),
        EventKind::CredentialMisused {
            number,
            credential,
            place,
            code,
        } => format!("{number} stand-in of `{credential}` in the {place}, {code}"),
        EventKind::PolicyChanged { generation, policy } => format!("generation {generation}, `{}`", policy.name),
        other => other.name().to_owned(),
    }
}

/// The suffix with the deciding rule; empty if no rule decided, for example because the target does not exist.
pub(crate) fn rule_suffix(rule: &str) -> String {
    if rule.is_empty() {
        String::new()
    } else {
        format!(" by `{rule}`")
    }
}

/// The target of a request with its method, scheme, host, port and path.
pub(crate) fn target_text(to: &EgressTarget) -> String {
    let method = to
        .method
        .as_ref()
        .map_or_else(String::new, |method| format!("{method} "));
    let path = to.path.as_ref().map_or("", |path| path.as_str());
    format!("{method}{}://{}:{}{path}", to.scheme, to.host, to.port)
}

/// The number and size of files that left the sandbox.
fn files_text(files: &[FileOut]) -> String {
    let size = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bytes));
    format!("{}, {}", counted(files.len() as u64, "file"), byte_text(size))
}

/// Describes events while an execution waits for approvals.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
fn describe_wait_event(kind: &EventKind) -> String {
    match kind {
        EventKind::ApprovalAsked {
            id,
            number,
            tool,
            rule,
            expires,
            ..
        } => format!(
            "{number} `{tool}`{}, {id}, until {expires:.0}",
            rule_suffix(rule.as_str())
        ),
        EventKind::ApprovalAnswered {
            id,
            number,
            answer,
            scope,
            by,
            ..
        } => {
            let scope = scope.map_or_else(String::new, |scope| format!(" ({})", scope.name()));
            let by = by.map_or_else(String::new, |by| format!(" by {by}"));
            format!("{number} {}{scope}{by}, {id}", answer.name())
        }
        EventKind::ExecutionSuspended { waiting, until } => {
            let until = until.map_or_else(String::new, |until| format!(", until {until:.0}"));
            format!("waits for {}, without a sandbox{until}", counted(*waiting, "call"))
        }
        EventKind::ExecutionResumed { known, unknown } => {
            format!("with {} answered, {unknown} unknown", counted(*known, "call"))
        }
        other => other.name().to_owned(),
    }
}

/// Describes events about calls and tool servers.
fn describe_call_event(kind: &EventKind) -> String {
    match kind {
        EventKind::ServerUsed { server, place } => match place {
            ServerPlace::Host => format!("`{server}` on the host, outside of any sandbox"),
            ServerPlace::Sandbox => format!("`{server}` in a sandbox of its own"),
            ServerPlace::Remote => format!("`{server}` behind its URL"),
        },
        EventKind::CallStarted {
            number,
            tool,
            rule,
            bytes: size,
            ..
        } => format!("{number} `{tool}`{}, {}", rule_suffix(rule.as_str()), byte_text(*size)),
        EventKind::CallEnded {
            number,
            tool,
            outcome,
            error,
            duration_ms,
            bytes: size,
            ..
        } => {
            let error = error.as_ref().map_or_else(String::new, |error| format!(", {error}"));
            format!(
                "{number} `{tool}` {}{error}, {duration_ms} ms, {}",
                outcome.name(),
                byte_text(*size)
            )
        }
        EventKind::CallRefused {
            number,
            tool,
            code,
            rule,
        } => format!("{number} `{tool}` {code}{}", rule_suffix(rule.as_str())),
        EventKind::ToolDrifted { tool, .. } => format!("`{tool}` is not what it was when it was first used"),
        other @ (EventKind::SessionOpened { .. }
        | EventKind::ExecutionStarted { .. }
        | EventKind::Output { .. }
        | EventKind::ExecutionEnded { .. }
        | EventKind::Violation { .. }
        | EventKind::LimitHit { .. }
        | EventKind::Refused { .. }
        | EventKind::StopRequested { .. }
        | EventKind::Swept { .. }
        | EventKind::FilesOut { .. }
        | EventKind::DataHidden { .. }
        | EventKind::DataRevealed { .. }
        | EventKind::AliasRevealed { .. }
        | EventKind::DataCapped { .. }
        | EventKind::ApprovalAsked { .. }
        | EventKind::ApprovalAnswered { .. }
        | EventKind::ExecutionSuspended { .. }
        | EventKind::ExecutionResumed { .. }
        | EventKind::EgressStarted { .. }
        | EventKind::EgressEnded { .. }
        | EventKind::EgressRefused { .. }
        | EventKind::CredentialUsed { .. }
        | EventKind::CredentialMisused { .. }
        | EventKind::PolicyChanged { .. }
        | EventKind::WorkspaceOpened { .. }
        | EventKind::WorkspaceRemoved { .. }
        | EventKind::Repeated { .. }
        | EventKind::LossAccepted { .. }
        | EventKind::JournalPruned { .. }
        | EventKind::SessionClosed { .. }) => other.name().to_owned(),
    }
}

/// Describes a refused attempt. For a file the detail already quotes the name.
fn tried(what: &str, detail: &str) -> String {
    match what {
        "file" => format!("{what} {detail}:"),
        _ => format!("{what} `{detail}`"),
    }
}
