//! The approval broker of one execution: it turns a call that needs an approval into an approval request, and waits for the answer.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use ringfence_gateway::{ApprovalOutcome, ApprovalPort, ApprovalRequest};
use ringfence_journal::{
    ApprovalAnswer, ApprovalId, CleanText, ContentHash, Event, EventKind, ExecutionId, Principal, RecordError,
    Recorder as _, ReplayEntry, ReplayEntryKind, SessionId,
};
use ringfence_sandbox::RunProgram;
use ringfence_store::{ApprovalGrounds, ApprovalQuestion, ApprovalState, QueryError, Store, StoredApproval};

use crate::approvals::notifier::{ApprovalEvent, ApprovalNotifier};
use crate::approvals::standing_rules::StandingRulesFile;
use crate::approvals::{PendingApproval, source_head};

/// How long an approval request stays open where the policy does not say.
const DEFAULT_APPROVAL_TIMEOUT: Duration = Duration::from_mins(10);

/// Asks for approvals on behalf of one execution.
#[derive(Debug)]
pub(crate) struct ApprovalBroker {
    pub(crate) store: Arc<Store>,
    pub(crate) notifier: ApprovalNotifier,
    pub(crate) session: SessionId,
    pub(crate) execution: ExecutionId,
    pub(crate) principal: Principal,
    /// The name of the program, as the request shows it.
    pub(crate) program: String,
    pub(crate) code: ProgramSource,
    /// The permanent approval rules of the data folder.
    pub(crate) standing_rules: StandingRulesFile,
}

/// The code of the program that asks, where it has any.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProgramSource {
    digest: Option<ContentHash>,
    /// The head of the source; none where a recording holds the code.
    source: Option<String>,
}

impl ProgramSource {
    /// Takes the code of a program; `is_kept` says that a recording holds it.
    pub(crate) fn from_program(program: &RunProgram, is_kept: bool) -> ProgramSource {
        let source = program.source();
        ProgramSource {
            digest: source.map(|source| ContentHash::digest(source.as_bytes())),
            source: source.filter(|_| !is_kept).map(|source| source_head(source).to_owned()),
        }
    }
}

impl ApprovalBroker {
    /// The approval port through which the gateway asks and withdraws.
    pub(crate) fn into_approval_port(self) -> ApprovalPort {
        let standing = self.standing_rules.clone();
        let asker = Arc::new(self);
        let other = Arc::clone(&asker);
        let ask = move |petition| -> BoxFuture<'static, _> {
            let asker = Arc::clone(&asker);
            Box::pin(async move { asker.request_approval(petition).await })
        };
        let withdraw = move |id| -> BoxFuture<'static, _> {
            let asker = Arc::clone(&other);
            Box::pin(async move { asker.withdraw_question(id).await })
        };
        ApprovalPort::new(ask, withdraw).with_standing_rules(move || standing.rules())
    }

    async fn request_approval(&self, petition: ApprovalRequest) -> Result<ApprovalOutcome, RecordError> {
        let number = petition.number;
        let (id, expires) = self.open_question(petition).await?;
        let bell = self.notifier.register([id]);
        loop {
            let Some(approval) = self.store.approval(id).await.map_err(record_error)? else {
                return Ok(ApprovalOutcome::Withdrawn);
            };
            match approval.state {
                ApprovalState::Pending => {}
                ApprovalState::Approved | ApprovalState::Denied => return self.finish_answered(number, approval).await,
                ApprovalState::Expired => return self.finish_expired(number, id).await,
                ApprovalState::Withdrawn => {
                    self.record_answer(number, id, ApprovalAnswer::Withdrawn, None).await?;
                    return Ok(ApprovalOutcome::Withdrawn);
                }
            }
            tokio::select! {
                () = bell.notified() => {}
                () = tokio::time::sleep(time_until(expires)) => {}
            }
        }
    }

    /// Opens the request for an approval: the earlier one if it shows the same, or a new one.
    async fn open_question(&self, petition: ApprovalRequest) -> Result<(ApprovalId, Timestamp), RecordError> {
        if let Some(known) = petition.previous {
            if let Some(expires) = self.reusable_until(known, &petition).await? {
                return Ok((known, expires));
            }
            self.withdraw_question(known).await?;
        }
        let asked = Timestamp::now();
        let timeout = petition.timeout.unwrap_or(DEFAULT_APPROVAL_TIMEOUT);
        let expires = asked
            .checked_add(jiff::SignedDuration::try_from(timeout).unwrap_or(jiff::SignedDuration::MAX))
            .unwrap_or(Timestamp::MAX);
        let ApprovalRequest {
            id,
            number,
            tool,
            arguments,
            masked,
            rule,
            reason: why,
            shown_digest: shown,
            policy,
            hints,
            grantee,
            entries,
            ..
        } = petition;
        let kind = EventKind::ApprovalAsked {
            id,
            number: u64::from(number),
            tool: CleanText::clean(&tool),
            rule: CleanText::clean(&rule),
            why,
            shown,
            expires,
        };
        let question = ApprovalQuestion {
            id,
            principal: self.principal,
            session: self.session,
            execution: self.execution,
            number,
            program: self.program.clone(),
            tool,
            rule,
            why,
            arguments,
            masked,
            shown,
            asked,
            expires,
            grounds: ApprovalGrounds {
                policy: Some(policy),
                hints: Some(hints),
                grantee: Some(grantee),
                code: self.code.digest,
                source: self.code.source.clone(),
            },
        };
        let inquiry = PendingApproval::from_question(&question);
        self.store
            .record_question(self.journal_event(kind), question, entries)
            .await?;
        self.notifier.publish(ApprovalEvent::Asked(self.execution, inquiry));
        Ok((id, expires))
    }

    /// When the earlier request expires; none if it shows something else.
    async fn reusable_until(
        &self,
        known: ApprovalId,
        petition: &ApprovalRequest,
    ) -> Result<Option<Timestamp>, RecordError> {
        let before = self.store.approval(known).await.map_err(record_error)?;
        let Some(before) = before.filter(|before| before.question.shown == petition.shown_digest) else {
            return Ok(None);
        };
        // The request is stored already; the trace of the program since then is not.
        let traces = petition
            .entries
            .iter()
            .filter(|entry| entry.kind == ReplayEntryKind::Trace);
        let traces: Vec<ReplayEntry> = traces.cloned().collect();
        if !traces.is_empty() {
            self.store.keep_entries(self.session, self.execution, traces).await?;
        }
        Ok(Some(before.question.expires))
    }

    /// Records the answer before the call goes on.
    async fn finish_answered(&self, number: u32, approval: StoredApproval) -> Result<ApprovalOutcome, RecordError> {
        let Some((answer, _)) = approval.answer.clone() else {
            return Ok(ApprovalOutcome::Withdrawn);
        };
        let said = if answer.approve {
            ApprovalAnswer::Approved
        } else {
            ApprovalAnswer::Denied
        };
        self.record_answer(number, approval.question.id, said, Some(&approval))
            .await?;
        Ok(if answer.approve {
            ApprovalOutcome::Approved { scope: answer.scope }
        } else {
            ApprovalOutcome::Denied { note: answer.note }
        })
    }

    /// Expires the request, unless an answer came just now.
    async fn finish_expired(&self, number: u32, id: ApprovalId) -> Result<ApprovalOutcome, RecordError> {
        let state = self.store.settle_question(id, ApprovalAnswer::Expired).await?;
        if matches!(state, Some(ApprovalState::Approved | ApprovalState::Denied))
            && let Some(approval) = self.store.approval(id).await.map_err(record_error)?
        {
            return self.finish_answered(number, approval).await;
        }
        self.record_answer(number, id, ApprovalAnswer::Expired, None).await?;
        Ok(ApprovalOutcome::Expired)
    }

    async fn record_answer(
        &self,
        number: u32,
        id: ApprovalId,
        answer: ApprovalAnswer,
        approval: Option<&StoredApproval>,
    ) -> Result<(), RecordError> {
        let said = approval
            .and_then(|approval| approval.answer.as_ref())
            .map(|(said, _)| said);
        let kind = EventKind::ApprovalAnswered {
            id,
            number: u64::from(number),
            answer,
            scope: said.filter(|said| said.approve).map(|said| said.scope),
            by: said.map(|said| said.by),
            via: said.map(|said| said.via),
        };
        self.store.record(self.journal_event(kind)).await?;
        self.notifier
            .publish(ApprovalEvent::Settled(self.execution, id, answer));
        Ok(())
    }

    /// Withdraws a request; an answer that it already has is recorded all the same.
    async fn withdraw_question(&self, id: ApprovalId) -> Result<(), RecordError> {
        self.store.settle_question(id, ApprovalAnswer::Withdrawn).await?;
        let Some(approval) = self.store.approval(id).await.map_err(record_error)? else {
            return Ok(());
        };
        let answer = match approval.state {
            ApprovalState::Approved => ApprovalAnswer::Approved,
            ApprovalState::Denied => ApprovalAnswer::Denied,
            ApprovalState::Expired => ApprovalAnswer::Expired,
            ApprovalState::Pending | ApprovalState::Withdrawn => ApprovalAnswer::Withdrawn,
        };
        self.record_answer(approval.question.number, id, answer, Some(&approval))
            .await
    }

    fn journal_event(&self, kind: EventKind) -> Event {
        Event::from_host(self.session, Some(self.execution), kind)
    }
}

/// The time until `then`; zero where it is past.
pub(crate) fn time_until(then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(Timestamp::now())).unwrap_or_default()
}

/// The record error of an approval request that cannot be read.
pub(crate) fn record_error(error: QueryError) -> RecordError {
    RecordError::Keep {
        source: Arc::new(error),
    }
}
