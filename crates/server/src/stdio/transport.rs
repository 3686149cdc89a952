//! The transport between one client and the MCP service. It is bounded in both directions, and answers every request that it
//! refuses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::line_reader::{BoundedLines, InputLine, MAX_LINE_BYTES};
use super::message::{self, ParsedMessage};

/// The most requests of one client in progress; each may hold an answer that waits to be read.
const MAX_OPEN_REQUESTS: usize = 256;
/// The capacity of the queue of answers to the client.
const OUTPUT_CAPACITY: usize = 16;
/// How long requests may continue after the client closes its input.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a client may take to read the last answers.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason why a message could not be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StdioSendError {
    /// The client is disconnected.
    #[error("the client does not listen any more")]
    Gone,
    /// The message cannot be serialized as JSON.
    #[error("a message could not be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// The connection to a client over two streams.
#[derive(Debug)]
pub(crate) struct StdioTransport<R> {
    lines: BoundedLines<BufReader<R>>,
    out: Option<mpsc::Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    /// An error of the transport itself that is not queued yet.
    pending_reply: Option<Vec<u8>>,
    open: Arc<PendingRequests>,
    initialized: bool,
    ended: Option<Instant>,
    gone: CancellationToken,
}

/// The requests of the client that are in progress.
#[derive(Debug, Default)]
struct PendingRequests {
    /// The ids of the requests, and whether the end of each is awaited after the client closes its input.
    ids: Mutex<HashMap<RequestId, bool>>,
    fewer: Notify,
}

impl PendingRequests {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<RequestId, bool>) -> T) -> T {
        act(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn finish(&self, id: &RequestId) {
        self.with(|ids| ids.remove(id));
        self.fewer.notify_one();
    }

    fn has_awaited(&self) -> bool {
        self.with(|ids| ids.values().any(|waits| *waits))
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> StdioTransport<R> {
    /// Creates a transport. `gone` is cancelled after the client closes its input and its requests had time to finish.
    pub(crate) fn new<W>(read: R, write: W, gone: CancellationToken) -> StdioTransport<R>
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (out, waiting) = mpsc::channel(OUTPUT_CAPACITY);
        let writer = tokio::spawn(write_queued(write, waiting));
        StdioTransport {
            lines: BoundedLines::new(BufReader::with_capacity(64 * 1024, read), MAX_LINE_BYTES),
            out: Some(out),
            writer: Some(writer),
            pending_reply: None,
            open: Arc::default(),
            initialized: false,
            ended: None,
            gone,
        }
    }

    fn queue_error(&mut self, error: ErrorData, id: Option<RequestId>) {
        let answer = TxJsonRpcMessage::<RoleServer>::error(error, id);
        self.pending_reply = message_line(&answer).ok();
    }

    /// Whether a message is passed to the service; otherwise an error for the client is pending.
    fn admit_message(&mut self, message: &RxJsonRpcMessage<RoleServer>) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                self.initialized = true;
                let waits = !matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
                let refused = self.open.with(|ids| {
                    if ids.contains_key(&request.id) {
                        return Some("a request with this `id` is under way: use another");
                    }
                    if ids.len() >= MAX_OPEN_REQUESTS {
                        return Some("too many requests at once: wait for answers");
                    }
                    ids.insert(request.id.clone(), waits);
                    None
                });
                if let Some(message) = refused {
                    let error = ErrorData::new(ErrorCode::INVALID_REQUEST, message, None);
                    self.queue_error(error, Some(request.id.clone()));
                }
                refused.is_none()
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // A cancelled request gets no answer.
                    self.open.finish(id);
                }
                self.initialized
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => self.initialized,
        }
    }

    /// Waits a limited time for the requests in progress.
    async fn wait_for_open(&mut self) {
        let ended = *self.ended.get_or_insert_with(Instant::now);
        while self.open.has_awaited() {
            let fewer = self.open.fewer.notified();
            if tokio::time::timeout_at(ended + SHUTDOWN_TIMEOUT, fewer).await.is_err() {
                break;
            }
        }
        self.gone.cancel();
    }

    /// The next message; `None` when the client is done. A dropped call loses nothing.
    async fn next_message(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let out = self.out.clone()?;
            if self.pending_reply.is_some() {
                let place = out.reserve().await.ok()?;
                place.send(self.pending_reply.take()?);
                continue;
            }
            if self.ended.is_some() {
                self.wait_for_open().await;
                return None;
            }
            let line = tokio::select! {
                line = self.lines.next_line() => line,
                () = out.closed() => return None,
            };
            match line {
                Ok(InputLine::Whole(line)) => match message::parse_message(&line) {
                    ParsedMessage::Message(message) if self.admit_message(&message) => return Some(*message),
                    ParsedMessage::Message(_) | ParsedMessage::Nothing => {}
                    ParsedMessage::Invalid(error, id) => self.queue_error(error, id),
                },
                Ok(InputLine::TooLong { head, tail }) => {
                    let (error, id) = message::too_long(&head, &tail, MAX_LINE_BYTES);
                    self.queue_error(error, id);
                }
                Ok(InputLine::End) => self.ended = Some(Instant::now()),
                Err(error) => {
                    tracing::warn!(%error, "the client's messages cannot be read any more");
                    self.ended = Some(Instant::now());
                }
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for StdioTransport<R> {
    type Error = StdioSendError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), StdioSendError>> + Send + 'static {
        let (out, open) = (self.out.clone(), Arc::clone(&self.open));
        async move {
            let answers = match &message {
                JsonRpcMessage::Response(response) => Some(response.id.clone()),
                JsonRpcMessage::Error(error) => error.id.clone(),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
            };
            let line = message_line(&message)?;
            let sent = out.ok_or(StdioSendError::Gone)?.send(line).await;
            if let Some(id) = answers {
                open.finish(&id);
            }
            sent.map_err(|_| StdioSendError::Gone)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let heard = self.next_message().await;
        if heard.is_none() {
            self.gone.cancel();
        }
        heard
    }

    async fn close(&mut self) -> Result<(), StdioSendError> {
        self.out = None;
        if let Some(mut writer) = self.writer.take()
            && tokio::time::timeout(FLUSH_TIMEOUT, &mut writer).await.is_err()
        {
            writer.abort();
        }
        Ok(())
    }
}

fn message_line(message: &TxJsonRpcMessage<RoleServer>) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes the queued answers until the sender or the client is gone.
async fn write_queued<W: AsyncWrite + Unpin>(mut to: W, mut waiting: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = waiting.recv().await {
        let written = async {
            to.write_all(&line).await?;
            to.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the client does not read any more");
            return;
        }
    }
}
