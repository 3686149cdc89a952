//! Aliases in output that comes in pieces.

use super::safe;

#[test]
fn no_alias_is_cut() {
    let alias = "‹email:k7q2bx›";
    for cut in 0..=alias.len() {
        let text = [b"to ".as_slice(), &alias.as_bytes()[..cut]].concat();
        let expected = if cut == 0 || cut == alias.len() { text.len() } else { 3 };
        assert_eq!(safe(&text), expected, "{cut}");
    }
    let long = "‹ and much more than an alias could ever have".as_bytes();
    assert_eq!(safe(long), long.len());
    assert_eq!(safe(b""), 0);
}
