use serde_json::json;

use super::{DependencyEdge, DependencyGraph, DependencyKind};

fn edge(to: &str, kind: DependencyKind) -> DependencyEdge {
    DependencyEdge {
        to: to.to_owned(),
        kind,
        features: Vec::new(),
    }
}

fn example() -> DependencyGraph {
    let metadata = json!({
        "workspace_members": ["id-store", "id-journal"],
        "packages": [
            { "id": "id-store", "name": "ringfence-store", "dependencies": [
                { "name": "ringfence-journal", "kind": null },
                { "name": "hyper", "kind": null },
                { "name": "tempfile", "kind": "dev" },
                { "name": "cc", "kind": "build" },
            ] },
            { "id": "id-journal", "name": "ringfence-journal", "dependencies": [] },
            { "id": "id-hyper", "name": "hyper", "dependencies": [{ "name": "tokio", "kind": null }] },
            { "id": "id-tokio", "name": "tokio", "dependencies": [] },
            { "id": "id-tempfile", "name": "tempfile", "dependencies": [] },
        ],
        "resolve": { "nodes": [
            { "id": "id-store", "deps": [
                { "pkg": "id-journal", "dep_kinds": [{ "kind": null }] },
                { "pkg": "id-hyper", "dep_kinds": [{ "kind": "dev" }, { "kind": null }] },
                { "pkg": "id-tempfile", "dep_kinds": [{ "kind": "dev" }] },
            ] },
            { "id": "id-hyper", "deps": [{ "pkg": "id-tokio", "dep_kinds": [{ "kind": null }] }] },
            { "id": "id-tokio", "deps": [] },
        ] },
    });
    DependencyGraph::parse(&metadata).unwrap()
}

#[test]
fn manifests_become_edges_with_their_kind() {
    let graph = example();
    let members: Vec<_> = graph.members().collect();
    let store = [
        edge("journal", DependencyKind::Normal),
        edge("hyper", DependencyKind::Normal),
        edge("tempfile", DependencyKind::Dev),
        edge("cc", DependencyKind::Build),
    ];
    assert_eq!(members, [("journal", [].as_slice()), ("store", store.as_slice())]);
    assert!(graph.is_member("store") && !graph.is_member("hyper"));
}

#[test]
fn the_way_follows_what_is_linked_and_not_what_only_tests_use() {
    let graph = example();
    assert_eq!(
        graph.dependency_path("store", "tokio").unwrap(),
        ["store", "hyper", "tokio"]
    );
    assert_eq!(graph.dependency_path("store", "tempfile"), None);
    assert_eq!(graph.dependency_path("journal", "tokio"), None);
    assert!(graph.packages().any(|name| name == "tempfile"));
}

#[test]
fn a_circle_ends() {
    let graph = DependencyGraph::from_edges(&[], &[("a", &["b"]), ("b", &["a"])]);
    assert_eq!(graph.dependency_path("a", "c"), None);
}

#[test]
fn another_shape_is_not_read_as_an_empty_graph() {
    assert!(DependencyGraph::parse(&json!({ "packages": [] })).is_none());
    assert!(
        DependencyGraph::parse(&json!({ "workspace_members": [], "packages": [{}], "resolve": { "nodes": [] } }))
            .is_none()
    );
}
