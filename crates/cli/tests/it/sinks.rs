//! Audit sinks over the network: the real program sends to endpoints on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::setting::{Done, Setting};

/// One request as an endpoint got it.
#[derive(Debug, Clone)]
struct Got {
    line: String,
    headers: BTreeMap<String, String>,
    body: Value,
}

/// An endpoint that answers with these statuses in turn, the last of them for ever; 0 never answers.
struct Endpoint {
    address: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Endpoint {
    fn start(statuses: &[u16]) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let got = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&got);
        let statuses = Arc::new(statuses.to_vec());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, statuses) = (Arc::clone(&seen), Arc::clone(&statuses));
                thread::spawn(move || serve(&stream.unwrap(), &seen, &statuses));
            }
        });
        Endpoint { address, got }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// The records that were taken, as lines of the export.
    fn records(&self, refused: usize) -> Vec<Value> {
        let taken = self.got().into_iter().skip(refused);
        taken
            .flat_map(|got| got.body["records"].as_array().unwrap().clone())
            .collect()
    }
}

fn serve(mut stream: &TcpStream, seen: &Mutex<Vec<Got>>, statuses: &[u16]) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let mut headers = BTreeMap::new();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        reader.read_exact(&mut body).ok()?;
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(Got {
                line: line.trim_end().to_owned(),
                headers,
                body: serde_json::from_slice(&body).unwrap(),
            });
            seen.len() - 1
        };
        match statuses.get(number).or(statuses.last()) {
            Some(0) | None => thread::sleep(Duration::from_mins(5)),
            Some(status) => write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\n{{}}").ok()?,
        }
    }
}

fn run(setting: &Setting, sinks: &str) -> Done {
    setting.write("ringfence.yaml", format!("audit: {{ sinks: [{sinks}] }}\n"));
    setting.write("key", "a key that nobody guesses\n");
    setting.run(&["exec", "--config", "ringfence.yaml", "--", "echo", "hello"])
}

fn webhook(address: &str, durable: bool) -> String {
    format!("{{ webhook: {{ url: '{address}/audit', secret: 'file:key', durable: {durable} }} }}")
}

fn exported(setting: &Setting) -> Vec<Value> {
    let lines = setting.run(&["audit", "export"]).stdout;
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_webhook_and_a_collector_get_every_record_of_a_run() {
    let setting = Setting::new();
    let (hook, collector) = (Endpoint::start(&[500, 503, 200]), Endpoint::start(&[429, 200]));
    let otlp = format!("{{ otlp: {{ url: '{}' }} }}", collector.address);
    let done = run(&setting, &format!("{}, {otlp}", webhook(&hook.address, false)));
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "hello\n"), "{done:?}");
    let exported = exported(&setting);
    assert_eq!(exported.len(), 4);
    assert_eq!(hook.records(2), exported);
    let first = &hook.got()[0];
    assert_eq!(first.line, "POST /audit HTTP/1.1");
    assert!(first.headers["x-ringfence-signature"].starts_with("v1="));
    let logs: Vec<Value> = collector
        .got()
        .into_iter()
        .skip(1)
        .flat_map(|got| {
            assert_eq!(got.line, "POST /v1/logs HTTP/1.1");
            let logs = &got.body["resourceLogs"][0]["scopeLogs"][0]["logRecords"];
            logs.as_array().unwrap().clone()
        })
        .map(|log| serde_json::from_str(log["body"]["stringValue"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(logs, exported);
    assert_eq!(setting.json(&["audit", "verify", "--json"])["undelivered"], json!([]));
}

#[test]
fn an_endpoint_that_is_away_slow_or_unwilling_fails_no_run_and_is_said_by_audit() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, reason) in [
        (
            format!("http://{nobody}"),
            "it was not reached, or did not answer: error sending request: client error (Connect): tcp connect error: Connection refused (os error 111)",
        ),
        (Endpoint::start(&[0]).address, "the program ended before it took them"),
        (Endpoint::start(&[403]).address, "it answers with status 403"),
        (
            Endpoint::start(&[307]).address,
            "it answers with status 307; redirects are not followed",
        ),
    ] {
        let setting = Setting::new();
        let done = run(&setting, &webhook(&address, false));
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "hello\n"), "{done:?}");
        let verified = setting.json(&["audit", "verify", "--json"]);
        let missed = &verified["undelivered"][0];
        assert_eq!(
            (&missed["sink"], &missed["records"], &missed["reason"]),
            (&json!(format!("webhook `{address}`")), &json!(4), &json!(reason))
        );
        let tail = setting.run(&["audit", "tail"]);
        assert!(tail.stderr.contains("did not take 4 records since"), "{}", tail.stderr);
        assert!(tail.stderr.contains("`ringfence audit export` has them"));
        assert_eq!(exported(&setting).len(), 4);
    }
}

#[test]
fn nothing_happens_without_a_webhook_that_must_have_the_record() {
    let setting = Setting::new();
    let hook = Endpoint::start(&[200]);
    assert_eq!(run(&setting, &webhook(&hook.address, true)).code, Some(0));
    assert_eq!(hook.records(0), exported(&setting));

    let setting = Setting::new();
    let closed = Endpoint::start(&[403]);
    let done = run(&setting, &webhook(&closed.address, true));
    assert_eq!((done.code, done.stdout.as_str()), (Some(125), ""), "{done:?}");
    let expected = format!(
        "error: webhook `{}` did not take the event in time: it answers with status 403\n",
        closed.address
    );
    assert!(done.stderr.contains(&expected), "{}", done.stderr);
    assert!(
        !exported(&setting)
            .iter()
            .any(|record| record["event"]["kind"] == "execution_ended"),
        "nothing ran"
    );
    assert_eq!(setting.json(&["session", "list", "--json"])[0]["state"], "closed");
}

#[test]
fn a_sink_whose_secret_is_not_there_stops_the_start() {
    let setting = Setting::new();
    let done = run(
        &setting,
        "{ webhook: { url: 'https://audit.example.org/x', secret: 'env:NOT_SET' } }",
    );
    assert_eq!((done.code, done.stdout.as_str()), (Some(125), ""));
    assert!(
        done.stderr
            .contains("webhook `https://audit.example.org`: cannot read `secret`: the variable `NOT_SET` is not set"),
        "{}",
        done.stderr
    );
}
