use super::{LONGEST, usable};

#[test]
fn names_are_made_usable_and_stay_apart() {
    let check = |full: &str, expected: &str| assert_eq!(usable(full), expected);
    check("github.list_issues", "github__list_issues");
    check("my-server.get", "my-server__get");
    let long = format!("server.{}", "very_long_".repeat(20));
    for odd in [
        long.as_str(),
        "größe.lesen",
        "a.b__c",
        "a__b.c",
        "a_.b",
        "a._b",
        "a.b.c",
    ] {
        let name = usable(odd);
        assert!(name.len() <= LONGEST, "{name}");
        assert!(
            name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)),
            "{name}"
        );
        assert_eq!(usable(odd), name);
    }
    let alike = ["a.b__c", "a__b.c", "a_.b", "a._b", "a.b_c", "a.b-c"].map(usable);
    let mut unique = alike.to_vec();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), alike.len(), "{alike:?}");
}
