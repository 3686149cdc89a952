//! Tests of secrets.

use super::is_random;
use crate::detector::{Detector, DetectorConfig, NameDetection, SecretDetection};
use crate::kind::SensitiveKinds;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let found = Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::none(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    })
    .find(text);
    let found: Vec<_> = found.iter().map(|one| &text[one.start..one.end]).collect();
    assert_eq!(found, expected, "{text}");
}

/// Builds a token at run time, so that no file contains one.
fn token(begin: &str, length: usize) -> String {
    let letters = "q7Zp3XkV9rT2mB5nW8sD4fG6hJ1yC0aL".chars().cycle().take(length);
    begin.chars().chain(letters).collect()
}

#[test]
fn tokens_with_a_known_beginning() {
    for (begin, length) in [
        ("ghp_", 36),
        ("sk-ant-", 40),
        ("AIza", 35),
        ("xoxb-", 30),
        ("glpat-", 20),
        ("npm_", 36),
        ("hf_", 34),
        ("sk_live_", 24),
    ] {
        let token = token(begin, length);
        check(&format!("use {token} here"), &[&token]);
        check(&format!("url?k={token}&n=1"), &[&token]);
    }
    let lettered = format!("hf_{}", "QwZpXkVrTmBnWsDfGhJyCaLqRtYuIoPaSd");
    check(&format!("use {lettered}."), &[&lettered]);
    let access = format!("AKIA{}", "Q7ZP3XKVWRT2MB5N");
    check(&access, &[&access]);
    check(
        "ghp_short sk-learn task-list-with-a-long-name AKIAIOSFODNN sk-aaaaaaaaaaaaaaaaaaaaaaaa",
        &[],
    );
}

#[test]
fn private_keys_to_their_last_line() {
    let key = format!(
        "-----BEGIN {} KEY-----\nMIIEvQ\nabc\n-----END {} KEY-----",
        "PRIVATE", "PRIVATE"
    );
    check(&format!("a\n{key}\nb"), &[&key]);
    let cut = format!("-----BEGIN RSA {} KEY-----\nMIIEvQ", "PRIVATE");
    check(&cut, &[&cut]);
    check("-----BEGIN PUBLIC KEY-----\nMIIEvQ", &[]);
}

#[test]
fn values_that_a_telling_word_is_given() {
    check("password = \"hunter2!\"", &["hunter2!"]);
    check("DB_PASSWORD=x9Kq2mPz7Lw4 next", &["x9Kq2mPz7Lw4"]);
    check("{\"api_key\": \"q7Zp3XkV9rT2mB5n\"}", &["q7Zp3XkV9rT2mB5n"]);
    check("Authorization: Bearer q7Zp3XkV9rT2mB5nW8sD", &["q7Zp3XkV9rT2mB5nW8sD"]);
    check("https://user:s3cretpw@host.example/x", &["s3cretpw"]);
    check(
        "password: must be long; token: string; secret = \"${SECRET}\"; tokens: 4096; password=\"\"",
        &[],
    );
    check(
        "the token is used by password managers: see https://host.example/a:b@c",
        &[],
    );
}

#[test]
fn signed_tokens() {
    let head = "eyJhbGciOiJIUzI1NiJ9";
    let jwt = format!("{head}.{}.q7Zp3XkV9rT2mB5n", "eyJzdWIiOiIxMjM0In0");
    check(&format!("t {jwt} t"), &[&jwt]);
    check(head, &[]);
}

#[test]
fn words_are_not_random() {
    assert!(is_random("q7Zp3XkV9rT2mB5n") && !is_random("configuration") && !is_random("aaaaaaaaaaaa1"));
}
