use ringfence_journal::{Entry, EntryKind};

use super::{join, split};

#[test]
fn entries_come_back_as_they_were_and_whatever_was_cut_or_changed_does_not() {
    let entry = |number, kind, bytes: &[u8]| Entry {
        number,
        kind,
        bytes: bytes.to_vec(),
    };
    let entries = vec![
        entry(1, EntryKind::Call, b"call"),
        entry(u32::MAX, EntryKind::Answer, &[7; 5000]),
        entry(2, EntryKind::Trace, b""),
    ];
    let piece = join(&entries).unwrap();
    let mut back = Vec::new();
    split(&piece, &mut back).unwrap();
    assert_eq!(back, entries);
    for cut in [1, 8, 10, 5000, piece.len() - 1] {
        assert_eq!(split(&piece[..cut], &mut Vec::new()), None, "{cut}");
    }
    let mut other = piece.clone();
    other[0] = 9;
    assert_eq!(split(&other, &mut Vec::new()), None);
}
