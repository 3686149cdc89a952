//! The setup of network tests: a small internet, a data folder, and the program that uses both.

use std::process::{Command, Stdio};

use ringfence_testkit::internet::{self, ALLOWED, EVIL, FakeWorld, Internet, LOOSE, STRANGER};
use serde_json::{Value, json};

use crate::setting::{Done, Setting, finish, program};

pub(crate) use ringfence_testkit::internet::enter_internet;

pub(crate) const SECRET: &str = "ringfence-canary-behind-every-other-address";

/// The setup of a network test.
pub(crate) struct Net {
    pub(crate) setting: Setting,
    pub(crate) internet: Internet,
    _folder: tempfile::TempDir,
}

/// The built-in policy with time for slow clients and this network.
pub(crate) fn policy(net: &Value) -> Value {
    json!({
        "version": 1,
        "net": net,
        // What answers say is what these tests are about, to the letter.
        "data": { "pii": { "mode": "off" } },
        "proc": { "wall_timeout": "55s", "cpu_time": "2m", "mem_limit": "1GiB", "fork_limit": 128, "open_files": 1024 },
    })
}

impl Net {
    pub(crate) fn new(more: impl FnOnce(FakeWorld) -> FakeWorld) -> Net {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "allowed.example.com",
            "api.example.com",
            "github.com",
            "pypi.org",
            "files.pythonhosted.org",
        ];
        let names = names.into_iter().chain(["registry.npmjs.org", "keyed.example.com"]);
        let world = names.fold(FakeWorld::new(SECRET), |world, name| world.with_name(name, ALLOWED));
        let world = world
            .with_name("evil.example.net", EVIL)
            .with_name("stranger.example.com", STRANGER)
            .with_name("loose.example.com", LOOSE);
        let internet = Internet::open(folder.path(), more(world)).unwrap();
        Net {
            setting: Setting::new(),
            internet,
            _folder: folder,
        }
    }

    /// The command that runs the program as the user of the test.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = internet::program_as_caller(program());
        command.args(words).current_dir(self.setting.work()).env_clear();
        command
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.setting.path("user"))
            .env("RINGFENCE_HOME", self.setting.home());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn ringfence(&self, words: &[&str]) -> Done {
        finish(self.command(words), &[])
    }

    /// The result of a program in the sandbox.
    pub(crate) fn exec(&self, policy: &Value, words: &[&str]) -> Value {
        self.exec_with(policy, &[], words)
    }

    /// The same, with options of our own.
    pub(crate) fn exec_with(&self, policy: &Value, options: &[&str], words: &[&str]) -> Value {
        let file = self.setting.write("policy.json", policy.to_string());
        let file = file.display().to_string();
        let own = ["exec", "--json", "--policy", &file]
            .into_iter()
            .chain(options.iter().copied());
        let all: Vec<&str> = own.chain(["--"]).chain(words.iter().copied()).collect();
        let done = self.ringfence(&all);
        serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("not one JSON object: {done:?}"))
    }

    /// Checks that no host was reached except those that are open to everybody.
    #[track_caller]
    pub(crate) fn check_nobody_strayed(&self) {
        let strayed = self.internet.stray_arrivals(&[ALLOWED, LOOSE, STRANGER]);
        assert!(strayed.is_empty(), "{strayed:?}");
    }
}
