//! Sends events to a collector as spans. The journal is the queue: a collector that is unreachable delays nothing, and
//! gets the missed spans when it is reachable again.

use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::Engine;
use ringfence_gateway::OtlpExporter;
use ringfence_journal::{SpanBuilder, TraceSpan};
use ringfence_store::{JournalTail, NumberedRecord};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::fault::{CliFault, error_chain};
use crate::settings::CliSettings;

/// The time for which spans are collected into one batch.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The delay before a failed batch is sent again; it doubles up to the maximum below.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// The time to send the remaining spans at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The collector from the configuration, else from the environment; `None` if neither names one.
pub(super) fn configured_collector(
    configured: Option<&str>,
    settings: &CliSettings,
) -> Result<Option<OtlpExporter>, CliFault> {
    let Some(endpoint) = configured.or(settings.otlp.as_deref()) else {
        return Ok(None);
    };
    OtlpExporter::new(endpoint).map(Some).map_err(|error| {
        CliFault::internal("telemetry.otlp", error_chain(&error))
            .with_hint("look at `telemetry.otlp` in `ringfence.yaml`, or `OTEL_EXPORTER_OTLP_ENDPOINT`")
    })
}

/// Exports spans in a background task.
pub(super) struct SpanExporter {
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl SpanExporter {
    /// Starts to export the events from now on.
    pub(super) async fn start(engine: &Arc<Engine>, collector: OtlpExporter) -> Result<SpanExporter, CliFault> {
        let tail = engine.store().tail_last(0).await?;
        let (closing, closed) = watch::channel(false);
        let sender = SpanSender {
            tail,
            spans: SpanBuilder::default(),
            collector,
        };
        Ok(SpanExporter {
            closing,
            task: tokio::spawn(sender.send_until_closed(closed)),
        })
    }

    /// Sends the remaining spans, for a limited time, and ends the task.
    pub(super) async fn finish(mut self) {
        // The send fails only if the task is over.
        let _ = self.closing.send(true);
        if tokio::time::timeout(FLUSH_TIMEOUT, &mut self.task).await.is_err() {
            tracing::warn!("the last spans did not reach the collector");
            self.task.abort();
        }
    }
}

struct SpanSender {
    tail: JournalTail,
    spans: SpanBuilder,
    collector: OtlpExporter,
}

impl SpanSender {
    async fn send_until_closed(mut self, mut closed: watch::Receiver<bool>) {
        loop {
            let last = tokio::select! {
                () = tokio::time::sleep(BATCH_INTERVAL) => false,
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

    async fn catch_up(&mut self) -> Result<(), ringfence_store::QueryError> {
        loop {
            let page = self.tail.page().await?;
            if page.is_empty() {
                return Ok(());
            }
            let spans: Vec<TraceSpan> = page.iter().filter_map(|numbered| self.span(numbered)).collect();
            if !spans.is_empty() {
                self.send_spans(&spans).await;
            }
        }
    }

    fn span(&mut self, numbered: &NumberedRecord) -> Option<TraceSpan> {
        match numbered.record.event() {
            Ok(event) => self.spans.add(&event),
            Err(error) => {
                tracing::warn!(n = numbered.n, %error, "a record cannot be read and gives no span");
                None
            }
        }
    }

    /// Sends the spans until the collector accepts them, or refuses them for good.
    async fn send_spans(&self, spans: &[TraceSpan]) {
        let mut rest = RETRY_INTERVAL;
        loop {
            match self.collector.send(spans).await {
                Ok(()) => return,
                Err(error) if error.is_transient() => {
                    tracing::warn!(
                        error = error_chain(&error),
                        spans = spans.len(),
                        "spans wait for the collector"
                    );
                    tokio::time::sleep(rest).await;
                    rest = (rest * 2).min(MAX_RETRY_INTERVAL);
                }
                Err(error) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        spans = spans.len(),
                        "the collector refuses spans"
                    );
                    return;
                }
            }
        }
    }
}
