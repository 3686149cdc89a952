//! A peer that suspends programs by a snapshot of their memory.

use anyhow::Result;

use super::CALLS;
use crate::peer::MeasuredPeer;

const MONTY: MeasuredPeer = MeasuredPeer {
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
    script: ("monty_durable.py", include_str!("monty_durable.py")),
};

/// A table of what the peer measures for the same program, or why it cannot.
pub fn measure_peers() -> Result<String> {
    let rows = MONTY.rows(&[&CALLS.to_string()])?;
    Ok(format!("| peer, same run | what | ms |\n|---|---|---|\n{rows}"))
}
