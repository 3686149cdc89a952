use ringfence_catalog::{ServerHints, ToolDefinition};
use serde_json::json;

use super::*;

fn environment() -> EnvironmentLookup {
    Arc::new(|name| (name == "KEY").then(|| "hunter2hunter2".to_owned()))
}

fn nowhere() -> Vault {
    Vault::in_data_folder(Path::new("/nowhere"), &environment())
}

#[track_caller]
fn check(text: &str, expected: Result<&str, &str>) {
    let value = CredentialSource::parse(text, Path::new("/nowhere")).resolve(&environment(), &nowhere());
    let value = value.as_ref().map(SecretString::reveal).map_err(ToString::to_string);
    assert_eq!(value, expected.map_err(str::to_owned), "{text}");
}

#[test]
fn values_are_read_from_where_they_are_written() {
    check("plain", Ok("plain"));
    check("env:KEY", Ok("hunter2hunter2"));
    check("Bearer ${KEY}!", Ok("Bearer hunter2hunter2!"));
    check("${env:KEY}", Ok("hunter2hunter2"));
    check("${NONE:-else}", Ok("else"));
    check("env:NONE", Err("the variable `NONE` is not set"));
    check("${NONE}", Err("the variable `NONE` is not set"));
    check("${KEY", Err("`${` has no closing `}`"));
    check("file:absent", Err("cannot read `/nowhere/absent`: entity not found"));
    check(
        "vault:github",
        Err("the vault has no secret `github`; set it with `ringfence vault set github`"),
    );
}

#[test]
fn a_file_is_read_without_its_line_end() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "abc def\n").unwrap();
    let value = CredentialSource::parse("file:key", folder.path())
        .resolve(&environment(), &nowhere())
        .unwrap();
    assert_eq!(value.reveal(), "abc def");
    std::fs::write(folder.path().join("long"), "x".repeat(70_000)).unwrap();
    let long = CredentialSource::parse("file:long", folder.path()).resolve(&environment(), &nowhere());
    assert!(matches!(long, Err(CredentialError::Unfit(_))));
}

#[test]
fn a_secret_does_not_print() {
    let secret = SecretString::new("hunter2hunter2");
    assert_eq!(format!("{secret:?} {secret}"), "[redacted] [redacted]");
    let written = CredentialSource::parse("hunter2hunter2", Path::new("/"));
    assert_eq!(format!("{written:?}"), "[redacted]");
}

#[test]
fn texts_lose_secrets_in_every_spelling() {
    let mut scrubber = Scrubber::default();
    scrubber.add_secret(&SecretString::new("Bearer a+b/c\"def"));
    let text =
        scrubber.clean("one Bearer a+b/c\"def two a+b/c\"def three a%2Bb%2Fc%22def four a+b/c\\\"def \u{1b}[31m");
    assert_eq!(
        text,
        "one [redacted] two [redacted] three [redacted] four [redacted]  [31m"
    );
    assert_eq!(scrubber.clean(&"x".repeat(9_000)).chars().count(), MAX_TEXT_BYTES + 1);
}

#[test]
fn nothing_that_a_server_says_of_its_tools_holds_a_secret() {
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        title: Some("with s3cr3t-value".to_owned()),
        description: "Bearer s3cr3t-value".to_owned(),
        input: json!({"properties": {"s3cr3t-value": {"default": "s3cr3t-value"}}}),
        output: Some(json!({"title": "s3cr3t-value"})),
        hints: ServerHints::default(),
        tags: vec!["s3cr3t-value".to_owned()],
    };
    let mut listing = ServerListing {
        server: "one".to_owned(),
        description: "s3cr3t-value".to_owned(),
        tools: vec![tool("echo"), tool("echo_s3cr3t-value")],
    };
    let mut scrubber = Scrubber::default();
    scrubber.add_secret(&SecretString::new("s3cr3t-value"));
    scrubber.scrub_listing(&mut listing);
    assert_eq!(listing.tools.len(), 1);
    let shown = format!("{listing:?}");
    assert!(
        !shown.contains("s3cr3t") && shown.matches(REDACTED).count() == 7,
        "{shown}"
    );
}
