use std::thread;

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

#[test]
fn files_are_their_owners_alone_and_replaced_whole() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("deep/file.json");
    let writers: Vec<_> = (0..4u8)
        .map(|number| {
            let path = path.clone();
            thread::spawn(move || {
                for _ in 0..50 {
                    replace_file(&path, &[b'0' + number; 10_000]).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let text = read_bounded(&path, 10_000).unwrap();
    assert!(text.len() == 10_000 && text.iter().all(|byte| *byte == text[0]));
    assert!(read_bounded(&path, 9_999).is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(home.path().join("deep")).unwrap().count(), 1);
}
