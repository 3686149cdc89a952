//! Starts the program as a server, over either transport.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use ringfence_testkit::front_clients::ServedProgram;
use serde_json::json;

use crate::setting::{Setting, program};

/// Allows every tool of the example company except those that delete.
const POLICY: &str = "version: 1\ntools:\n  rules:\n    - { allow: 'company.*' }\n    - { deny: 'company.delete_*' }\n";

/// The transport by which a client reaches the program.
#[derive(Debug)]
pub(crate) enum Door {
    /// The client starts the program and uses its standard input and output.
    Stdio(Started),
    /// The client sends requests to this address with this access token.
    Http(String, String),
}

/// The command that a client starts.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<&'static str, String>,
}

/// A setting with the example company as its tool server.
pub(crate) fn serving() -> Setting {
    let setting = Setting::new();
    fs::set_permissions(setting.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let servers = json!({ "mcpServers": { "company": { "command": program(), "args": ["company"] } } });
    setting.write("servers.json", servers.to_string());
    setting.write("policy.yaml", POLICY);
    setting
}

impl Setting {
    /// The arguments of `serve` in this setting.
    pub(crate) fn serve_args(&self, more: &[&str]) -> Vec<String> {
        let file = |name: &str| self.work().join(name).to_string_lossy().into_owned();
        let (servers, policy) = (file("servers.json"), file("policy.yaml"));
        let args = ["serve", "--servers", &servers, "--policy", &policy];
        args.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
    }

    /// The command that serves on standard input and output, not started yet.
    pub(crate) fn stdio(&self) -> Command {
        let mut command = self.command(&self.serve_args(&["--stdio"]));
        command.stderr(std::process::Stdio::null());
        command
    }

    /// Starts an HTTP server on a free port; returns it with the access token of an agent.
    pub(crate) fn serve_http(&self, more: &[&str]) -> (ServedProgram, String) {
        let made = self.run(&["token", "create", "--name", "test", "--scope", "agent"]);
        let secret = made.stdout.trim().to_owned();
        assert!(!secret.is_empty(), "{made:?}");
        let mut args = vec!["--listen", "127.0.0.1:0"];
        args.extend(more);
        let served = ServedProgram::start(&mut self.command(&self.serve_args(&args))).unwrap();
        (served, secret)
    }
}

/// The command for a client that starts the server of this setting.
pub(crate) fn serve_stdio(setting: &Setting) -> Started {
    let home = setting.home().to_string_lossy().into_owned();
    let user = setting.path("user").to_string_lossy().into_owned();
    Started {
        command: program().to_string_lossy().into_owned(),
        args: setting.serve_args(&["--stdio"]),
        env: BTreeMap::from([
            ("RINGFENCE_HOME", home),
            ("HOME", user),
            ("PATH", "/usr/bin:/bin".to_owned()),
        ]),
    }
}
