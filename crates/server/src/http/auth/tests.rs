use super::*;

#[test]
fn what_each_scope_may_do() {
    let cases = [
        (Method::GET, "/healthz", Need::Nothing),
        (Method::GET, "/.well-known/oauth-protected-resource/mcp", Need::Nothing),
        (Method::GET, "/metrics", Need::Watch),
        (Method::GET, "/api/v1/runs", Need::Look),
        (Method::HEAD, "/api/v1/runs", Need::Look),
        (Method::POST, "/api/v1/runs", Need::Run),
        (Method::DELETE, "/api/v1/sessions/{id}", Need::Run),
        (Method::GET, "/api/v1/approvals", Need::Rule),
        (Method::GET, "/api/v1/approvals/{id}", Need::Rule),
        (Method::POST, "/api/v1/approvals/{id}/approve", Need::Rule),
        (Method::POST, "/api/v1/approvals/{id}/deny", Need::Rule),
        (Method::DELETE, "/api/v1/approvals/{id}", Need::Rule),
        (Method::POST, "/mcp", Need::Run),
        (Method::GET, "/mcp", Need::Run),
        (Method::GET, "/", Need::Run),
    ];
    for (method, route, need) in cases {
        assert_eq!(Need::of(&method, route), need, "{method} {route}");
    }
    let refused =
        |need: Need| [Scope::Viewer, Scope::Agent, Scope::Operator].map(|scope| need.refuses(scope).is_some());
    assert_eq!(refused(Need::Look), [false, false, false]);
    assert_eq!(refused(Need::Run), [true, false, false]);
    assert_eq!(refused(Need::Watch), [false, true, false]);
    assert_eq!(refused(Need::Rule), [true, true, false]);
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
    assert_eq!(bearer(&headers(&[])).unwrap(), None);
    assert_eq!(bearer(&headers(&["Bearer x"])).unwrap(), Some("x"));
    assert_eq!(bearer(&headers(&["bearer  x "])).unwrap(), Some("x"));
    for wrong in [&["Basic x"][..], &["x"], &["Bearer a", "Bearer b"]] {
        assert!(bearer(&headers(wrong)).is_err(), "{wrong:?}");
    }
}
