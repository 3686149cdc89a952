use super::*;
use crate::Kind;

fn session(last: char) -> SessionId {
    format!("s_01jcr0000000000000000000z{last}").parse().unwrap()
}

#[test]
fn a_chain_begins_with_its_session_and_each_record_binds_the_one_before() {
    let link = Link::start(session('a'));
    assert_ne!(link.hash, Link::start(session('b')).hash);
    let event = Event::host(session('a'), None, Kind::SessionClosed { reason: "r".into() });
    let first = link.next(&event).unwrap();
    let second = first.link().next(&event).unwrap();
    assert_eq!((first.seq, first.prev), (1, link.hash));
    assert_eq!((second.seq, second.prev), (2, first.hash));
    // The same event at another position has another hash.
    assert_ne!(first.hash, second.hash);
    assert_ne!(record_hash(link.hash, 2, &first.json), first.hash);
}

#[test]
fn a_record_as_a_line_is_json_with_the_event_inside() {
    let event = Event::host(session('a'), None, Kind::SessionClosed { reason: "a\nb".into() });
    let record = Link::start(session('a')).next(&event).unwrap();
    let line = record.line();
    assert!(!line.contains('\n'));
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["seq"], 1);
    assert_eq!(value["hash"], record.hash.to_string());
    assert_eq!(value["event"]["reason"], "a\\nb");
}

#[test]
fn a_digest_has_one_spelling() {
    let hash = Hash::of(b"");
    assert_eq!(hash.to_string().parse(), Ok(hash));
    assert!(hash.to_string().to_uppercase().parse::<Hash>().is_err());
    assert!("00".parse::<Hash>().is_err());
    assert!("é".repeat(32).parse::<Hash>().is_err());
    assert_eq!(Hash::try_from(hash.as_bytes().as_slice()), Ok(hash));
    assert!(Hash::try_from([0; 31].as_slice()).is_err());
}
