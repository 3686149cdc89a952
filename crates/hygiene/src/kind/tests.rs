//! Tests of kinds and sets of kinds.

use super::{CustomKindName, SensitiveKind, SensitiveKinds};

#[test]
fn words_of_a_policy_mean_all_that_goes_with_them() {
    let some = SensitiveKinds::from_policy_name("ssn")
        .unwrap()
        .union(SensitiveKinds::from_policy_name("ip").unwrap());
    assert!(
        some.contains(SensitiveKind::Ssn)
            && some.contains(SensitiveKind::NationalId)
            && some.contains(SensitiveKind::Mac)
            && !some.contains(SensitiveKind::Email)
    );
    assert_eq!(SensitiveKinds::from_policy_name("everything"), None);
    let word = CustomKindName::new("badge").unwrap();
    assert!(
        SensitiveKinds::none().contains(SensitiveKind::Custom(word))
            && SensitiveKinds::all()
                .without(SensitiveKind::Custom(word))
                .contains(SensitiveKind::Custom(word))
    );
    assert!(
        !SensitiveKinds::all()
            .without(SensitiveKind::Url)
            .contains(SensitiveKind::Url)
    );
}

#[test]
fn every_kind_has_a_word_of_its_own_that_an_alias_can_have() {
    let words: std::collections::BTreeSet<&str> = SensitiveKind::ALL.iter().map(SensitiveKind::as_str).collect();
    assert_eq!(words.len(), SensitiveKind::ALL.len());
    assert!(
        words
            .iter()
            .all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()) && word.len() <= 12)
    );
}
