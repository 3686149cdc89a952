use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn one() -> TraceSpan {
    TraceSpan {
        trace: [0xab; 16],
        id: [1; 8],
        parent: Some([2; 8]),
        name: "run typescript".to_owned(),
        kind: SpanKind::Server,
        began: "2026-01-01T00:00:00Z".parse().unwrap(),
        ended: "2026-01-01T00:00:01.5Z".parse().unwrap(),
        attributes: vec![
            ("ringfence.status", SpanAttribute::Text("killed".to_owned())),
            ("process.exit.code", SpanAttribute::Number(137)),
        ],
        error: Some("limit.memory".to_owned()),
    }
}

#[test]
fn a_span_is_what_the_protocol_says() {
    let expected = json!({
        "traceId": "ab".repeat(16), "spanId": "01".repeat(8), "parentSpanId": "02".repeat(8),
        "name": "run typescript", "kind": 2,
        "startTimeUnixNano": "1767225600000000000", "endTimeUnixNano": "1767225601500000000",
        "attributes": [
            { "key": "ringfence.status", "value": { "stringValue": "killed" } },
            { "key": "process.exit.code", "value": { "intValue": "137" } },
        ],
        "status": { "code": 2, "message": "limit.memory" },
    });
    assert_eq!(span_json(&one()), expected);
}

/// Runs a collector that answers one request, and returns what it received.
async fn collector(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let got = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        let mut buffer = [0; 4096];
        while !got.ends_with(b"}]}") {
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0);
            got.extend_from_slice(&buffer[..count]);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(got).unwrap()
    });
    (address, got)
}

#[tokio::test]
async fn spans_reach_a_collector() {
    let (address, got) = collector("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
    OtlpExporter::new(&address).unwrap().send(&[one()]).await.unwrap();
    let got = got.await.unwrap();
    assert!(got.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{got}");
    let (_, body) = got.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"],
        "01".repeat(8)
    );
}

#[tokio::test]
async fn a_busy_collector_is_tried_again_and_one_that_refuses_is_not() {
    for (answer, passing) in [
        ("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n", false),
    ] {
        let (address, _got) = collector(answer).await;
        let error = OtlpExporter::new(&address).unwrap().send(&[one()]).await.unwrap_err();
        assert_eq!(error.is_transient(), passing, "{error}");
    }
    let nobody = OtlpExporter::new("http://127.0.0.1:1").unwrap();
    assert!(nobody.send(&[one()]).await.unwrap_err().is_transient());
}

#[test]
fn an_address_that_is_none_is_refused() {
    for wrong in ["", "127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://"] {
        assert!(
            matches!(OtlpExporter::new(wrong), Err(OtlpError::Address(_))),
            "{wrong}"
        );
    }
}
