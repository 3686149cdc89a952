//! Tests of paths as the journal records them.

use std::sync::Arc;

use ringfence_policy::{Ceiling, Draft};

use super::{decode_segment, redact_path};
use crate::redactor::Redactor;

async fn check(data: &str, path: &str) -> String {
    let draft = Draft::parse(&format!("version: 1\ndata: {data}\n"), "test").unwrap();
    let policy = Draft::builtin().layer(&draft).under(&Ceiling::unlimited()).unwrap();
    redact_path(&Arc::new(Redactor::default()), &policy, path)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_path_has_no_values_and_is_otherwise_as_it_was_written() {
    for path in ["/", "", "/repos/acme/a%20b/", "/v1/items/123;x=1"] {
        assert_eq!(check("{}", path).await, path);
    }
    let hidden = check("{}", "/a%20b/ann.lee%40example.com/4111111111111111").await;
    assert!(hidden.starts_with("/a%20b/‹email:"), "{hidden}");
    assert!(hidden.contains("›/‹card:") && !hidden.contains("ann"), "{hidden}");
    let blocked = check("{ pii: { mode: block } }", "/to/ann.lee@example.com").await;
    assert_eq!(blocked, "/to/⟦email removed⟧");
    let key = "ghp_0123456789abcdefABCDEF0123456789abcd";
    let open = check("{ pii: { mode: 'off' } }", &format!("/ann@example.com/{key}")).await;
    assert_eq!(open, "/ann@example.com/⟦secret removed⟧");
}

#[test]
fn a_segment_is_read_as_it_is_meant() {
    for (segment, meant) in [
        ("a%40b", "a@b"),
        ("%4", "%4"),
        ("%zz", "%zz"),
        ("%C3%A9", "é"),
        ("%ff", "\u{fffd}"),
    ] {
        assert_eq!(decode_segment(segment), meant, "{segment}");
    }
}
