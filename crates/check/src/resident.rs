//! A running checker: a language server in a sandbox of its own that answers one request at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ringfence_sandbox::{Backend, ExecutionTask, OutputSink, Sandbox, StandardStream, Stop};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time;

use crate::frames::{self, LspDecoder, LspIncoming};
use crate::{CheckerKind, TypeCheckError, checker_sandbox};

/// The checker ends after this time without a request; the next request starts another one.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// The most requests of the checker that wait to be answered; it sends hardly any.
const REQUEST_CAPACITY: usize = 32;
/// The checker is replaced after this much output, before the sandbox truncates any.
const REPLACE_AFTER_BYTES: u64 = checker_sandbox::MAX_OUTPUT_BYTES / 2;

/// A checker that runs, and the files that are open in it.
#[derive(Debug)]
pub(crate) struct ResidentChecker {
    kind: CheckerKind,
    input: mpsc::Sender<Vec<u8>>,
    incoming: mpsc::Receiver<LspIncoming>,
    state: Arc<ListenerState>,
    used: watch::Sender<()>,
    task: JoinHandle<()>,
    number: u64,
    /// The content of each open file and its version.
    open: BTreeMap<String, (String, i64)>,
    /// The files that exist on disk in the sandbox; all of them are empty.
    on_disk: BTreeSet<String>,
}

/// The state that the listener and the requesting task share.
#[derive(Debug, Default)]
struct ListenerState {
    bytes: AtomicU64,
    /// The number of the pending request; 0 means none.
    awaited: AtomicU64,
    broken: AtomicBool,
}

/// Decodes the output of a checker and forwards the messages that matter.
struct CheckerListener {
    decoder: LspDecoder,
    heard: Arc<ListenerState>,
    out: mpsc::Sender<LspIncoming>,
}

impl OutputSink for CheckerListener {
    fn on_output(&mut self, output: StandardStream, bytes: &[u8]) {
        self.heard.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if output == StandardStream::Stderr || self.heard.broken.load(Ordering::Relaxed) {
            return;
        }
        let (heard, out) = (&self.heard, &self.out);
        let mut full = false;
        let mut sort = |incoming: LspIncoming| {
            let wanted = match &incoming {
                // At most one answer is kept, whatever the checker sends.
                LspIncoming::Answer { number, .. } => heard
                    .awaited
                    .compare_exchange(*number, 0, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok(),
                LspIncoming::Request { .. } => true,
            };
            full |= wanted && out.try_send(incoming).is_err();
        };
        let pushed = self.decoder.push(bytes, &mut sort);
        if let Err(error) = &pushed {
            tracing::warn!(%error, "a type checker broke the protocol");
        }
        if pushed.is_err() || full {
            self.heard.broken.store(true, Ordering::Relaxed);
            // The waiting request fails now, not when its timeout ends.
            let (closed, _) = mpsc::channel(1);
            self.out = closed;
        }
    }
}

impl ResidentChecker {
    /// Starts the checker at `program` with `names` on disk and initializes the protocol.
    pub(crate) async fn start(
        backend: &Backend,
        kind: CheckerKind,
        program: &Path,
        names: BTreeSet<String>,
    ) -> Result<ResidentChecker, TypeCheckError> {
        let program = checker_sandbox::locate_program(kind, program)?;
        let spec = checker_sandbox::checker_spec(kind, &program)?;
        let sandbox = backend.launch(&spec).await?;
        let (input, stdin) = mpsc::channel(16);
        let (out, incoming) = mpsc::channel(REQUEST_CAPACITY);
        let (used, users) = watch::channel(());
        let heard = Arc::new(ListenerState::default());
        let (start, args) = checker_sandbox::checker_task(kind, &program, &names);
        let task = ExecutionTask {
            args,
            stdin: Some(stdin),
            ..ExecutionTask::new(start)
        };
        let ear = CheckerListener {
            decoder: LspDecoder::default(),
            heard: Arc::clone(&heard),
            out,
        };
        let mut resident = ResidentChecker {
            kind,
            input,
            incoming,
            state: heard,
            used,
            task: tokio::spawn(run_checker(sandbox, task, ear, users)),
            number: 0,
            open: BTreeMap::new(),
            on_disk: names,
        };
        resident.request("initialize", &initialize_params()).await?;
        resident.notify("initialized", &json!({})).await?;
        Ok(resident)
    }

    /// Whether the checker is usable for a request with these files on disk.
    pub(crate) fn serves(&self, names: &BTreeSet<String>) -> bool {
        let sound = !self.state.broken.load(Ordering::Relaxed) && !self.task.is_finished();
        sound && self.state.bytes.load(Ordering::Relaxed) < REPLACE_AFTER_BYTES && names.is_subset(&self.on_disk)
    }

    /// The names of the files that exist on disk in the sandbox.
    pub(crate) fn on_disk(&self) -> &BTreeSet<String> {
        &self.on_disk
    }

    /// Makes the open files equal to `files`; unchanged ones are not sent again, others that are open become empty.
    pub(crate) async fn sync_files(&mut self, files: &BTreeMap<String, String>) -> Result<(), TypeCheckError> {
        let gone: Vec<String> = self
            .open
            .keys()
            .filter(|name| !files.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            self.sync_file(&name, "").await?;
        }
        for (name, text) in files {
            self.sync_file(name, text).await?;
        }
        Ok(())
    }

    async fn sync_file(&mut self, name: &str, text: &str) -> Result<(), TypeCheckError> {
        let uri = file_uri(name);
        let (method, version, params) = match self.open.get(name) {
            Some((known, _)) if known == text => return Ok(()),
            Some((_, version)) => {
                let version = version + 1;
                let document = json!({ "uri": uri, "version": version });
                let params = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
                ("textDocument/didChange", version, params)
            }
            None => {
                let language = self.kind.name();
                let document = json!({ "uri": uri, "languageId": language, "version": 1, "text": text });
                ("textDocument/didOpen", 1, json!({ "textDocument": document }))
            }
        };
        self.notify(method, &params).await?;
        self.open.insert(name.to_owned(), (text.to_owned(), version));
        Ok(())
    }

    /// Requests the diagnostics of an open file.
    pub(crate) async fn diagnostics(&mut self, name: &str) -> Result<Box<RawValue>, TypeCheckError> {
        let params = json!({ "textDocument": { "uri": file_uri(name) } });
        self.request("textDocument/diagnostic", &params).await
    }

    async fn notify(&mut self, method: &str, params: &Value) -> Result<(), TypeCheckError> {
        self.send_frame(frames::encode_notification(method, params)).await
    }

    async fn request(&mut self, method: &str, params: &Value) -> Result<Box<RawValue>, TypeCheckError> {
        self.number += 1;
        let number = self.number;
        self.used.send_replace(());
        self.state.awaited.store(number, Ordering::Release);
        self.send_frame(frames::encode_request(number, method, params)).await?;
        loop {
            match self.incoming.recv().await.ok_or(TypeCheckError::Ended)? {
                LspIncoming::Answer { number: of, result } if of == number => {
                    return result.ok_or(TypeCheckError::Answer);
                }
                // An answer to an earlier request that timed out.
                LspIncoming::Answer { .. } => {}
                LspIncoming::Request { id, method, items } => {
                    self.send_frame(frames::encode_empty_answer(&id, &method, items))
                        .await?;
                }
            }
        }
    }

    async fn send_frame(&mut self, frame: Vec<u8>) -> Result<(), TypeCheckError> {
        self.input.send(frame).await.map_err(|_| TypeCheckError::Ended)
    }

    /// Ends the checker and waits until its sandbox is removed.
    pub(crate) async fn end(self) {
        let ResidentChecker { task: life, used, .. } = self;
        drop(used);
        if life.await.is_err() {
            tracing::warn!("the end of a type checker was abandoned");
        }
    }
}

/// Runs the checker until it ends itself, is idle for too long, or its owner drops the `used` channel.
async fn run_checker(
    mut sandbox: Sandbox,
    task: ExecutionTask,
    mut ear: CheckerListener,
    mut users: watch::Receiver<()>,
) {
    let (_switch, mut stop) = Stop::new();
    let unused = async { while let Ok(Ok(())) = time::timeout(IDLE_TIMEOUT, users.changed()).await {} };
    tokio::select! {
        ended = sandbox.run(task, &mut ear, &mut stop) => match ended {
            Ok(ended) => tracing::info!(verdict = ?ended.verdict, "a type checker ended"),
            Err(error) => tracing::warn!(%error, "a type checker could not go on"),
        },
        () = unused => {}
    }
    drop(ear);
    if let Err(error) = sandbox.end().await {
        tracing::warn!(%error, "the sandbox of a type checker could not be ended in order");
    }
}

fn initialize_params() -> Value {
    let root = file_uri("");
    json!({
        "processId": null,
        "rootUri": root,
        "workspaceFolders": [{ "uri": root, "name": "program" }],
        "capabilities": {
            "general": { "positionEncodings": ["utf-16"] },
            "textDocument": {
                "diagnostic": { "relatedInformation": true },
                "publishDiagnostics": { "relatedInformation": true },
            },
        },
    })
}

/// The `file:` URI of a file below the workspace; an empty name is the workspace itself.
fn file_uri(name: &str) -> String {
    use std::fmt::Write as _;
    let mut uri = format!("file://{}", checker_sandbox::WORKSPACE);
    if !name.is_empty() {
        uri.push('/');
    }
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => uri.push(char::from(byte)),
            other => {
                let _ = write!(uri, "%{other:02X}");
            }
        }
    }
    uri
}
