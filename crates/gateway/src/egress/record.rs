//! Journal events of the network: a start before anything is sent, an end, or a refusal.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{Event, ExecutionId, Kind, RecordError, Recorded, Recorder, SessionId, Target, Text};
use tokio::sync::watch;

use super::refuse::Denial;
use crate::credential::Misuse;
use crate::pass::{Ends, RefusalTally};

/// Most refusals that are listed one by one; the rest is counted.
const TOLD: usize = 256;

/// How long the end of an execution waits for open flows.
const LEAVING: Duration = Duration::from_secs(5);

type Written = Pin<Box<dyn Future<Output = Result<Recorded, RecordError>> + Send>>;

/// A recorder without its type, so that only the outer types of the proxy are generic over it.
#[derive(Clone)]
pub(super) struct Scribe(Arc<dyn Fn(Event) -> Written + Send + Sync>);

impl fmt::Debug for Scribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scribe")
    }
}

impl Scribe {
    pub(super) fn new<R: Recorder + Clone + 'static>(recorder: R) -> Scribe {
        Scribe(Arc::new(move |event| {
            let recorder = recorder.clone();
            Box::pin(async move { recorder.record(event).await })
        }))
    }
}

impl Recorder for Scribe {
    fn record(&self, event: Event) -> impl Future<Output = Result<Recorded, RecordError>> + Send {
        (self.0)(event)
    }
}

/// A request or connection that the policy refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Barred {
    /// The target, such as `https://example.org:443 GET /path`.
    pub detail: String,
    /// The stable code of the refusal.
    pub code: &'static str,
    /// The rule that refused it.
    pub rule: String,
}

/// The network use of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Crossed {
    /// The first refused attempts, in the order of their numbers.
    pub refused: Vec<Barred>,
    /// The number of all refused attempts.
    pub refusals: u64,
    /// Bytes sent to hosts.
    pub bytes_out: u64,
    /// Bytes received from hosts.
    pub bytes_in: u64,
}

/// The end of one flow.
#[derive(Debug)]
pub(super) struct End {
    pub(super) number: u64,
    pub(super) status: Option<u16>,
    pub(super) error: Option<&'static str>,
    pub(super) bytes_out: u64,
    pub(super) bytes_in: u64,
    pub(super) duration_ms: u64,
}

/// Records the flows of one execution.
#[derive(Debug)]
pub(super) struct Ledger {
    scribe: Scribe,
    session: SessionId,
    execution: ExecutionId,
    next: AtomicU64,
    ends: Ends<Scribe>,
    crossed: Mutex<Crossed>,
    refusals: Mutex<RefusalTally>,
    /// The number of open flows.
    open: watch::Sender<usize>,
    closing: watch::Sender<bool>,
    failed: watch::Sender<Option<RecordError>>,
}

impl Ledger {
    pub(super) fn new(scribe: Scribe, session: SessionId, execution: ExecutionId) -> Ledger {
        Ledger {
            ends: Ends::new(scribe.clone()),
            scribe,
            session,
            execution,
            next: AtomicU64::new(1),
            crossed: Mutex::default(),
            refusals: Mutex::default(),
            open: watch::Sender::new(0),
            closing: watch::Sender::new(false),
            failed: watch::Sender::new(None),
        }
    }

    pub(super) fn scribe(&self) -> Scribe {
        self.scribe.clone()
    }

    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    fn refusals(&self) -> MutexGuard<'_, RefusalTally> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues events for refusals that no event reports yet.
    fn say_refusals(&self) {
        for (kind, _) in self.refusals().take("egress_refused") {
            self.ends.add(Event::host(self.session, Some(self.execution), kind));
        }
    }

    fn crossed(&self) -> MutexGuard<'_, Crossed> {
        self.crossed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn record(&self, kind: Kind) -> Result<(), RecordError> {
        let event = Event::host(self.session, Some(self.execution), kind);
        let (ends, written) = tokio::join!(self.ends.write(), self.scribe.record(event));
        let written = ends.and(written.map(drop));
        if let Err(error) = &written {
            self.fail(error.clone());
        }
        written
    }

    /// Records the start of a flow and returns its number. Nothing may be sent before that, or if it fails.
    pub(super) async fn started(&self, to: &Target, address: &str, rule: &str) -> Result<u64, RecordError> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let started = Kind::EgressStarted {
            number,
            to: to.clone(),
            address: Text::clean(address),
            rule: Text::clean(rule),
        };
        self.record(started).await.map(|()| number)
    }

    /// Records a refusal and returns its number.
    pub(super) async fn refused(&self, to: &Target, denial: &Denial) -> Result<u64, RecordError> {
        let refusal = &denial.refusal;
        let rule = refusal.rule.as_deref().unwrap_or_default();
        if denial.is_violation() {
            let mut crossed = self.crossed();
            crossed.refusals += 1;
            if crossed.refused.len() < TOLD {
                crossed.refused.push(Barred {
                    detail: detail(to),
                    code: refusal.code,
                    rule: rule.to_owned(),
                });
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let is_listed = self.refusals().add(to.host.as_str(), refusal.code, rule);
        if !is_listed {
            if self.refusals().hold(Vec::new()) {
                self.say_refusals();
            }
            return self.failure().map_or(Ok(number), Err);
        }
        self.record(Kind::EgressRefused {
            number,
            to: to.clone(),
            code: Text::clean(refusal.code),
            rule: Text::clean(rule),
        })
        .await?;
        Ok(number)
    }

    /// Records a refusal because of a misplaced stand-in.
    pub(super) async fn misused(&self, to: &Target, denial: &Denial, misuse: &Misuse) -> Result<(), RecordError> {
        let number = self.refused(to, denial).await?;
        if misuse.is_one() {
            self.record(misused(number, misuse)).await?;
        }
        Ok(())
    }

    /// Queues the misuse of a stand-in in an open flow; only the end of the execution waits for it.
    pub(super) fn misuse(&self, number: u64, misuse: &Misuse) {
        let mut crossed = self.crossed();
        crossed.refusals += 1;
        if crossed.refused.len() < TOLD {
            crossed.refused.push(Barred {
                detail: format!("stand-in of `{}` in the {}", misuse.credential, misuse.place),
                code: misuse.refusal.code,
                rule: misuse.refusal.rule.clone().unwrap_or_default(),
            });
        }
        drop(crossed);
        let kind = misused(number, misuse);
        self.ends.add(Event::host(self.session, Some(self.execution), kind));
    }

    /// Records which credentials are about to be sent.
    pub(super) async fn attached(&self, number: u64, names: &[String]) -> Result<(), RecordError> {
        for name in names {
            let credential = Text::clean(name);
            self.record(Kind::CredentialUsed { number, credential }).await?;
        }
        Ok(())
    }

    /// Queues the end of a flow; only the end of the execution waits for it.
    pub(super) fn ended(&self, end: &End) {
        let kind = Kind::EgressEnded {
            number: end.number,
            status: end.status,
            error: end.error.map(Text::clean),
            bytes_out: end.bytes_out,
            bytes_in: end.bytes_in,
            duration_ms: end.duration_ms,
        };
        self.ends.add(Event::host(self.session, Some(self.execution), kind));
        {
            let mut crossed = self.crossed();
            crossed.bytes_out += end.bytes_out;
            crossed.bytes_in += end.bytes_in;
        }
        self.open.send_modify(|open| *open -= 1);
    }

    /// Counts one more open flow.
    pub(super) fn leaves(&self) {
        self.open.send_modify(|open| *open += 1);
    }

    /// Waits until the execution closes.
    pub(super) async fn closing(&self) {
        let mut closing = self.closing.subscribe();
        if closing.wait_for(|closing| *closing).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn fail(&self, error: RecordError) {
        self.failed.send_modify(|failed| {
            failed.get_or_insert(error);
        });
    }

    fn failure(&self) -> Option<RecordError> {
        self.failed.borrow().clone().or_else(|| self.ends.failed())
    }

    /// Waits until an event cannot be recorded.
    pub(super) async fn failed(&self) -> RecordError {
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
    pub(super) async fn close(&self) -> Result<Crossed, RecordError> {
        self.closing.send_replace(true);
        let mut open = self.open.subscribe();
        // A flow that does not end in time has no end in the journal: its result is unknown.
        let _ = tokio::time::timeout(LEAVING, open.wait_for(|open| *open == 0)).await;
        self.say_refusals();
        self.ends.write_all().await?;
        match self.failure() {
            Some(error) => Err(error),
            None => Ok(self.crossed().clone()),
        }
    }
}

fn misused(number: u64, misuse: &Misuse) -> Kind {
    Kind::CredentialMisused {
        number,
        credential: Text::clean(&misuse.credential),
        place: Text::clean(misuse.place),
        code: Text::clean(misuse.refusal.code),
    }
}

/// Describes a target and its request in one line.
fn detail(to: &Target) -> String {
    let mut detail = format!("{}://{}:{}", to.scheme, to.host, to.port);
    for part in [&to.method, &to.path].into_iter().flatten() {
        detail.push(' ');
        detail.push_str(part.as_str());
    }
    Text::clean(&detail).as_str().to_owned()
}
