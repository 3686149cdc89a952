//! Peers that do the same: installed from their registries when there is a network, told of when not.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts its peers itself")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A peer, how it is installed, and what measures it.
struct Peer {
    name: &'static str,
    /// The program that runs the script, below the peers' folder.
    runner: &'static [&'static str],
    install: &'static [&'static [&'static str]],
    script: (&'static str, &'static str),
}

const PEERS: [Peer; 2] = [
    Peer {
        name: "pydantic-monty 1.4.0",
        runner: &["python/bin/python"],
        install: &[
            &["python3", "-m", "venv", "python"],
            &[
                "python/bin/pip",
                "install",
                "--quiet",
                "pydantic-monty==1.4.0",
                "mcp==2.3.0",
            ],
        ],
        script: ("monty.py", include_str!("monty.py")),
    },
    Peer {
        name: "@utcp/code-mode 1.2.12",
        runner: &["node_modules/.bin/node", "--no-node-snapshot"],
        install: &[&[
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
        ]],
        script: ("utcp.mjs", include_str!("utcp.mjs")),
    },
];

/// What each peer says of `count` calls of the same server, or why it cannot.
pub fn others(upstream: &Path, count: usize) -> Result<String> {
    let folder = folder()?;
    std::fs::create_dir_all(&folder)?;
    let mut text = String::from("| peer, same run | what | ms |\n|---|---|---|\n");
    for peer in &PEERS {
        match peer.measure(&folder, upstream, count) {
            Ok(lines) => {
                for line in lines.lines() {
                    let _ = writeln!(text, "| {} | {line} |", peer.name);
                }
            }
            Err(error) => {
                let _ = writeln!(text, "| {} | not measured: {} | |", peer.name, one_line(&error));
            }
        }
    }
    text.push_str(UNMEASURED);
    Ok(text)
}

/// Peers of the same kind that no script here measures.
const UNMEASURED: &str = "\nNot measured: `@cloudflare/codemode`, whose tools are functions inside its own worker and not a server over stdio; \
`executor`, which is a service with a configuration of its own.\n";

impl Peer {
    fn measure(&self, folder: &Path, upstream: &Path, count: usize) -> Result<String> {
        let (program, arguments) = self.runner.split_first().context("no runner")?;
        // Written when all of it is there: half an installation, or another version, is done again.
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
        let script = folder.join(self.script.0);
        std::fs::write(&script, self.script.1)?;
        // A peer that hangs must not hold the benchmark.
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", "120"])
            .arg(folder.join(program))
            .args(arguments)
            .arg(&script)
            .arg(upstream)
            .arg(count.to_string());
        finish(command.current_dir(folder))
    }
}

/// Beside the program, in the folder of all that is built: `target/tools/peers`.
fn folder() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let target = here.parent().and_then(Path::parent).context("no target folder")?;
    Ok(target.join("tools/peers"))
}

fn run(folder: &Path, argv: &[&str]) -> Result<()> {
    let (program, rest) = argv.split_first().context("no program")?;
    // A name with a slash is one that an earlier step installed here.
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
