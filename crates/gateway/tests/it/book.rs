//! A journal in memory, the parts of a pass, and an approval port that the test answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use ringfence_gateway::{
    ApprovalOutcome, ApprovalPort, ApprovalRequest, CallLog, Gateway, ObservedTypes, PassConfig, PassError, Redactor,
    SessionHistory,
};
use ringfence_journal::{
    ApprovalId, CleanText, ContentHash, Event, EventKind, ExecutionId, RecordError, RecordPosition, Recorder,
    ReplayEntry, ReplayRecorder, SessionId, Zeroizing,
};
use ringfence_policy::{Ceiling, Draft, Policy};
use tokio::sync::{mpsc, oneshot};

use crate::harness::Bench;

/// A journal in memory, which can be full.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) entries: Mutex<Vec<ReplayEntry>>,
    pub(crate) aliases: Mutex<Vec<Zeroizing<Vec<u8>>>>,
    pub(crate) full: AtomicBool,
}

impl Recorder for Book {
    async fn record(&self, event: Event) -> Result<RecordPosition, RecordError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(RecordError::Closed { session: event.session });
        }
        let mut events = self.events.lock().unwrap();
        events.push(event);
        Ok(RecordPosition {
            seq: events.len() as u64,
            hash: ContentHash::digest(b""),
        })
    }
}

impl ReplayRecorder for Book {
    async fn record_with_entries(
        &self,
        event: Event,
        entries: Vec<ReplayEntry>,
    ) -> Result<RecordPosition, RecordError> {
        let recorded = self.record(event).await?;
        self.entries.lock().unwrap().extend(entries);
        Ok(recorded)
    }

    async fn store_aliases(&self, session: SessionId, part: Zeroizing<Vec<u8>>) -> Result<(), RecordError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(RecordError::NotOwned { session });
        }
        self.aliases.lock().unwrap().push(part);
        Ok(())
    }
}

impl Book {
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        let events = self.events.lock().unwrap();
        events.iter().map(|event| event.kind.name()).collect()
    }

    /// Returns how many events of a kind were recorded.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.kinds().into_iter().filter(|found| *found == kind).count()
    }

    pub(crate) fn entries(&self) -> Vec<ReplayEntry> {
        self.entries.lock().unwrap().clone()
    }
}

pub(crate) type Pass = ringfence_gateway::Pass<Arc<Book>>;

/// The parts of a pass, for several passes of one execution.
pub(crate) struct Road {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) book: Arc<Book>,
    pub(crate) past: Arc<SessionHistory>,
    pub(crate) tape: Arc<CallLog>,
    pub(crate) screen: Arc<Redactor>,
    session: SessionId,
    execution: ExecutionId,
}

pub(crate) fn policy(text: &str) -> Arc<Policy> {
    Arc::new(Draft::parse(text, "t").unwrap().under(&Ceiling::unlimited()).unwrap())
}

impl Road {
    pub(crate) fn new(bench: &Bench, rules: &str) -> Road {
        Road {
            gateway: Arc::new(Gateway::new(
                bench.upstreams.clone(),
                ObservedTypes::open(bench.home.path()),
            )),
            policy: policy(rules),
            book: Arc::default(),
            past: Arc::default(),
            tape: Arc::new(CallLog::new()),
            screen: Arc::default(),
            session: SessionId::generate().unwrap(),
            execution: ExecutionId::generate().unwrap(),
        }
    }

    pub(crate) fn pass(&self, desk: ApprovalPort) -> Arc<Pass> {
        Arc::new(Pass::new(PassConfig {
            gateway: Arc::clone(&self.gateway),
            policy: Arc::clone(&self.policy),
            recorder: Arc::clone(&self.book),
            session: self.session,
            execution: self.execution,
            parent: None,
            history: Arc::clone(&self.past),
            call_log: Arc::clone(&self.tape),
            approvals: desk,
            redactor: Arc::clone(&self.screen),
        }))
    }

    /// Returns the same execution for another run, with the call log that it kept.
    pub(crate) fn again(self) -> Road {
        let (tape, _) = CallLog::from_entries(self.book.entries()).unwrap();
        Road {
            tape: Arc::new(tape),
            ..self
        }
    }

    /// Creates an approval port that stores requests and hands them to the test.
    pub(crate) fn desk(&self) -> (ApprovalPort, Inbox) {
        let (asked, petitions) = mpsc::unbounded_channel();
        let withdrawn: Arc<Mutex<Vec<ApprovalId>>> = Arc::default();
        let (book, ids, taken) = (
            Arc::clone(&self.book),
            (self.session, self.execution),
            Arc::clone(&withdrawn),
        );
        let ask = move |petition: ApprovalRequest| -> BoxFuture<'static, Result<ApprovalOutcome, RecordError>> {
            let (book, asked) = (Arc::clone(&book), asked.clone());
            Box::pin(async move {
                let kind = EventKind::ApprovalAsked {
                    id: petition.id,
                    number: u64::from(petition.number),
                    tool: CleanText::clean(&petition.tool),
                    rule: CleanText::clean(&petition.rule),
                    why: petition.reason,
                    shown: petition.shown_digest,
                    expires: Timestamp::MAX,
                };
                if petition.previous.is_none() {
                    let event = Event::from_host(ids.0, Some(ids.1), kind);
                    book.record_with_entries(event, petition.entries.clone()).await?;
                }
                let (answer, ruling) = oneshot::channel();
                asked.send((petition, answer)).unwrap();
                Ok(ruling.await.unwrap_or(ApprovalOutcome::Withdrawn))
            })
        };
        let withdraw = move |id| -> BoxFuture<'static, Result<(), RecordError>> {
            taken.lock().unwrap().push(id);
            Box::pin(async { Ok(()) })
        };
        (ApprovalPort::new(ask, withdraw), Inbox { petitions, withdrawn })
    }
}

/// The approval requests that wait for the test.
pub(crate) struct Inbox {
    petitions: mpsc::UnboundedReceiver<(ApprovalRequest, oneshot::Sender<ApprovalOutcome>)>,
    pub(crate) withdrawn: Arc<Mutex<Vec<ApprovalId>>>,
}

impl Inbox {
    pub(crate) async fn next(&mut self) -> (ApprovalRequest, oneshot::Sender<ApprovalOutcome>) {
        let next = tokio::time::timeout(Duration::from_secs(20), self.petitions.recv());
        next.await.unwrap().unwrap()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.petitions.is_empty()
    }
}

/// Makes a call in a task of its own.
pub(crate) fn spawn(
    pass: &Arc<Pass>,
    number: u32,
    tool: &'static str,
    body: &'static str,
) -> tokio::task::JoinHandle<Result<String, PassError>> {
    let pass = Arc::clone(pass);
    tokio::spawn(async move { pass.call(number, "one", tool, body, b"").await })
}

/// Returns the code, rule and message of a refusal.
#[track_caller]
pub(crate) fn refused(answer: Result<String, PassError>) -> (String, Option<String>, String) {
    match answer {
        Err(PassError::Refused(told)) => (told.code, told.rule, told.message),
        other => panic!("{other:?}"),
    }
}
