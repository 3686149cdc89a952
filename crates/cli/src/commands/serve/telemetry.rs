//! Sends events to a collector as spans. The journal is the queue: a collector that is unreachable delays nothing, and
//! gets the missed spans when it is reachable again.

use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::Engine;
use ringfence_gateway::Otlp;
use ringfence_journal::{Span, Spans};
use ringfence_store::{Numbered, Tail};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::fault::{Fault, chain};
use crate::settings::Settings;

/// The time for which spans are collected into one batch.
const GATHER: Duration = Duration::from_secs(1);
/// The delay before a failed batch is sent again; it doubles up to the maximum below.
const REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(30);
/// The time to send the remaining spans at shutdown.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The collector from the configuration, else from the environment; `None` if neither names one.
pub(super) fn collector(configured: Option<&str>, settings: &Settings) -> Result<Option<Otlp>, Fault> {
    let Some(endpoint) = configured.or(settings.otlp.as_deref()) else {
        return Ok(None);
    };
    Otlp::new(endpoint).map(Some).map_err(|error| {
        Fault::ours("telemetry.otlp", chain(&error))
            .hint("look at `telemetry.otlp` in `ringfence.yaml`, or `OTEL_EXPORTER_OTLP_ENDPOINT`")
    })
}

/// Exports spans in a background task.
pub(super) struct Traces {
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Traces {
    /// Starts to export the events from now on.
    pub(super) async fn start(engine: &Arc<Engine>, collector: Otlp) -> Result<Traces, Fault> {
        let tail = engine.store().tail(0).await?;
        let (closing, closed) = watch::channel(false);
        let sender = Sender {
            tail,
            spans: Spans::default(),
            collector,
        };
        Ok(Traces {
            closing,
            task: tokio::spawn(sender.run(closed)),
        })
    }

    /// Sends the remaining spans, for a limited time, and ends the task.
    pub(super) async fn finish(mut self) {
        // The send fails only if the task is over.
        let _ = self.closing.send(true);
        if tokio::time::timeout(LAST_WORDS, &mut self.task).await.is_err() {
            tracing::warn!("the last spans did not reach the collector");
            self.task.abort();
        }
    }
}

struct Sender {
    tail: Tail,
    spans: Spans,
    collector: Otlp,
}

impl Sender {
    async fn run(mut self, mut closed: watch::Receiver<bool>) {
        loop {
            let last = tokio::select! {
                () = tokio::time::sleep(GATHER) => false,
                // A dropped sender also ends the task.
                _ = closed.wait_for(|closed| *closed) => true,
            };
            if let Err(error) = self.catch_up().await {
                return tracing::error!(%error, "the journal cannot be read; no more spans are sent");
            }
            if last {
                return;
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), ringfence_store::ReadError> {
        loop {
            let page = self.tail.page().await?;
            if page.is_empty() {
                return Ok(());
            }
            let spans: Vec<Span> = page.iter().filter_map(|numbered| self.span(numbered)).collect();
            if !spans.is_empty() {
                self.send(&spans).await;
            }
        }
    }

    fn span(&mut self, numbered: &Numbered) -> Option<Span> {
        match numbered.record.event() {
            Ok(event) => self.spans.add(&event),
            Err(error) => {
                tracing::warn!(n = numbered.n, %error, "a record cannot be read and gives no span");
                None
            }
        }
    }

    /// Sends the spans until the collector accepts them, or refuses them for good.
    async fn send(&self, spans: &[Span]) {
        let mut rest = REST;
        loop {
            match self.collector.send(spans).await {
                Ok(()) => return,
                Err(error) if error.is_passing() => {
                    tracing::warn!(
                        error = chain(&error),
                        spans = spans.len(),
                        "spans wait for the collector"
                    );
                    tokio::time::sleep(rest).await;
                    rest = (rest * 2).min(LONGEST_REST);
                }
                Err(error) => {
                    tracing::warn!(
                        error = chain(&error),
                        spans = spans.len(),
                        "the collector refuses spans"
                    );
                    return;
                }
            }
        }
    }
}
