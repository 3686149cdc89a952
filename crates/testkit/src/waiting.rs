//! Many executions that wait for an approval: copies of a real one, made through the store alone.

use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use ringfence_journal::{ApprovalId, CleanText, Event, EventKind, ExecutionId, PolicyRef, SessionId};
use ringfence_store::{
    ApprovalQuery, ApprovalQuestion, Lease, NewRecording, NewSession, Session, Store, StoredRecording,
};
use tokio::task::JoinSet;

/// Copies that one commit contains.
const COPIES_PER_COMMIT: usize = 256;

/// A waiting execution, with all that a copy of it needs.
#[derive(Debug)]
pub struct WaitingOriginal {
    session: Session,
    policy_json: String,
    kept: StoredRecording,
    started: EventKind,
    question: ApprovalQuestion,
}

impl WaitingOriginal {
    /// Loads an execution that waits for an approval.
    pub async fn load(store: &Store, execution: ExecutionId) -> Result<WaitingOriginal> {
        let kept = store.recording(execution).await?.context("no recording")?;
        let id = kept.standing.session;
        let session = store.session(id).await?.context("no session")?;
        let policy_json = store.policy(&session.policy_digest).await?.context("no policy")?;
        let asked = ApprovalQuery {
            execution: Some(execution),
            ..ApprovalQuery::default()
        };
        let asked = store.list_approvals(asked).await?;
        let records = store.session_records(id).await?;
        let events: Vec<Event> = records
            .iter()
            .map(ringfence_journal::Record::event)
            .collect::<Result<_, _>>()?;
        let started = events
            .into_iter()
            .find(|event| matches!(event.kind, EventKind::ExecutionStarted { .. }));
        Ok(WaitingOriginal {
            session,
            policy_json,
            kept,
            started: started.context("it never started")?.kind,
            question: asked.into_iter().next().context("nobody was asked")?.question,
        })
    }

    /// The recorded request, as its engine wrote it.
    pub fn request(&mut self) -> &mut Vec<u8> {
        &mut self.kept.request
    }

    /// Makes `count` copies that resume at `wake`, or when their approval request is answered.
    pub async fn copies(
        self,
        store: &Arc<Store>,
        lease: &Arc<Lease>,
        count: usize,
        wake: Option<Timestamp>,
    ) -> Result<Vec<ExecutionId>> {
        let original = Arc::new(self);
        let mut made = Vec::with_capacity(count);
        let mut making = JoinSet::new();
        for _ in 0..count {
            if making.len() >= COPIES_PER_COMMIT
                && let Some(done) = making.join_next().await
            {
                made.push(done??);
            }
            let (original, store, lease) = (Arc::clone(&original), Arc::clone(store), Arc::clone(lease));
            making.spawn(async move { original.copy(&store, &lease, wake).await });
        }
        while let Some(done) = making.join_next().await {
            made.push(done??);
        }
        Ok(made)
    }

    async fn copy(&self, store: &Store, lease: &Lease, wake: Option<Timestamp>) -> Result<ExecutionId> {
        let (session, execution) = (SessionId::generate()?, ExecutionId::generate()?);
        let opening = NewSession {
            session,
            principal: self.session.principal,
            policy: PolicyRef {
                name: CleanText::clean(&self.session.policy_name),
                digest: CleanText::clean(&self.session.policy_digest),
            },
            policy_json: self.policy_json.clone(),
            backend: CleanText::clean(&self.session.backend),
            enforcement: Vec::new(),
            durable: false,
            journal_bytes: 1 << 26,
            uid: None,
            keeping: None,
        };
        store.open_session(lease, opening).await?;
        let event = |kind| Event::from_host(session, Some(execution), kind);
        let recording = NewRecording {
            execution,
            session,
            request: self.kept.request.clone(),
            stays: None,
        };
        store
            .record_start_with_recording(event(self.started.clone()), recording)
            .await?;
        let question = self.question(session, execution)?;
        let asked = EventKind::ApprovalAsked {
            id: question.id,
            number: u64::from(question.number),
            tool: CleanText::clean(&question.tool),
            rule: CleanText::clean(&question.rule),
            why: question.why,
            shown: question.shown,
            expires: question.expires,
        };
        store
            .record_question(event(asked), question, self.kept.entries.clone())
            .await?;
        let suspended = EventKind::ExecutionSuspended {
            waiting: 1,
            until: wake,
        };
        store.suspend(event(suspended), wake, Vec::new()).await?;
        store.release_session(session).await?;
        Ok(execution)
    }

    fn question(&self, session: SessionId, execution: ExecutionId) -> Result<ApprovalQuestion> {
        let asked = Timestamp::now();
        Ok(ApprovalQuestion {
            id: ApprovalId::generate()?,
            session,
            execution,
            asked,
            expires: asked.checked_add(SignedDuration::from_hours(1))?,
            ..self.question.clone()
        })
    }
}
