//! Tables.

use super::cells;

#[track_caller]
fn check(text: &str, expected: &[(&str, &str)]) {
    let mut found = Vec::new();
    cells(text, &mut |text, cell| {
        found.push((cell.telling.kind.to_string(), text[cell.start..cell.end].to_owned()));
    });
    let found: Vec<_> = found
        .iter()
        .map(|(kind, value)| (kind.as_str(), value.as_str()))
        .collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn columns_tell_by_their_header() {
    check(
        "id,Full Name,phone\n1,\"Lee, Ann\",555 0100\n2,Bob,\n",
        &[
            ("name", "Lee, Ann"),
            ("phone", "555 0100"),
            ("name", "Bob"),
            ("phone", ""),
        ],
    );
    check("city;x\r\nOulu;1\r\n", &[("place", "Oulu")]);
    check(
        "| name | n |\n|:---|---|\n| Ann | 1 |\n| Bob | 2 |\n\nname | x",
        &[("name", "Ann"), ("name", "Bob")],
    );
}

#[test]
fn prose_is_no_table() {
    check("Dear customer, your phone is here. Yes, it is.\nBye, now, then", &[]);
    check("phone,email", &[]);
    check("", &[]);
    check("name,\"open\nnever closed", &[]);
}
