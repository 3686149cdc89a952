//! Journal events of the network: a start before anything is sent, an end, or a refusal.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{
    CleanText, EgressTarget, Event, EventKind, ExecutionId, RecordError, RecordPosition, Recorder, SessionId,
};
use tokio::sync::watch;

use super::refuse::Denial;
use crate::credential::StandInMisuse;
use crate::pass::{EndEventBatcher, RefusalTally};

/// Most refusals that are listed one by one; the rest is counted.
const MAX_LISTED_REFUSALS: usize = 256;

/// How long the end of an execution waits for open flows.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

type RecordFuture = Pin<Box<dyn Future<Output = Result<RecordPosition, RecordError>> + Send>>;

/// A recorder without its type, so that only the outer types of the proxy are generic over it.
#[derive(Clone)]
pub(super) struct DynRecorder(Arc<dyn Fn(Event) -> RecordFuture + Send + Sync>);

impl fmt::Debug for DynRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scribe")
    }
}

impl DynRecorder {
    pub(super) fn new<R: Recorder + Clone + 'static>(recorder: R) -> DynRecorder {
        DynRecorder(Arc::new(move |event| {
            let recorder = recorder.clone();
            Box::pin(async move { recorder.record(event).await })
        }))
    }
}

impl Recorder for DynRecorder {
    fn record(&self, event: Event) -> impl Future<Output = Result<RecordPosition, RecordError>> + Send {
        (self.0)(event)
    }
}

/// A request or connection that the policy refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedEgress {
    /// The target, such as `https://example.org:443 GET /path`.
    pub detail: String,
    /// The stable code of the refusal.
    pub code: &'static str,
    /// The rule that refused it.
    pub rule: String,
}

/// The network use of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressReport {
    /// The first refused attempts, in the order of their numbers.
    pub listed_refusals: Vec<RefusedEgress>,
    /// The number of all refused attempts.
    pub refusal_count: u64,
    /// Bytes sent to hosts.
    pub bytes_out: u64,
    /// Bytes received from hosts.
    pub bytes_in: u64,
}

/// The end of one flow.
#[derive(Debug)]
pub(super) struct FlowEnd {
    pub(super) number: u64,
    pub(super) status: Option<u16>,
    pub(super) error: Option<&'static str>,
    pub(super) bytes_out: u64,
    pub(super) bytes_in: u64,
    pub(super) duration_ms: u64,
}

/// Records the flows of one execution.
#[derive(Debug)]
pub(super) struct FlowRecorder {
    recorder: DynRecorder,
    session: SessionId,
    execution: ExecutionId,
    next: AtomicU64,
    ends: EndEventBatcher<DynRecorder>,
    report: Mutex<EgressReport>,
    refusals: Mutex<RefusalTally>,
    /// The number of open flows.
    open: watch::Sender<usize>,
    closing: watch::Sender<bool>,
    failed: watch::Sender<Option<RecordError>>,
}

impl FlowRecorder {
    pub(super) fn new(recorder: DynRecorder, session: SessionId, execution: ExecutionId) -> FlowRecorder {
        FlowRecorder {
            ends: EndEventBatcher::new(recorder.clone()),
            recorder,
            session,
            execution,
            next: AtomicU64::new(1),
            report: Mutex::default(),
            refusals: Mutex::default(),
            open: watch::Sender::new(0),
            closing: watch::Sender::new(false),
            failed: watch::Sender::new(None),
        }
    }

    pub(super) fn recorder(&self) -> DynRecorder {
        self.recorder.clone()
    }

    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    fn refusals(&self) -> MutexGuard<'_, RefusalTally> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues events for refusals that no event reports yet.
    fn queue_refusal_counts(&self) {
        for (kind, _) in self.refusals().drain_events("egress_refused") {
            self.ends
                .add(Event::from_host(self.session, Some(self.execution), kind));
        }
    }

    fn report(&self) -> MutexGuard<'_, EgressReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn record(&self, kind: EventKind) -> Result<(), RecordError> {
        let event = Event::from_host(self.session, Some(self.execution), kind);
        let (ends, written) = tokio::join!(self.ends.flush(), self.recorder.record(event));
        let written = ends.and(written.map(drop));
        if let Err(error) = &written {
            self.set_failure(error.clone());
        }
        written
    }

    /// Records the start of a flow and returns its number. Nothing may be sent before that, or if it fails.
    pub(super) async fn record_start(&self, to: &EgressTarget, address: &str, rule: &str) -> Result<u64, RecordError> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let started = EventKind::EgressStarted {
            number,
            to: to.clone(),
            address: CleanText::clean(address),
            rule: CleanText::clean(rule),
        };
        self.record(started).await.map(|()| number)
    }

    /// Records a refusal and returns its number.
    pub(super) async fn record_refusal(&self, to: &EgressTarget, denial: &Denial) -> Result<u64, RecordError> {
        let refusal = &denial.refusal;
        let rule = refusal.rule.as_deref().unwrap_or_default();
        if denial.is_violation() {
            let mut crossed = self.report();
            crossed.refusal_count += 1;
            if crossed.listed_refusals.len() < MAX_LISTED_REFUSALS {
                crossed.listed_refusals.push(RefusedEgress {
                    detail: describe_target(to),
                    code: refusal.code,
                    rule: rule.to_owned(),
                });
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let is_listed = self.refusals().add(to.host.as_str(), refusal.code, rule);
        if !is_listed {
            if self.refusals().hold_entries(Vec::new()) {
                self.queue_refusal_counts();
            }
            return self.failure().map_or(Ok(number), Err);
        }
        self.record(EventKind::EgressRefused {
            number,
            to: to.clone(),
            code: CleanText::clean(refusal.code),
            rule: CleanText::clean(rule),
        })
        .await?;
        Ok(number)
    }

    /// Records a refusal because of a misplaced stand-in.
    pub(super) async fn record_misuse(
        &self,
        to: &EgressTarget,
        denial: &Denial,
        misuse: &StandInMisuse,
    ) -> Result<(), RecordError> {
        let number = self.record_refusal(to, denial).await?;
        if misuse.is_violation() {
            self.record(misuse_event(number, misuse)).await?;
        }
        Ok(())
    }

    /// Queues the misuse of a stand-in in an open flow; only the end of the execution waits for it.
    pub(super) fn queue_misuse(&self, number: u64, misuse: &StandInMisuse) {
        let mut crossed = self.report();
        crossed.refusal_count += 1;
        if crossed.listed_refusals.len() < MAX_LISTED_REFUSALS {
            crossed.listed_refusals.push(RefusedEgress {
                detail: format!("stand-in of `{}` in the {}", misuse.credential, misuse.place),
                code: misuse.refusal.code,
                rule: misuse.refusal.rule.clone().unwrap_or_default(),
            });
        }
        drop(crossed);
        let kind = misuse_event(number, misuse);
        self.ends
            .add(Event::from_host(self.session, Some(self.execution), kind));
    }

    /// Records which credentials are about to be sent.
    pub(super) async fn record_attached(&self, number: u64, names: &[String]) -> Result<(), RecordError> {
        for name in names {
            let credential = CleanText::clean(name);
            self.record(EventKind::CredentialUsed { number, credential }).await?;
        }
        Ok(())
    }

    /// Queues the end of a flow; only the end of the execution waits for it.
    pub(super) fn queue_end(&self, end: &FlowEnd) {
        let kind = EventKind::EgressEnded {
            number: end.number,
            status: end.status,
            error: end.error.map(CleanText::clean),
            bytes_out: end.bytes_out,
            bytes_in: end.bytes_in,
            duration_ms: end.duration_ms,
        };
        self.ends
            .add(Event::from_host(self.session, Some(self.execution), kind));
        {
            let mut crossed = self.report();
            crossed.bytes_out += end.bytes_out;
            crossed.bytes_in += end.bytes_in;
        }
        self.open.send_modify(|open| *open -= 1);
    }

    /// Counts one more open flow.
    pub(super) fn count_opened(&self) {
        self.open.send_modify(|open| *open += 1);
    }

    /// Waits until the execution closes.
    pub(super) async fn wait_until_closing(&self) {
        let mut closing = self.closing.subscribe();
        if closing.wait_for(|closing| *closing).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn set_failure(&self, error: RecordError) {
        self.failed.send_modify(|failed| {
            failed.get_or_insert(error);
        });
    }

    fn failure(&self) -> Option<RecordError> {
        self.failed.borrow().clone().or_else(|| self.ends.failure())
    }

    /// Waits until an event cannot be recorded.
    pub(super) async fn wait_for_failure(&self) -> RecordError {
        let mut failed = self.failed.subscribe();
        let error = failed
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|failed| failed.clone());
        match error {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }

    /// Closes the open flows, waits until every end is recorded, and returns the report.
    pub(super) async fn close(&self) -> Result<EgressReport, RecordError> {
        self.closing.send_replace(true);
        let mut open = self.open.subscribe();
        // A flow that does not end in time has no end in the journal: its result is unknown.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, open.wait_for(|open| *open == 0)).await;
        self.queue_refusal_counts();
        self.ends.flush_all().await?;
        match self.failure() {
            Some(error) => Err(error),
            None => Ok(self.report().clone()),
        }
    }
}

fn misuse_event(number: u64, misuse: &StandInMisuse) -> EventKind {
    EventKind::CredentialMisused {
        number,
        credential: CleanText::clean(&misuse.credential),
        place: CleanText::clean(misuse.place),
        code: CleanText::clean(misuse.refusal.code),
    }
}

/// Describes a target and its request in one line.
fn describe_target(to: &EgressTarget) -> String {
    let mut detail = format!("{}://{}:{}", to.scheme, to.host, to.port);
    for part in [&to.method, &to.path].into_iter().flatten() {
        detail.push(' ');
        detail.push_str(part.as_str());
    }
    CleanText::clean(&detail).as_str().to_owned()
}
