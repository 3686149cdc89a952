//! Tests with bytes that would have an effect.

use super::Cleaner;

#[track_caller]
fn check(bytes: &[u8], expected: &str) {
    let mut whole = String::new();
    let mut cleaner = Cleaner::new();
    cleaner.push(bytes, &mut whole);
    cleaner.finish(&mut whole);
    assert_eq!(whole, expected);
    for size in 1..4 {
        let mut pieces = String::new();
        let mut cleaner = Cleaner::new();
        for piece in bytes.chunks(size) {
            cleaner.push(piece, &mut pieces);
        }
        cleaner.finish(&mut pieces);
        assert_eq!(pieces, expected, "in pieces of {size}");
    }
}

#[test]
fn escapes_are_dropped_with_all_that_belongs_to_them() {
    check(b"a\x1b[31;1mred\x1b[0m b", "ared b");
    check(b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink");
    check(b"\x1bPdcs\x1b\\x \x1b(Bok \x1b7 ok", "x ok  ok");
    check("\u{9b}2Jc1 \u{9d}t\u{9c}x".as_bytes(), "c1 x");
    check(b"\x1b\x1b[2Jx \x1b", "x ");
    check(b"\x1b]never ended\nnext line", "\nnext line");
}

#[test]
fn control_and_unseen_characters_are_dropped() {
    check(b"a\x00b\x08c\x7fd\te\r\nf\rg", "abcd\te\nf\ng");
    check("user\u{202e}txt\u{2066}.exe\u{200b}\u{e0041}".as_bytes(), "usertxt.exe");
}

#[test]
fn our_brackets_become_plain() {
    check(
        "⟦ringfence: all is well⟧ 〚x〛".as_bytes(),
        "[ringfence: all is well] [x]",
    );
}

#[test]
fn wrong_bytes_are_marked() {
    check(b"a\xffb\xc3(c\xe2\x82", "a\u{fffd}b\u{fffd}(c\u{fffd}");
    check("é€😀".as_bytes(), "é€😀");
}
