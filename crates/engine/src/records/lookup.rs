//! What is known of sessions and executions from before, or of other processes.

use std::collections::HashSet;
use std::sync::Arc;

use ringfence_gateway::Redactor;
use ringfence_journal::{ApprovalId, AskReason, ExecutionId, ExecutionStatus, Principal, SessionId};
use ringfence_policy::Policy;
use ringfence_store::{ApprovalQuery, ApprovalQuestion, ApprovalState, PromisedRun, Trash};

use crate::approvals::PendingApproval;
use crate::approvals::broker::record_error;
use crate::error::OperationError;
use crate::records::SessionRecords;
use crate::runs::registry::{TrackedRun, WaitError};

impl SessionRecords {
    /// The redactor of a session, with the aliases from before this process had it.
    pub(crate) async fn load_redactor(&self, id: SessionId) -> Result<Arc<Redactor>, OperationError> {
        let parts = self.store.aliases(id).await.map_err(record_error)?;
        let screen = Redactor::restore(parts.iter().map(|part| part.as_slice()));
        Ok(Arc::new(screen.map_err(OperationError::Aliases)?))
    }

    /// Loads a policy by its digest.
    pub(crate) async fn load_policy(&self, digest: &str) -> Result<Arc<Policy>, OperationError> {
        let json = self.store.policy(digest).await.map_err(record_error)?;
        let json = json.and_then(|json| serde_json::from_str(&json).ok());
        let policy = json
            .as_ref()
            .and_then(Policy::restore)
            .ok_or(OperationError::NotRecorded)?;
        Ok(Arc::new(policy))
    }

    /// The approval requests among these that people approved for the session.
    pub(crate) async fn granted_questions(
        &self,
        session: SessionId,
        yes: &HashSet<ApprovalId>,
    ) -> Result<Vec<ApprovalQuestion>, OperationError> {
        if yes.is_empty() {
            return Ok(Vec::new());
        }
        let which = ApprovalQuery {
            session: Some(session),
            state: Some(ApprovalState::Approved),
            ..ApprovalQuery::default()
        };
        let granted = self.store.list_approvals(which).await.map_err(record_error)?;
        let questions = granted.into_iter().map(|approval| approval.question);
        let for_long = |question: &ApprovalQuestion| question.why == AskReason::Rule && yes.contains(&question.id);
        Ok(questions.filter(for_long).collect())
    }

    /// The approval requests that an execution waits for.
    pub(crate) async fn pending_approvals(&self, execution: ExecutionId) -> Result<Vec<PendingApproval>, WaitError> {
        let pending = ApprovalQuery {
            execution: Some(execution),
            state: Some(ApprovalState::Pending),
            ..ApprovalQuery::default()
        };
        let pending = self.store.list_approvals(pending).await;
        let pending = pending.map_err(|error| WaitError::Journal(error.to_string()))?;
        Ok(pending.iter().map(PendingApproval::from_approval).collect())
    }

    /// The approval requests that an execution of `who` waits for.
    pub(crate) async fn pending_approval_ids(
        &self,
        who: Principal,
        id: ExecutionId,
    ) -> Result<Vec<ApprovalId>, WaitError> {
        let pending = ApprovalQuery {
            principal: Some(who),
            execution: Some(id),
            state: Some(ApprovalState::Pending),
            ..ApprovalQuery::default()
        };
        let pending = self.store.list_approvals(pending).await;
        let pending = pending.map_err(|error| WaitError::Journal(error.to_string()))?;
        Ok(pending.iter().map(|approval| approval.question.id).collect())
    }

    /// Why this process has no result of an execution, according to the store.
    pub(crate) async fn missing_run_error(&self, who: Principal, id: ExecutionId) -> WaitError {
        let unread = |error: ringfence_store::QueryError| WaitError::Journal(error.to_string());
        // Read first: the promise is deleted as soon as the execution exists.
        let promise = match self.store.promise(id).await {
            Ok(promise) => promise.filter(|promise| promise.principal == who),
            Err(error) => return unread(error),
        };
        let found = match (self.store.execution(id).await, promise) {
            (Ok(Some(found)), _) => found,
            (Ok(None), Some(promise)) => return self.never_started(id, promise),
            (Ok(None), None) => return WaitError::Unknown(id),
            (Err(error), _) => return unread(error),
        };
        match self.store.session(found.session).await {
            Ok(Some(session)) if session.principal == who => WaitError::Forgotten {
                id,
                status: found.status,
            },
            Ok(_) => WaitError::Unknown(id),
            Err(error) => unread(error),
        }
    }

    /// Why a promised execution has not started and is not in this process.
    fn never_started(&self, id: ExecutionId, promise: PromisedRun) -> WaitError {
        let is_anothers = promise.lease != self.lease.id() && self.store.lives(promise.lease);
        match promise.status {
            None if is_anothers => WaitError::Elsewhere(id),
            status => WaitError::Forgotten {
                id,
                status: status.unwrap_or(ExecutionStatus::Lost),
            },
        }
    }

    /// Moves the files that an execution left out of the way. The program decides how many there are, so they are removed in the
    /// background.
    pub(crate) fn discard_files(&self, run: &TrackedRun) {
        if !run.files.exists() {
            return;
        }
        match Trash::new(self.data.path()).add(&run.files) {
            Ok(()) => self.release_folder(&run.files),
            Err(error) => {
                tracing::warn!(folder = %run.files.display(), %error, "files of an execution could not be removed");
            }
        }
    }
}
