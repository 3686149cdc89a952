use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use ringfence_policy::Scheme;

use super::*;
use crate::egress::body;

fn sent(headers: &[(&str, &str)], path: Option<&str>, two: bool) -> Request<ProxyBody> {
    let mut request = Request::builder().uri("/a%7E?q=1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let origin = RequestOrigin {
        scheme: Scheme::Https,
        host: "a.example".parse().unwrap(),
        port: 8443,
    };
    let path = path.map(|path| path.parse().unwrap());
    let parts = request.body(()).unwrap().into_parts().0;
    super::forwarded_request(parts, body::empty(), &origin, path.as_ref(), two).unwrap()
}

#[test]
fn what_was_judged_is_what_is_sent() {
    assert_eq!(sent(&[], None, false).uri(), "/a%7E?q=1");
    assert_eq!(sent(&[], Some("/a%7E"), false).uri(), "/a~?q=1");
    assert_eq!(sent(&[], None, false).headers()["host"], "a.example:8443");
    let two = sent(&[("host", "else")], None, true);
    assert_eq!(two.uri(), "https://a.example:8443/a%7E?q=1");
    assert!(!two.headers().contains_key("host"));
}

#[test]
fn neighbours_keep_their_own() {
    let names = [
        ("connection", "close, x-mine"),
        ("x-mine", "1"),
        ("keep-alive", "1"),
        ("proxy-connection", "1"),
        ("proxy-authorization", "1"),
        ("te", "gzip"),
        ("upgrade", "h2c"),
        ("http2-settings", "1"),
        ("transfer-encoding", "chunked"),
        ("content-length", "3"),
        ("expect", "100-continue"),
        ("x-ringfence-code", "1"),
    ];
    let request = sent(&names, None, true);
    assert!(request.headers().is_empty(), "{:?}", request.headers());
    assert!(request.into_body().is_end_stream());
    assert_eq!(sent(&[("te", "trailers")], None, true).headers()["te"], "trailers");
}

#[test]
fn many_cookies_are_one_line() {
    let request = sent(&[("cookie", "a=1"), ("cookie", "b=2")], None, false);
    let cookies: Vec<_> = request.headers().get_all("cookie").iter().collect();
    assert_eq!(cookies, ["a=1; b=2"]);
}

#[tokio::test]
async fn no_body_stays_none() {
    assert_eq!(
        sent(&[], None, false)
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .len(),
        0
    );
}
