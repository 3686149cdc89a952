//! Secrets in the vault, and references that resolve to them.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{ExitStatus, Stdio};

use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

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

/// Types `keys` at a terminal once `vault set` asks for the secret; answers how it ended, what it said, and what the terminal showed.
fn type_secret(setting: &Setting, name: &str, keys: &[u8]) -> (ExitStatus, String, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let ours = terminal();
    let is_shown = || tcgetattr(&ours).unwrap().local_modes.contains(LocalModes::ECHO);
    assert!(is_shown());
    let mut command = setting.command(&["vault", "set", name]);
    let mut child = crate::setting::spawned(command.stdin(terminal()).stdout(Stdio::null()));
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    said.read_line(&mut text).unwrap();
    assert!(text.contains("not shown"), "{text}");
    assert!(!is_shown(), "what is typed is shown");
    let mut master = File::from(master);
    master.write_all(keys).unwrap();
    said.read_to_string(&mut text).unwrap();
    let status = child.wait().unwrap();
    assert!(is_shown(), "the terminal is not as it was");
    // All output of the program is available by now: no other process writes to the terminal.
    rustix::io::ioctl_fionbio(&master, true).unwrap();
    let mut shown = Vec::new();
    let _ = master.read_to_end(&mut shown);
    (status, text, String::from_utf8_lossy(&shown).into_owned())
}

#[test]
fn a_secret_that_is_typed_is_not_shown() {
    let setting = Setting::new();
    let (status, said, shown) = type_secret(&setting, "typed", b"wrong\x15hunteR\x7fr2\n");
    assert_eq!((status.code(), shown.as_str()), (Some(0), ""), "{said}");
    assert!(said.contains("vault:typed") && !said.contains("hunter"), "{said}");
    // The stored secret equals the typed one.
    let told = setting.path("told");
    let script = format!("printf %s \"$TOKEN\" >{}", told.display());
    let server = serde_json::json!({ "command": "/bin/sh", "args": ["-c", script], "env": { "TOKEN": "vault:typed" } });
    setting.write(
        "servers.json",
        serde_json::json!({ "mcpServers": { "one": server } }).to_string(),
    );
    setting.run(&["servers", "test", "--servers", "servers.json"]);
    assert_eq!(fs::read_to_string(told).unwrap(), "hunter2");
    let (status, said, shown) = type_secret(&setting, "cancelled", b"half\x03");
    assert_eq!((status.code(), shown.as_str()), (Some(130), ""), "{said}");
    let (status, said, shown) = type_secret(&setting, "lines", b"BEGIN\nEND\n");
    assert_eq!((status.code(), shown.as_str()), (Some(125), ""), "{said}");
    assert!(said.contains("ringfence vault set lines < FILE"), "{said}");
    assert_eq!(setting.run(&["vault", "list"]).stdout, "typed\n");
}
