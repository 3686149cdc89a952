use super::{BadCursor, Place};

#[test]
fn a_cursor_is_good_for_its_own_question_only() {
    let place = |part: &str| Place::new("list", [1; 8]).and(part);
    let cursor = place("a").write(20);
    assert_eq!(place("a").read(Some(&cursor)), Ok(20));
    assert_eq!(place("a").read(None), Ok(0));
    assert_eq!(place("b").read(Some(&cursor)), Err(BadCursor));
    assert_eq!(Place::new("list", [2; 8]).and("a").read(Some(&cursor)), Err(BadCursor));
    for bad in [
        "",
        "-",
        "14",
        "0-0",
        "zz-1",
        "ffffffffffffffffffff-1",
        "15-0000000000000000",
        "日本",
    ] {
        assert_eq!(place("a").read(Some(bad)), Err(BadCursor), "{bad}");
    }
    assert_eq!(place("a").read(Some(&cursor.replacen("14", "15", 1))), Err(BadCursor));
}
