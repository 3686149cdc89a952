//! The approval broker of one execution: it turns a call that needs an approval into an approval request, and waits for the answer.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use ringfence_gateway::{Desk, Petition, Ruling};
use ringfence_journal::{
    ApprovalAnswer, ApprovalId, Entry, EntryKind, Event, ExecutionId, Hash, Kind, Principal, RecordError,
    Recorder as _, SessionId, Text,
};
use ringfence_store::{Approval, ApprovalState, Grounds, Question, ReadError, Store};

use crate::approvals::{Inquiry, head};
use crate::bells::{Bells, Word};
use crate::request::Program;
use crate::standing::Standing;

/// How long an approval request stays open where the policy does not say.
const TIMEOUT: Duration = Duration::from_mins(10);

/// Asks for approvals on behalf of one execution.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) store: Arc<Store>,
    pub(crate) bells: Bells,
    pub(crate) session: SessionId,
    pub(crate) execution: ExecutionId,
    pub(crate) principal: Principal,
    /// The name of the program, as the request shows it.
    pub(crate) program: String,
    pub(crate) code: Code,
    /// The permanent approval rules of the data folder.
    pub(crate) standing: Standing,
}

/// The code of the program that asks, where it has any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Code {
    digest: Option<Hash>,
    /// The head of the source; none where a recording holds the code.
    source: Option<String>,
}

impl Code {
    /// Takes the code of a program; `is_kept` says that a recording holds it.
    pub(crate) fn of(program: &Program, is_kept: bool) -> Code {
        let source = program.source();
        Code {
            digest: source.map(|source| Hash::of(source.as_bytes())),
            source: source.filter(|_| !is_kept).map(|source| head(source).to_owned()),
        }
    }
}

impl Asker {
    /// The approval port through which the gateway asks and withdraws.
    pub(crate) fn desk(self) -> Desk {
        let standing = self.standing.clone();
        let asker = Arc::new(self);
        let other = Arc::clone(&asker);
        let ask = move |petition| -> BoxFuture<'static, _> {
            let asker = Arc::clone(&asker);
            Box::pin(async move { asker.ask(petition).await })
        };
        let withdraw = move |id| -> BoxFuture<'static, _> {
            let asker = Arc::clone(&other);
            Box::pin(async move { asker.withdraw(id).await })
        };
        Desk::new(ask, withdraw).with_standing(move || standing.rules())
    }

    async fn ask(&self, petition: Petition) -> Result<Ruling, RecordError> {
        let number = petition.number;
        let (id, expires) = self.question(petition).await?;
        let bell = self.bells.hang([id]);
        loop {
            let Some(approval) = self.store.approval(id).await.map_err(unread)? else {
                return Ok(Ruling::Withdrawn);
            };
            match approval.state {
                ApprovalState::Pending => {}
                ApprovalState::Approved | ApprovalState::Denied => return self.answered(number, approval).await,
                ApprovalState::Expired => return self.expired(number, id).await,
                ApprovalState::Withdrawn => {
                    self.note(number, id, ApprovalAnswer::Withdrawn, None).await?;
                    return Ok(Ruling::Withdrawn);
                }
            }
            tokio::select! {
                () = bell.rings() => {}
                () = tokio::time::sleep(until(expires)) => {}
            }
        }
    }

    /// Opens the request for an approval: the earlier one if it shows the same, or a new one.
    async fn question(&self, petition: Petition) -> Result<(ApprovalId, Timestamp), RecordError> {
        if let Some(known) = petition.known {
            if let Some(expires) = self.taken_up(known, &petition).await? {
                return Ok((known, expires));
            }
            self.withdraw(known).await?;
        }
        let asked = Timestamp::now();
        let timeout = petition.timeout.unwrap_or(TIMEOUT);
        let expires = asked
            .checked_add(jiff::SignedDuration::try_from(timeout).unwrap_or(jiff::SignedDuration::MAX))
            .unwrap_or(Timestamp::MAX);
        let Petition {
            id,
            number,
            tool,
            arguments,
            masked,
            rule,
            why,
            shown,
            policy,
            hints,
            grantee,
            entries,
            ..
        } = petition;
        let kind = Kind::ApprovalAsked {
            id,
            number: u64::from(number),
            tool: Text::clean(&tool),
            rule: Text::clean(&rule),
            why,
            shown,
            expires,
        };
        let question = Question {
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
            grounds: Grounds {
                policy: Some(policy),
                hints: Some(hints),
                grantee: Some(grantee),
                code: self.code.digest,
                source: self.code.source.clone(),
            },
        };
        let inquiry = Inquiry::asked(&question);
        self.store.ask(self.event(kind), question, entries).await?;
        self.bells.tell(Word::Asked(self.execution, inquiry));
        Ok((id, expires))
    }

    /// When the earlier request expires; none if it shows something else.
    async fn taken_up(&self, known: ApprovalId, petition: &Petition) -> Result<Option<Timestamp>, RecordError> {
        let before = self.store.approval(known).await.map_err(unread)?;
        let Some(before) = before.filter(|before| before.question.shown == petition.shown) else {
            return Ok(None);
        };
        // The request is stored already; the trace of the program since then is not.
        let traces = petition.entries.iter().filter(|entry| entry.kind == EntryKind::Trace);
        let traces: Vec<Entry> = traces.cloned().collect();
        if !traces.is_empty() {
            self.store.keep(self.session, self.execution, traces).await?;
        }
        Ok(Some(before.question.expires))
    }

    /// Records the answer before the call goes on.
    async fn answered(&self, number: u32, approval: Approval) -> Result<Ruling, RecordError> {
        let Some((answer, _)) = approval.answer.clone() else {
            return Ok(Ruling::Withdrawn);
        };
        let said = if answer.approve {
            ApprovalAnswer::Approved
        } else {
            ApprovalAnswer::Denied
        };
        self.note(number, approval.question.id, said, Some(&approval)).await?;
        Ok(if answer.approve {
            Ruling::Approved { scope: answer.scope }
        } else {
            Ruling::Denied { note: answer.note }
        })
    }

    /// Expires the request, unless an answer came just now.
    async fn expired(&self, number: u32, id: ApprovalId) -> Result<Ruling, RecordError> {
        let state = self.store.settle(id, ApprovalAnswer::Expired).await?;
        if matches!(state, Some(ApprovalState::Approved | ApprovalState::Denied))
            && let Some(approval) = self.store.approval(id).await.map_err(unread)?
        {
            return self.answered(number, approval).await;
        }
        self.note(number, id, ApprovalAnswer::Expired, None).await?;
        Ok(Ruling::Expired)
    }

    async fn note(
        &self,
        number: u32,
        id: ApprovalId,
        answer: ApprovalAnswer,
        approval: Option<&Approval>,
    ) -> Result<(), RecordError> {
        let said = approval
            .and_then(|approval| approval.answer.as_ref())
            .map(|(said, _)| said);
        let kind = Kind::ApprovalAnswered {
            id,
            number: u64::from(number),
            answer,
            scope: said.filter(|said| said.approve).map(|said| said.scope),
            by: said.map(|said| said.by),
            via: said.map(|said| said.via),
        };
        self.store.record(self.event(kind)).await?;
        self.bells.tell(Word::Settled(self.execution, id, answer));
        Ok(())
    }

    /// Withdraws a request; an answer that it already has is recorded all the same.
    async fn withdraw(&self, id: ApprovalId) -> Result<(), RecordError> {
        self.store.settle(id, ApprovalAnswer::Withdrawn).await?;
        let Some(approval) = self.store.approval(id).await.map_err(unread)? else {
            return Ok(());
        };
        let answer = match approval.state {
            ApprovalState::Approved => ApprovalAnswer::Approved,
            ApprovalState::Denied => ApprovalAnswer::Denied,
            ApprovalState::Expired => ApprovalAnswer::Expired,
            ApprovalState::Pending | ApprovalState::Withdrawn => ApprovalAnswer::Withdrawn,
        };
        self.note(approval.question.number, id, answer, Some(&approval)).await
    }

    fn event(&self, kind: Kind) -> Event {
        Event::host(self.session, Some(self.execution), kind)
    }
}

/// The time until `then`; zero where it is past.
pub(crate) fn until(then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(Timestamp::now())).unwrap_or_default()
}

/// The record error of an approval request that cannot be read.
pub(crate) fn unread(error: ReadError) -> RecordError {
    RecordError::Keep {
        source: Arc::new(error),
    }
}
