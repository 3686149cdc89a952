//! Many executions that wait for an approval: copies of a real one, made through the store alone.

use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use ringfence_journal::{ApprovalId, Event, ExecutionId, Kind, PolicyRef, SessionId, Text};
use ringfence_store::{Approvals, Kept, Lease, Opening, Question, Recording, Session, Store};
use tokio::task::JoinSet;

/// Copies that one commit contains.
const AT_ONCE: usize = 256;

/// A waiting execution, with all that a copy of it needs.
#[derive(Debug)]
pub struct Original {
    session: Session,
    policy_json: String,
    kept: Kept,
    started: Kind,
    question: Question,
}

impl Original {
    /// Loads an execution that waits for an approval.
    pub async fn read(store: &Store, execution: ExecutionId) -> Result<Original> {
        let kept = store.recording(execution).await?.context("no recording")?;
        let id = kept.standing.session;
        let session = store.session(id).await?.context("no session")?;
        let policy_json = store.policy(&session.policy_digest).await?.context("no policy")?;
        let asked = Approvals {
            execution: Some(execution),
            ..Approvals::default()
        };
        let asked = store.approvals(asked).await?;
        let records = store.show(id).await?;
        let events: Vec<Event> = records
            .iter()
            .map(ringfence_journal::Record::event)
            .collect::<Result<_, _>>()?;
        let started = events
            .into_iter()
            .find(|event| matches!(event.kind, Kind::ExecutionStarted { .. }));
        Ok(Original {
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
            if making.len() >= AT_ONCE
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
        let opening = Opening {
            session,
            principal: self.session.principal,
            policy: PolicyRef {
                name: Text::clean(&self.session.policy_name),
                digest: Text::clean(&self.session.policy_digest),
            },
            policy_json: self.policy_json.clone(),
            backend: Text::clean(&self.session.backend),
            enforcement: Vec::new(),
            durable: false,
            journal_bytes: 1 << 26,
            uid: None,
            keeping: None,
        };
        store.open_session(lease, opening).await?;
        let event = |kind| Event::host(session, Some(execution), kind);
        let recording = Recording {
            execution,
            session,
            request: self.kept.request.clone(),
            stays: None,
        };
        store.record_start(event(self.started.clone()), recording).await?;
        let question = self.question(session, execution)?;
        let asked = Kind::ApprovalAsked {
            id: question.id,
            number: u64::from(question.number),
            tool: Text::clean(&question.tool),
            rule: Text::clean(&question.rule),
            why: question.why,
            shown: question.shown,
            expires: question.expires,
        };
        store.ask(event(asked), question, self.kept.entries.clone()).await?;
        let suspended = Kind::ExecutionSuspended {
            waiting: 1,
            until: wake,
        };
        store.suspend(event(suspended), wake, Vec::new()).await?;
        store.release_session(session).await?;
        Ok(execution)
    }

    fn question(&self, session: SessionId, execution: ExecutionId) -> Result<Question> {
        let asked = Timestamp::now();
        Ok(Question {
            id: ApprovalId::generate()?,
            session,
            execution,
            asked,
            expires: asked.checked_add(SignedDuration::from_hours(1))?,
            ..self.question.clone()
        })
    }
}
