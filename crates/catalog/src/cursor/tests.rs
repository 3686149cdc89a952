use super::{BadCursor, CursorScope};

#[test]
fn a_cursor_is_good_for_its_own_question_only() {
    let place = |part: &str| CursorScope::new("list", [1; 8]).with_part(part);
    let cursor = place("a").encode(20);
    assert_eq!(place("a").decode(Some(&cursor)), Ok(20));
    assert_eq!(place("a").decode(None), Ok(0));
    assert_eq!(place("b").decode(Some(&cursor)), Err(BadCursor));
    assert_eq!(
        CursorScope::new("list", [2; 8]).with_part("a").decode(Some(&cursor)),
        Err(BadCursor)
    );
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
        assert_eq!(place("a").decode(Some(bad)), Err(BadCursor), "{bad}");
    }
    assert_eq!(place("a").decode(Some(&cursor.replacen("14", "15", 1))), Err(BadCursor));
}
