//! Line transport: one JSON message per line, to and from a server that may be hostile. Everything that the server
//! can make the gateway hold or do is bounded.
//!
//! An unreadable answer fails its own call if its id can be found; a flood ends the conversation.

mod fast_path;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, NumberOrString, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use crate::connection::conversation::ConversationState;
use crate::json_tree;

/// Most bytes of one message: the largest result, plus its envelope.
pub(crate) const MAX_LINE_BYTES: usize = crate::call_result::MAX_RESULT_BYTES + 64 * 1024;
/// Most bytes of an oversized message that are discarded before the conversation ends.
const MAX_SKIPPED_BYTES: usize = 256 * 1024 * 1024;
/// Most requests of the server that are not answered yet.
const MAX_OPEN_REQUESTS: i64 = 1_000;
/// How long a server has to read the answer to its own request.
const ANSWER_READ_TIMEOUT: Duration = Duration::from_secs(10);
const NOT_READING: &str = "it asks without reading the answers";
/// Bytes of either end of an oversized message, kept to find its id.
const MESSAGE_END_BYTES: usize = 512;

/// Requests in flight in either direction.
#[derive(Debug, Default)]
struct InFlightRequests {
    /// Requests sent that have no answer.
    ours: AtomicI64,
    /// Requests received that are not answered yet.
    theirs: AtomicI64,
    calls: fast_path::SentCalls,
}

/// The transport over a server's standard streams.
pub(crate) struct LineTransport<R, W> {
    read: BufReader<R>,
    line: Vec<u8>,
    skipped: Option<OversizedMessage>,
    write: Arc<Mutex<Option<W>>>,
    open: Arc<InFlightRequests>,
    state: Arc<ConversationState>,
    first: FirstMessage,
}

/// The state of the first message in the newer protocol. A slow server answers it while the older protocol is being
/// tried; that late answer is dropped.
#[derive(Debug, Default)]
struct FirstMessage {
    asked: Option<RequestId>,
    given_up: Option<RequestId>,
}

impl FirstMessage {
    fn note_sent(&mut self, request: &ClientRequest, id: &RequestId) {
        if matches!(request, ClientRequest::DiscoverRequest(_)) {
            self.asked = Some(id.clone());
        } else if matches!(request, ClientRequest::InitializeRequest(_)) {
            self.given_up = self.asked.take();
        }
    }

    /// Whether a message is that late answer.
    fn is_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(answer) => Some(&answer.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        id.is_some() && id == self.given_up.as_ref()
    }
}

/// An oversized message: how much of it was discarded, and its two ends.
struct OversizedMessage {
    bytes: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
}

enum LineRead {
    Line,
    TooLong(OversizedMessage),
    End,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    pub(crate) fn new(read: R, write: W) -> (LineTransport<R, W>, Arc<ConversationState>) {
        let state = Arc::<ConversationState>::default();
        let lines = LineTransport {
            read: BufReader::with_capacity(64 * 1024, read),
            line: Vec::new(),
            skipped: None,
            write: Arc::new(Mutex::new(Some(write))),
            open: Arc::default(),
            state: Arc::clone(&state),
            first: FirstMessage::default(),
        };
        (lines, state)
    }

    /// Reads the next line; a cancelled read loses nothing.
    async fn next_line(&mut self) -> LineRead {
        loop {
            let Ok(ready) = self.read.fill_buf().await else {
                return LineRead::End;
            };
            if ready.is_empty() {
                return LineRead::End;
            }
            let end = ready.iter().position(|byte| *byte == b'\n');
            let part = ready.get(..end.unwrap_or(ready.len())).unwrap_or_default();
            let used = end.map_or(ready.len(), |end| end + 1);
            if let Some(skipped) = &mut self.skipped {
                skipped.add(part);
            } else if self.line.len() + part.len() > MAX_LINE_BYTES {
                let mut skipped = OversizedMessage::new(&self.line);
                skipped.add(part);
                self.skipped = Some(skipped);
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            self.read.consume(used);
            if self
                .skipped
                .as_ref()
                .is_some_and(|skipped| skipped.bytes > MAX_SKIPPED_BYTES)
            {
                self.state.set_fault("it sent a message without end");
                return LineRead::End;
            }
            if end.is_some() {
                return self.skipped.take().map_or(LineRead::Line, LineRead::TooLong);
            }
        }
    }

    /// Parses the line as a message. An invalid one becomes an error answer to its id, or `None`.
    fn parse_line(&mut self) -> Option<ServerJsonRpcMessage> {
        let line = self.line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.line);
        if json_tree::is_too_large(line) {
            tracing::warn!(bytes = line.len(), "a message with too many values was thrown away");
            return answered_request_id(line).map(|number| error_answer(crate::call_result::TOO_MANY_VALUES, number));
        }
        if let Some(message) = self.open.calls.parse_answer(line) {
            return Some(message);
        }
        match serde_json::from_slice(line) {
            Ok(message) => Some(message),
            Err(error) => {
                let number = answered_request_id(line);
                tracing::debug!(%error, bytes = line.len(), "a message that cannot be read");
                let why = if json_tree::is_too_deep(line) {
                    crate::call_result::TOO_DEEP
                } else {
                    crate::call_result::UNREADABLE
                };
                number.map(|number| error_answer(why, number))
            }
        }
    }

    /// Whether the conversation may continue after this message.
    fn admit(&mut self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => {
                if self.open.ours.fetch_sub(1, Ordering::Relaxed) > 0 {
                    return true;
                }
                self.open.ours.fetch_add(1, Ordering::Relaxed);
                !self.state.count_unsolicited()
            }
            ServerJsonRpcMessage::Request(_) => {
                if self.open.theirs.fetch_add(1, Ordering::Relaxed) >= MAX_OPEN_REQUESTS {
                    self.state.set_fault(NOT_READING);
                    return false;
                }
                !self.state.count_unsolicited()
            }
            ServerJsonRpcMessage::Notification(notification) => {
                if matches!(
                    notification.notification,
                    ServerNotification::ToolListChangedNotification(_)
                ) {
                    self.state.note_list_change();
                }
                !self.state.count_unsolicited()
            }
        }
    }
}

impl OversizedMessage {
    fn new(start: &[u8]) -> OversizedMessage {
        let mut skipped = OversizedMessage {
            bytes: 0,
            head: Vec::new(),
            tail: Vec::new(),
        };
        skipped.add(start);
        skipped
    }

    fn add(&mut self, part: &[u8]) {
        self.bytes += part.len();
        let room = MESSAGE_END_BYTES.saturating_sub(self.head.len()).min(part.len());
        self.head.extend_from_slice(part.get(..room).unwrap_or_default());
        let last = part
            .get(part.len().saturating_sub(MESSAGE_END_BYTES)..)
            .unwrap_or_default();
        self.tail.extend_from_slice(last);
        let over = self.tail.len().saturating_sub(MESSAGE_END_BYTES);
        self.tail.drain(..over);
    }

    /// Returns the id of the call it answers, if one of its ends contains it.
    fn answered_id(&self) -> Option<i64> {
        number_at_end(&self.tail).or_else(|| number_at_start(&self.head))
    }
}

/// Finds the id in `…,"id":7}`.
fn number_at_end(tail: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(tail);
    let (_, last) = text.trim_end().strip_suffix('}')?.rsplit_once("\"id\"")?;
    last.trim_start().strip_prefix(':')?.trim().parse().ok()
}

/// Finds the id in `{"jsonrpc":"2.0","id":7,…`, before anything that could contain another `id`.
fn number_at_start(head: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(head);
    let (before, after) = text.split_once("\"id\"")?;
    if before.matches('{').count() != 1 {
        return None;
    }
    let digits: String = after
        .trim_start()
        .strip_prefix(':')?
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// Returns the id of the call that an unreadable message answers.
pub(crate) fn answered_request_id(line: &[u8]) -> Option<i64> {
    #[derive(serde::Deserialize)]
    struct ReplyOutline {
        id: i64,
        #[serde(default)]
        method: Option<serde::de::IgnoredAny>,
    }
    match serde_json::from_slice::<ReplyOutline>(line) {
        Ok(outline) => outline.method.is_none().then_some(outline.id),
        // Too deep for any parser, or cut off: its ends may show the id.
        Err(_) => OversizedMessage::new(line).answered_id(),
    }
}

async fn write_line<W: AsyncWrite + Unpin>(write: &Mutex<Option<W>>, line: &[u8]) -> io::Result<()> {
    let mut write = write.lock().await;
    let write = write.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    write.write_all(line).await?;
    write.flush().await
}

pub(crate) fn error_answer(what: &'static str, number: i64) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(
        ErrorData::internal_error(what, None),
        Some(NumberOrString::Number(number)),
    )
}

impl<R, W> Transport<RoleClient> for LineTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (write, open) = (Arc::clone(&self.write), Arc::clone(&self.open));
        let answers = matches!(item, ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_));
        if let ClientJsonRpcMessage::Request(request) = &item {
            open.ours.fetch_add(1, Ordering::Relaxed);
            open.calls.note_call(request);
            self.first.note_sent(&request.request, &request.id);
        }
        let state = Arc::clone(&self.state);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            if !answers {
                return write_line(&write, &line).await;
            }
            // A server that sends requests and does not read the answers would block all other calls.
            let Ok(put) = tokio::time::timeout(ANSWER_READ_TIMEOUT, write_line(&write, &line)).await else {
                state.set_fault(NOT_READING);
                return Err(io::ErrorKind::TimedOut.into());
            };
            open.theirs.fetch_sub(1, Ordering::Relaxed);
            put
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if self.state.fault().is_some() {
                return None;
            }
            let message = match self.next_line().await {
                LineRead::Line => {
                    let message = self.parse_line();
                    self.line.clear();
                    // One long message must not hold its memory for the rest of the conversation.
                    self.line.shrink_to(1024 * 1024);
                    message
                }
                LineRead::TooLong(skipped) => {
                    tracing::warn!(bytes = skipped.bytes, "a message that is too long was thrown away");
                    let number = skipped.answered_id();
                    number.map(|number| error_answer(crate::call_result::TOO_LONG, number))
                }
                LineRead::End => return None,
            };
            let Some(message) = message else {
                if self.state.count_unsolicited() {
                    return None;
                }
                continue;
            };
            let is_late = self.first.is_late(&message);
            if !self.admit(&message) {
                return None;
            }
            if is_late {
                tracing::debug!("a server answered the first message after it was given up");
                self.first.given_up = None;
                continue;
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.write.lock().await.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
