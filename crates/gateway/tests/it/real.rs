//! Tests with servers of other authors, from their packages.

use std::path::{Path, PathBuf};

use ringfence_gateway::ProtocolEra;
use serde_json::{Value, json};

use crate::harness::bench;

/// Returns the script of an installed package; prints a notice if it is missing.
fn script(package: &str, file: &str) -> Option<PathBuf> {
    let target = std::env::current_exe().unwrap();
    // Cargo writes this tag: a folder of that name elsewhere is not a build folder.
    let is_target = |folder: &&Path| folder.join("CACHEDIR.TAG").is_file() && folder.join("tools").is_dir();
    let target = target.ancestors().find(is_target);
    let script = target.map(|target| target.join("tools/npm/node_modules").join(package).join(file));
    let script = script.filter(|script| script.exists());
    if script.is_none() {
        let required = std::env::vars().any(|(name, value)| name == "RINGFENCE_REQUIRE_TOOLS" && value == "1");
        assert!(!required, "`{package}` is not installed, and must be here");
        eprintln!("SKIPPED: `{package}` is not installed; `cargo xtask test` installs it");
    }
    script
}

fn node(script: &Path, args: &[&str]) -> Value {
    let mut all = vec![script.to_str().unwrap()];
    all.extend(args);
    json!({"command": "node", "args": all})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_everything_server_answers() {
    let Some(script) = script("@modelcontextprotocol/server-everything", "dist/index.js") else {
        return;
    };
    let bench = bench(&json!({"everything": node(&script, &["stdio"])}));
    let listed = bench
        .upstreams
        .refresh(None)
        .await
        .remove("everything")
        .unwrap()
        .unwrap();
    assert!(listed.tools >= 8, "{listed:?}");
    assert_eq!(listed.era, Some(ProtocolEra::Legacy));
    let echo = bench.value("everything", "echo", json!({"message": "hello"})).await;
    assert_eq!(echo, json!("Echo: hello"));
    let structured = bench
        .value("everything", "get-structured-content", json!({"location": "New York"}))
        .await;
    assert!(structured["temperature"].is_number(), "{structured}");
    let failed = bench.call("everything", "echo", json!({})).await;
    assert!(failed.is_err() || failed.is_ok_and(|result| result.is_error));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filesystem_server_reads_its_folder_and_no_other() {
    let Some(script) = script("@modelcontextprotocol/server-filesystem", "dist/index.js") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "a note").unwrap();
    let bench = bench(&json!({"files": node(&script, &[folder.path().to_str().unwrap()])}));
    let listed = bench.upstreams.refresh(None).await.remove("files").unwrap().unwrap();
    assert_eq!(listed.era, Some(ProtocolEra::Legacy));
    let path = folder.path().join("note.txt");
    let read = bench
        .call("files", "read_text_file", json!({"path": path}))
        .await
        .unwrap();
    assert_eq!(read.text(), "a note");
    let other = bench
        .call("files", "read_text_file", json!({"path": "/etc/passwd"}))
        .await
        .unwrap();
    assert!(other.is_error, "{other:?}");
}
