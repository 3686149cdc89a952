use super::{Challenge, HeaderMap, WWW_AUTHENTICATE};

#[track_caller]
fn check(header: &str, metadata: Option<&str>, scopes: &[&str], wants_more: bool) {
    let mut headers = HeaderMap::new();
    headers.append(WWW_AUTHENTICATE, header.parse().unwrap());
    let challenge = Challenge::from_headers(&headers);
    assert_eq!(challenge.metadata.as_deref(), metadata, "{header}");
    assert_eq!(challenge.scopes, scopes, "{header}");
    assert_eq!(challenge.is_insufficient_scope(), wants_more, "{header}");
}

#[test]
fn a_challenge_is_read_as_servers_write_it() {
    check("Bearer", None, &[], false);
    check(
        r#"bearer scope="a b", resource_metadata="https://x/y?z=1,2""#,
        Some("https://x/y?z=1,2"),
        &["a", "b"],
        false,
    );
    check(
        r#"Basic realm="Bearer scope=no", Bearer error="insufficient_scope",scope=one"#,
        None,
        &["one"],
        true,
    );
    check(r#"Bearer scope="a", DPoP scope="b""#, None, &["a"], false);
    check(r#"Bearer realm="a \"quoted\" one", scope="c""#, None, &["c"], false);
    check("DPoP scope=\"b\"", None, &[], false);
    check("Bearer scope=\"never closed", None, &["never", "closed"], false);
    check("= , ==", None, &[], false);
}
