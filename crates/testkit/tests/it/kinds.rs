//! The kinds of personal data in a policy, and how the detectors treat them.

use ringfence_hygiene::{CustomCheck, CustomKind, SensitiveKind, SensitiveKinds};
use ringfence_policy::{Draft, PiiKind};

fn own(name: &str) -> Result<Draft, String> {
    let text = format!("data: {{ pii: {{ own: [{{ name: {name}, pattern: x }}] }} }}");
    Draft::parse(&text, "x").map_err(|error| error.to_string())
}

#[test]
fn every_kind_of_a_policy_is_looked_for() {
    for kind in PiiKind::ALL {
        assert!(
            SensitiveKinds::from_policy_name(kind.as_str()).is_some(),
            "{}",
            kind.as_str()
        );
    }
}

#[test]
fn no_own_kind_has_a_name_that_an_alias_uses() {
    let built_in = SensitiveKind::ALL.iter().map(SensitiveKind::as_str).chain(["text"]);
    for word in built_in {
        let error = own(word).unwrap_err();
        assert!(error.contains("is built in"), "{error}");
        assert!(CustomKind::new(word, "x", CustomCheck::None).is_err(), "{word}");
    }
    for word in ["a", "badge", "abcdefghijkl"] {
        assert!(own(word).is_ok(), "{word}");
        assert!(CustomKind::new(word, "x", CustomCheck::None).is_ok(), "{word}");
    }
    for word in ["abcdefghijklm", "Badge", "b1", "b-c"] {
        assert!(own(word).is_err(), "{word}");
        assert!(CustomKind::new(word, "x", CustomCheck::None).is_err(), "{word}");
    }
}
