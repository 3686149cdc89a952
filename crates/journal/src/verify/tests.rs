use super::*;
use crate::{ContentHash, HeadSigner};

struct Journal {
    signer: HeadSigner,
    records: Vec<Record>,
    heads: Vec<SignedHead>,
    mark: HeadMark,
}

fn id(last: char) -> SessionId {
    format!("s_01jcr0000000000000000000z{last}").parse().unwrap()
}

/// Three sessions of five records, all signed at the third; a and b are closed and signed at the end too.
fn journal() -> Journal {
    let mut journal = Journal {
        signer: HeadSigner::generate().unwrap(),
        records: Vec::new(),
        heads: Vec::new(),
        mark: HeadMark::start(),
    };
    for name in ['a', 'b', 'c'] {
        let mut link = ChainTip::start(id(name));
        for seq in 1..=5 {
            let kind = match (seq, name) {
                (5, 'a' | 'b') => EventKind::SessionClosed { reason: "done".into() },
                _ => EventKind::Violation {
                    what: "w".into(),
                    detail: "d".into(),
                    rule: "r".into(),
                },
            };
            let closed = matches!(kind, EventKind::SessionClosed { .. });
            let record = link.next(&Event::from_host(id(name), None, kind)).unwrap();
            link = record.tip();
            journal.records.push(record);
            if seq == 3 || closed {
                journal.sign(
                    link,
                    if closed {
                        HeadState::Closed
                    } else {
                        HeadState::Checkpoint
                    },
                );
            }
        }
    }
    journal
}

impl Journal {
    fn sign(&mut self, link: ChainTip, state: HeadState) {
        let head = ChainHead {
            n: self.mark.n + 1,
            prev: self.mark.hash,
            session: link.session,
            seq: link.seq,
            record: link.hash,
            state,
        };
        self.mark = HeadMark::after(&head);
        self.heads.push(self.signer.sign(head));
    }

    fn verify(&self) -> VerificationReport {
        verify_journal(&self.records, &self.heads, self.signer.public(), Some(self.mark))
    }

    /// Recomputes the hash of record `seq` of session b and of every record after it.
    fn mend(&mut self, from: usize) {
        let mut prev = self.records[from].prev;
        for record in &mut self.records[from..10] {
            record.prev = prev;
            record.hash = record_hash(prev, record.seq, &record.json);
            prev = record.hash;
        }
    }
}

#[track_caller]
fn check(tamper: impl FnOnce(&mut Journal), number: u64, fault: &ChainFault) {
    let mut journal = journal();
    tamper(&mut journal);
    let report = journal.verify();
    let found = &report.broken[0];
    assert_eq!(found.session, id('b'));
    assert_eq!(
        found.broken,
        Some(BrokenLink {
            number,
            fault: fault.clone()
        })
    );
    assert_eq!(report.broken_sessions, 1);
}

#[track_caller]
fn check_heads(tamper: impl FnOnce(&mut Journal), number: u64, fault: HeadFault) {
    let mut journal = journal();
    tamper(&mut journal);
    let report = journal.verify();
    assert_eq!(report.broken_head, Some(BrokenLink { number, fault }));
    assert!(!report.is_ok());
}

#[test]
fn an_untouched_journal_is_whole_and_says_what_it_cannot_show() {
    let report = journal().verify();
    assert!(report.is_ok(), "{report:?}");
    assert_eq!((report.sessions, report.records, report.heads), (3, 15, 5));
    assert_eq!((report.unsigned_records, report.unsigned_sessions), (2, 1));
    assert!(report.limitations()[0].starts_with("2 records in 1 session "));
}

#[test]
fn a_change_of_any_field_is_found() {
    // Records 5 to 9 are the second session's 1 to 5.
    check(
        |j| j.records[6].json = j.records[6].json.replace("\"w\"", "\"v\""),
        2,
        &ChainFault::Hash,
    );
    check(|j| j.records[6].hash = ContentHash::digest(b""), 2, &ChainFault::Hash);
    check(|j| j.records[6].prev = ContentHash::digest(b""), 2, &ChainFault::Link);
    check(|j| j.records[6].seq = 9, 2, &ChainFault::Gap { expected: 2 });
    check(|j| j.records[5].prev = ContentHash::digest(b""), 1, &ChainFault::Link);
}

#[test]
fn a_removed_record_is_found() {
    check(|j| drop(j.records.remove(5)), 1, &ChainFault::Gap { expected: 1 });
    check(|j| drop(j.records.remove(7)), 3, &ChainFault::Gap { expected: 3 });
}

#[test]
fn a_removed_tail_is_found_by_its_signed_head() {
    check(|j| drop(j.records.remove(9)), 5, &ChainFault::Cut { head: 4, seq: 5 });
    check(
        |j| drop(j.records.drain(5..10)),
        1,
        &ChainFault::Cut { head: 3, seq: 3 },
    );
}

#[test]
fn a_chain_hashed_anew_does_not_match_its_signed_head() {
    let rewrite = |j: &mut Journal| {
        j.records[6].json = j.records[6].json.replace("\"w\"", "\"v\"");
        j.mend(6);
    };
    check(rewrite, 3, &ChainFault::NotAsSigned { head: 3 });
}

#[test]
fn a_record_after_the_end_is_found() {
    let add = |j: &mut Journal| {
        let last = j.records[9].tip();
        let kind = EventKind::SessionClosed { reason: "again".into() };
        j.records
            .push(last.next(&Event::from_host(id('b'), None, kind)).unwrap());
    };
    check(add, 6, &ChainFault::AfterClose);
}

#[test]
fn an_event_of_another_session_or_version_is_found_even_with_a_right_hash() {
    let move_here = |j: &mut Journal| {
        j.records[6].json = j.records[1].json.clone();
        j.mend(6);
    };
    check(move_here, 2, &ChainFault::OtherSession { session: id('a') });
    let age = |j: &mut Journal| {
        j.records[6].json = j.records[6].json.replace("\"v\":1", "\"v\":9");
        j.mend(6);
    };
    check(age, 2, &ChainFault::Version { version: "9".into() });
    let spoil = |j: &mut Journal| {
        j.records[6].json = "{\"v\":1}".into();
        j.mend(6);
    };
    check(
        spoil,
        2,
        &ChainFault::Event {
            reason: "not an event".into(),
        },
    );
}

#[test]
fn a_change_of_the_heads_is_found() {
    check_heads(
        |j| j.heads.retain(|signed| signed.head.n != 1),
        1,
        HeadFault::Gap { expected: 1 },
    );
    check_heads(
        |j| j.heads.retain(|signed| signed.head.n != 3),
        3,
        HeadFault::Gap { expected: 3 },
    );
    check_heads(|j| j.heads.truncate(4), 5, HeadFault::Cut { marked: 5 });
    check_heads(|j| j.heads.clear(), 1, HeadFault::Cut { marked: 5 });
    check_heads(|j| j.heads[1].signature[3] ^= 1, 2, HeadFault::Signature);
    check_heads(|j| j.heads[1].head.seq = 4, 2, HeadFault::Signature);
    check_heads(|j| j.signer = HeadSigner::generate().unwrap(), 1, HeadFault::Signature);
    check_heads(|j| j.mark.hash = ContentHash::digest(b""), 5, HeadFault::NotAsMarked);
    let relink = |j: &mut Journal| {
        let head = ChainHead {
            prev: ContentHash::digest(b""),
            ..j.heads[2].head
        };
        j.heads[2] = j.signer.sign(head);
    };
    check_heads(relink, 3, HeadFault::Link);
}

#[test]
fn a_journal_whose_newest_session_vanished_with_its_heads_is_found_by_the_mark() {
    let cut = |j: &mut Journal| {
        j.records.truncate(10);
        j.heads.pop();
    };
    check_heads(cut, 5, HeadFault::Cut { marked: 5 });
}

#[test]
fn without_a_mark_a_cut_of_the_newest_heads_is_named_as_not_shown() {
    let journal = journal();
    let report = verify_journal(
        &journal.records[..10],
        &journal.heads[..4],
        journal.signer.public(),
        None,
    );
    assert!(report.is_ok());
    assert!(
        report
            .limitations()
            .iter()
            .any(|words| words.contains("mark beside the key is missing"))
    );
}
