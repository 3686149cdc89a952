//! The pending work of sessions: approval requests, and executions that can be resumed.

use std::collections::HashMap;

use ringfence_engine::approvals::{self, ApprovalQuery, ApprovalState, ApprovalView};
use ringfence_journal::{ApprovalId, ExecutionId, LeaseId, SessionId, SessionState};
use ringfence_store::{ExecutionQuery, QueryError, RecordingState, Session, Store};
use serde::Serialize;

use crate::fault::{CliFault, error_chain};
use crate::print::{distance_text, escape};

/// The most pending requests that a list counts.
const MAX_COUNTED_QUESTIONS: u32 = 1000;

/// A pending approval request of a session.
#[derive(Debug, Serialize)]
pub(crate) struct PendingQuestion {
    pub(crate) id: ApprovalId,
    pub(crate) execution_id: ExecutionId,
    pub(crate) tool: String,
    pub(crate) rule: String,
    pub(crate) expires: String,
    /// The time until it expires, as text; not part of the JSON.
    #[serde(skip)]
    left: String,
}

impl PendingQuestion {
    fn from_approval(shown: ApprovalView) -> PendingQuestion {
        PendingQuestion {
            id: shown.id,
            execution_id: shown.execution_id,
            tool: shown.tool,
            rule: shown.rule,
            expires: shown.expires.to_string(),
            left: distance_text(shown.expires),
        }
    }

    pub(crate) fn to_line(&self) -> String {
        let tool = escape::escape_text(&self.tool);
        format!(
            "  waits for a person: `{tool}`, {} left; `ringfence approvals show {}`",
            self.left, self.id
        )
    }
}

/// The pending work of a session, which its events do not show.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PendingWork {
    /// The pending approval requests of the session.
    pub(crate) approvals: Vec<PendingQuestion>,
    /// The executions whose process died and that can be resumed.
    pub(crate) interrupted: Vec<ExecutionId>,
    /// The suspended executions, which wait for approvals without a process.
    pub(crate) released: Vec<ExecutionId>,
}

impl PendingWork {
    /// Loads the pending work of one session; empty if the session is unknown or closed.
    pub(crate) async fn load(store: &Store, id: SessionId) -> Result<PendingWork, CliFault> {
        let Some(session) = store.session(id).await? else {
            return Ok(PendingWork::default());
        };
        if session.state != SessionState::Open {
            return Ok(PendingWork::default());
        }
        let which = ApprovalQuery {
            session: Some(id),
            state: Some(ApprovalState::Pending),
            ..ApprovalQuery::default()
        };
        let waiting = approvals::list_approvals(store, which).await?;
        let mut standing = PendingWork {
            approvals: waiting.into_iter().map(PendingQuestion::from_approval).collect(),
            ..PendingWork::default()
        };
        standing.load_executions(store, &session).await?;
        Ok(standing)
    }

    /// Loads the executions without a process: no process has a lease on the session, or the one that has it is dead.
    async fn load_executions(&mut self, store: &Store, session: &Session) -> Result<(), CliFault> {
        let is_alone = match session.lease {
            None => true,
            Some(lease) => is_dead_lease(store, lease).await?,
        };
        if !is_alone {
            return Ok(());
        }
        let which = ExecutionQuery {
            session: Some(session.id),
            ..ExecutionQuery::default()
        };
        for execution in store.list_executions(which).await? {
            let standing = store.recording_status(execution.id).await?;
            match standing.filter(|one| one.spoiled.is_none()).map(|one| one.state) {
                Some(RecordingState::Running | RecordingState::Interrupted) => self.interrupted.push(execution.id),
                Some(RecordingState::Waiting) => self.released.push(execution.id),
                Some(RecordingState::Over) | None => {}
            }
        }
        Ok(())
    }

    /// The lines that describe the pending work of an execution.
    pub(crate) fn execution_lines(&self, execution: ExecutionId) -> Vec<String> {
        let waits = self.approvals.iter().filter(|one| one.execution_id == execution);
        let mut lines: Vec<String> = waits.map(PendingQuestion::to_line).collect();
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

async fn is_dead_lease(store: &Store, lease: LeaseId) -> Result<bool, CliFault> {
    let dead = store.dead_leases().await.map_err(|error| {
        let message = format!("cannot tell which processes live: {}", error_chain(&error));
        CliFault::internal("store.sweep", message)
    })?;
    Ok(dead.iter().any(|dead| dead.id() == lease))
}

/// The number of pending requests of each session that has any.
pub(crate) async fn question_counts(store: &Store) -> Result<HashMap<SessionId, u64>, QueryError> {
    let which = ApprovalQuery {
        state: Some(ApprovalState::Pending),
        limit: Some(MAX_COUNTED_QUESTIONS),
        ..ApprovalQuery::default()
    };
    let mut counts = HashMap::new();
    for waiting in store.list_approvals(which).await? {
        *counts.entry(waiting.question.session).or_insert(0) += 1;
    }
    Ok(counts)
}
