//! The path of a call with journal and recorded answer, beside the same path with neither.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use ringfence_gateway::{Desk, Gateway, Keep, Learnt, Options, Pass, Past, Servers, Stopped, Tape, Terms, Upstreams};
use ringfence_journal::{
    Entry, Event, ExecutionId, Hash, KeepingRecorder, RecordError, Recorded, Recorder, SessionId, Zeroizing,
};
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_store::{Lease, Recording, Store};
use serde_json::json;
use tokio::task::JoinSet;

use super::release::{opening, started};
use crate::timing::middle;

/// Calls that run concurrently.
const AT_ONCE: u32 = 64;
const RULES: &str = "version: 1\ntools: { rules: [{ allow: 'echo.*' }], max_calls: 1000000 }\n";

/// The time of one call, sequential and with 64 at once.
#[derive(Debug, Clone, Copy)]
pub struct Roads {
    /// The times with neither journal nor recording.
    pub bare: [Duration; 2],
    /// The times with journal and recording.
    pub kept: [Duration; 2],
}

/// A recorder that records nothing.
#[derive(Debug)]
struct Nowhere;

impl Recorder for Nowhere {
    async fn record(&self, _: Event) -> Result<Recorded, RecordError> {
        Ok(Recorded {
            seq: 1,
            hash: Hash::of(b""),
        })
    }
}

impl KeepingRecorder for Nowhere {
    async fn record_keeping(&self, event: Event, _: Vec<Entry>) -> Result<Recorded, RecordError> {
        self.record(event).await
    }

    async fn keep_aliases(&self, _: SessionId, _: Zeroizing<Vec<u8>>) -> Result<(), RecordError> {
        Ok(())
    }
}

/// Makes `count` calls of a server on both paths, in turns, `rounds` times.
pub async fn roads(upstream: &Path, count: u32, rounds: usize) -> Result<Roads> {
    let home = tempfile::tempdir()?;
    let servers = json!({ "mcpServers": { "echo": { "command": upstream, "args": ["echo"], "policy": "host" } } });
    let servers = Servers::parse(&servers.to_string(), home.path())?;
    let upstreams = Upstreams::new(servers, Keep::new(home.path()), Options::new(Arc::new(|_: &str| None)));
    upstreams.ready("echo").await?;
    let gateway = Arc::new(Gateway::new(upstreams.clone(), Learnt::open(home.path())));
    let policy = Arc::new(Draft::parse(RULES, "rules")?.under(&Ceiling::own_word())?);
    let folder = home.path().join("home");
    let store = Arc::new(Store::open(&folder).await?);
    let lease = Lease::acquire(&folder)?;
    let mut times: [[Vec<Duration>; 2]; 2] = Default::default();
    for round in 0..=rounds {
        for (at_once, place) in [(1, 0), (AT_ONCE, 1)] {
            let ids = (SessionId::generate()?, ExecutionId::generate()?);
            let bare = Pass::new(terms(&gateway, &policy, Arc::new(Nowhere), ids, Tape::off()));
            let bare = calls(bare, count, at_once).await?;
            let ids = begin(&store, &lease).await?;
            let kept = Pass::new(terms(&gateway, &policy, Arc::clone(&store), ids, Tape::new()));
            let kept = calls(kept, count, at_once).await?;
            ensure!(store.kept_bytes(ids.1).await? > 0, "nothing was kept");
            // The first round is warm-up.
            if round > 0 {
                times[0][place].push(bare);
                times[1][place].push(kept);
            }
        }
    }
    upstreams.close();
    store.close().await;
    let [bare, kept] = times.map(|of| of.map(middle));
    Ok(Roads { bare, kept })
}

async fn begin(store: &Store, lease: &Lease) -> Result<(SessionId, ExecutionId)> {
    let (session, execution) = (SessionId::generate()?, ExecutionId::generate()?);
    store.open_session(lease, opening(session)).await?;
    let recording = Recording {
        execution,
        session,
        request: Vec::new(),
        stays: None,
    };
    store
        .record_start(Event::host(session, Some(execution), started()), recording)
        .await?;
    Ok((session, execution))
}

fn terms<R>(
    gateway: &Arc<Gateway>,
    policy: &Arc<Policy>,
    recorder: R,
    (session, execution): (SessionId, ExecutionId),
    tape: Tape,
) -> Terms<R> {
    Terms {
        gateway: Arc::clone(gateway),
        policy: Arc::clone(policy),
        recorder,
        session,
        execution,
        parent: None,
        past: Arc::new(Past::default()),
        tape: Arc::new(tape),
        desk: Desk::closed(),
        screen: Arc::default(),
    }
}

/// The mean time of `count` calls, with `at_once` of them running concurrently.
async fn calls<R>(pass: Pass<R>, count: u32, at_once: u32) -> Result<Duration>
where
    R: KeepingRecorder + Clone + 'static,
{
    let pass = Arc::new(pass);
    let begun = Instant::now();
    let mut under_way = JoinSet::new();
    for first in 1..=at_once {
        let pass = Arc::clone(&pass);
        under_way.spawn(async move {
            for number in (first..=count).step_by(usize::try_from(at_once)?) {
                one(&pass, number).await?;
            }
            Ok::<(), anyhow::Error>(())
        });
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    let took = begun.elapsed();
    ensure!(pass.close().await?.total == u64::from(count), "calls are missing");
    Ok(took / count)
}

async fn one<R: KeepingRecorder + Clone + 'static>(pass: &Pass<R>, number: u32) -> Result<()> {
    let body = format!(r#"{{"text":"number {number}"}}"#);
    match pass.call(number, "echo", "echo", &body, &[1, 0]).await {
        Ok(answer) => ensure!(answer == format!("\"number {number}\""), "{answer}"),
        Err(Stopped::Refused(told)) => bail!("{}: {}", told.code, told.message),
        Err(stopped) => bail!("{stopped:?}"),
    }
    Ok(())
}
