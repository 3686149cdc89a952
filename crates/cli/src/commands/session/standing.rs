//! What sessions wait for, and which executions of theirs can be gone on with.

use std::collections::HashMap;

use ringfence_engine::approvals::{self, ApprovalState, Approvals, Shown};
use ringfence_journal::{ApprovalId, ExecutionId, LeaseId, SessionId, SessionState};
use ringfence_store::{Executions, ReadError, RecordingState, Session, Store};
use serde::Serialize;

use crate::fault::{Fault, chain};
use crate::print::{escape, span};

/// The most questions that are counted for a list.
const MOST: u32 = 1000;

/// A question that a session waits for.
#[derive(Debug, Serialize)]
pub(crate) struct Waiting {
    pub(crate) id: ApprovalId,
    pub(crate) execution_id: ExecutionId,
    pub(crate) tool: String,
    pub(crate) rule: String,
    pub(crate) expires: String,
    /// In words.
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

/// How a session stands beyond what its events tell.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Standing {
    /// What it waits for.
    pub(crate) approvals: Vec<Waiting>,
    /// Executions whose process died, and that can be gone on with.
    pub(crate) interrupted: Vec<ExecutionId>,
    /// Those that wait for people without a process.
    pub(crate) released: Vec<ExecutionId>,
}

impl Standing {
    /// That of one session, which may be unknown.
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

    /// Finds out what has no process: nobody has the session, or whoever had it is dead and not swept after yet.
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

    /// What there is to say of an execution.
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

/// How many questions each session waits for.
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
