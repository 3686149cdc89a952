use ringfence_journal::{CleanText, EventKind};

use super::*;

fn chain(limit: u64) -> OwnedChain {
    let session = SessionId::generate().unwrap();
    OwnedChain {
        link: ChainTip::start(session),
        lease: LeaseId::generate().unwrap(),
        durable: false,
        at: Timestamp::MIN,
        bytes: 0,
        sealed: 0,
        limit,
    }
}

fn violation(session: SessionId) -> Event {
    let kind = EventKind::Violation {
        what: "syscall".into(),
        detail: CleanText::clean(&"x".repeat(100)),
        rule: "proc.syscalls".into(),
    };
    Event::from_host(session, None, kind)
}

#[test]
fn no_record_is_earlier_than_the_one_before_it() {
    let chain = chain(1 << 20);
    let session = chain.link.session;
    let (_, chain) = chain.append(&violation(session)).unwrap();
    let earlier = Event {
        at: chain.at.saturating_sub(jiff::SignedDuration::from_secs(5)).unwrap(),
        ..violation(session)
    };
    let (record, chain) = chain.append(&earlier).unwrap();
    assert_eq!(record.event().unwrap().at, chain.at);
    let (record, after) = chain.append(&violation(session)).unwrap();
    assert!(record.event().unwrap().at >= chain.at && after.at >= chain.at);
}

#[test]
fn a_session_that_wrote_all_it_may_still_says_how_it_ends() {
    let mut chain = chain(1000);
    let session = chain.link.session;
    let error = loop {
        match chain.append(&violation(session)) {
            Ok((_, next)) => chain = next,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), "limit.journal");
    assert!(error.hint().unwrap().contains("audit.session_bytes"), "{error}");
    let reason = "limit.journal".into();
    let closed = Event::from_host(session, None, EventKind::SessionClosed { reason });
    assert!(chain.append(&closed).is_ok());
    assert!(chain.bytes <= 1000);
}
