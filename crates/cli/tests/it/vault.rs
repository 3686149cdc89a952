//! Secrets in the vault, and references to them.

use crate::setting::Setting;

#[test]
fn a_secret_is_set_named_and_removed_and_never_shown() {
    let setting = Setting::new();
    let given = |name: &str, secret: &str| setting.run_with(&["vault", "set", name], secret.as_bytes());
    let set = given("github", "ghp_hunter2hunter2\n");
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(set.stderr.contains("vault:github"), "{set:?}");
    assert_eq!(given("a b", "x").code, Some(125));
    assert_eq!(given("empty", "").code, Some(125));
    let listed = setting.run(&["vault", "list"]);
    assert_eq!(
        (listed.code, listed.stdout.as_str()),
        (Some(0), "github\n"),
        "{listed:?}"
    );
    let listed = setting.run(&["vault", "list", "--json"]);
    let names: Vec<String> = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(names, ["github"]);
    for file in [
        setting.home().join("vault.json"),
        setting.path("user/.config/ringfence/vault.key"),
    ] {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert_eq!(setting.run(&["vault", "rm", "github"]).code, Some(0));
    let again = setting.run(&["vault", "rm", "github"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("vault list"), "{again:?}");
}

#[test]
fn a_server_gets_what_a_reference_names() {
    let setting = Setting::new();
    let servers = r#"{ "mcpServers": { "one": { "command": "/bin/true", "env": { "TOKEN": "vault:absent" } } } }"#;
    setting.write("servers.json", servers);
    let tested = setting.run(&["servers", "test", "--servers", "servers.json"]);
    assert_ne!(tested.code, Some(0), "{tested:?}");
    let said = format!("{}{}", tested.stdout, tested.stderr);
    assert!(said.contains("ringfence vault set absent"), "{said}");
}
