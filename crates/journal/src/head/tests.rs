use super::*;

fn head() -> Head {
    Head {
        n: 1,
        prev: Mark::start().hash,
        session: "s_01jcr0000000000000000000zz".parse().unwrap(),
        seq: 7,
        record: Hash::of(b"record"),
        state: HeadState::Checkpoint,
    }
}

#[test]
fn every_part_of_a_head_is_signed() {
    let pair = Signer::generate().unwrap();
    let signed = pair.sign(head());
    let key = pair.public();
    assert!(key.signed(&signed));
    let changed = [
        Head { n: 2, ..head() },
        Head {
            prev: Hash::of(b""),
            ..head()
        },
        Head {
            session: "s_01jcr0000000000000000000zy".parse().unwrap(),
            ..head()
        },
        Head { seq: 8, ..head() },
        Head {
            record: Hash::of(b""),
            ..head()
        },
        Head {
            state: HeadState::Closed,
            ..head()
        },
    ];
    for head in changed {
        assert!(!key.signed(&SignedHead { head, ..signed.clone() }), "{head:?}");
    }
    let mut forged = signed.clone();
    forged.signature[0] ^= 1;
    assert!(!key.signed(&forged));
    assert!(!Signer::generate().unwrap().public().signed(&signed));
}

#[test]
fn a_key_reads_back_from_its_file_and_never_shows_itself() {
    let signer = Signer::generate().unwrap();
    let text = signer.to_text();
    let read = Signer::parse(&text).unwrap();
    assert_eq!(read.public(), signer.public());
    let secret = text.trim_end().rsplit(' ').next().unwrap();
    assert!(!format!("{signer:?}").contains(secret));
    for bad in [
        "",
        "x",
        &text[..text.len() - 2],
        &format!("{text}\n"),
        &text.to_uppercase(),
    ] {
        assert_eq!(Signer::parse(bad).map(drop), Err(KeyError), "{bad:?}");
    }
}

#[test]
fn a_head_as_a_line_is_json() {
    let signed = Signer::generate().unwrap().sign(head());
    let value: serde_json::Value = serde_json::from_str(&signed.line()).unwrap();
    let read: Head = serde_json::from_value(value["head"].clone()).unwrap();
    assert_eq!(read, head());
    assert_eq!(value["signature"].as_str().unwrap().len(), 128);
}
