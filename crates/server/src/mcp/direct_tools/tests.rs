use super::{MAX_NAME_CHARS, client_tool_name};

#[test]
fn names_are_made_usable_and_stay_apart() {
    let check = |full: &str, expected: &str| assert_eq!(client_tool_name(full), expected);
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
        let name = client_tool_name(odd);
        assert!(name.len() <= MAX_NAME_CHARS, "{name}");
        assert!(
            name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)),
            "{name}"
        );
        assert_eq!(client_tool_name(odd), name);
    }
    let alike = ["a.b__c", "a__b.c", "a_.b", "a._b", "a.b_c", "a.b-c"].map(client_tool_name);
    let mut unique = alike.to_vec();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), alike.len(), "{alike:?}");
}
