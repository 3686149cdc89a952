use super::*;

#[test]
fn what_each_scope_may_do() {
    let cases = [
        (Method::GET, "/healthz", RequiredAccess::Nothing),
        (
            Method::GET,
            "/.well-known/oauth-protected-resource/mcp",
            RequiredAccess::Nothing,
        ),
        (Method::GET, "/metrics", RequiredAccess::Metrics),
        (Method::GET, "/api/v1/runs", RequiredAccess::Read),
        (Method::HEAD, "/api/v1/runs", RequiredAccess::Read),
        (Method::POST, "/api/v1/runs", RequiredAccess::Run),
        (Method::DELETE, "/api/v1/sessions/{id}", RequiredAccess::Run),
        (Method::GET, "/api/v1/approvals", RequiredAccess::Administer),
        (Method::GET, "/api/v1/approvals/{id}", RequiredAccess::Administer),
        (
            Method::POST,
            "/api/v1/approvals/{id}/approve",
            RequiredAccess::Administer,
        ),
        (Method::POST, "/api/v1/approvals/{id}/deny", RequiredAccess::Administer),
        (Method::DELETE, "/api/v1/approvals/{id}", RequiredAccess::Administer),
        (Method::POST, "/mcp", RequiredAccess::Run),
        (Method::GET, "/mcp", RequiredAccess::Run),
        (Method::GET, "/", RequiredAccess::Run),
    ];
    for (method, route, need) in cases {
        assert_eq!(RequiredAccess::for_route(&method, route), need, "{method} {route}");
    }
    let refused = |need: RequiredAccess| {
        [AccessScope::Viewer, AccessScope::Agent, AccessScope::Operator]
            .map(|scope| need.missing_scope(scope).is_some())
    };
    assert_eq!(refused(RequiredAccess::Read), [false, false, false]);
    assert_eq!(refused(RequiredAccess::Run), [true, false, false]);
    assert_eq!(refused(RequiredAccess::Metrics), [false, true, false]);
    assert_eq!(refused(RequiredAccess::Administer), [true, true, false]);
}

#[test]
fn one_bearer_token_in_one_header() {
    let headers = |values: &[&str]| {
        let mut map = HeaderMap::new();
        for value in values {
            map.append(AUTHORIZATION, value.parse().unwrap());
        }
        map
    };
    assert_eq!(bearer_token(&headers(&[])).unwrap(), None);
    assert_eq!(bearer_token(&headers(&["Bearer x"])).unwrap(), Some("x"));
    assert_eq!(bearer_token(&headers(&["bearer  x "])).unwrap(), Some("x"));
    for wrong in [&["Basic x"][..], &["x"], &["Bearer a", "Bearer b"]] {
        assert!(bearer_token(&headers(wrong)).is_err(), "{wrong:?}");
    }
}
