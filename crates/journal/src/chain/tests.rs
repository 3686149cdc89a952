use super::*;
use crate::EventKind;

fn session(last: char) -> SessionId {
    format!("s_01jcr0000000000000000000z{last}").parse().unwrap()
}

#[test]
fn a_chain_begins_with_its_session_and_each_record_binds_the_one_before() {
    let link = ChainTip::start(session('a'));
    assert_ne!(link.hash, ChainTip::start(session('b')).hash);
    let event = Event::from_host(session('a'), None, EventKind::SessionClosed { reason: "r".into() });
    let first = link.next(&event).unwrap();
    let second = first.tip().next(&event).unwrap();
    assert_eq!((first.seq, first.prev), (1, link.hash));
    assert_eq!((second.seq, second.prev), (2, first.hash));
    // The same event at another position has another hash.
    assert_ne!(first.hash, second.hash);
    assert_ne!(record_hash(link.hash, 2, &first.json), first.hash);
}

#[test]
fn a_record_as_a_line_is_json_with_the_event_inside() {
    let event = Event::from_host(session('a'), None, EventKind::SessionClosed { reason: "a\nb".into() });
    let record = ChainTip::start(session('a')).next(&event).unwrap();
    let line = record.to_json_line();
    assert!(!line.contains('\n'));
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["seq"], 1);
    assert_eq!(value["hash"], record.hash.to_string());
    assert_eq!(value["event"]["reason"], "a\\nb");
}

#[test]
fn a_digest_has_one_spelling() {
    let hash = ContentHash::digest(b"");
    assert_eq!(hash.to_string().parse(), Ok(hash));
    assert!(hash.to_string().to_uppercase().parse::<ContentHash>().is_err());
    assert!("00".parse::<ContentHash>().is_err());
    assert!("é".repeat(32).parse::<ContentHash>().is_err());
    assert_eq!(ContentHash::try_from(hash.as_bytes().as_slice()), Ok(hash));
    assert!(ContentHash::try_from([0; 31].as_slice()).is_err());
}
