use serde_json::json;

use super::super::graph::{DependencyGraph, DependencyKind};
use super::check;

#[track_caller]
fn judge(graph: &DependencyGraph, expected: &[&str]) {
    let found: Vec<_> = check(graph).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_keepers_may() {
    let cli: &[_] = &[("clap", DependencyKind::Normal), ("anyhow", DependencyKind::Normal)];
    let members: &[(&str, &[_])] = &[
        ("store", &[("rusqlite", DependencyKind::Normal)]),
        ("jail", &[("libc", DependencyKind::Normal)]),
        ("cli", cli),
        ("xtask", cli),
    ];
    judge(
        &DependencyGraph::from_edges(members, &[("store", &["rusqlite"]), ("rusqlite", &["tokio"])]),
        &[],
    );
}

#[test]
fn others_may_not() {
    let members: &[(&str, &[_])] = &[
        (
            "engine",
            &[("anyhow", DependencyKind::Normal), ("rusqlite", DependencyKind::Build)],
        ),
        ("wire", &[("libc", DependencyKind::Normal)]),
    ];
    judge(
        &DependencyGraph::from_edges(members, &[]),
        &[
            "error[fences]: engine: depends on `anyhow`: errors of a library are types of their own",
            "error[fences]: engine: depends on `rusqlite`: only `store` links a database",
            "error[fences]: wire: depends on `libc`: only `jail` makes raw system calls",
        ],
    );
}

#[test]
fn a_test_may_use_what_the_crate_may_not() {
    judge(
        &DependencyGraph::from_edges(&[("engine", &[("anyhow", DependencyKind::Dev)])], &[]),
        &[],
    );
}

#[test]
fn what_is_for_tests_is_not_shipped() {
    let asking = |from: &str, kind: serde_json::Value| {
        json!({ "id": from, "name": format!("ringfence-{from}"), "dependencies": [
            { "name": "ringfence-sandbox", "kind": kind, "features": ["test-process"] },
        ] })
    };
    let metadata = json!({
        "workspace_members": ["cli", "probe", "testkit"],
        "packages": [asking("cli", json!(null)), asking("probe", json!("dev")), asking("testkit", json!(null))],
        "resolve": { "nodes": [] },
    });
    judge(
        &DependencyGraph::parse(&metadata).unwrap(),
        &[
            "error[fences]: cli: asks for `test-process` of `sandbox`: a backend that contains nothing is for tests alone",
        ],
    );
}

#[test]
fn an_async_runtime_is_found_behind_others() {
    let members: &[(&str, &[_])] = &[("journal", &[]), ("policy", &[]), ("engine", &[])];
    let linked: &[(&str, &[_])] = &[
        ("journal", &["policy", "helper"]),
        ("helper", &["tokio"]),
        ("engine", &["tokio"]),
        ("policy", &[]),
    ];
    let expected = ["error[fences]: journal: links an async runtime: journal → helper → tokio"];
    judge(&DependencyGraph::from_edges(members, linked), &expected);
}

#[test]
fn what_nobody_may_link_is_found_anywhere() {
    let linked: &[(&str, &[_])] = &[
        ("gateway", &["client"]),
        ("client", &["openssl-sys"]),
        ("openssl-sys", &[]),
    ];
    judge(
        &DependencyGraph::from_edges(&[("gateway", &[])], linked),
        &["error[fences]: openssl-sys: must not be depended on: one TLS, in Rust (gateway → client → openssl-sys)"],
    );
}
