//! Fences around foreign packages: which crates may link them, and which packages nobody may.

use super::RuleFinding;
use super::graph::{DependencyGraph, DependencyKind};

const RULE: &str = "fences";

/// Fenced packages: only the named crates may depend on them, tests aside.
const FENCED_PACKAGES: [(&str, &[&str], &str); 8] = [
    (
        "rmcp",
        &["gateway", "company", "server", "testkit"],
        "only `gateway` speaks to tool servers, only `company` and `server` are one",
    ),
    ("axum", &["server"], "only `server` serves HTTP"),
    (
        "hyper",
        &["gateway", "probe", "server"],
        "only `server` serves HTTP, `gateway` where it is a proxy, and `probe` in an internet of its own",
    ),
    ("reqwest", &["gateway"], "only `gateway` is a client of the network"),
    ("rusqlite", &["store"], "only `store` links a database"),
    ("libc", &["jail"], "only `jail` makes raw system calls"),
    ("clap", &["cli", "xtask"], "only `cli` reads arguments"),
    (
        "anyhow",
        &["cli", "testkit", "xtask"],
        "errors of a library are types of their own",
    ),
];

/// Features of our crates that only tests may ask for, and the crates for development.
const TEST_FEATURES: [(&str, &str, &str); 1] = [(
    "sandbox",
    "test-process",
    "a backend that contains nothing is for tests alone",
)];
const TEST_CRATES: [&str; 2] = ["testkit", "xtask"];

/// Async runtimes, and the crates that must not link any, directly or not.
const ASYNC_RUNTIMES: [&str; 4] = ["tokio", "async-std", "smol", "async-executor"];
const SYNCHRONOUS_CRATES: [&str; 6] = ["policy", "disk", "hygiene", "journal", "catalog", "wire"];

/// Packages that nobody may depend on, directly or not.
const BANNED_PACKAGES: [(&str, &str); 5] = [
    (
        "v8",
        "it cannot be built from source packages alone; QuickJS is the engine",
    ),
    ("deno_core", "it brings V8"),
    ("openssl", "one TLS, in Rust"),
    ("openssl-sys", "one TLS, in Rust"),
    ("native-tls", "one TLS, in Rust"),
];

pub(super) fn check(graph: &DependencyGraph) -> Vec<RuleFinding> {
    let mut findings = check_fenced(graph);
    findings.extend(check_features(graph));
    findings.extend(check_synchronous(graph));
    findings.extend(check_banned(graph));
    findings
}

fn check_fenced(graph: &DependencyGraph) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for (from, edges) in graph.members() {
        for edge in edges.iter().filter(|edge| edge.kind != DependencyKind::Dev) {
            let fence = FENCED_PACKAGES
                .iter()
                .find(|(package, may, _)| *package == edge.to && !may.contains(&from));
            if let Some((package, _, reason)) = fence {
                findings.push(RuleFinding::fault(
                    RULE,
                    from,
                    format!("depends on `{package}`: {reason}"),
                ));
            }
        }
    }
    findings
}

fn check_features(graph: &DependencyGraph) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for (from, edges) in graph.members().filter(|(from, _)| !TEST_CRATES.contains(from)) {
        for edge in edges.iter().filter(|edge| edge.kind != DependencyKind::Dev) {
            let asked = |feature: &str| edge.features.iter().any(|asked| asked == feature);
            let fence = TEST_FEATURES
                .iter()
                .find(|(package, feature, _)| *package == edge.to && asked(feature));
            if let Some((package, feature, reason)) = fence {
                let message = format!("asks for `{feature}` of `{package}`: {reason}");
                findings.push(RuleFinding::fault(RULE, from, message));
            }
        }
    }
    findings
}

fn check_synchronous(graph: &DependencyGraph) -> Vec<RuleFinding> {
    let members = SYNCHRONOUS_CRATES.into_iter().filter(|name| graph.is_member(name));
    let ways = members.flat_map(|name| {
        ASYNC_RUNTIMES
            .iter()
            .filter_map(move |runtime| graph.dependency_path(name, runtime))
    });
    let finding = |way: Vec<String>| {
        let message = format!("links an async runtime: {}", way.join(" → "));
        RuleFinding::fault(RULE, way.into_iter().next().unwrap_or_default(), message)
    };
    ways.map(finding).collect()
}

fn check_banned(graph: &DependencyGraph) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for (name, reason) in BANNED_PACKAGES {
        if graph.packages().any(|package| package == name) {
            let ways = graph
                .members()
                .filter_map(|(member, _)| graph.dependency_path(member, name))
                .map(|way| way.join(" → "));
            let ways: Vec<_> = ways.collect();
            let message = format!("must not be depended on: {reason} ({})", ways.join("; "));
            findings.push(RuleFinding::fault(RULE, name, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
