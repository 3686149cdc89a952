//! Remote sinks get every record in order, are retried, and delay an act only if they are durable.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_journal::{DeliveryFailure, DeliveryFuture, ExternalSink, Record, RecordError, Recorder as _, SessionId};
use ringfence_store::{Lease, MissedRecords, RemoteSink, Store};

use crate::support::{closed, opening, violation};

/// The behaviour of an endpoint for one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Takes,
    Away,
    Refuses,
    Hangs,
}

/// An endpoint with a list of behaviours, used in turn; the last one stays.
#[derive(Debug)]
struct Endpoint {
    moods: Mutex<Vec<Mood>>,
    got: Mutex<Vec<(SessionId, u64)>>,
    tries: Mutex<u64>,
}

impl Endpoint {
    fn new(moods: &[Mood]) -> Arc<Endpoint> {
        Arc::new(Endpoint {
            moods: Mutex::new(moods.to_vec()),
            got: Mutex::default(),
            tries: Mutex::default(),
        })
    }

    fn got(&self) -> Vec<u64> {
        self.got.lock().unwrap().iter().map(|(_, seq)| *seq).collect()
    }

    fn remote(self: &Arc<Self>, durable: bool) -> Vec<RemoteSink> {
        vec![RemoteSink {
            outlet: Arc::clone(self) as Arc<dyn ExternalSink>,
            durable,
        }]
    }
}

impl ExternalSink for Endpoint {
    fn name(&self) -> &'static str {
        "webhook `https://audit.example.org`"
    }

    fn deliver<'a>(&'a self, records: &'a [Arc<Record>]) -> DeliveryFuture<'a> {
        let mood = {
            let mut moods = self.moods.lock().unwrap();
            if moods.len() > 1 { moods.remove(0) } else { moods[0] }
        };
        *self.tries.lock().unwrap() += 1;
        let why = |text: &str| Arc::new(std::io::Error::other(text.to_owned())) as ringfence_journal::SharedCause;
        Box::pin(async move {
            match mood {
                Mood::Takes => {
                    let seen = records.iter().map(|record| (record.session, record.seq));
                    self.got.lock().unwrap().extend(seen);
                    Ok(())
                }
                Mood::Away => Err(DeliveryFailure::Later(why("connection refused"))),
                Mood::Refuses => Err(DeliveryFailure::Never {
                    count: records.len(),
                    source: why("status 403"),
                }),
                Mood::Hangs => std::future::pending().await,
            }
        })
    }
}

async fn begun(home: &Path, remotes: Vec<RemoteSink>) -> (Store, Lease, SessionId) {
    let store = Store::open_with_remotes(home, &[], remotes).await.unwrap();
    let lease = Lease::acquire(home).unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    (store, lease, session)
}

async fn missed(home: &Path) -> Vec<(u64, String)> {
    let store = Store::open(home).await.unwrap();
    let missed = store.missed_records().await.unwrap();
    store.close().await;
    let shown = |one: MissedRecords| {
        assert_eq!(one.sink, "webhook `https://audit.example.org`");
        assert!(one.since <= one.last);
        (one.records, one.reason)
    };
    missed.into_iter().map(shown).collect()
}

#[tokio::test]
async fn an_endpoint_gets_every_record_in_order_also_after_it_was_away() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[Mood::Away, Mood::Away, Mood::Takes]);
    let (store, _lease, session) = begun(folder.path(), endpoint.remote(false)).await;
    for _ in 0..600 {
        store.record(violation(session, "mount")).await.unwrap();
    }
    store.record(closed(session)).await.unwrap();
    store.close().await;
    assert_eq!(endpoint.got(), (1..=602).collect::<Vec<_>>());
    assert_eq!(missed(folder.path()).await, []);
}

#[tokio::test]
async fn an_endpoint_that_hangs_or_is_away_holds_nothing_up() {
    for (mood, reason) in [
        (Mood::Hangs, "the program ended before it took them"),
        (Mood::Away, "connection refused"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::new(&[mood]);
        let began = Instant::now();
        let (store, _lease, session) = begun(folder.path(), endpoint.remote(false)).await;
        for _ in 0..100 {
            store.record(violation(session, "mount")).await.unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{mood:?}");
        store.close_for_exit().await;
        assert!(began.elapsed() < Duration::from_secs(6), "the end waits a little only");
        assert_eq!(missed(folder.path()).await, [(101, reason.to_owned())]);
    }
}

#[tokio::test]
async fn what_an_endpoint_does_not_want_is_counted_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[Mood::Refuses]);
    for times in 1..=2 {
        let (store, _lease, session) = begun(folder.path(), endpoint.remote(false)).await;
        store.record(closed(session)).await.unwrap();
        store.close().await;
        assert_eq!(missed(folder.path()).await, [(times * 2, "status 403".to_owned())]);
    }
    assert!(*endpoint.tries.lock().unwrap() <= 4, "nothing is tried again");
}

#[tokio::test]
async fn what_does_not_fit_the_queue_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[Mood::Hangs]);
    let (store, _lease, session) = begun(folder.path(), endpoint.remote(false)).await;
    let store = Arc::new(store);
    let tasks: Vec<_> = (0..5_000)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.record(violation(session, "mount")).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let dropped: u64 = store
        .missed_records()
        .await
        .unwrap()
        .iter()
        .map(|one| one.records)
        .sum();
    assert!(dropped > 0 && dropped <= 5_001 - 4_096, "{dropped}");
    store.close_for_exit().await;
    let all: u64 = missed(folder.path()).await.iter().map(|(count, _)| count).sum();
    assert_eq!(all, 5_001);
}

#[tokio::test]
async fn an_act_waits_for_a_sink_that_must_have_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[Mood::Away, Mood::Takes, Mood::Refuses]);
    let (store, _lease, session) = begun(folder.path(), endpoint.remote(true)).await;
    assert_eq!(endpoint.got(), [1], "told only when it is taken");
    let error = store.record(violation(session, "mount")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "webhook `https://audit.example.org` did not take the event in time"
    );
    assert_eq!(error.code(), "audit.sink");
    assert!(matches!(error, RecordError::Sink { source, .. } if source.to_string() == "status 403"));
    store.close().await;
    assert_eq!(missed(folder.path()).await, [(1, "status 403".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_act_does_not_wait_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[Mood::Takes, Mood::Hangs]);
    let (store, _lease, session) = begun(folder.path(), endpoint.remote(true)).await;
    let began = tokio::time::Instant::now();
    let error = store.record(violation(session, "mount")).await.unwrap_err();
    assert!(matches!(error, RecordError::Sink { source, .. } if source.to_string() == "it waits for more than 10 s"));
    assert_eq!(began.elapsed().as_secs(), 10);
    // The next caller waits for less time.
    store.record(violation(session, "mount")).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 11);
    store.close_for_exit().await;
}

#[tokio::test(start_paused = true)]
async fn tries_are_made_less_and_less_often_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(&[Mood::Away]);
    let (store, _lease, _session) = begun(folder.path(), endpoint.remote(false)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let early = *endpoint.tries.lock().unwrap();
    assert!((3..=6).contains(&early), "{early}");
    tokio::time::sleep(Duration::from_mins(30)).await;
    let late = *endpoint.tries.lock().unwrap();
    assert!((35..=75).contains(&late), "{late}");
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(*endpoint.tries.lock().unwrap(), late, "given up");
    store.close_for_exit().await;
    assert_eq!(missed(folder.path()).await, [(1, "connection refused".to_owned())]);
}
