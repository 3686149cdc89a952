//! Metrics for Prometheus. Runs are counted from the journal, so counting never delays them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use ringfence_engine::Engine;
use ringfence_engine::storage::{JournalTail, QueryError};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::problem::HttpProblem;

const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The histogram buckets for the seconds of a run: from a warm one to the longest usual limits.
const RUN_SECONDS_BUCKETS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0,
];

/// The interval at which the journal is counted without a request for metrics.
const COUNT_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    status: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    outcome: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    code: String,
}

/// All metrics of the server.
#[derive(Debug)]
pub(crate) struct Metrics {
    engine: Arc<Engine>,
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    /// The position in the journal up to which events are counted.
    journal: Mutex<JournalTail>,
    counts: JournalCounters,
    sessions: Gauge,
    hits: Counter,
    misses: Counter,
}

/// The metrics that are counted from the journal.
#[derive(Debug)]
struct JournalCounters {
    runs: Family<RunLabels, Counter>,
    seconds: Histogram,
    calls: Family<CallLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
}

/// The fields of an event that are counted.
#[derive(Debug, Deserialize)]
struct CountedEvent {
    kind: String,
    status: Option<String>,
    outcome: Option<String>,
    code: Option<String>,
    usage: Option<CountedUsage>,
}

#[derive(Debug, Deserialize)]
struct CountedUsage {
    wall_ms: u64,
}

impl Metrics {
    /// Starts to count at the current end of the journal.
    pub(crate) async fn new(engine: Arc<Engine>) -> Result<Metrics, QueryError> {
        let journal = Mutex::new(engine.store().tail_last(0).await?);
        let mut registry = Registry::with_prefix("ringfence");
        let counts = JournalCounters::register(&mut registry);
        let (requests, sessions) = (Family::default(), Gauge::default());
        let (hits, misses) = (Counter::default(), Counter::default());
        registry.register(
            "http_requests",
            "Requests answered, by route and status",
            requests.clone(),
        );
        registry.register("sessions_open", "Sessions that are open", sessions.clone());
        registry.register(
            "pool_hits",
            "Sandboxes that were ready when one was needed",
            hits.clone(),
        );
        registry.register(
            "pool_misses",
            "Sandboxes that had to be made when one was needed",
            misses.clone(),
        );
        Ok(Metrics {
            engine,
            registry,
            requests,
            journal,
            counts,
            sessions,
            hits,
            misses,
        })
    }

    pub(crate) fn count_request(&self, route: &str, status: StatusCode) {
        let labels = RequestLabels {
            route: route.to_owned(),
            status: status.as_u16(),
        };
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts the events since the last count.
    async fn catch_up(&self) -> Result<(), QueryError> {
        let mut tail = self.journal.lock().await;
        loop {
            let page = tail.page().await?;
            if page.is_empty() {
                return Ok(());
            }
            for numbered in page {
                match serde_json::from_str(&numbered.record.json) {
                    Ok(line) => self.counts.count_event(line),
                    Err(error) => tracing::debug!(n = numbered.n, %error, "a record is not counted"),
                }
            }
        }
    }

    async fn render_text(&self) -> Result<String, HttpProblem> {
        let unread = |error: QueryError| HttpProblem::internal("store.read", &error);
        self.catch_up().await.map_err(unread)?;
        let open = self.engine.store().open_session_count().await.map_err(unread)?;
        self.sessions.set(i64::try_from(open).unwrap_or(i64::MAX));
        let pool = self.engine.sandboxes().pool_counts();
        self.hits.inner().store(pool.hits, Ordering::Relaxed);
        self.misses.inner().store(pool.misses, Ordering::Relaxed);
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|error| HttpProblem::internal("metrics.text", &error))?;
        Ok(text)
    }
}

impl JournalCounters {
    fn register(registry: &mut Registry) -> JournalCounters {
        let counts = JournalCounters {
            runs: Family::default(),
            seconds: Histogram::new(RUN_SECONDS_BUCKETS),
            calls: Family::default(),
            refusals: Family::default(),
        };
        registry.register("runs", "Runs that ended, by status", counts.runs.clone());
        registry.register("run_seconds", "How long runs took", counts.seconds.clone());
        registry.register("tool_calls", "Tool calls that ended, by outcome", counts.calls.clone());
        registry.register(
            "refusals",
            "Runs and calls that were refused, by code",
            counts.refusals.clone(),
        );
        counts
    }

    fn count_event(&self, line: CountedEvent) {
        match line.kind.as_str() {
            "execution_ended" => {
                let status = line.status.unwrap_or_default();
                self.runs.get_or_create(&RunLabels { status }).inc();
                if let Some(usage) = line.usage {
                    self.seconds.observe(Duration::from_millis(usage.wall_ms).as_secs_f64());
                }
            }
            "call_ended" => {
                let outcome = line.outcome.unwrap_or_default();
                self.calls.get_or_create(&CallLabels { outcome }).inc();
            }
            "refused" | "call_refused" => {
                let code = line.code.unwrap_or_default();
                self.refusals.get_or_create(&RefusalLabels { code }).inc();
            }
            _ => {}
        }
    }
}

/// Counts periodically, so that a request for metrics has little to catch up.
pub(crate) async fn count_periodically(metrics: Arc<Metrics>) {
    loop {
        tokio::time::sleep(COUNT_INTERVAL).await;
        if let Err(error) = metrics.catch_up().await {
            tracing::warn!(%error, "what happened could not be counted");
        }
    }
}

/// Responds to `GET /metrics` with all metrics.
pub(crate) async fn metrics_response(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.render_text().await {
        Ok(text) => ([(CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response(),
        Err(problem) => problem.into_response(),
    }
}
