use super::*;

#[test]
fn both_forms_of_an_answer_say_the_same() {
    let denial = Denial::from(dns("a\"b", "no"));
    let text = String::from_utf8(denial.http1_bytes()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    let response = denial.response();
    assert_eq!(response.body(), body.as_bytes());
    assert_eq!(response.headers()[&CODE_HEADER], "net.dns");
    let told: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(told["message"], "`a\"b` has no address: no");
    assert_eq!(told["rule"], "builtin.dns");
}

#[test]
fn a_code_has_its_status() {
    for (code, status) in [
        ("net.denied", 403),
        ("net.address", 403),
        ("net.host", 400),
        ("net.protocol", 400),
        ("net.unreachable", 502),
        ("limit.rate", 429),
        ("limit.egress", 403),
        ("approval.needed", 403),
    ] {
        assert_eq!(
            Denial::from(RequestRefusal::new(code, "")).status.as_u16(),
            status,
            "{code}"
        );
    }
}
