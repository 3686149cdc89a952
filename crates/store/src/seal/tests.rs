use super::{DATA_KEY_BYTES, MissingKey, SealContext, SealError, SealKeyring, SealingKey, VERSION};
use ringfence_journal::SessionId;

fn seal(byte: u8) -> SealingKey {
    SealingKey::new(&[byte; DATA_KEY_BYTES]).unwrap()
}

#[test]
fn what_is_sealed_opens_only_at_its_place_and_with_its_key() {
    let sealed = seal(1).seal(SealContext::Entries("e", 1), &[b"one ", b"two"]).unwrap();
    let open = |key: u8, place| seal(key).unseal(place, &sealed).map(|plain| plain.to_vec());
    assert_eq!(open(1, SealContext::Entries("e", 1)).unwrap(), b"one two");
    for place in [
        SealContext::Entries("e", 2),
        SealContext::Entries("f", 1),
        SealContext::Request("e"),
        SealContext::Outcome("e"),
    ] {
        assert!(matches!(open(1, place), Err(SealError::Damaged)), "{place}");
    }
    assert!(matches!(open(2, SealContext::Entries("e", 1)), Err(SealError::Damaged)));
    for length in [0, 11, 12, 28, sealed.len() - 1] {
        let cut = seal(1).unseal(SealContext::Entries("e", 1), &sealed[..length]);
        assert!(matches!(cut, Err(SealError::Damaged)), "{length}");
    }
    // Sealing the same data again gives other bytes.
    assert_ne!(
        seal(1).seal(SealContext::Entries("e", 1), &[b"one two"]).unwrap(),
        sealed
    );
}

#[test]
fn what_another_version_sealed_is_refused() {
    let place = SealContext::Request("e");
    let sealed = seal(1)
        .0
        .seal(&place.associated_data(), &[&[VERSION + 1], b"request"])
        .unwrap();
    let error = seal(1).unseal(place, &sealed).unwrap_err();
    assert!(matches!(error, SealError::Version { found: 2 }), "{error}");
    assert_eq!(error.code(), "store.version");
}

#[test]
fn a_sessions_key_belongs_to_its_session_and_its_folder() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |folder: &tempfile::TempDir| SealKeyring {
        path: folder.path().join("seal.key"),
        key: std::sync::Arc::default(),
    };
    let session = SessionId::generate().unwrap();
    let refused = at(&one).create_session_key(session, MissingKey::Refuse).unwrap_err();
    assert!(matches!(refused, SealError::Missing { .. }), "{refused}");
    let (seal, wrapped) = at(&one).create_session_key(session, MissingKey::Create).unwrap();
    let sealed = seal.seal(SealContext::Note("a"), &[b"x"]).unwrap();
    let again = at(&one).unwrap_session_key(session, &wrapped).unwrap();
    assert_eq!(again.unseal(SealContext::Note("a"), &sealed).unwrap().as_slice(), b"x");
    let other = SessionId::generate().unwrap();
    assert!(matches!(
        at(&one).unwrap_session_key(other, &wrapped),
        Err(SealError::Damaged)
    ));
    at(&two).create_session_key(session, MissingKey::Create).unwrap();
    assert!(matches!(
        at(&two).unwrap_session_key(session, &wrapped),
        Err(SealError::Damaged)
    ));
}
