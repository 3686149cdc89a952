use ringfence_journal::{ReplayEntry, ReplayEntryKind};

use super::{join_entries, split_entries};

#[test]
fn entries_come_back_as_they_were_and_whatever_was_cut_or_changed_does_not() {
    let entry = |number, kind, bytes: &[u8]| ReplayEntry {
        number,
        kind,
        bytes: bytes.to_vec(),
    };
    let entries = vec![
        entry(1, ReplayEntryKind::Call, b"call"),
        entry(u32::MAX, ReplayEntryKind::Answer, &[7; 5000]),
        entry(2, ReplayEntryKind::Trace, b""),
    ];
    let piece = join_entries(&entries).unwrap();
    let mut back = Vec::new();
    split_entries(&piece, &mut back).unwrap();
    assert_eq!(back, entries);
    for cut in [1, 8, 10, 5000, piece.len() - 1] {
        assert_eq!(split_entries(&piece[..cut], &mut Vec::new()), None, "{cut}");
    }
    let mut other = piece.clone();
    other[0] = 9;
    assert_eq!(split_entries(&other, &mut Vec::new()), None);
}
