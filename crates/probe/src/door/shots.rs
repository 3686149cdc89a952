//! The runs of the egress probes: the program with policies for the attempts, or the attempts alone with a naive proxy.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::naive;
use crate::attempt::ENTRY;
use crate::attempt::Line;
use crate::attempt::door::AT_ONCE;
use crate::attempt::door::Aims;
use crate::internet::{ALLOWED, EVIL, LOOSE, Reply, World};
use crate::stage::random;

/// The variable that holds the placeholder of the credential.
const VARIABLE: &str = "PROBE_KEY";
/// The folder of the attacker and its targets in the sandbox.
const SHOWN: &str = "/probe";
const DOOR: &str = "127.0.0.1:3128";
/// The total number of bytes that may leave under a tight budget.
pub(super) const BUDGET: u64 = 1 << 20;

/// Probes that run under a tight budget.
const TIGHT: [u16; 3] = [124, 126, 130];

/// How much data a policy lets out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Wide,
    Tight,
}

/// The private addresses that names lead to, one for each probe.
pub(super) const PRIVATE: [(u16, [u8; 4]); 4] = [
    (105, [10, 0, 1, 105]),
    (106, [10, 0, 1, 106]),
    (106, [10, 0, 1, 206]),
    (107, [10, 0, 1, 107]),
];

/// The evidence that a run left.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) lines: Vec<Line>,
    /// Everything that was printed and stored: output, results, logs, journals.
    pub(super) kept: Vec<u8>,
    /// The journal, one record on each line.
    pub(super) journal: String,
}

/// The secrets and folders of one run.
pub(super) struct Setting<'a> {
    folder: &'a Path,
    program: &'a Path,
    root: bool,
    secret: String,
    pub(super) key: String,
}

impl<'a> Setting<'a> {
    pub(super) fn new(folder: &'a Path, program: &'a Path, root: bool) -> io::Result<Setting<'a>> {
        for own in ["shown", "home", "work"] {
            fs::create_dir_all(folder.join(own))?;
        }
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        Ok(Setting {
            folder,
            program,
            root,
            secret: format!("ringfence-canary-{}", random()?),
            key: format!("key-{}-{}", random()?, random()?),
        })
    }

    /// The servers and names that can be reached.
    pub(super) fn world(&self) -> World {
        let at = |address: [u8; 4]| Reply::At(vec![address.into()]);
        let allowed = ["allowed", "api", "quiet", "keyed", "*.wild", "x.wild"];
        let evil = [
            "evil.example.net",
            "others.example.net",
            "denied.example.org",
            "allowed.example.com.evil.example.net",
            "notallowed.example.com",
            "wild.example.com.evil.example.net",
            "evilwild.example.com",
            "xallowed.example.com",
            "*.evil.example.net",
            "failing.example.com.evil.example.net",
            "silent.example.com.evil.example.net",
            "nowhere.example.com.evil.example.net",
        ];
        let world = World::new(self.secret.clone());
        let world = allowed
            .iter()
            .fold(world, |world, name| world.name(&format!("{name}.example.com"), ALLOWED));
        let world = evil.iter().fold(world, |world, name| world.name(name, EVIL));
        world
            .name("loose.example.com", LOOSE)
            .named("nip.example.com", vec![at([10, 0, 1, 105])])
            .named(
                "rebind.example.com",
                vec![Reply::At(vec![ALLOWED]), at([10, 0, 1, 106])],
            )
            .named(
                "rebound.example.com",
                vec![Reply::At(vec![ALLOWED]), at([10, 0, 1, 206])],
            )
            .named(
                "mixed.example.com",
                vec![Reply::At(vec![ALLOWED, [10, 0, 1, 107].into()])],
            )
            .named("chain.example.com", vec![Reply::Alias("denied.example.org".to_owned())])
            .named("failing.example.com", vec![Reply::Fails])
            .named("silent.example.com", vec![Reply::Silent])
    }

    /// Runs the program, with everything that a user's installation has.
    pub(super) fn fenced(&self) -> io::Result<Seen> {
        let shown = self.folder.join("shown");
        let attacker = shown.join("ringfence-probe");
        fs::copy(self.program, &attacker)?;
        fs::set_permissions(&attacker, Permissions::from_mode(0o755))?;
        let key = self.folder.join("key");
        fs::write(&key, &self.key)?;
        fs::set_permissions(&key, Permissions::from_mode(0o600))?;
        let config = serde_json::json!({ "credentials": [{
            "name": VARIABLE,
            "from": format!("file:{}", key.display()),
            "for": [{ "host": "keyed.example.com", "scheme": "https", "header": "authorization" }],
        }]});
        fs::write(self.folder.join("ringfence.yaml"), config.to_string())?;
        let before = self.exec(
            "before",
            &policy(&shown, Room::Wide),
            &["/usr/bin/printenv".to_owned(), VARIABLE.to_owned()],
        )?;
        let result: serde_json::Value = serde_json::from_slice(&before.stdout).unwrap_or_default();
        let stale = result["stdout"].as_str().unwrap_or_default().trim().to_owned();
        if stale.is_empty() {
            let said = String::from_utf8_lossy(&before.stdout).into_owned() + &String::from_utf8_lossy(&before.stderr);
            return Err(io::Error::other(format!(
                "a program with a network cannot be run: {}",
                said.trim()
            )));
        }
        self.aim(&shown, &stale)?;
        let many = self.exec("many", &policy(&shown, Room::Wide), &words(&wide()))?;
        let few = self.exec("tight", &policy(&shown, Room::Tight), &words(&TIGHT))?;
        let journal = self.ringfence(&["audit", "export"])?;
        let mut lines = said(&many);
        lines.extend(said(&few));
        let mut kept = Vec::new();
        for output in [&before, &many, &few, &journal] {
            kept.extend_from_slice(&output.stdout);
            kept.extend_from_slice(&output.stderr);
        }
        take_all(&self.folder.join("home"), &mut kept)?;
        take_all(&self.folder.join("work"), &mut kept)?;
        Ok(Seen {
            lines,
            kept,
            journal: String::from_utf8_lossy(&journal.stdout).into_owned(),
        })
    }

    /// Runs the attempts alone: the credential is in the environment, the proxy lets everything through, and probe 130 runs
    /// repeatedly in the same folder.
    pub(super) fn open(&self) -> io::Result<Seen> {
        let shown = self.folder.join("shown");
        self.aim(&shown, &self.key)?;
        let log = naive::serve(DOOR, &self.key)?;
        let ids: Vec<u16> = wide().into_iter().chain(TIGHT).chain([130]).collect();
        let mut command = self.command(self.program);
        command.arg(ENTRY).args(["knock"]).arg(shown.join("aims.json"));
        command
            .args(ids.iter().map(ToString::to_string))
            .env(VARIABLE, &self.key);
        let output = command.current_dir(self.folder.join("work")).output()?;
        let journal = log.text();
        let mut kept = output.stdout.clone();
        kept.extend_from_slice(journal.as_bytes());
        take_all(&self.folder.join("work"), &mut kept)?;
        for place in ["/dev/shm", "/tmp", "/var/tmp"] {
            // Where nothing was left there is nothing to remove.
            let _ = fs::remove_file(Path::new(place).join(crate::attempt::door::CARGO));
        }
        let lines = parse(&String::from_utf8_lossy(&output.stdout));
        Ok(Seen { lines, kept, journal })
    }

    fn aim(&self, shown: &Path, stale: &str) -> io::Result<()> {
        let aims = Aims {
            door: DOOR.to_owned(),
            secret: self.secret.clone(),
            variable: VARIABLE.to_owned(),
            backwards: self.key.chars().rev().collect(),
            stale: stale.to_owned(),
        };
        fs::write(shown.join("aims.json"), serde_json::to_vec(&aims)?)
    }

    fn exec(&self, name: &str, policy: &serde_json::Value, words: &[String]) -> io::Result<Output> {
        let file = self.folder.join(format!("{name}.json"));
        fs::write(&file, policy.to_string())?;
        let file = file.display().to_string();
        let out = self.folder.join("work").join(name).display().to_string();
        let config = self.folder.join("ringfence.yaml").display().to_string();
        let own = [
            "exec", "--json", "--config", &config, "--policy", &file, "--out", &out, "--",
        ];
        let words: Vec<&str> = own.into_iter().chain(words.iter().map(String::as_str)).collect();
        self.ringfence(&words)
    }

    /// Runs the program as the user who started the probes: root, or a user without privileges.
    fn ringfence(&self, words: &[&str]) -> io::Result<Output> {
        let mut command = self.command(self.program);
        if !self.root {
            command.args([ENTRY, "nobody"]).arg(self.program);
        }
        command.args(words).output()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the program under attack is a process of its own"
    )]
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .stdin(Stdio::null())
            .current_dir(self.folder.join("work"));
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.join("home"))
            .env("RINGFENCE_HOME", self.folder.join("home/ringfence"))
            .env("SSL_CERT_FILE", self.folder.join("certs/ca-certificates.crt"));
        command
    }
}

/// The command that starts the attacker in the sandbox.
fn words(ids: &[u16]) -> Vec<String> {
    let own = [format!("{SHOWN}/ringfence-probe"), ENTRY.to_owned(), "knock".to_owned()];
    let ids = ids.iter().map(ToString::to_string);
    own.into_iter()
        .chain([format!("{SHOWN}/aims.json")])
        .chain(ids)
        .collect()
}

/// All attempts except those that need a policy of their own.
fn wide() -> Vec<u16> {
    (98..=139).filter(|id| !TIGHT.contains(id)).chain([130]).collect()
}

/// The policy of the program under attack.
fn policy(shown: &Path, room: Room) -> serde_json::Value {
    let both = |name: &str| {
        let host = format!("{name}.example.com");
        [
            serde_json::json!({ "host": host }),
            serde_json::json!({ "host": host, "scheme": "http" }),
        ]
    };
    let names = [
        "allowed", "loose", "nip", "rebind", "rebound", "mixed", "chain", "failing", "silent", "nowhere", "keyed",
    ];
    let mut allowlist: Vec<serde_json::Value> = names.iter().flat_map(|name| both(name)).collect();
    for scheme in ["http", "https"] {
        allowlist.push(serde_json::json!({
            "host": "api.example.com", "scheme": scheme, "methods": ["GET"], "paths": ["/v1/**"]
        }));
    }
    allowlist.push(serde_json::json!("quiet.example.com"));
    allowlist.push(serde_json::json!("*.wild.example.com"));
    let mut net = serde_json::json!({
        "enabled": true, "allowlist": allowlist, "denylist": ["denied.example.org"],
    });
    if room == Room::Tight {
        net["limits"] = serde_json::json!({ "connections": AT_ONCE, "bytes": format!("{}KiB", BUDGET >> 10) });
    }
    serde_json::json!({
        "version": 1,
        // Attempts have to report, and what leaks must be visible.
        "data": { "pii": { "mode": "off" }, "secrets": "off", "return": { "bytes": "16MiB", "rows": 1_000_000 } },
        "fs": { "mounts": [{ "path": SHOWN, "access": "ro", "from": shown }] },
        "net": net,
        // Time, descriptors and output are not what these probes are about.
        "proc": { "wall_timeout": "3m", "cpu_time": "2m", "open_files": 1024, "output": "4MiB", "mem_limit": "1GiB" },
    })
}

/// The attempts' reports in the one object that the program prints.
fn said(output: &Output) -> Vec<Line> {
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    parse(result["stdout"].as_str().unwrap_or_default())
}

fn parse(text: &str) -> Vec<Line> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Collects the names and contents of all files below a folder.
fn take_all(folder: &Path, kept: &mut Vec<u8>) -> io::Result<()> {
    let mut waiting: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            kept.extend_from_slice(entry.file_name().as_encoded_bytes());
            kept.push(b'\n');
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                kept.extend(fs::read(entry.path())?);
            }
        }
    }
    Ok(())
}
