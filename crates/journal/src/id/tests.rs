use super::*;

#[track_caller]
fn check(text: &str, parses: bool) {
    assert_eq!(text.parse::<SessionId>().is_ok(), parses, "{text:?}");
}

#[test]
fn only_the_canonical_form_is_a_session_id() {
    check("s_01jcr0000000000000000000zz", true);
    check("s_7zzzzzzzzzzzzzzzzzzzzzzzzz", true);
    check("s_8zzzzzzzzzzzzzzzzzzzzzzzzz", false);
    check("x_01jcr0000000000000000000zz", false);
    check("s_01JCR0000000000000000000ZZ", false);
    check("s_01jcr0000000000000000000z", false);
    check("s_01jcr0000000000000000000zzz", false);
    check("s_01jcr0000000000000000000z\0", false);
    check("s_../../../../etc/passwd0000", false);
    check("../s_01jcr00000000000000000zz", false);
    check("s_01jcr0000000000000000000zi", false);
    check("s_01jcr000000000000000000é0", false);
    check(" s_01jcr0000000000000000000zz", false);
    check("", false);
}

#[test]
fn ids_are_distinct_and_read_back_as_themselves() {
    let ids: std::collections::BTreeSet<_> = (0..1000).map(|_| ExecutionId::generate().unwrap()).collect();
    assert_eq!(ids.len(), 1000);
    for id in ids {
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().len(), 28);
    }
}

#[test]
fn later_ids_sort_after_earlier_ones_as_text_too() {
    let early = SessionId(1_000 << RANDOM_BITS | 0xffff);
    let late = SessionId(1_001 << RANDOM_BITS);
    assert!(early < late);
    assert!(early.to_string() < late.to_string());
}

#[test]
fn a_local_user_has_one_name() {
    assert_eq!("local:1000".parse(), Ok(Principal::Local(1000)));
    for text in [
        "local:",
        "local:+1",
        "local:01",
        "local:-1",
        "local:4294967296",
        "root",
        "LOCAL:1",
    ] {
        assert!(text.parse::<Principal>().is_err(), "{text}");
    }
    assert_eq!(Principal::Local(0).to_string(), "local:0");
}

#[test]
fn the_holder_of_an_access_token_has_one_name() {
    let id = TokenId::generate().unwrap();
    let text = format!("token:{id}");
    assert_eq!(text.parse(), Ok(Principal::Token(id)));
    assert_eq!(Principal::Token(id).to_string(), text);
    for text in [
        "token:",
        "token:t_",
        "token:s_01jcr0000000000000000000zz",
        "Token:t_01jcr0000000000000000000zz",
    ] {
        assert!(text.parse::<Principal>().is_err(), "{text}");
    }
}
