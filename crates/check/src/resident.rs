//! A running checker: a language server in a sandbox of its own that answers one request at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ringfence_sandbox::{Native, Output, Sandbox, Stop, Task, Words};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time;

use crate::frames::{self, Decoder, Incoming};
use crate::{CheckError, Kind, place};

/// The checker ends after this time without a request; the next request starts another one.
const IDLE: Duration = Duration::from_mins(10);
/// The most requests of the checker that wait to be answered; it sends hardly any.
const WAITING: usize = 32;
/// The checker is replaced after this much output, before the sandbox truncates any.
const ENOUGH: u64 = place::OUTPUT / 2;

/// A checker that runs, and the files that are open in it.
#[derive(Debug)]
pub(crate) struct Resident {
    kind: Kind,
    input: mpsc::Sender<Vec<u8>>,
    incoming: mpsc::Receiver<Incoming>,
    heard: Arc<Heard>,
    used: watch::Sender<()>,
    life: JoinHandle<()>,
    number: u64,
    /// The content of each open file and its version.
    open: BTreeMap<String, (String, i64)>,
    /// The files that exist on disk in the sandbox; all of them are empty.
    on_disk: BTreeSet<String>,
}

/// The state that the listener and the requesting task share.
#[derive(Debug, Default)]
struct Heard {
    bytes: AtomicU64,
    /// The number of the pending request; 0 means none.
    awaited: AtomicU64,
    broken: AtomicBool,
}

/// Decodes the output of a checker and forwards the messages that matter.
struct Ear {
    decoder: Decoder,
    heard: Arc<Heard>,
    out: mpsc::Sender<Incoming>,
}

impl Words for Ear {
    fn take(&mut self, output: Output, bytes: &[u8]) {
        self.heard.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if output == Output::Stderr || self.heard.broken.load(Ordering::Relaxed) {
            return;
        }
        let (heard, out) = (&self.heard, &self.out);
        let mut full = false;
        let mut sort = |incoming: Incoming| {
            let wanted = match &incoming {
                // At most one answer is kept, whatever the checker sends.
                Incoming::Answer { number, .. } => heard
                    .awaited
                    .compare_exchange(*number, 0, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok(),
                Incoming::Request { .. } => true,
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

impl Resident {
    /// Starts the checker at `program` with `names` on disk and initializes the protocol.
    pub(crate) async fn start(
        native: &Native,
        kind: Kind,
        program: &Path,
        names: BTreeSet<String>,
    ) -> Result<Resident, CheckError> {
        let program = place::locate(kind, program)?;
        let spec = place::spec(kind, &program)?;
        let sandbox = native.launch(&spec).await?;
        let (input, stdin) = mpsc::channel(16);
        let (out, incoming) = mpsc::channel(WAITING);
        let (used, users) = watch::channel(());
        let heard = Arc::new(Heard::default());
        let (start, args) = place::task(kind, &program, &names);
        let task = Task {
            kind: start,
            args,
            stdin: Some(stdin),
            door: None,
            wall: None,
            network: None,
            again: None,
        };
        let ear = Ear {
            decoder: Decoder::default(),
            heard: Arc::clone(&heard),
            out,
        };
        let mut resident = Resident {
            kind,
            input,
            incoming,
            heard,
            used,
            life: tokio::spawn(live(sandbox, task, ear, users)),
            number: 0,
            open: BTreeMap::new(),
            on_disk: names,
        };
        resident.ask("initialize", &hello()).await?;
        resident.tell("initialized", &json!({})).await?;
        Ok(resident)
    }

    /// Whether the checker is usable for a request with these files on disk.
    pub(crate) fn serves(&self, names: &BTreeSet<String>) -> bool {
        let sound = !self.heard.broken.load(Ordering::Relaxed) && !self.life.is_finished();
        sound && self.heard.bytes.load(Ordering::Relaxed) < ENOUGH && names.is_subset(&self.on_disk)
    }

    /// The names of the files that exist on disk in the sandbox.
    pub(crate) fn on_disk(&self) -> &BTreeSet<String> {
        &self.on_disk
    }

    /// Makes the open files equal to `files`; unchanged ones are not sent again, others that are open become empty.
    pub(crate) async fn show(&mut self, files: &BTreeMap<String, String>) -> Result<(), CheckError> {
        let gone: Vec<String> = self
            .open
            .keys()
            .filter(|name| !files.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            self.write(&name, "").await?;
        }
        for (name, text) in files {
            self.write(name, text).await?;
        }
        Ok(())
    }

    async fn write(&mut self, name: &str, text: &str) -> Result<(), CheckError> {
        let uri = uri(name);
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
        self.tell(method, &params).await?;
        self.open.insert(name.to_owned(), (text.to_owned(), version));
        Ok(())
    }

    /// Requests the diagnostics of an open file.
    pub(crate) async fn diagnostics(&mut self, name: &str) -> Result<Box<RawValue>, CheckError> {
        let params = json!({ "textDocument": { "uri": uri(name) } });
        self.ask("textDocument/diagnostic", &params).await
    }

    async fn tell(&mut self, method: &str, params: &Value) -> Result<(), CheckError> {
        self.send(frames::notification(method, params)).await
    }

    async fn ask(&mut self, method: &str, params: &Value) -> Result<Box<RawValue>, CheckError> {
        self.number += 1;
        let number = self.number;
        self.used.send_replace(());
        self.heard.awaited.store(number, Ordering::Release);
        self.send(frames::request(number, method, params)).await?;
        loop {
            match self.incoming.recv().await.ok_or(CheckError::Ended)? {
                Incoming::Answer { number: of, result } if of == number => return result.ok_or(CheckError::Answer),
                // An answer to an earlier request that timed out.
                Incoming::Answer { .. } => {}
                Incoming::Request { id, method, items } => self.send(frames::nothing(&id, &method, items)).await?,
            }
        }
    }

    async fn send(&mut self, frame: Vec<u8>) -> Result<(), CheckError> {
        self.input.send(frame).await.map_err(|_| CheckError::Ended)
    }

    /// Ends the checker and waits until its sandbox is removed.
    pub(crate) async fn end(self) {
        let Resident { life, used, .. } = self;
        drop(used);
        if life.await.is_err() {
            tracing::warn!("the end of a type checker was abandoned");
        }
    }
}

/// Runs the checker until it ends itself, is idle for too long, or its owner drops the `used` channel.
async fn live(mut sandbox: Sandbox, task: Task, mut ear: Ear, mut users: watch::Receiver<()>) {
    let (_switch, mut stop) = Stop::new();
    let unused = async { while let Ok(Ok(())) = time::timeout(IDLE, users.changed()).await {} };
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

fn hello() -> Value {
    let root = uri("");
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
fn uri(name: &str) -> String {
    use std::fmt::Write as _;
    let mut uri = format!("file://{}", place::WORKSPACE);
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
