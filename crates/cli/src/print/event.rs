//! Formats one record of the journal on one line.

use ringfence_journal::{Event, FileOut, Kind, Record, ServerPlace, Target, Text};

use super::{bytes, count};

/// The time, the session and a description of the record. Text from programs was sanitized when it was recorded.
pub(crate) fn words(record: &Record) -> String {
    match record.event() {
        Ok(event) => line(&event),
        Err(error) => format!("{} record {}: cannot be read: {error}", record.session, record.seq),
    }
}

fn line(event: &Event) -> String {
    let at = format!("{:.3}", event.at).replace('T', " ");
    format!(
        "{} {} {:<17} {}",
        at.trim_end_matches('Z'),
        event.session,
        event.kind.name(),
        what(&event.kind)
    )
}

/// Describes the event without its time and session.
pub(crate) fn what(kind: &Kind) -> String {
    match kind {
        Kind::SessionOpened {
            policy,
            principal,
            backend,
            ..
        } => format!("policy `{}`, {backend}, {principal}", policy.name),
        Kind::ExecutionStarted {
            language,
            program,
            bytes: size,
            files,
            ..
        } => {
            let named = |program: &Text| format!(" `{program}`");
            let program = program.as_ref().map(named).unwrap_or_default();
            let files = match files.len() as u64 {
                0 => String::new(),
                number => format!(", {} in", count(number, "file")),
            };
            format!("{language}{program}, {}{files}", bytes(*size))
        }
        Kind::Output { stream, number, text } => format!("{} {number}: {text}", stream_name(*stream)),
        Kind::ExecutionEnded {
            status,
            exit_code,
            error,
            usage,
            ..
        } => {
            let code = exit_code.map_or_else(String::new, |code| format!(", exit {code}"));
            let error = error.as_ref().map_or_else(String::new, |error| format!(", {error}"));
            let (wall, memory) = (usage.wall_ms, bytes(usage.peak_memory_bytes));
            format!("{}{code}{error}, {wall} ms, {memory}", status.name())
        }
        Kind::Violation { what, detail, rule } => {
            format!("{} refused{}", tried(what.as_str(), detail.as_str()), by(rule.as_str()))
        }
        Kind::LimitHit { code, rule, .. } | Kind::Refused { code, rule, .. } => format!("{code}{}", by(rule.as_str())),
        Kind::StopRequested { by } => format!("by {by}"),
        Kind::Swept { what, count, lease } => format!("{count} {what} of {lease}"),
        Kind::FilesOut { files } => left(files),
        Kind::ServerUsed { .. }
        | Kind::CallStarted { .. }
        | Kind::CallEnded { .. }
        | Kind::CallRefused { .. }
        | Kind::ToolDrifted { .. } => call(kind),
        Kind::EgressStarted { .. }
        | Kind::EgressEnded { .. }
        | Kind::EgressRefused { .. }
        | Kind::CredentialUsed { .. }
        | Kind::CredentialMisused { .. }
        | Kind::PolicyChanged { .. } => egress(kind),
        Kind::ApprovalAsked { .. }
        | Kind::ApprovalAnswered { .. }
        | Kind::ExecutionSuspended { .. }
        | Kind::ExecutionResumed { .. } => waiting(kind),
        Kind::DataHidden { .. } | Kind::DataRevealed { .. } | Kind::AliasRevealed { .. } | Kind::DataCapped { .. } => {
            data(kind)
        }
        Kind::WorkspaceOpened { bytes: held, files } => format!("{files} entries, {}", bytes(*held)),
        Kind::WorkspaceRemoved {
            mounts,
            why,
            bytes: held,
            files,
        } => format!("{}, {why}: {files} entries, {}", joined(mounts), bytes(*held)),
        Kind::Repeated { .. } | Kind::LossAccepted { .. } | Kind::JournalPruned { .. } => of_journal(kind),
        Kind::SessionClosed { reason } => reason.to_string(),
    }
}

/// Describes events about the journal itself, and counts of repeated events.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
fn of_journal(kind: &Kind) -> String {
    match kind {
        Kind::Repeated {
            of,
            what,
            code,
            rule,
            count,
        } => format!("{count} more {of} of `{what}`: {code}{}", by(rule.as_str())),
        Kind::LossAccepted {
            marked,
            found,
            cause,
            by,
        } => {
            format!("{}: {}, {by}", loss_words(*marked, *found), cause.name())
        }
        Kind::JournalPruned {
            before,
            sessions,
            records,
            bytes: size,
            by,
        } => format!(
            "{} with {}, {}, last used before {before:.0}, {by}",
            count(sessions.len() as u64, "session"),
            count(*records, "record"),
            bytes(*size)
        ),
        other => other.name().to_owned(),
    }
}

/// Describes the difference between the external mark and the journal.
pub(crate) fn loss_words(marked: Option<u64>, found: u64) -> String {
    let marked = marked.map_or_else(|| "no mark".to_owned(), |marked| format!("the mark at head {marked}"));
    format!("{marked}, the journal at head {found}")
}

fn stream_name(stream: ringfence_journal::Stream) -> &'static str {
    match stream {
        ringfence_journal::Stream::Stdout => "stdout",
        ringfence_journal::Stream::Stderr => "stderr",
    }
}

fn joined(texts: &[Text]) -> String {
    let texts: Vec<&str> = texts.iter().map(Text::as_str).collect();
    texts.join(", ")
}

/// Describes events about redacted and withheld data.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
fn data(kind: &Kind) -> String {
    match kind {
        Kind::DataHidden { number, found, blocked } => {
            let what: Vec<String> = found.iter().map(|one| format!("{} {}", one.count, one.what)).collect();
            let place = number.map_or_else(
                || "the result".to_owned(),
                |number| format!("the answer to call {number}"),
            );
            let done = if *blocked { "held back for" } else { "without" };
            format!("{place} {done} {}", what.join(", "))
        }
        Kind::DataRevealed { number, count } => format!("{number}: {count} aliases became their values"),
        Kind::AliasRevealed { alias, of } => format!("{alias} of session {of}, to a person"),
        Kind::DataCapped {
            part,
            bytes: size,
            left_out,
            neutralised,
        } => format!(
            "{part}: {} of {} left out, {neutralised} made harmless",
            bytes(*left_out),
            bytes(*size)
        ),
        other => other.name().to_owned(),
    }
}

/// Describes events about the network.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
fn egress(kind: &Kind) -> String {
    match kind {
        Kind::EgressStarted {
            number,
            to,
            address,
            rule,
        } => format!("{number} {} at {address}{}", place(to), by(rule.as_str())),
        Kind::EgressEnded {
            number,
            status,
            error,
            bytes_out,
            bytes_in,
            duration_ms,
        } => {
            let status = status.map_or_else(String::new, |status| format!(", {status}"));
            let error = error.as_ref().map_or_else(String::new, |error| format!(", {error}"));
            let (out, back) = (bytes(*bytes_out), bytes(*bytes_in));
            format!("{number}{status}{error}, {duration_ms} ms, {out} out, {back} in")
        }
        Kind::EgressRefused { number, to, code, rule } => format!("{number} {} {code}{}", place(to), by(rule.as_str())),
        Kind::CredentialUsed { number, credential } => format!("{number} `{credential}` attached"),
        Kind::CredentialMisused {
            number,
            credential,
            place,
            code,
        } => format!("{number} stand-in of `{credential}` in the {place}, {code}"),
        Kind::PolicyChanged { generation, policy } => format!("generation {generation}, `{}`", policy.name),
        other => other.name().to_owned(),
    }
}

/// The suffix with the deciding rule; empty if no rule decided, for example because the target does not exist.
pub(crate) fn by(rule: &str) -> String {
    if rule.is_empty() {
        String::new()
    } else {
        format!(" by `{rule}`")
    }
}

/// The target of a request with its method, scheme, host, port and path.
pub(crate) fn place(to: &Target) -> String {
    let method = to
        .method
        .as_ref()
        .map_or_else(String::new, |method| format!("{method} "));
    let path = to.path.as_ref().map_or("", |path| path.as_str());
    format!("{method}{}://{}:{}{path}", to.scheme, to.host, to.port)
}

/// The number and size of files that left the sandbox.
fn left(files: &[FileOut]) -> String {
    let size = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bytes));
    format!("{}, {}", count(files.len() as u64, "file"), bytes(size))
}

/// Describes events while an execution waits for approvals.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
fn waiting(kind: &Kind) -> String {
    match kind {
        Kind::ApprovalAsked {
            id,
            number,
            tool,
            rule,
            expires,
            ..
        } => format!("{number} `{tool}`{}, {id}, until {expires:.0}", by(rule.as_str())),
        Kind::ApprovalAnswered {
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
        Kind::ExecutionSuspended { waiting, until } => {
            let until = until.map_or_else(String::new, |until| format!(", until {until:.0}"));
            format!("waits for {}, without a sandbox{until}", count(*waiting, "call"))
        }
        Kind::ExecutionResumed { known, unknown } => {
            format!("with {} answered, {unknown} unknown", count(*known, "call"))
        }
        other => other.name().to_owned(),
    }
}

/// Describes events about calls and tool servers.
fn call(kind: &Kind) -> String {
    match kind {
        Kind::ServerUsed { server, place } => match place {
            ServerPlace::Host => format!("`{server}` on the host, outside of any sandbox"),
            ServerPlace::Sandbox => format!("`{server}` in a sandbox of its own"),
            ServerPlace::Remote => format!("`{server}` behind its URL"),
        },
        Kind::CallStarted {
            number,
            tool,
            rule,
            bytes: size,
            ..
        } => format!("{number} `{tool}`{}, {}", by(rule.as_str()), bytes(*size)),
        Kind::CallEnded {
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
                bytes(*size)
            )
        }
        Kind::CallRefused {
            number,
            tool,
            code,
            rule,
        } => format!("{number} `{tool}` {code}{}", by(rule.as_str())),
        Kind::ToolDrifted { tool, .. } => format!("`{tool}` is not what it was when it was first used"),
        other @ (Kind::SessionOpened { .. }
        | Kind::ExecutionStarted { .. }
        | Kind::Output { .. }
        | Kind::ExecutionEnded { .. }
        | Kind::Violation { .. }
        | Kind::LimitHit { .. }
        | Kind::Refused { .. }
        | Kind::StopRequested { .. }
        | Kind::Swept { .. }
        | Kind::FilesOut { .. }
        | Kind::DataHidden { .. }
        | Kind::DataRevealed { .. }
        | Kind::AliasRevealed { .. }
        | Kind::DataCapped { .. }
        | Kind::ApprovalAsked { .. }
        | Kind::ApprovalAnswered { .. }
        | Kind::ExecutionSuspended { .. }
        | Kind::ExecutionResumed { .. }
        | Kind::EgressStarted { .. }
        | Kind::EgressEnded { .. }
        | Kind::EgressRefused { .. }
        | Kind::CredentialUsed { .. }
        | Kind::CredentialMisused { .. }
        | Kind::PolicyChanged { .. }
        | Kind::WorkspaceOpened { .. }
        | Kind::WorkspaceRemoved { .. }
        | Kind::Repeated { .. }
        | Kind::LossAccepted { .. }
        | Kind::JournalPruned { .. }
        | Kind::SessionClosed { .. }) => other.name().to_owned(),
    }
}

/// Describes a refused attempt. For a file the detail already quotes the name.
fn tried(what: &str, detail: &str) -> String {
    match what {
        "file" => format!("{what} {detail}:"),
        _ => format!("{what} `{detail}`"),
    }
}
