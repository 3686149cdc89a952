//! The same program through peers that offer code mode, where they can be installed.

use anyhow::Result;

use crate::peer::{EXECUTOR, MeasuredPeer, UTCP};

const PEERS: [MeasuredPeer; 3] = [
    MeasuredPeer {
        name: "FastMCP 4.1.2 code mode, over stdio",
        runner: &["fastmcp/bin/python"],
        install: &[
            &["python3", "-m", "venv", "fastmcp"],
            &["fastmcp/bin/pip", "install", "--quiet", "fastmcp[code-mode]==4.1.2"],
        ],
        script: ("fastmcp_door.py", include_str!("fastmcp_door.py")),
    },
    MeasuredPeer {
        name: "@utcp/code-mode 1.2.12, in its own process",
        runner: &["node_modules/.bin/node", "--no-node-snapshot"],
        install: UTCP,
        script: ("utcp_door.mjs", include_str!("utcp_door.mjs")),
    },
    MeasuredPeer {
        name: "executor 1.5.9, over stdio",
        runner: &["executor/node_modules/.bin/node"],
        install: EXECUTOR,
        script: ("executor/door.mjs", include_str!("executor_door.mjs")),
    },
];

/// A table of what each peer measures for `1+1`, or why it cannot.
pub fn measure() -> Result<String> {
    let mut text = String::from("| peer, same run | `1+1`, middle | 100 in a row |\n|---|---|---|\n");
    for peer in &PEERS {
        text.push_str(&peer.rows(&[])?);
    }
    Ok(text)
}
