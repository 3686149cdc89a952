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

use super::line::{LONGEST, Line, Lines};
use super::message::{self, Heard};

/// The most requests of one client in progress; each may hold an answer that waits to be read.
const MOST_OPEN: usize = 256;
/// The capacity of the queue of answers to the client.
const WAITING: usize = 16;
/// How long requests may continue after the client closes its input.
const GRACE: Duration = Duration::from_secs(1);
/// How long a client may take to read the last answers.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The reason why a message could not be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The client is disconnected.
    #[error("the client does not listen any more")]
    Gone,
    /// The message cannot be serialized as JSON.
    #[error("a message could not be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// The connection to a client over two streams.
#[derive(Debug)]
pub(crate) struct Pipe<R> {
    lines: Lines<BufReader<R>>,
    out: Option<mpsc::Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    /// An error of the transport itself that is not queued yet.
    owed: Option<Vec<u8>>,
    open: Arc<Open>,
    begun: bool,
    ended: Option<Instant>,
    gone: CancellationToken,
}

/// The requests of the client that are in progress.
#[derive(Debug, Default)]
struct Open {
    /// The ids of the requests, and whether the end of each is awaited after the client closes its input.
    ids: Mutex<HashMap<RequestId, bool>>,
    fewer: Notify,
}

impl Open {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<RequestId, bool>) -> T) -> T {
        act(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn close(&self, id: &RequestId) {
        self.with(|ids| ids.remove(id));
        self.fewer.notify_one();
    }

    fn waits(&self) -> bool {
        self.with(|ids| ids.values().any(|waits| *waits))
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Pipe<R> {
    /// Creates a transport. `gone` is cancelled after the client closes its input and its requests had time to finish.
    pub(crate) fn new<W>(read: R, write: W, gone: CancellationToken) -> Pipe<R>
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (out, waiting) = mpsc::channel(WAITING);
        let writer = tokio::spawn(write_all(write, waiting));
        Pipe {
            lines: Lines::new(BufReader::with_capacity(64 * 1024, read), LONGEST),
            out: Some(out),
            writer: Some(writer),
            owed: None,
            open: Arc::default(),
            begun: false,
            ended: None,
            gone,
        }
    }

    fn owe(&mut self, error: ErrorData, id: Option<RequestId>) {
        let answer = TxJsonRpcMessage::<RoleServer>::error(error, id);
        self.owed = line_of(&answer).ok();
    }

    /// Whether a message is passed to the service; otherwise an error for the client is pending.
    fn admit(&mut self, message: &RxJsonRpcMessage<RoleServer>) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                self.begun = true;
                let waits = !matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
                let refused = self.open.with(|ids| {
                    if ids.contains_key(&request.id) {
                        return Some("a request with this `id` is under way: use another");
                    }
                    if ids.len() >= MOST_OPEN {
                        return Some("too many requests at once: wait for answers");
                    }
                    ids.insert(request.id.clone(), waits);
                    None
                });
                if let Some(message) = refused {
                    let error = ErrorData::new(ErrorCode::INVALID_REQUEST, message, None);
                    self.owe(error, Some(request.id.clone()));
                }
                refused.is_none()
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // A cancelled request gets no answer.
                    self.open.close(id);
                }
                self.begun
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => self.begun,
        }
    }

    /// Waits a limited time for the requests in progress.
    async fn linger(&mut self) {
        let ended = *self.ended.get_or_insert_with(Instant::now);
        while self.open.waits() {
            let fewer = self.open.fewer.notified();
            if tokio::time::timeout_at(ended + GRACE, fewer).await.is_err() {
                break;
            }
        }
        self.gone.cancel();
    }

    /// The next message; `None` when the client is done. A dropped call loses nothing.
    async fn hear(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let out = self.out.clone()?;
            if self.owed.is_some() {
                let place = out.reserve().await.ok()?;
                place.send(self.owed.take()?);
                continue;
            }
            if self.ended.is_some() {
                self.linger().await;
                return None;
            }
            let line = tokio::select! {
                line = self.lines.next() => line,
                () = out.closed() => return None,
            };
            match line {
                Ok(Line::Whole(line)) => match message::read(&line) {
                    Heard::Message(message) if self.admit(&message) => return Some(*message),
                    Heard::Message(_) | Heard::Nothing => {}
                    Heard::Wrong(error, id) => self.owe(error, id),
                },
                Ok(Line::TooLong { head, tail }) => {
                    let (error, id) = message::too_long(&head, &tail, LONGEST);
                    self.owe(error, id);
                }
                Ok(Line::End) => self.ended = Some(Instant::now()),
                Err(error) => {
                    tracing::warn!(%error, "the client's messages cannot be read any more");
                    self.ended = Some(Instant::now());
                }
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for Pipe<R> {
    type Error = SendError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        let (out, open) = (self.out.clone(), Arc::clone(&self.open));
        async move {
            let answers = match &message {
                JsonRpcMessage::Response(response) => Some(response.id.clone()),
                JsonRpcMessage::Error(error) => error.id.clone(),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
            };
            let line = line_of(&message)?;
            let sent = out.ok_or(SendError::Gone)?.send(line).await;
            if let Some(id) = answers {
                open.close(&id);
            }
            sent.map_err(|_| SendError::Gone)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let heard = self.hear().await;
        if heard.is_none() {
            self.gone.cancel();
        }
        heard
    }

    async fn close(&mut self) -> Result<(), SendError> {
        self.out = None;
        if let Some(mut writer) = self.writer.take()
            && tokio::time::timeout(LAST_WORDS, &mut writer).await.is_err()
        {
            writer.abort();
        }
        Ok(())
    }
}

fn line_of(message: &TxJsonRpcMessage<RoleServer>) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes the queued answers until the sender or the client is gone.
async fn write_all<W: AsyncWrite + Unpin>(mut to: W, mut waiting: mpsc::Receiver<Vec<u8>>) {
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
