//! Reads the system keyring through its own command-line client: `secret-tool` of libsecret.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::{CredentialError, EnvironmentLookup, MAX_SECRET_BYTES, SecretString};

/// A locked keyring prompts the user; the gateway waits no longer than this.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Variables that the client program needs to find the session's bus.
const FORWARDED_VARIABLES: [&str; 7] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "PATH",
    "WAYLAND_DISPLAY",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

#[expect(
    clippy::disallowed_methods,
    reason = "the keyring is the operator's own, and so is the program that opens it"
)]
/// Reads the secret with the attributes `service ringfence` and `name NAME`.
pub(super) fn read_keyring_secret(
    name: &str,
    environment: &EnvironmentLookup,
) -> Result<SecretString, CredentialError> {
    let failed = |why: String| CredentialError::Keyring {
        name: name.to_owned(),
        why,
    };
    let passed = FORWARDED_VARIABLES
        .iter()
        .filter_map(|name| Some((*name, environment(name)?)));
    let mut child = Command::new("secret-tool")
        .args(["lookup", "service", "ringfence", "name", name])
        .env_clear()
        .envs(passed)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            failed(if error.kind() == std::io::ErrorKind::NotFound {
                "`secret-tool` is missing; install libsecret-tools".to_owned()
            } else {
                format!("`secret-tool` does not start: {}", error.kind())
            })
        })?;
    let until = Instant::now() + KEYRING_TIMEOUT;
    // A pipe holds the longest secret that is allowed, so the client can always write it and exit.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
            Ok(None) | Err(_) => {
                // A client that exited in the meantime is fine.
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("it did not answer; is it unlocked?".to_owned()));
            }
        }
    };
    let mut text = Zeroizing::new(String::new());
    let read = child
        .stdout
        .take()
        .map(|out| out.take(MAX_SECRET_BYTES).read_to_string(&mut text));
    match read {
        Some(Ok(1..)) if status.success() => Ok(SecretString(text)),
        Some(Err(_)) => Err(failed("the value is no text".to_owned())),
        _ => Err(failed(format!(
            "there is none; store it with `secret-tool store --label {name} service ringfence name {name}`"
        ))),
    }
}
