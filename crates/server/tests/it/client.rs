//! A client that writes and reads messages itself, so that it can misbehave as a test needs.

use std::time::Duration;

use ringfence_server::ServeError;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// The longest wait for a message, sufficient for a loaded machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct Client {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: Option<WriteHalf<DuplexStream>>,
    served: JoinHandle<Result<(), ServeError>>,
    next: i64,
    /// The messages that were not the expected answer.
    pub(crate) heard: Vec<Value>,
}

impl Client {
    pub(crate) fn new(stream: DuplexStream, served: JoinHandle<Result<(), ServeError>>) -> Client {
        let (read, write) = tokio::io::split(stream);
        Client {
            read: BufReader::new(read),
            write: Some(write),
            served,
            next: 1,
            heard: Vec::new(),
        }
    }

    pub(crate) async fn hello(&mut self) {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = self.ask("initialize", params).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "ringfence", "{answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
    }

    /// Writes a line to the server.
    pub(crate) async fn line(&mut self, line: &[u8]) {
        let write = self.write.as_mut().unwrap();
        write.write_all(line).await.unwrap();
        write.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.line(message.to_string().as_bytes()).await;
    }

    /// Sends a request without waiting, and returns its id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        id
    }

    /// Reads the next message; `None` at the end.
    pub(crate) async fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.read.read_line(&mut line);
        let length = tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap().unwrap();
        (length > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Waits for the answer to a request.
    pub(crate) async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.hear().await.unwrap();
            if message.get("id") == Some(id) && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(&id.into()).await
    }

    /// Calls a tool and returns its result.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self
            .ask("tools/call", json!({ "name": tool, "arguments": arguments }))
            .await;
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Runs a program and returns the structured content.
    pub(crate) async fn run(&mut self, language: &str, code: &str) -> Value {
        self.call("sandboxed_code_run", json!({ "language": language, "code": code }))
            .await["structuredContent"]
            .clone()
    }

    /// Closes the input of the server.
    pub(crate) async fn end(&mut self) {
        self.write.take().unwrap().shutdown().await.unwrap();
    }

    /// Waits until the server is done with this client.
    pub(crate) async fn ended(mut self) -> Result<(), ServeError> {
        if self.write.is_some() {
            self.end().await;
        }
        let (read, served) = (self.read, self.served);
        let drain = tokio::spawn(async move {
            let mut read = read;
            let mut rest = Vec::new();
            let _rest = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut rest).await;
        });
        let ended = tokio::time::timeout(TEST_TIMEOUT, served).await.unwrap().unwrap();
        drain.abort();
        ended
    }
}
