//! Tests of kinds and sets of kinds.

use super::{Kind, Kinds, Word};

#[test]
fn words_of_a_policy_mean_all_that_goes_with_them() {
    let some = Kinds::named("ssn").unwrap().and(Kinds::named("ip").unwrap());
    assert!(some.has(Kind::Ssn) && some.has(Kind::NationalId) && some.has(Kind::Mac) && !some.has(Kind::Email));
    assert_eq!(Kinds::named("everything"), None);
    let word = Word::new("badge").unwrap();
    assert!(Kinds::none().has(Kind::Own(word)) && Kinds::all().without(Kind::Own(word)).has(Kind::Own(word)));
    assert!(!Kinds::all().without(Kind::Url).has(Kind::Url));
}

#[test]
fn every_kind_has_a_word_of_its_own_that_an_alias_can_have() {
    let words: std::collections::BTreeSet<&str> = Kind::ALL.iter().map(Kind::word).collect();
    assert_eq!(words.len(), Kind::ALL.len());
    assert!(
        words
            .iter()
            .all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()) && word.len() <= 12)
    );
}
