use super::*;

fn environment(pairs: &[(&str, &str)]) -> EnvironmentLookup {
    let pairs: Vec<(String, String)> = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Arc::new(move |wanted: &str| {
        let found = pairs.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.clone())
    })
}

fn vault(home: &Path) -> Vault {
    let config = home.join("config");
    Vault::in_data_folder(home, &environment(&[("XDG_CONFIG_HOME", config.to_str().unwrap())]))
}

fn revealed(vault: &Vault, name: &str) -> Option<String> {
    vault.get(name).unwrap().map(|secret| secret.reveal().to_owned())
}

#[test]
fn what_is_set_is_there_until_it_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let vault = vault(home.path());
    assert_eq!(vault.names().unwrap(), Vec::<String>::new());
    assert_eq!(revealed(&vault, "github"), None);
    vault.set("github", &SecretString::new("ghp_one")).unwrap();
    vault.set("oauth/linear", &SecretString::new("two")).unwrap();
    vault.set("github", &SecretString::new("ghp_three")).unwrap();
    assert_eq!(vault.names().unwrap(), ["github", "oauth/linear"]);
    assert_eq!(revealed(&vault, "github").unwrap(), "ghp_three");
    assert!(vault.remove("github").unwrap());
    assert!(!vault.remove("github").unwrap());
    assert_eq!(revealed(&vault, "github"), None);
    assert_eq!(revealed(&vault, "oauth/linear").unwrap(), "two");
}

#[test]
fn neither_file_shows_a_secret_nor_is_open_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let vault = vault(home.path());
    vault.set("github", &SecretString::new("ghp_secret")).unwrap();
    for path in [
        home.path().join("vault.json"),
        home.path().join("config/ringfence/vault.key"),
    ] {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("ghp_secret"), "{text}");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(!format!("{vault:?}").contains("ghp_secret"));
}

#[test]
fn another_key_opens_nothing_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    vault(home.path()).set("github", &SecretString::new("one")).unwrap();
    let before = std::fs::read(home.path().join("vault.json")).unwrap();
    let other = Vault::in_data_folder(home.path(), &environment(&[("RINGFENCE_VAULT_PASSPHRASE", "guess")]));
    assert!(matches!(other.get("github"), Err(VaultError::WrongKey(_))));
    assert!(matches!(
        other.set("b", &SecretString::new("x")),
        Err(VaultError::WrongKey(_))
    ));
    assert_eq!(std::fs::read(home.path().join("vault.json")).unwrap(), before);
    std::fs::remove_file(home.path().join("config/ringfence/vault.key")).unwrap();
    assert!(matches!(vault(home.path()).get("github"), Err(VaultError::NoKey(_))));
    assert!(matches!(
        vault(home.path()).set("b", &SecretString::new("x")),
        Err(VaultError::NoKey(_))
    ));
}

#[test]
fn a_passphrase_opens_what_it_closed() {
    let home = tempfile::tempdir().unwrap();
    let with =
        |passphrase| Vault::in_data_folder(home.path(), &environment(&[("RINGFENCE_VAULT_PASSPHRASE", passphrase)]));
    with("correct horse").set("a", &SecretString::new("one")).unwrap();
    assert_eq!(revealed(&with("correct horse"), "a").unwrap(), "one");
    assert!(matches!(with("correct  horse").get("a"), Err(VaultError::WrongKey(_))));
}

#[test]
fn a_secret_moved_to_another_name_or_changed_is_damage() {
    let home = tempfile::tempdir().unwrap();
    let vault = vault(home.path());
    vault.set("cheap", &SecretString::new("one")).unwrap();
    vault.set("dear", &SecretString::new("two")).unwrap();
    let path = home.path().join("vault.json");
    let mut document: VaultDocument = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let dear = document.secrets["dear"].clone();
    document.secrets.insert("cheap".to_owned(), dear);
    document.secrets.insert("dear".to_owned(), "AAAA".to_owned());
    std::fs::write(&path, serde_json::to_vec(&document).unwrap()).unwrap();
    for name in ["cheap", "dear"] {
        assert!(matches!(vault.get(name), Err(VaultError::Damaged { .. })), "{name}");
    }
    std::fs::write(&path, "{").unwrap();
    assert!(matches!(vault.names(), Err(VaultError::Damaged { .. })));
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let vault = vault(home.path());
    vault.set("a", &SecretString::new("one")).unwrap();
    let key = home.path().join("config/ringfence/vault.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(vault.get("a"), Err(VaultError::Exposed { mode: 0o644, .. })));
}

#[test]
fn names_and_lengths_are_bounded() {
    let home = tempfile::tempdir().unwrap();
    let vault = vault(home.path());
    for name in ["", "a b", "a\n", "é", &"a".repeat(129)] {
        assert!(
            matches!(vault.set(name, &SecretString::new("x")), Err(VaultError::Name(_))),
            "{name:?}"
        );
    }
    assert!(matches!(
        vault.set("a", &SecretString::new("")),
        Err(VaultError::Length)
    ));
    let long = SecretString::new("x".repeat(MAX_VALUE_BYTES + 1));
    assert!(matches!(vault.set("a", &long), Err(VaultError::Length)));
}

#[test]
fn two_who_write_at_once_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    vault(home.path()).set("first", &SecretString::new("x")).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let vault = vault(home.path());
            scope.spawn(move || {
                for number in 0..10 {
                    vault
                        .set(&format!("w{writer}-{number}"), &SecretString::new("x"))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(vault(home.path()).names().unwrap().len(), 41);
}
