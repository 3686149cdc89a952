//! A peer that is installed from its package source when there is a network, and reported as missing otherwise.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts its peers itself")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A peer, how it is installed, and what measures it.
#[derive(Debug)]
pub struct MeasuredPeer {
    /// The name and version of the peer.
    pub name: &'static str,
    /// The program that runs the script, below the peers' folder.
    pub runner: &'static [&'static str],
    /// The commands that install the peer there.
    pub install: &'static [&'static [&'static str]],
    /// The script that measures it: its path below the peers' folder, beside the packages that it imports, and its text. Without a text,
    /// the runner measures by itself.
    pub script: (&'static str, &'static str),
}

/// The commands that install `@utcp/code-mode`, with the Node it needs.
pub const UTCP: &[&[&str]] = &[&[
    "npm",
    "install",
    "--prefix",
    ".",
    "--silent",
    "--no-audit",
    "--no-fund",
    "node@24.21.0",
    "@utcp/code-mode@1.2.12",
    "@utcp/mcp@1.1.3",
]];

/// The commands that install `executor` in a folder of its own, with a Node and the MCP library to compare it with. Its install scripts do
/// not run: what they would fetch is among its packages already.
pub const EXECUTOR: &[&[&str]] = &[
    &[
        "npm",
        "install",
        "--prefix",
        "executor",
        "--silent",
        "--no-audit",
        "--no-fund",
        "node@24.21.0",
    ],
    &[
        "npm",
        "install",
        "--prefix",
        "executor",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "executor@1.5.9",
        "@modelcontextprotocol/sdk@1.30.0",
    ],
];

impl MeasuredPeer {
    /// A table row for each line that the script prints, or one that says why there is none.
    pub fn rows(&self, arguments: &[&str]) -> Result<String> {
        let mut text = String::new();
        match self.measure(arguments) {
            Ok(lines) => {
                for line in lines.lines() {
                    writeln!(text, "| {} | {line} |", self.name)?;
                }
            }
            Err(error) => writeln!(text, "| {} | did not run: {} | |", self.name, one_line(&error))?,
        }
        Ok(text)
    }

    /// Runs the script and returns its output.
    pub fn measure(&self, given: &[&str]) -> Result<String> {
        let folder = &peers_folder()?;
        std::fs::create_dir_all(folder)?;
        let (program, arguments) = self.runner.split_first().context("no runner")?;
        // Written when the installation is complete: a partial one, or another version, is installed again.
        let (stamp, all) = (
            folder.join(format!("{}.installed", self.script.0)),
            format!("{:?}", self.install),
        );
        if std::fs::read_to_string(&stamp).ok().as_ref() != Some(&all) {
            for command in self.install {
                run(folder, command)?;
            }
            std::fs::write(&stamp, all)?;
        }
        // A peer that hangs must not block the benchmark.
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", "120"])
            .arg(folder.join(program))
            .args(arguments);
        let (name, text) = self.script;
        if !text.is_empty() {
            let script = folder.join(name);
            std::fs::write(&script, text)?;
            command.arg(&script);
        }
        command.args(given);
        finish(command.current_dir(folder))
    }
}

/// The folder `target/tools/peers`, in the build folder of this program.
fn peers_folder() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let target = here.parent().and_then(Path::parent).context("no target folder")?;
    Ok(target.join("tools/peers"))
}

fn run(folder: &Path, argv: &[&str]) -> Result<()> {
    let (program, rest) = argv.split_first().context("no program")?;
    // A name with a slash is a program that an earlier step installed here.
    let program = if program.contains('/') {
        folder.join(program)
    } else {
        PathBuf::from(program)
    };
    finish(Command::new(program).args(rest).current_dir(folder)).map(drop)
}

fn finish(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{} said: {}",
        command.get_program().to_string_lossy(),
        errors.lines().last().unwrap_or("nothing")
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").replace(['\n', '|'], " ")
}
