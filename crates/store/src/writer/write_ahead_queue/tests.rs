use std::collections::HashMap;

use ringfence_journal::{ChainTip, Event, EventKind};

use super::super::OwnedChain;
use super::*;

/// The next record of a chain that a lease owns.
fn plain(link: ChainTip, lease: LeaseId) -> AppendBatch {
    let kind = EventKind::Violation {
        what: "syscall".into(),
        detail: "x".into(),
        rule: "r".into(),
    };
    let record = link.next(&Event::from_host(link.session, None, kind)).unwrap();
    let chain = OwnedChain {
        link: record.tip(),
        lease,
        durable: false,
        at: jiff::Timestamp::MIN,
        bytes: 0,
        sealed: 0,
        limit: u64::MAX,
    };
    AppendBatch {
        changed: HashMap::from([(record.session, chain)]),
        records: vec![record],
    }
}

#[test]
fn a_file_that_cannot_be_cut_is_not_used_again() {
    let run = tempfile::tempdir().unwrap();
    let lease = LeaseId::generate().unwrap();
    let lock = run.path().join(format!("{lease}.lock"));
    fs::write(&lock, "").unwrap();
    let mut ahead = WriteAheadQueue::new(run.path().to_owned(), DatabaseLag::default());
    let start = ChainTip::start(SessionId::generate().unwrap());
    let first = plain(start, lease);
    assert_eq!(ahead.write(&first, &Vec::new()), WriteAheadOutcome::Written);
    let (link, safe) = (first.records[0].tip(), ahead.end);
    ahead.push(first.records, Vec::new());
    // The file is full: it takes nothing, and it cannot be truncated either.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    ahead.file = Some(WriteAheadFile {
        lease,
        lock,
        file: full,
    });
    for _ in 0..2 {
        assert_eq!(
            ahead.write(&plain(link, lease), &Vec::new()),
            WriteAheadOutcome::NotWritten
        );
        assert!(ahead.file.is_none());
    }
    let file = fs::read(write_ahead::file_path(run.path(), lease)).unwrap();
    assert_eq!((file.len() as u64, write_ahead::decode_rows(&file).len()), (safe, 1));
    // The file stays even after the commit: the process that finds the lease dead reads it.
    ahead.rows.clear();
    ahead.close();
    assert!(write_ahead::file_path(run.path(), lease).exists());
}
