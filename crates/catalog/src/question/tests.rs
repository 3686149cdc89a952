use super::Question;

#[track_caller]
fn check(text: &str, whole: &str, clauses: &[&str]) {
    let question = Question::read(text);
    assert_eq!(
        (question.whole.as_str(), question.clauses.as_slice()),
        (whole, &clauses.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>()[..])
    );
}

#[test]
fn links_and_paths_become_words_for_what_they_are() {
    check("open https://example.org/x", "open url web page", &[]);
    check("read /data/a.xlsx", "read file excel spreadsheet workbook", &[]);
    check("save it to ./out.md", "save it to file markdown text write file", &[]);
    check("write it to the path", "write it to the write file", &[]);
    check("a Next.js page", "a Next.js page", &[]);
    check("red and/or blue", "red and/or blue", &[]);
}

#[test]
fn several_things_to_do_are_clauses() {
    check("find flights and book a hotel", "find flights and book a hotel", &[]);
    check(
        "find flights and send a mail",
        "find flights and send a mail",
        &["find flights", "send a mail"],
    );
    check(
        "Sort it. Then list it.",
        "Sort it. Then list it.",
        &["Sort it.", "list it."],
    );
}

#[test]
fn a_question_is_bounded() {
    let question = Question::read(&"find this. ".repeat(10_000));
    assert!(question.whole.len() <= 2_000);
    assert_eq!(question.clauses.len(), 6);
    assert_eq!(Question::read("").clauses.len(), 0);
}
