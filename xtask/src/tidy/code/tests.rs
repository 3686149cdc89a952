use super::blank_non_code;

#[track_caller]
fn check(text: &str, expected: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let seen = blank_non_code(text);
    assert_eq!(words(&seen), expected);
    assert_eq!(seen.lines().count(), text.lines().count(), "lines stay");
}

#[test]
fn comments_are_not_code() {
    check("a // unsafe\nb", "a b");
    check("a /* unsafe /* nested */ still\n */ b", "a b");
    check("//! unsafe", "");
    check("a / b", "a / b");
}

#[test]
fn strings_are_not_code() {
    check("a(\"unsafe \\\" unsafe\") b", "a( ) b");
    check("a(r\"c:\\\") b", "a( ) b");
    check("a(br##\"unsafe \"# unsafe\"##) b", "a( ) b");
    check("a(b\"unsafe\") c", "a(b ) c");
    check("\"over\ntwo // lines\" b", "b");
}

#[test]
fn characters_are_not_code_and_lifetimes_are() {
    check("a('\"') b", "a( ) b");
    check("a('\\'') b", "a( ) b");
    check("a('/') // c", "a( )");
    check(
        "fn f<'a>(x: &'a str, y: &'static str) {}",
        "fn f<'a>(x: &'a str, y: &'static str) {}",
    );
    check("'ä' b", "b");
}

#[test]
fn names_that_end_like_a_prefix_stay() {
    check("for\"unsafe\" b", "for b");
    check("r#type b", "r#type b");
    check("barr\"x\" b", "barr b");
}

#[test]
fn what_never_ends_is_blank_to_the_end() {
    check("a \"unsafe", "a");
    check("a /* unsafe", "a");
    check("a r#\"unsafe\"", "a");
}
