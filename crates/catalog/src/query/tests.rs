use super::SearchQuery;

#[track_caller]
fn check(text: &str, whole: &str, clauses: &[&str]) {
    let question = SearchQuery::parse(text);
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
fn a_connective_is_no_clause() {
    let update = ["find the order.", "update its status"];
    for text in [
        "find the order. Finally, update its status",
        "find the order. In the end, update its status",
        "Firstly, find the order. Step 2: update its status",
        "First, find the order. After that, update its status",
    ] {
        check(text, "find the order. update its status", &update);
    }
    check(
        "find it and finally update it",
        "find it and update it",
        &["find it", "update it"],
    );
    // The same words stay in other positions.
    check("the first page", "the first page", &[]);
    check("end the call, please", "end the call, please", &[]);
}

#[test]
fn what_is_not_wanted_is_not_asked_for() {
    check("archive it without deleting mails", "archive it without mails", &[]);
    check(
        "do not send the mail, read it",
        "do not the mail, read it",
        &["do not the mail,", "read it"],
    );
    check("do not send. read it", "do not . read it", &[]);
    check("pages without images", "pages without images", &[]);
}

#[test]
fn chinese_sentences_are_clauses_too() {
    check(
        "查询天气。发送邮件。",
        "查询天气。 发送邮件。",
        &["查询天气。", "发送邮件。"],
    );
}

#[test]
fn every_part_of_a_long_question_is_in_a_clause() {
    let things: Vec<String> = (0..40).map(|number| format!("find thing{number}.")).collect();
    let question = SearchQuery::parse(&things.join(" "));
    assert_eq!(question.clauses.len(), 12);
    assert_eq!(question.clauses.join(" "), things.join(" "));
    let sizes = question.clauses.iter().map(|clause| clause.split_whitespace().count());
    assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 2);
}

#[test]
fn a_question_is_bounded() {
    let things: Vec<String> = (0..10_000).map(|number| format!("find {number}.")).collect();
    let question = SearchQuery::parse(&things.join(" "));
    assert!(question.whole.len() <= 8_000);
    assert_eq!(question.clauses.len(), 12);
    assert_eq!(SearchQuery::parse(&"find this. ".repeat(100)).clauses.len(), 0);
    assert_eq!(SearchQuery::parse("").clauses.len(), 0);
}
