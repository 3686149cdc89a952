//! Describes the files that sessions keep, and resolves sessions by the names of those files.

use ringfence_journal::{SessionId, SessionState};
use ringfence_store::{Session, Store};

use crate::commands::{ids, parse_session_id, run};
use crate::fault::CliFault;
use crate::print::{byte_text, distance_text, escape, moment};

/// Whether a session is open only to keep its files: no process owns it.
pub(super) fn is_parked(session: &Session) -> bool {
    session.state == SessionState::Open && session.lease.is_none() && session.workspace.is_some()
}

/// The kept files in a few words, for a list.
pub(super) fn workspace_label(session: &Session) -> Option<String> {
    let workspace = session.workspace.as_ref()?;
    let name = workspace
        .name
        .as_deref()
        .map_or_else(String::new, |name| format!("{}: ", escape::escape_text(name)));
    let until = if session.lease.is_some() {
        "in use".to_owned()
    } else {
        format!("{} left", distance_text(workspace.kept_until))
    };
    Some(format!("{name}{}, {until}", byte_text(workspace.bytes)))
}

/// The kept files in a sentence, for one session.
pub(super) fn workspace_text(session: &Session) -> Option<String> {
    let workspace = session.workspace.as_ref()?;
    let name = workspace
        .name
        .as_deref()
        .map_or_else(String::new, |name| format!("`{}`, ", escape::escape_text(name)));
    let until = if session.lease.is_some() {
        format!("in use since {}", moment(workspace.taken))
    } else {
        format!("kept until {}", moment(workspace.kept_until))
    };
    let entries = match workspace.files {
        0 => return Some(format!("{name}empty, {until}")),
        1 => "1 entry".to_owned(),
        files => format!("{files} entries"),
    };
    Some(format!("{name}{} in {entries}, {until}", byte_text(workspace.bytes)))
}

/// Resolves a session by the name under which it keeps files, else by its id.
pub(in crate::commands) async fn resolve_session(store: &Store, text: &str) -> Result<SessionId, CliFault> {
    if let Some(named) = store.session_named(run::local_principal(), text).await? {
        return Ok(named.id);
    }
    ids::resolve_session_id(store, text).await
}

/// The fault if there is no journal: first that the text is not an id, where that is so.
pub(super) fn unless_invalid_id(text: Option<&str>, fault: CliFault) -> CliFault {
    text.and_then(|text| parse_session_id(text).err()).unwrap_or(fault)
}
