use super::*;

#[test]
fn the_answer_to_a_key_is_the_standards() {
    let mut headers = HeaderMap::new();
    assert_eq!(accept_key(&headers), None);
    headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
    assert_eq!(accept_key(&headers).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}
