//! The pending work of sessions: approval requests, and executions that can be resumed.

use std::collections::HashMap;

use ringfence_engine::approvals::{self, ApprovalState, Approvals, Shown};
use ringfence_journal::{ApprovalId, ExecutionId, LeaseId, SessionId, SessionState};
use ringfence_store::{Executions, ReadError, RecordingState, Session, Store};
use serde::Serialize;

use crate::fault::{Fault, chain};
use crate::print::{escape, span};

/// The most pending requests that a list counts.
const MOST: u32 = 1000;

/// A pending approval request of a session.
#[derive(Debug, Serialize)]
pub(crate) struct Waiting {
    pub(crate) id: ApprovalId,
    pub(crate) execution_id: ExecutionId,
    pub(crate) tool: String,
    pub(crate) rule: String,
    pub(crate) expires: String,
    /// The time until it expires, as text; not part of the JSON.
    #[serde(skip)]
    left: String,
}

impl Waiting {
    fn of(shown: Shown) -> Waiting {
        Waiting {
            id: shown.id,
            execution_id: shown.execution_id,
            tool: shown.tool,
            rule: shown.rule,
            expires: shown.expires.to_string(),
            left: span(shown.expires),
        }
    }

    pub(crate) fn words(&self) -> String {
        let tool = escape::text(&self.tool);
        format!(
            "  waits for a person: `{tool}`, {} left; `ringfence approvals show {}`",
            self.left, self.id
        )
    }
}

/// The pending work of a session, which its events do not show.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Standing {
    /// The pending approval requests of the session.
    pub(crate) approvals: Vec<Waiting>,
    /// The executions whose process died and that can be resumed.
    pub(crate) interrupted: Vec<ExecutionId>,
    /// The suspended executions, which wait for approvals without a process.
    pub(crate) released: Vec<ExecutionId>,
}

impl Standing {
    /// Loads the pending work of one session; empty if the session is unknown or closed.
    pub(crate) async fn of(store: &Store, id: SessionId) -> Result<Standing, Fault> {
        let Some(session) = store.session(id).await? else {
            return Ok(Standing::default());
        };
        if session.state != SessionState::Open {
            return Ok(Standing::default());
        }
        let which = Approvals {
            session: Some(id),
            state: Some(ApprovalState::Pending),
            ..Approvals::default()
        };
        let waiting = approvals::list(store, which).await?;
        let mut standing = Standing {
            approvals: waiting.into_iter().map(Waiting::of).collect(),
            ..Standing::default()
        };
        standing.look(store, &session).await?;
        Ok(standing)
    }

    /// Loads the executions without a process: no process has a lease on the session, or the one that has it is dead.
    async fn look(&mut self, store: &Store, session: &Session) -> Result<(), Fault> {
        let is_alone = match session.lease {
            None => true,
            Some(lease) => is_dead(store, lease).await?,
        };
        if !is_alone {
            return Ok(());
        }
        let which = Executions {
            session: Some(session.id),
            ..Executions::default()
        };
        for execution in store.executions_of(which).await? {
            let standing = store.recording_state(execution.id).await?;
            match standing.filter(|one| one.spoiled.is_none()).map(|one| one.state) {
                Some(RecordingState::Running | RecordingState::Interrupted) => self.interrupted.push(execution.id),
                Some(RecordingState::Waiting) => self.released.push(execution.id),
                Some(RecordingState::Over) | None => {}
            }
        }
        Ok(())
    }

    /// The lines that describe the pending work of an execution.
    pub(crate) fn words(&self, execution: ExecutionId) -> Vec<String> {
        let waits = self.approvals.iter().filter(|one| one.execution_id == execution);
        let mut lines: Vec<String> = waits.map(Waiting::words).collect();
        if self.interrupted.contains(&execution) {
            lines.push(format!(
                "  interrupted: its process died; it goes on when a client of `ringfence serve` asks for `{execution}`"
            ));
        }
        if self.released.contains(&execution) {
            lines.push("  has no process while it waits: once answered, it goes on under `ringfence serve`".to_owned());
        }
        lines
    }
}

async fn is_dead(store: &Store, lease: LeaseId) -> Result<bool, Fault> {
    let dead = store.dead_leases().await.map_err(|error| {
        let message = format!("cannot tell which processes live: {}", chain(&error));
        Fault::ours("store.sweep", message)
    })?;
    Ok(dead.iter().any(|dead| dead.id() == lease))
}

/// The number of pending requests of each session that has any.
pub(crate) async fn counts(store: &Store) -> Result<HashMap<SessionId, u64>, ReadError> {
    let which = Approvals {
        state: Some(ApprovalState::Pending),
        limit: Some(MOST),
        ..Approvals::default()
    };
    let mut counts = HashMap::new();
    for waiting in store.approvals(which).await? {
        *counts.entry(waiting.question.session).or_insert(0) += 1;
    }
    Ok(counts)
}
