//! Peers that do the same.

use std::path::Path;

use anyhow::Result;

use crate::peer::{Peer, UTCP};

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
        install: UTCP,
        script: ("utcp.mjs", include_str!("utcp.mjs")),
    },
];

/// What each peer says of `count` calls of the same server, or why it cannot.
pub fn others(upstream: &Path, count: usize) -> Result<String> {
    let (upstream, count) = (upstream.to_string_lossy(), count.to_string());
    let mut text = String::from("| peer, same run | what | ms |\n|---|---|---|\n");
    for peer in &PEERS {
        text.push_str(&peer.rows(&[&upstream, &count])?);
    }
    text.push_str(UNMEASURED);
    Ok(text)
}

/// Peers of the same kind that no script here measures.
const UNMEASURED: &str = "\nNot measured: `@cloudflare/codemode`, whose tools are functions inside its own worker and not a server over stdio. \
`executor` is measured beside the front doors: `cargo xtask bench mcp`.\n";
