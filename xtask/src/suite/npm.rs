//! Programs of others from npm that the suites run: the protocol's own suite and inspector with the Node that they need, and two agents as
//! single programs.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::checks;

/// The protocol's conformance suite, its inspector, and both versions of its TypeScript SDK, below `target/tools/mcp`.
const PROTOCOL_PACKAGES: [&str; 4] = [
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/client@2.4.0",
];
/// The Node version that all of them run on.
const NODE_VERSION: &str = "22.23.3";
/// Agents that are a single program each, below `target/tools/agents`.
const AGENT_PACKAGES: [(&str, &str); 2] = [
    ("@anthropic-ai/claude-code-linux", "2.1.325"),
    ("opencode-linux", "1.18.33"),
];

/// The name of this machine's architecture in package names.
fn npm_architecture() -> &'static str {
    match ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Installs what is missing or of another version.
pub(super) fn install(tools: &Path) -> Result<()> {
    let node = format!("node-linux-{}@{NODE_VERSION}", npm_architecture());
    let protocol: Vec<String> = PROTOCOL_PACKAGES
        .iter()
        .map(|name| (*name).to_owned())
        .chain([node])
        .collect();
    install_packages(&tools.join("mcp"), &protocol)?;
    let agent = |(name, version): &(&str, &str)| format!("{name}-{}@{version}", npm_architecture());
    let agents: Vec<String> = AGENT_PACKAGES.iter().map(agent).collect();
    install_packages(&tools.join("agents"), &agents)
}

fn install_packages(folder: &Path, wanted: &[String]) -> Result<()> {
    let mark = folder.join("installed");
    let words = wanted.join(" ");
    if fs::read_to_string(&mark).is_ok_and(|text| text == words) {
        return Ok(());
    }
    eprintln!("installing: {words}");
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let mut install = Command::new("npm");
    // Install scripts do not run: the packages themselves contain what is needed.
    install.args([
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--save-exact",
        "--prefix",
    ]);
    checks::run_command(install.arg(folder).args(wanted))?;
    fs::write(&mark, words).with_context(|| format!("cannot write `{}`", mark.display()))
}

/// The installed programs of the protocol.
pub(super) struct NpmTools {
    node: PathBuf,
    modules: PathBuf,
}

impl NpmTools {
    /// The programs that the install step has installed.
    pub(super) fn find(root: &Path) -> Result<NpmTools> {
        let modules = root.join("target/tools/mcp/node_modules");
        let node = modules.join(format!("node-linux-{}/bin/node", npm_architecture()));
        ensure!(
            node.exists(),
            "the protocol's suite is not installed: run `cargo xtask test --only install`"
        );
        Ok(NpmTools { node, modules })
    }

    /// The command of one of the programs, without arguments.
    pub(super) fn program(&self, script: &str) -> Command {
        let mut program = Command::new(&self.node);
        program.arg(self.modules.join(script));
        program
    }
}
