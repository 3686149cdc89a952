//! Peers that run the same calls from programs.

use std::path::Path;

use anyhow::Result;

use crate::peer::{EXECUTOR, MeasuredPeer, UTCP};

const PEERS: [MeasuredPeer; 4] = [
    MeasuredPeer {
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
    MeasuredPeer {
        name: "@utcp/code-mode 1.2.12",
        runner: &["node_modules/.bin/node", "--no-node-snapshot"],
        install: UTCP,
        script: ("utcp.mjs", include_str!("utcp.mjs")),
    },
    MeasuredPeer {
        name: "@cloudflare/codemode 0.5.6",
        runner: &["codemode/node_modules/.bin/node"],
        install: &[&[
            "npm",
            "install",
            "--prefix",
            "codemode",
            "--silent",
            "--no-audit",
            "--no-fund",
            // The peer dependencies of these packages are model libraries, of which none is needed here.
            "--legacy-peer-deps",
            "node@24.21.0",
            "@cloudflare/codemode@0.5.6",
            "miniflare@4.20260730.0",
            "esbuild@0.28.1",
        ]],
        script: ("codemode/calls.mjs", include_str!("codemode.mjs")),
    },
    MeasuredPeer {
        name: "executor 1.5.9",
        runner: &["executor/node_modules/.bin/node"],
        install: EXECUTOR,
        script: ("executor/calls.mjs", include_str!("executor.mjs")),
    },
];

/// A table of what each peer measures for `count` calls of the same server, or why it cannot.
pub fn measure_peers(upstream: &Path, count: usize) -> Result<String> {
    let (upstream, count) = (upstream.to_string_lossy(), count.to_string());
    let mut text = String::from("| peer, same run | what | ms |\n|---|---|---|\n");
    for peer in &PEERS {
        text.push_str(&peer.rows(&[&upstream, &count])?);
    }
    Ok(text)
}
