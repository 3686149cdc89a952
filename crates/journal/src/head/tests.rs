use super::*;

fn head() -> ChainHead {
    ChainHead {
        n: 1,
        prev: HeadMark::start().hash,
        session: "s_01jcr0000000000000000000zz".parse().unwrap(),
        seq: 7,
        record: ContentHash::digest(b"record"),
        state: HeadState::Checkpoint,
    }
}

#[test]
fn every_part_of_a_head_is_signed() {
    let pair = HeadSigner::generate().unwrap();
    let signed = pair.sign(head());
    let key = pair.public();
    assert!(key.has_signed(&signed));
    let changed = [
        ChainHead { n: 2, ..head() },
        ChainHead {
            prev: ContentHash::digest(b""),
            ..head()
        },
        ChainHead {
            session: "s_01jcr0000000000000000000zy".parse().unwrap(),
            ..head()
        },
        ChainHead { seq: 8, ..head() },
        ChainHead {
            record: ContentHash::digest(b""),
            ..head()
        },
        ChainHead {
            state: HeadState::Closed,
            ..head()
        },
    ];
    for head in changed {
        assert!(!key.has_signed(&SignedHead { head, ..signed.clone() }), "{head:?}");
    }
    let mut forged = signed.clone();
    forged.signature[0] ^= 1;
    assert!(!key.has_signed(&forged));
    assert!(!HeadSigner::generate().unwrap().public().has_signed(&signed));
}

#[test]
fn a_key_reads_back_from_its_file_and_never_shows_itself() {
    let signer = HeadSigner::generate().unwrap();
    let text = signer.to_text();
    let read = HeadSigner::parse(&text).unwrap();
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
        assert_eq!(HeadSigner::parse(bad).map(drop), Err(KeyError), "{bad:?}");
    }
}

#[test]
fn a_head_as_a_line_is_json() {
    let signed = HeadSigner::generate().unwrap().sign(head());
    let value: serde_json::Value = serde_json::from_str(&signed.to_json_line()).unwrap();
    let read: ChainHead = serde_json::from_value(value["head"].clone()).unwrap();
    assert_eq!(read, head());
    assert_eq!(value["signature"].as_str().unwrap().len(), 128);
}
