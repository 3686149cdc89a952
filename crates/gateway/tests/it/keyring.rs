//! Tests of the system keyring: a real one, on a separate bus.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ringfence_gateway::{CredentialSource, EnvironmentLookup, Vault};

const SECRET: &str = "s3cr3t in the keyring";
const NAME: &str = "keyring::a_credential_comes_from_the_systems_keyring";
/// Set when this test runs inside the keyring's session.
const INSIDE: &str = "RINGFENCE_TEST_KEYRING";

/// Unlocks a new keyring, stores one secret, and runs this test again beside it.
const SCRIPT: &str = r#"
set -e
printf 'password' | gnome-keyring-daemon --unlock --components=secrets >/dev/null
printf '%s' "$SECRET" | secret-tool store --label github service ringfence name github
exec "$0" --exact "$1" --nocapture
"#;

#[test]
fn a_credential_comes_from_the_systems_keyring() {
    if std::env::var_os(INSIDE).is_some() {
        return look_up();
    }
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new("dbus-run-session")
        .args(["--", "sh", "-c", SCRIPT])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(INSIDE, "1")
        .env("SECRET", SECRET)
        .env("HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .output();
    match ended {
        Ok(ended) => assert!(
            ended.status.success(),
            "{}{}",
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr)
        ),
        Err(_) => eprintln!("SKIPPED: no `dbus-run-session`; `cargo xtask test` installs it"),
    }
}

fn look_up() {
    let environment: EnvironmentLookup = Arc::new(|name| std::env::var(name).ok());
    let vault = Vault::in_data_folder(Path::new("/nowhere"), &environment);
    let resolve = |text: &str| CredentialSource::parse(text, Path::new("/")).resolve(&environment, &vault);
    assert_eq!(resolve("keyring:github").unwrap().reveal(), SECRET);
    let absent = resolve("keyring:gitlab").unwrap_err().to_string();
    assert!(absent.contains("secret-tool store --label gitlab"), "{absent}");
}
