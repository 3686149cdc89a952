//! The path of a call with journal and recorded answer, beside the same path with neither.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use ringfence_gateway::{
    ApprovalPort, CallLog, Gateway, ObservedTypes, Pass, PassConfig, PassError, ServerCache, Servers, SessionHistory,
    UpstreamOptions, Upstreams,
};
use ringfence_journal::{
    ContentHash, Event, ExecutionId, RecordError, RecordPosition, Recorder, ReplayEntry, ReplayRecorder, SessionId,
    Zeroizing,
};
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_store::{Lease, NewRecording, Store};
use serde_json::json;
use tokio::task::JoinSet;

use super::release::{new_session, started_event};
use crate::timing::median_of;

/// Calls that run concurrently.
const CONCURRENT_CALLS: u32 = 64;
const POLICY: &str = "version: 1\ntools: { rules: [{ allow: 'echo.*' }], max_calls: 1000000 }\n";

/// The time of one call, sequential and with 64 at once.
#[derive(Debug, Clone, Copy)]
pub struct CallCosts {
    /// The times with neither journal nor recording.
    pub bare: [Duration; 2],
    /// The times with journal and recording.
    pub kept: [Duration; 2],
}

/// A recorder that records nothing.
#[derive(Debug)]
struct NullRecorder;

impl Recorder for NullRecorder {
    async fn record(&self, _: Event) -> Result<RecordPosition, RecordError> {
        Ok(RecordPosition {
            seq: 1,
            hash: ContentHash::digest(b""),
        })
    }
}

impl ReplayRecorder for NullRecorder {
    async fn record_with_entries(&self, event: Event, _: Vec<ReplayEntry>) -> Result<RecordPosition, RecordError> {
        self.record(event).await
    }

    async fn store_aliases(&self, _: SessionId, _: Zeroizing<Vec<u8>>) -> Result<(), RecordError> {
        Ok(())
    }
}

/// Makes `count` calls of a server on both paths, in turns, `rounds` times.
pub async fn measure_call_costs(upstream: &Path, count: u32, rounds: usize) -> Result<CallCosts> {
    let home = tempfile::tempdir()?;
    let servers = json!({ "mcpServers": { "echo": { "command": upstream, "args": ["echo"], "policy": "host" } } });
    let servers = Servers::parse(&servers.to_string(), home.path())?;
    let upstreams = Upstreams::new(
        servers,
        ServerCache::new(home.path()),
        UpstreamOptions::new(Arc::new(|_: &str| None)),
    );
    upstreams.ensure_connected("echo").await?;
    let gateway = Arc::new(Gateway::new(upstreams.clone(), ObservedTypes::open(home.path())));
    let policy = Arc::new(Draft::parse(POLICY, "rules")?.under(&Ceiling::unlimited())?);
    let folder = home.path().join("home");
    let store = Arc::new(Store::open(&folder).await?);
    let lease = Lease::acquire(&folder)?;
    let mut times: [[Vec<Duration>; 2]; 2] = Default::default();
    for round in 0..=rounds {
        for (at_once, place) in [(1, 0), (CONCURRENT_CALLS, 1)] {
            let ids = (SessionId::generate()?, ExecutionId::generate()?);
            let bare = Pass::new(pass_config(
                &gateway,
                &policy,
                Arc::new(NullRecorder),
                ids,
                CallLog::off(),
            ));
            let bare = time_calls(bare, count, at_once).await?;
            let ids = begin_execution(&store, &lease).await?;
            let kept = Pass::new(pass_config(&gateway, &policy, Arc::clone(&store), ids, CallLog::new()));
            let kept = time_calls(kept, count, at_once).await?;
            ensure!(store.recording_bytes(ids.1).await? > 0, "nothing was kept");
            // The first round is warm-up.
            if round > 0 {
                times[0][place].push(bare);
                times[1][place].push(kept);
            }
        }
    }
    upstreams.close();
    store.close().await;
    let [bare, kept] = times.map(|of| of.map(median_of));
    Ok(CallCosts { bare, kept })
}

async fn begin_execution(store: &Store, lease: &Lease) -> Result<(SessionId, ExecutionId)> {
    let (session, execution) = (SessionId::generate()?, ExecutionId::generate()?);
    store.open_session(lease, new_session(session)).await?;
    let recording = NewRecording {
        execution,
        session,
        request: Vec::new(),
        stays: None,
    };
    store
        .record_start_with_recording(Event::from_host(session, Some(execution), started_event()), recording)
        .await?;
    Ok((session, execution))
}

fn pass_config<R>(
    gateway: &Arc<Gateway>,
    policy: &Arc<Policy>,
    recorder: R,
    (session, execution): (SessionId, ExecutionId),
    tape: CallLog,
) -> PassConfig<R> {
    PassConfig {
        gateway: Arc::clone(gateway),
        policy: Arc::clone(policy),
        recorder,
        session,
        execution,
        parent: None,
        history: Arc::new(SessionHistory::default()),
        call_log: Arc::new(tape),
        approvals: ApprovalPort::closed(),
        redactor: Arc::default(),
    }
}

/// The mean time of `count` calls, with `at_once` of them running concurrently.
async fn time_calls<R>(pass: Pass<R>, count: u32, at_once: u32) -> Result<Duration>
where
    R: ReplayRecorder + Clone + 'static,
{
    let pass = Arc::new(pass);
    let begun = Instant::now();
    let mut under_way = JoinSet::new();
    for first in 1..=at_once {
        let pass = Arc::clone(&pass);
        under_way.spawn(async move {
            for number in (first..=count).step_by(usize::try_from(at_once)?) {
                call_once(&pass, number).await?;
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

async fn call_once<R: ReplayRecorder + Clone + 'static>(pass: &Pass<R>, number: u32) -> Result<()> {
    let body = format!(r#"{{"text":"number {number}"}}"#);
    match pass.call(number, "echo", "echo", &body, &[1, 0]).await {
        Ok(answer) => ensure!(answer == format!("\"number {number}\""), "{answer}"),
        Err(PassError::Refused(told)) => bail!("{}: {}", told.code, told.message),
        Err(stopped) => bail!("{stopped:?}"),
    }
    Ok(())
}
