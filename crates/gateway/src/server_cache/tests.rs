use ringfence_catalog::{Catalog, ServerHints, ToolDefinition};
use serde_json::json;

use super::*;

fn catalog(description: &str) -> Catalog {
    let tool = ToolDefinition {
        name: "echo".to_owned(),
        title: None,
        description: description.to_owned(),
        input: json!({"type": "object"}),
        output: None,
        hints: ServerHints::default(),
        tags: Vec::new(),
    };
    Catalog::new([ServerListing {
        server: "one".to_owned(),
        description: String::new(),
        tools: vec![tool],
    }])
}

#[test]
fn two_processes_see_each_others_pins() {
    let home = tempfile::tempdir().unwrap();
    let (one, other) = (ServerCache::new(home.path()), ServerCache::new(home.path()));
    let (old, new) = (catalog("a"), catalog("b"));
    let (old, new) = (old.get("one.echo").unwrap(), new.get("one.echo").unwrap());
    assert_eq!(one.pins().pin(old).unwrap(), PinComparison::New);
    assert_eq!(other.pins().pin(old).unwrap(), PinComparison::Same);
    assert!(matches!(one.pins().pin(new).unwrap(), PinComparison::Changed { .. }));
    other.pins().accept(new).unwrap();
    assert_eq!(one.pins().pin(new).unwrap(), PinComparison::Same);
    assert!(matches!(one.pins().pin(old).unwrap(), PinComparison::Changed { .. }));
}

#[test]
fn a_damaged_pins_file_pins_nothing_anew() {
    let home = tempfile::tempdir().unwrap();
    let keep = ServerCache::new(home.path());
    let catalog = catalog("a");
    let tool = catalog.get("one.echo").unwrap();
    keep.pins().pin(tool).unwrap();
    std::fs::write(home.path().join("catalog/pins.json"), "{").unwrap();
    let again = ServerCache::new(home.path());
    assert!(matches!(again.pins().pin(tool), Err(PinError::Damaged { .. })));
}
