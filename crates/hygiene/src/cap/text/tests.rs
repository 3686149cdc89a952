//! Tests of texts of any length.

use super::{KeptPart, TextCap};
use crate::cap::CapLimits;

const LIMITS: CapLimits = CapLimits {
    bytes: 200,
    rows: 6,
    depth: 4,
    string: 60,
};

fn cap(text: &[u8], keep: KeptPart) -> (String, u64) {
    let mut cap = TextCap::new(LIMITS, keep, Some("ringfence://out/1"));
    for piece in text.chunks(7) {
        cap.push(piece);
    }
    let capped = cap.finish();
    (capped.shown, capped.left_out.rows)
}

#[test]
fn what_fits_is_whole() {
    assert_eq!(cap(b"a\nb\n", KeptPart::Head), ("a\nb\n".to_owned(), 0));
    assert_eq!(cap(b"", KeptPart::Ends), (String::new(), 0));
    assert_eq!(cap(b"no end", KeptPart::Ends), ("no end".to_owned(), 0));
}

#[test]
fn what_fits_is_whole_wherever_its_long_line_stands() {
    let lines = [
        "short\n",
        "two\n",
        "this line has by far most of the bytes of the text\n",
    ];
    let size = lines.concat().len();
    let limits = CapLimits {
        bytes: size,
        rows: 3,
        string: size,
        depth: 1,
    };
    for turn in 0..3 {
        let text: String = (0..3).map(|at| lines[(at + turn) % 3]).collect();
        let cap = |limits| {
            let mut cap = TextCap::new(limits, KeptPart::Ends, None);
            cap.push(text.as_bytes());
            cap.finish()
        };
        let whole = cap(limits);
        assert_eq!(whole.shown, text);
        assert!(whole.left_out.is_whole());
        let less = cap(CapLimits {
            bytes: size - 1,
            ..limits
        });
        assert!(!less.left_out.is_whole(), "{}", less.shown);
        let fewer = cap(CapLimits { rows: 2, ..limits });
        assert!(fewer.left_out.rows > 0, "{}", fewer.shown);
    }
}

#[test]
fn a_table_keeps_its_header() {
    let rows: Vec<String> = (0..1000).map(|row| format!("{row},x\n")).collect();
    let (shown, left) = cap(format!("id,name\n{}", rows.concat()).as_bytes(), KeptPart::Head);
    assert_eq!(left, 995);
    assert_eq!(
        shown,
        "id,name\n0,x\n1,x\n2,x\n3,x\n4,x\n⟦ringfence: 995 of 1,001 lines left out, 5,870 bytes; the whole is at ringfence://out/1⟧"
    );
}

#[test]
fn a_log_keeps_both_ends() {
    let rows: Vec<String> = (0..1000).map(|row| format!("line {row}\n")).collect();
    let (shown, left) = cap(rows.concat().as_bytes(), KeptPart::Ends);
    assert_eq!(left, 994);
    assert!(
        shown.starts_with("line 0\nline 1\nline 2\n⟦ringfence: 994 of 1,000 lines"),
        "{shown}"
    );
    assert!(shown.ends_with("⟧\nline 997\nline 998\nline 999\n"), "{shown}");
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let mut cap = TextCap::new(LIMITS, KeptPart::Head, None);
    for _ in 0..1000 {
        cap.push(&[b'x'; 10_000]);
    }
    assert!(cap.line.text.len() < 1000);
    let capped = cap.finish();
    assert_eq!(capped.left_out.cut, 1);
    assert_eq!(capped.left_out.seen, 10_000_000);
    assert!(
        capped
            .shown
            .ends_with("⟦ringfence: 10,000,000 bytes of this line left out⟧"),
        "{}",
        capped.shown
    );
}

#[test]
fn an_imitated_notice_is_neutralised() {
    let mut cap = TextCap::new(LIMITS, KeptPart::Head, None);
    cap.push("⟦ringfence: nothing left out⟧".as_bytes());
    let capped = cap.finish();
    assert_eq!(capped.shown, "[ringfence: nothing left out]");
    assert_eq!(capped.left_out.neutralised, 2);
}
