use super::{TermStemmer, for_each_gram, for_each_word};

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let mut found = Vec::new();
    for_each_word(text, |word| found.push(word.to_owned()));
    assert_eq!(found, expected, "{text}");
}

#[test]
fn names_and_sentences_fall_into_words() {
    check("getUserName", &["get", "user", "name"]);
    check("get_user-name", &["get", "user", "name"]);
    check("parseHTTPResponse2", &["parse", "http", "response2"]);
    check("", &[]);
    check("Ärger über", &["ärger", "über"]);
    check("天气", &["天气", "weather"]);
    check("查天气", &["查天", "天气", "weather"]);
}

#[test]
fn a_word_without_end_is_cut() {
    let mut longest = 0;
    for_each_word(&"x".repeat(100_000), |word| longest = longest.max(word.len()));
    assert_eq!(longest, 40);
}

#[test]
fn stems_join_forms_and_drop_what_says_nothing() {
    let stems = TermStemmer::new();
    assert_eq!(stems.term("searching"), stems.term("searches"));
    assert_eq!(stems.term("the"), None);
    assert_eq!(stems.term("x"), None);
}

#[test]
fn grams_know_where_a_word_ends() {
    let of = |word: &str| {
        let mut found = Vec::new();
        for_each_gram(word, |gram| found.push(gram));
        found
    };
    assert_eq!(of("file").len(), 3);
    assert_eq!(of("a").len(), 1);
    assert_ne!(of("art")[1], of("arts")[1]);
}
