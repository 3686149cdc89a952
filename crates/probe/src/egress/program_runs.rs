//! The runs of the egress probes: the program with policies for the attempts, or the attempts alone with a naive proxy.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::naive_proxy;
use crate::attempt::ATTEMPT_ENTRY;
use crate::attempt::AttemptLine;
use crate::attempt::egress::EgressTargets;
use crate::attempt::egress::MAX_OPEN_TUNNELS;
use crate::internet::{ALLOWED, DnsReply, EVIL, FakeWorld, LOOSE};
use crate::stage::random_hex;

/// The variable that holds the placeholder of the credential.
const KEY_VARIABLE: &str = "PROBE_KEY";
/// The folder of the attacker and its targets in the sandbox.
const SHOWN_FOLDER: &str = "/probe";
const PROXY_ADDRESS: &str = "127.0.0.1:3128";
/// The total number of bytes that may leave under a tight budget.
pub(super) const TIGHT_BUDGET_BYTES: u64 = 1 << 20;

/// Probes that run under a tight budget.
const TIGHT_ATTEMPTS: [u16; 3] = [124, 126, 130];

/// How much data a policy lets out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EgressBudget {
    Wide,
    Tight,
}

/// The private addresses that names lead to, one for each probe.
pub(super) const PRIVATE_NAMES: [(u16, [u8; 4]); 4] = [
    (105, [10, 0, 1, 105]),
    (106, [10, 0, 1, 106]),
    (106, [10, 0, 1, 206]),
    (107, [10, 0, 1, 107]),
];

/// The evidence that a run left.
#[derive(Debug)]
pub(super) struct RunEvidence {
    pub(super) lines: Vec<AttemptLine>,
    /// Everything that was printed and stored: output, results, logs, journals.
    pub(super) kept: Vec<u8>,
    /// The journal, one record on each line.
    pub(super) journal: String,
}

/// The secrets and folders of one run.
pub(super) struct AttackRun<'a> {
    folder: &'a Path,
    program: &'a Path,
    root: bool,
    secret: String,
    pub(super) key: String,
}

impl<'a> AttackRun<'a> {
    pub(super) fn new(folder: &'a Path, program: &'a Path, root: bool) -> io::Result<AttackRun<'a>> {
        for own in ["shown", "home", "work"] {
            fs::create_dir_all(folder.join(own))?;
        }
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        Ok(AttackRun {
            folder,
            program,
            root,
            secret: format!("ringfence-canary-{}", random_hex()?),
            key: format!("key-{}-{}", random_hex()?, random_hex()?),
        })
    }

    /// The servers and names that can be reached.
    pub(super) fn build_world(&self) -> FakeWorld {
        let at = |address: [u8; 4]| DnsReply::At(vec![address.into()]);
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
        let world = FakeWorld::new(self.secret.clone());
        let world = allowed.iter().fold(world, |world, name| {
            world.with_name(&format!("{name}.example.com"), ALLOWED)
        });
        let world = evil.iter().fold(world, |world, name| world.with_name(name, EVIL));
        world
            .with_name("loose.example.com", LOOSE)
            .with_replies("nip.example.com", vec![at([10, 0, 1, 105])])
            .with_replies(
                "rebind.example.com",
                vec![DnsReply::At(vec![ALLOWED]), at([10, 0, 1, 106])],
            )
            .with_replies(
                "rebound.example.com",
                vec![DnsReply::At(vec![ALLOWED]), at([10, 0, 1, 206])],
            )
            .with_replies(
                "mixed.example.com",
                vec![DnsReply::At(vec![ALLOWED, [10, 0, 1, 107].into()])],
            )
            .with_replies(
                "chain.example.com",
                vec![DnsReply::Alias("denied.example.org".to_owned())],
            )
            .with_replies("failing.example.com", vec![DnsReply::Fails])
            .with_replies("silent.example.com", vec![DnsReply::Silent])
    }

    /// Runs the program, with everything that a user's installation has.
    pub(super) fn run_fenced(&self) -> io::Result<RunEvidence> {
        let shown = self.folder.join("shown");
        let attacker = shown.join("ringfence-probe");
        fs::copy(self.program, &attacker)?;
        fs::set_permissions(&attacker, Permissions::from_mode(0o755))?;
        let key = self.folder.join("key");
        fs::write(&key, &self.key)?;
        fs::set_permissions(&key, Permissions::from_mode(0o600))?;
        let config = serde_json::json!({ "credentials": [{
            "name": KEY_VARIABLE,
            "from": format!("file:{}", key.display()),
            "for": [{ "host": "keyed.example.com", "scheme": "https", "header": "authorization" }],
        }]});
        fs::write(self.folder.join("ringfence.yaml"), config.to_string())?;
        let before = self.run_exec(
            "before",
            &build_policy(&shown, EgressBudget::Wide),
            &["/usr/bin/printenv".to_owned(), KEY_VARIABLE.to_owned()],
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
        self.write_targets(&shown, &stale)?;
        let many = self.run_exec(
            "many",
            &build_policy(&shown, EgressBudget::Wide),
            &attacker_command(&wide_attempts()),
        )?;
        let few = self.run_exec(
            "tight",
            &build_policy(&shown, EgressBudget::Tight),
            &attacker_command(&TIGHT_ATTEMPTS),
        )?;
        let journal = self.run_ringfence(&["audit", "export"])?;
        let mut lines = parse_output(&many);
        lines.extend(parse_output(&few));
        let mut kept = Vec::new();
        for output in [&before, &many, &few, &journal] {
            kept.extend_from_slice(&output.stdout);
            kept.extend_from_slice(&output.stderr);
        }
        collect_files(&self.folder.join("home"), &mut kept)?;
        collect_files(&self.folder.join("work"), &mut kept)?;
        Ok(RunEvidence {
            lines,
            kept,
            journal: String::from_utf8_lossy(&journal.stdout).into_owned(),
        })
    }

    /// Runs the attempts alone: the credential is in the environment, the proxy lets everything through, and probe 130 runs
    /// repeatedly in the same folder.
    pub(super) fn run_unfenced(&self) -> io::Result<RunEvidence> {
        let shown = self.folder.join("shown");
        self.write_targets(&shown, &self.key)?;
        let log = naive_proxy::serve_proxy(PROXY_ADDRESS, &self.key)?;
        let ids: Vec<u16> = wide_attempts().into_iter().chain(TIGHT_ATTEMPTS).chain([130]).collect();
        let mut command = self.command(self.program);
        command.arg(ATTEMPT_ENTRY).args(["knock"]).arg(shown.join("aims.json"));
        command
            .args(ids.iter().map(ToString::to_string))
            .env(KEY_VARIABLE, &self.key);
        let output = command.current_dir(self.folder.join("work")).output()?;
        let journal = log.text();
        let mut kept = output.stdout.clone();
        kept.extend_from_slice(journal.as_bytes());
        collect_files(&self.folder.join("work"), &mut kept)?;
        for place in ["/dev/shm", "/tmp", "/var/tmp"] {
            // Where nothing was left there is nothing to remove.
            let _ = fs::remove_file(Path::new(place).join(crate::attempt::egress::PAYLOAD));
        }
        let lines = parse_lines(&String::from_utf8_lossy(&output.stdout));
        Ok(RunEvidence { lines, kept, journal })
    }

    fn write_targets(&self, shown: &Path, stale: &str) -> io::Result<()> {
        let aims = EgressTargets {
            door: PROXY_ADDRESS.to_owned(),
            secret: self.secret.clone(),
            variable: KEY_VARIABLE.to_owned(),
            backwards: self.key.chars().rev().collect(),
            stale: stale.to_owned(),
        };
        fs::write(shown.join("aims.json"), serde_json::to_vec(&aims)?)
    }

    fn run_exec(&self, name: &str, policy: &serde_json::Value, words: &[String]) -> io::Result<Output> {
        let file = self.folder.join(format!("{name}.json"));
        fs::write(&file, policy.to_string())?;
        let file = file.display().to_string();
        let out = self.folder.join("work").join(name).display().to_string();
        let config = self.folder.join("ringfence.yaml").display().to_string();
        let own = [
            "exec", "--json", "--config", &config, "--policy", &file, "--out", &out, "--",
        ];
        let words: Vec<&str> = own.into_iter().chain(words.iter().map(String::as_str)).collect();
        self.run_ringfence(&words)
    }

    /// Runs the program as the user who started the probes: root, or a user without privileges.
    fn run_ringfence(&self, words: &[&str]) -> io::Result<Output> {
        let mut command = self.command(self.program);
        if !self.root {
            command.args([ATTEMPT_ENTRY, "nobody"]).arg(self.program);
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
fn attacker_command(ids: &[u16]) -> Vec<String> {
    let own = [
        format!("{SHOWN_FOLDER}/ringfence-probe"),
        ATTEMPT_ENTRY.to_owned(),
        "knock".to_owned(),
    ];
    let ids = ids.iter().map(ToString::to_string);
    own.into_iter()
        .chain([format!("{SHOWN_FOLDER}/aims.json")])
        .chain(ids)
        .collect()
}

/// All attempts except those that need a policy of their own.
fn wide_attempts() -> Vec<u16> {
    (98..=139)
        .filter(|id| !TIGHT_ATTEMPTS.contains(id))
        .chain([130])
        .collect()
}

/// The policy of the program under attack.
fn build_policy(shown: &Path, room: EgressBudget) -> serde_json::Value {
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
    if room == EgressBudget::Tight {
        net["limits"] =
            serde_json::json!({ "connections": MAX_OPEN_TUNNELS, "bytes": format!("{}KiB", TIGHT_BUDGET_BYTES >> 10) });
    }
    serde_json::json!({
        "version": 1,
        // Attempts have to report, and what leaks must be visible.
        "data": { "pii": { "mode": "off" }, "secrets": "off", "return": { "bytes": "16MiB", "rows": 1_000_000 } },
        "fs": { "mounts": [{ "path": SHOWN_FOLDER, "access": "ro", "from": shown }] },
        "net": net,
        // Time, descriptors and output are not what these probes are about.
        "proc": { "wall_timeout": "3m", "cpu_time": "2m", "open_files": 1024, "output": "4MiB", "mem_limit": "1GiB" },
    })
}

/// The attempts' reports in the one object that the program prints.
fn parse_output(output: &Output) -> Vec<AttemptLine> {
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    parse_lines(result["stdout"].as_str().unwrap_or_default())
}

fn parse_lines(text: &str) -> Vec<AttemptLine> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Collects the names and contents of all files below a folder.
fn collect_files(folder: &Path, kept: &mut Vec<u8>) -> io::Result<()> {
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
