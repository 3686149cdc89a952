use super::{DATA_KEY_BYTES, DataKey, SealFault};

fn key(byte: u8) -> DataKey {
    DataKey::new(&[byte; DATA_KEY_BYTES]).unwrap()
}

#[test]
fn what_is_sealed_opens_only_in_its_context_with_its_key_and_whole() {
    let sealed = key(1).seal("here", &[b"one ", b"two"]).unwrap();
    assert_eq!(key(1).unseal("here", &sealed).unwrap().as_slice(), b"one two");
    assert_eq!(key(1).unseal("there", &sealed).unwrap_err(), SealFault::Damaged);
    assert_eq!(key(2).unseal("here", &sealed).unwrap_err(), SealFault::Damaged);
    for length in 0..sealed.len() {
        let cut = key(1).unseal("here", &sealed[..length]);
        assert_eq!(cut.unwrap_err(), SealFault::Damaged, "{length}");
    }
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert_eq!(key(1).unseal("here", &changed).unwrap_err(), SealFault::Damaged, "{at}");
    }
    // Sealing the same data again gives other bytes.
    assert_ne!(key(1).seal("here", &[b"one two"]).unwrap(), sealed);
}

#[test]
fn a_key_has_one_length() {
    for length in [0, 31, 33] {
        assert_eq!(
            DataKey::new(&vec![1; length]).unwrap_err(),
            SealFault::Damaged,
            "{length}"
        );
    }
}
