use serde_json::{Value, json};

use super::{MAX_TREE, TreeMemory, TreeSize, is_too_large};

fn repeated(part: &str, bytes: usize) -> String {
    let count = bytes / (part.len() + 1);
    format!("[{}]", vec![part; count].join(","))
}

/// Returns the heap size of a value, without the unused capacity of long lists and objects, which is never touched.
fn heap(value: &Value) -> usize {
    match value {
        Value::String(text) => text.capacity(),
        Value::Array(items) => {
            touched(items.len(), items.capacity(), size_of::<Value>()) + items.iter().map(heap).sum::<usize>()
        }
        Value::Object(members) => {
            // A member is its key, its value and its hash, and a slot in a table that is at most seven eighths full.
            let member = size_of::<String>() + size_of::<Value>() + size_of::<usize>();
            let places = (members.len() * 8 / 7 + 1).next_power_of_two().max(4);
            touched(members.len(), (places * 7 / 8).max(3), member)
                + places * (size_of::<usize>() + 1)
                + 16
                + members
                    .iter()
                    .map(|(key, value)| key.capacity() + heap(value))
                    .sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn touched(len: usize, capacity: usize, part: usize) -> usize {
    const PAGE: usize = 4096;
    (capacity * part).min(len * part + 2 * PAGE)
}

#[test]
fn a_tree_is_never_larger_than_it_was_thought() {
    let wide: serde_json::Map<String, Value> = (0..2000).map(|n| (format!("k{n}"), json!(n))).collect();
    let wide = Value::Object(wide).to_string();
    let parts = [
        r#"{"a":1}"#,
        "{}",
        "[]",
        "[[[]]]",
        "[1,2,3,4,5,6,7,8,9]",
        r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8}"#,
        "1",
        r#""""#,
        r#""a,b{c[d\"e""#,
        r#"{"a":{"b":{"c":[1,2,3,{"d":null}]}}}"#,
        r#"{"id":1,"name":"Ada","tags":["x","y"],"at":"2026-01-01"}"#,
        &wide,
    ];
    for part in parts {
        let text = repeated(part, 400_000);
        let (thought, is) = (
            TreeSize::measure(text.as_bytes()),
            heap(&serde_json::from_str::<Value>(&text).unwrap()),
        );
        assert!(thought >= is, "{part:.40}: {thought} < {is}");
    }
}

#[test]
fn records_and_numbers_of_sixteen_mebibytes_are_read_and_tiny_objects_are_not() {
    let most = 16 << 20;
    let record = r#"{"id":123456,"name":"Ada Lovelace","email":"ada@example.org","city":"London","born":"1815-12-10","note":"wrote the first program of all"}"#;
    for whole in [record, "12345", "0.123456", r#""some words in a list""#] {
        let text = repeated(whole, most);
        assert!(
            !is_too_large(text.as_bytes()),
            "{whole}: {}",
            TreeSize::measure(text.as_bytes())
        );
    }
    for tiny in ["{}", r#"{"a":1}"#, "[]"] {
        let text = repeated(tiny, most);
        assert!(
            is_too_large(text.as_bytes()),
            "{tiny}: {}",
            TreeSize::measure(text.as_bytes())
        );
    }
}

#[tokio::test]
async fn large_trees_wait_for_one_another_and_small_ones_do_not() {
    let memory = TreeMemory::new(64 << 20);
    let large = repeated(r#"{"a":1}"#, 700_000);
    let first = memory.reserve(&large).await.unwrap();
    assert!(first.is_large());
    let soon = std::time::Duration::from_millis(50);
    assert!(tokio::time::timeout(soon, memory.reserve(&large)).await.is_err());
    assert!(!memory.reserve("{}").await.unwrap().is_large());
    drop(first);
    drop(memory.reserve(&large).await.unwrap());
    let too_large = memory.reserve(&repeated(r#"{"a":1}"#, 2_000_000)).await.unwrap_err();
    assert!(too_large.to_string().contains("64 MiB are the most"), "{too_large}");
    assert!(TreeMemory::new(usize::MAX / 2).most == MAX_TREE);
}
