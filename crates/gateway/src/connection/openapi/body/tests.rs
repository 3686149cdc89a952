use serde_json::json;

use super::*;

fn fields(value: &Value) -> BodyInput {
    BodyInput::Fields(value.as_object().unwrap().clone())
}

#[track_caller]
fn written(kind: &BodyEncoding, given: BodyInput) -> (String, String) {
    let (kind, body) = kind.encode(given).unwrap();
    (kind.to_str().unwrap().to_owned(), String::from_utf8(body).unwrap())
}

#[test]
fn a_form_repeats_lists_and_writes_objects_in_their_style() {
    let value = json!({ "a b": "x&y=z", "list": [1, "ä"], "object": { "k": true }, "deep": { "from": 1, "to": 2 } });
    let kind = BodyEncoding::Form(BTreeMap::from([("deep".to_owned(), ParameterStyle::Deep)]));
    let expected = "a+b=x%26y%3Dz&list=1&list=%C3%A4&object=%7B%22k%22%3Atrue%7D&deep%5Bfrom%5D=1&deep%5Bto%5D=2";
    assert_eq!(
        written(&kind, fields(&value)),
        ("application/x-www-form-urlencoded".to_owned(), expected.to_owned())
    );
}

#[test]
fn parts_stay_apart_whatever_is_in_them() {
    let kind = BodyEncoding::Parts(BTreeSet::from(["file".to_owned()]));
    let value = json!({ "file": "a\r\n--x\r\n", "n\"\r\n": 1, "object": { "k": [] }, "many": ["a", "b"] });
    let (kind, body) = written(&kind, fields(&value));
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let parts: Vec<&str> = body.split(&format!("--{boundary}\r\n")).skip(1).collect();
    let last = format!("Content-Disposition: form-data; name=\"many\"\r\n\r\nb\r\n--{boundary}--\r\n");
    let expected = [
        "Content-Disposition: form-data; name=\"file\"; filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\na\r\n--x\r\n\r\n",
        "Content-Disposition: form-data; name=\"n%22%0D%0A\"\r\n\r\n1\r\n",
        "Content-Disposition: form-data; name=\"object\"\r\nContent-Type: application/json\r\n\r\n{\"k\":[]}\r\n",
        "Content-Disposition: form-data; name=\"many\"\r\n\r\na\r\n",
        &last,
    ];
    assert_eq!(parts, expected);
}

#[test]
fn what_cannot_be_written_is_refused() {
    let text = BodyEncoding::Text(HeaderValue::from_static("text/csv"));
    assert_eq!(
        written(&text, BodyInput::Whole(json!("a,b"))),
        ("text/csv".to_owned(), "a,b".to_owned())
    );
    for kind in [
        BodyEncoding::Form(BTreeMap::new()),
        BodyEncoding::Parts(BTreeSet::new()),
    ] {
        assert!(kind.encode(BodyInput::Whole(json!("a"))).is_err());
    }
    assert!(text.encode(fields(&json!({ "a": 1 }))).is_err());
}
