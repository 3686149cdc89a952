use super::{file_ending_words, gloss_chinese, synonyms};
use crate::terms::TermStemmer;

#[test]
fn synonyms_go_both_ways() {
    let stems = TermStemmer::new();
    let (one, other) = (stems.term("delete").unwrap(), stems.term("remove").unwrap());
    assert!(synonyms(&one).contains(&other));
    assert!(synonyms(&other).contains(&one));
    assert!(synonyms("nothing").is_empty());
}

#[test]
fn the_longest_chinese_word_wins() {
    let mut found = Vec::new();
    gloss_chinese("查询数据库", &mut |word: &str, _| found.push(word.to_owned()));
    assert_eq!(found, ["query", "search", "get", "database"]);
}

#[test]
fn endings_are_known_by_what_they_hold() {
    assert_eq!(file_ending_words("xlsx"), Some("excel spreadsheet workbook"));
    assert_eq!(file_ending_words("nothing"), None);
}
