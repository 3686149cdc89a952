use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringfence_journal::{ChainTip, Event, EventKind, Record, SessionId};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const SECRET: &str = "a secret of the operator's";

/// One request as an endpoint receives it.
#[derive(Debug, Clone)]
struct Got {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no `{name}` in {:?}", self.headers)).1
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// An HTTP server that gives these answers in turn, and repeats the last one.
struct Endpoint {
    address: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Endpoint {
    async fn start(answers: &[&str]) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let got = Arc::new(Mutex::new(Vec::new()));
        let answers: Arc<Vec<String>> = Arc::new(answers.iter().map(|&answer| answer.to_owned()).collect());
        let count = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&got);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(
                    stream,
                    Arc::clone(&answers),
                    Arc::clone(&count),
                    Arc::clone(&seen),
                ));
            }
        });
        Endpoint { address, got }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    answers: Arc<Vec<String>>,
    count: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Got>>>,
) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            more(&mut stream, &mut bytes).await?;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let line = lines.next().unwrap().to_owned();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length").unwrap();
        let length: usize = length.1.parse().unwrap();
        while bytes.len() < end + 4 + length {
            more(&mut stream, &mut bytes).await?;
        }
        let body = String::from_utf8(bytes[end + 4..end + 4 + length].to_vec()).unwrap();
        bytes.drain(..end + 4 + length);
        seen.lock().unwrap().push(Got { line, headers, body });
        let number = count.fetch_add(1, Ordering::Relaxed);
        let answer = answers.get(number).or(answers.last()).unwrap();
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

async fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 4096];
    let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
    bytes.extend_from_slice(&buffer[..count]);
    Some(())
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

fn records(count: usize) -> Vec<Arc<Record>> {
    let session = SessionId::generate().unwrap();
    let mut link = ChainTip::start(session);
    let next = |_| {
        let kind = EventKind::Violation {
            what: "syscall".into(),
            detail: "a \"quoted\" thing\n".into(),
            rule: "proc.syscalls".into(),
        };
        let record = link.next(&Event::from_host(session, None, kind)).unwrap();
        link = record.tip();
        Arc::new(record)
    };
    (0..count).map(next).collect()
}

fn environment() -> EnvironmentLookup {
    Arc::new(|name| match name {
        "SECRET" => Some(SECRET.to_owned()),
        "EMPTY" => Some(String::new()),
        "BROKEN" => Some("a\nb".to_owned()),
        _ => None,
    })
}

fn written(text: &str) -> CredentialSource {
    CredentialSource::parse(text, std::path::Path::new("/"))
}

fn open(sink: &AuditSink) -> Result<Arc<dyn ExternalSink>, AuditSinkError> {
    let home = tempfile::tempdir().unwrap();
    sink.open(&environment(), &Vault::in_data_folder(home.path(), &environment()))
}

fn webhook(url: &str) -> Arc<dyn ExternalSink> {
    open(&AuditSink::webhook(url, written("env:SECRET"), false).unwrap()).unwrap()
}

#[tokio::test]
async fn a_delivery_is_signed_and_holds_the_records_in_order() {
    let endpoint = Endpoint::start(&[OK]).await;
    let outlet = webhook(&format!("{}/audit?key=hidden", endpoint.address));
    assert_eq!(outlet.name(), format!("webhook `{}`", endpoint.address));
    let records = records(3);
    outlet.deliver(&records).await.unwrap();
    let got = endpoint.got();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].line, "POST /audit?key=hidden HTTP/1.1");
    assert_eq!(got[0].header("content-type"), "application/json");
    // An endpoint checks it like this: with the request alone, and another implementation.
    let timestamp = got[0].header("x-ringfence-timestamp");
    let expected = format!("v1={}", hmac_sha256(SECRET, &format!("{timestamp}.{}", got[0].body)));
    assert_eq!(got[0].header("x-ringfence-signature"), expected);
    let age = jiff::Timestamp::now().as_second() - timestamp.parse::<i64>().unwrap();
    assert!((0..10).contains(&age), "{age}");
    let lines: Vec<Value> = records
        .iter()
        .map(|record| serde_json::from_str(&record.to_json_line()).unwrap())
        .collect();
    assert_eq!(got[0].json(), json!({ "records": lines }));
}

/// HMAC of RFC 2104, built on the digest alone.
fn hmac_sha256(key: &str, text: &str) -> String {
    use sha2::{Digest as _, Sha256};
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key.as_bytes());
    let inner = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(text);
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c));
    crate::otlp::hex(&outer.chain_update(inner.finalize()).finalize())
}

#[tokio::test]
async fn what_may_pass_is_told_from_what_will_not() {
    for (status, again) in [
        ("500 No", true),
        ("503 No", true),
        ("429 No", true),
        ("408 No", true),
        ("400 No", false),
        ("401 No", false),
        ("410 Gone", false),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        let endpoint = Endpoint::start(&[&answer]).await;
        let error = webhook(&endpoint.address).deliver(&records(2)).await.unwrap_err();
        match error {
            DeliveryFailure::Later(source) => {
                assert!(again, "{status}");
                assert!(status.starts_with(&source.to_string()["it answers with status ".len()..]));
            }
            DeliveryFailure::Never { count, .. } => assert!(!again && count == 2, "{status}"),
        }
    }
    let nobody = webhook("http://127.0.0.1:1").deliver(&records(1)).await.unwrap_err();
    assert!(matches!(nobody, DeliveryFailure::Later(_)), "{nobody}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Endpoint::start(&[OK]).await;
    let away = format!(
        "HTTP/1.1 307 Away\r\nLocation: {}/\r\nContent-Length: 0\r\n\r\n",
        elsewhere.address
    );
    for answer in [
        away.as_str(),
        "HTTP/1.1 308 Here\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
    ] {
        let endpoint = Endpoint::start(&[answer, OK]).await;
        let error = webhook(&endpoint.address).deliver(&records(1)).await.unwrap_err();
        let DeliveryFailure::Never { source, .. } = error else {
            panic!("{error}");
        };
        assert!(source.to_string().ends_with("redirects are not followed"), "{source}");
        assert_eq!(endpoint.got().len(), 1);
    }
    assert!(elsewhere.got().is_empty());
}

#[tokio::test]
async fn a_collector_gets_one_log_record_for_each_record() {
    let endpoint = Endpoint::start(&[OK]).await;
    let headers = vec![("x-api-key".to_owned(), written("env:SECRET"))];
    let outlet = open(&AuditSink::otlp(&endpoint.address, headers).unwrap()).unwrap();
    let records = records(2);
    outlet.deliver(&records).await.unwrap();
    let got = endpoint.got();
    assert_eq!(got[0].line, "POST /v1/logs HTTP/1.1");
    assert_eq!(got[0].header("x-api-key"), SECRET);
    let body = got[0].json();
    let resource = json!({ "attributes": [
        { "key": "service.name", "value": { "stringValue": "ringfence" } },
        { "key": "service.version", "value": { "stringValue": env!("CARGO_PKG_VERSION") } },
    ] });
    assert_eq!(body["resourceLogs"][0]["resource"], resource);
    let logs = body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(logs.len(), 2);
    let record = &records[1];
    let at = record.event().unwrap().at.as_nanosecond().to_string();
    let expected = json!({
        "timeUnixNano": at, "observedTimeUnixNano": at,
        "severityNumber": 13, "severityText": "WARN", "eventName": "ringfence.violation",
        "body": { "stringValue": record.to_json_line() },
        "attributes": [
            { "key": "ringfence.session", "value": { "stringValue": record.session.to_string() } },
            { "key": "ringfence.seq", "value": { "intValue": "2" } },
            { "key": "ringfence.hash", "value": { "stringValue": record.hash.to_string() } },
            { "key": "ringfence.kind", "value": { "stringValue": "violation" } },
        ],
    });
    assert_eq!(logs[1], expected);
}

#[tokio::test]
async fn what_a_collector_rejects_is_counted() {
    let body = r#"{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"too old"}}"#;
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let endpoint = Endpoint::start(&[&answer]).await;
    let outlet = open(&AuditSink::otlp(&format!("{}/v1/logs", endpoint.address), Vec::new()).unwrap()).unwrap();
    let error = outlet.deliver(&records(3)).await.unwrap_err();
    let DeliveryFailure::Never { count, source } = error else {
        panic!("{error}");
    };
    assert_eq!(
        (count, source.to_string().as_str()),
        (2, "it rejects 2 of them: too old")
    );
    assert_eq!(endpoint.got()[0].line, "POST /v1/logs HTTP/1.1");
}

#[test]
fn an_address_that_is_none_or_not_safe_is_refused() {
    for (url, expected) in [
        ("audit.example.org", "is not an address"),
        ("ftp://audit.example.org", "is not an address"),
        ("http://audit.example.org", "must be https"),
        ("http://10.0.0.1", "must be https"),
        ("https://me:word@audit.example.org", "holds a name or password"),
    ] {
        let error = AuditSink::webhook(url, written("env:SECRET"), false).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
        assert!(AuditSink::otlp(url, Vec::new()).is_err(), "{url}");
    }
    for url in [
        "https://audit.example.org/x",
        "http://127.0.0.1:1",
        "http://[::1]:1",
        "http://localhost:1",
    ] {
        assert!(AuditSink::webhook(url, written("env:SECRET"), false).is_ok(), "{url}");
    }
}

#[test]
fn secrets_are_references_and_are_not_shown() {
    let plain = AuditSink::webhook("https://a.example.org", written(SECRET), false).unwrap_err();
    assert!(matches!(plain, AuditSinkError::Written) && !plain.to_string().contains(SECRET));
    for (secret, expected) in [
        ("env:UNSET", "webhook `https://a.example.org`: cannot read `secret`"),
        ("env:EMPTY", "webhook `https://a.example.org`: the secret is empty"),
        ("vault:none", "webhook `https://a.example.org`: cannot read `secret`"),
    ] {
        let sink = AuditSink::webhook("https://a.example.org/hidden", written(secret), true).unwrap();
        assert_eq!(open(&sink).unwrap_err().to_string(), expected);
    }
    let headers = vec![("authorization".to_owned(), written("env:BROKEN"))];
    let sink = AuditSink::otlp("https://a.example.org/hidden", headers).unwrap();
    let error = open(&sink).unwrap_err();
    assert_eq!(
        error.to_string(),
        "otlp `https://a.example.org`: `headers.authorization` cannot be a header"
    );
    let shown = format!("{sink:?} {error:?} {:?}", webhook("https://a.example.org/hidden"));
    assert!(!shown.contains("hidden") && !shown.contains(SECRET), "{shown}");
}
