//! Why a request does not get its session, in words for the client.

use jiff::Timestamp;
use ringfence_journal::{ExecutionId, SessionId};
use ringfence_store::Session as Row;

use crate::refusal::RunRefusal;

/// The name of a session; its id where it has none.
pub(crate) fn session_title(row: &Row) -> String {
    let name = row.workspace.as_ref().and_then(|workspace| workspace.name.clone());
    name.unwrap_or_else(|| row.id.to_string())
}

pub(crate) fn format_to_second(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).map_or_else(|_| at.to_string(), |at| at.to_string())
}

pub(crate) fn waiting_refusal(row: &Row, execution: ExecutionId) -> RunRefusal {
    RunRefusal {
        code: "session.busy",
        message: format!(
            "execution `{execution}` in session `{}` waits for a person",
            session_title(row)
        ),
        rule: "sessions".to_owned(),
        hint: Some(format!(
            "answer it (`ringfence approvals list`), or give it up with `ringfence session stop {}`",
            row.id
        )),
    }
}

pub(crate) fn unknown_session(id: SessionId) -> RunRefusal {
    RunRefusal {
        code: "session.unknown",
        message: format!("there is no open session `{id}`"),
        rule: "sessions".to_owned(),
        hint: Some("it ended, or it never stayed open: give a short name as `session_id` to open one".to_owned()),
    }
}

pub(crate) fn not_kept_refusal(name: Option<&str>) -> RunRefusal {
    RunRefusal {
        code: "session.not_kept",
        message: format!("session `{}` would end with this command: its policy keeps nothing", name.unwrap_or("-")),
        rule: "fs.mounts.keep".to_owned(),
        hint: Some(
            "write `keep: true` for a place: `--set 'fs.mounts=[{path: /workspace, access: rw, quota: 128MiB, keep: true}]'`"
                .to_owned(),
        ),
    }
}
