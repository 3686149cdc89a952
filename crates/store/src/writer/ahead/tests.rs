use std::collections::HashMap;

use ringfence_journal::{Event, Kind, Link};

use super::super::Chain;
use super::*;

/// The next record of a chain that a lease owns.
fn plain(link: Link, lease: LeaseId) -> Plain {
    let kind = Kind::Violation {
        what: "syscall".into(),
        detail: "x".into(),
        rule: "r".into(),
    };
    let record = link.next(&Event::host(link.session, None, kind)).unwrap();
    let chain = Chain {
        link: record.link(),
        lease,
        durable: false,
        at: jiff::Timestamp::MIN,
        bytes: 0,
        sealed: 0,
        limit: u64::MAX,
    };
    Plain {
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
    let mut ahead = Ahead::new(run.path().to_owned(), Behind::default());
    let start = Link::start(SessionId::generate().unwrap());
    let first = plain(start, lease);
    assert_eq!(ahead.write(&first, &Vec::new()), Went::Ahead);
    let (link, safe) = (first.records[0].link(), ahead.end);
    ahead.add(first.records, Vec::new());
    // The file is full: it takes nothing, and it cannot be truncated either.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    ahead.file = Some(Open {
        lease,
        lock,
        file: full,
    });
    for _ in 0..2 {
        assert_eq!(ahead.write(&plain(link, lease), &Vec::new()), Went::Nowhere);
        assert!(ahead.file.is_none());
    }
    let file = fs::read(ahead::file_of(run.path(), lease)).unwrap();
    assert_eq!((file.len() as u64, ahead::read(&file).len()), (safe, 1));
    // The file stays even after the commit: the process that finds the lease dead reads it.
    ahead.rows.clear();
    ahead.close();
    assert!(ahead::file_of(run.path(), lease).exists());
}
