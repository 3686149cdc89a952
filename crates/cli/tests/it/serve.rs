//! Starts `serve` as people do: where it listens, which clients it accepts, how it ends, and what it sends to a
//! collector.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::setting::{Running, Setting, eventually, spawned, wait};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that runs.
struct Server {
    child: Running,
    address: SocketAddr,
    /// The lines on standard error after the one with the address.
    said: mpsc::Receiver<String>,
}

impl Server {
    fn start(setting: &Setting, args: &[&str]) -> Server {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend(args);
        let mut child = setting.start(&all);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended")).unwrap();
            if let Some(rest) = line.strip_prefix("notice: listening on http://") {
                break rest.split(": ").next().unwrap().parse().unwrap();
            }
        };
        let (sender, said) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Server { child, address, said }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Ends it, and tells how.
    fn end(self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        wait(self.child, TEST_TIMEOUT).status.code()
    }
}

fn token(setting: &Setting, scope: &str) -> (String, String) {
    let made = setting.json(&["token", "create", "--name", scope, "--scope", scope, "--json"]);
    (
        made["id"].as_str().unwrap().to_owned(),
        made["secret"].as_str().unwrap().to_owned(),
    )
}

fn ask(address: SocketAddr, secret: &str, method: &str, path: &str, more: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {secret}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn a_server_does_not_outlive_its_test() {
    let setting = Setting::new();
    let server = Server::start(&setting, &[]);
    let place = format!("/proc/{}", server.child.id());
    assert!(std::path::Path::new(&place).exists());
    let failed = thread::spawn(move || {
        let _server = server;
        // As a test that fails does, without its words.
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(failed.join().is_err());
    assert!(!std::path::Path::new(&place).exists());
}

#[test]
fn who_has_a_token_is_let_in_until_it_is_revoked() {
    let setting = Setting::new();
    let server = Server::start(&setting, &[]);
    let (id, secret) = token(&setting, "agent");
    let run = |code: &str| {
        let body = json!({ "language": "typescript", "code": code }).to_string();
        ask(server.address, &secret, "POST", "/api/v1/runs", "", &body)
    };
    let (status, execution) = run("1 + 1");
    assert_eq!((status, &execution["value"]), (200, &json!(2)), "{execution}");
    assert_eq!(setting.run(&["token", "revoke", &id]).code, Some(0));
    assert_eq!(run("1 + 1").0, 401);
    let said: Vec<String> = server.said.try_iter().collect();
    assert!(
        said.iter()
            .any(|line| line.contains("claude mcp add --transport http ringfence")),
        "{said:?}"
    );
    let started = Instant::now();
    assert_eq!(server.end(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(5));
    let checked = setting.run(&["audit", "verify"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

/// The most bytes by which a server may grow, whatever the programs of an agent do.
const MAX_GROWTH: u64 = 96 << 20;

/// Each tries to make the server keep what it is given: refused calls, output, a value, an error, lines of a log.
const FLOODS: [(&str, &str); 5] = [
    (
        "javascript",
        "let n = 0; for (let i = 0; i < 20000; i++) { try { await tools['s' + i % 500]['t' + i]({}) } catch { n++ } } n",
    ),
    ("shell", "yes 'a line of output' | head -c 15000000"),
    ("javascript", "'x'.repeat(60000000)"),
    ("javascript", "throw new Error('x'.repeat(60000000))"),
    (
        "javascript",
        "for (let i = 0; i < 200000; i++) console.log('a line of a log that is as long as others, ' + i); 1",
    ),
];

/// The most memory that a process had at once.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_server_stays_small_while_programs_flood_it() {
    let setting = Setting::new();
    let server = Server::start(&setting, &[]);
    let (_, secret) = token(&setting, "agent");
    let run = |language: &str, code: &str| {
        let body = json!({ "language": language, "code": code }).to_string();
        ask(server.address, &secret, "POST", "/api/v1/runs", "", &body)
    };
    assert_eq!(run("javascript", "1 + 1").0, 200);
    let before = peak_memory(server.child.id());
    let run = &run;
    thread::scope(|scope| {
        for (language, code) in FLOODS.iter().chain(&FLOODS) {
            scope.spawn(move || {
                let (status, answer) = run(language, code);
                assert_eq!(status, 200, "{code}: {answer}");
                let length = answer.to_string().len();
                assert!(length < 200_000, "{code}: an answer of {length} bytes");
            });
        }
    });
    let grown = peak_memory(server.child.id()).saturating_sub(before);
    eprintln!("the server grew by {} MiB", grown >> 20);
    assert!(grown < MAX_GROWTH, "the server grew by {} MiB", grown >> 20);
    assert_eq!(server.end(), Some(0));
}

/// The most bytes by which a server may grow while it inspects values, with their texts and recordings.
const MAX_VALUES_GROWTH: u64 = 1280 << 20;

/// A small text that is a large tree, one that is too large a tree, and arguments that are refused.
const TREES: [&str; 3] = [
    "Array.from({ length: 250000 }, () => ({ a: 1 }))",
    "Array.from({ length: 1800000 }, () => ({ a: 1 }))",
    "const all = Array.from({ length: 40 }, (_, i) => tools.none.such({ n: i, x: 'x'.repeat(4000000) }).catch(() => 1));
     (await Promise.all(all)).length",
];

#[test]
fn values_of_tiny_objects_cost_a_bounded_amount_and_hold_up_nobody() {
    let setting = Setting::new();
    let server = Server::start(&setting, &[]);
    let (_, secret) = token(&setting, "agent");
    let run = |code: &str| {
        let body = json!({ "language": "javascript", "code": code }).to_string();
        ask(server.address, &secret, "POST", "/api/v1/runs", "", &body)
    };
    assert_eq!(run("1 + 1").0, 200);
    let before = peak_memory(server.child.id());
    let (run, over) = (&run, &AtomicBool::new(false));
    let (address, secret) = (server.address, secret.as_str());
    let slowest = thread::scope(|scope| {
        let asked = scope.spawn(move || {
            let mut slowest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                assert_eq!(ask(address, secret, "GET", "/healthz", "", "").0, 200);
                slowest = slowest.max(asked.elapsed());
                thread::sleep(Duration::from_millis(20));
            }
            slowest
        });
        let runs: Vec<_> = TREES
            .iter()
            .cycle()
            .take(6)
            .map(|code| {
                scope.spawn(move || {
                    let (status, answer) = run(code);
                    assert_eq!(
                        (status, &answer["status"]),
                        (200, &json!("completed")),
                        "{code}: {answer}"
                    );
                })
            })
            .collect();
        let all_fine = runs
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .all(|run| run.is_ok());
        over.store(true, Ordering::Relaxed);
        assert!(all_fine);
        asked.join().unwrap()
    });
    let grown = peak_memory(server.child.id()).saturating_sub(before);
    eprintln!("grown by {} MiB, asked for {slowest:?}", grown >> 20);
    assert!(grown < MAX_VALUES_GROWTH, "the server grew by {} MiB", grown >> 20);
    // Six debug builds of an engine share two processors with it: what must not be is a wait for one of them to end.
    assert!(slowest < Duration::from_secs(15), "{slowest:?}");
    assert_eq!(server.end(), Some(0));
}

/// The most bytes by which a server may grow with recorded runs.
const MAX_KEPT_GROWTH: u64 = 384 << 20;

#[test]
fn drafts_do_not_fill_a_servers_memory() {
    let setting = Setting::new();
    let server = Server::start(&setting, &[]);
    let (_, secret) = token(&setting, "agent");
    let run = |round: usize, count: usize| {
        let glob = |number: usize| format!("**/{round}-{number}-{}", "x".repeat(900));
        let deny: Vec<String> = (0..count).map(glob).collect();
        let body = json!({ "language": "javascript", "code": "1", "sandbox_policy": { "fs": { "deny": deny } } });
        ask(server.address, &secret, "POST", "/api/v1/runs", "", &body.to_string())
    };
    assert_eq!(run(0, 1).0, 200);
    let (status, refused) = run(0, 100);
    assert_eq!(
        (status, &refused["error"]["code"]),
        (200, &json!("policy.size")),
        "{refused}"
    );
    let before = peak_memory(server.child.id());
    for round in 1..=150 {
        let (status, answer) = run(round, 64);
        assert_eq!((status, &answer["value"]), (200, &json!(1)), "{answer}");
    }
    let grown = peak_memory(server.child.id()).saturating_sub(before);
    eprintln!("the server grew by {} MiB", grown >> 20);
    assert!(grown < MAX_KEPT_GROWTH, "the server grew by {} MiB", grown >> 20);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn mcp_on_standard_input_and_output() {
    let setting = Setting::new();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "sandboxed_code_run", "arguments": { "language": "typescript", "code": "6 * 7" } } });
    let mut command = setting.command(&["serve", "--stdio"]);
    command.stdin(std::process::Stdio::piped());
    let mut child = spawned(&mut command);
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    writeln!(stdin, "{hello}\n{ready}\n{call}").unwrap();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["result"]["serverInfo"]["name"], "ringfence");
    assert_eq!(next()["result"]["structuredContent"]["value"], 42);
    // The server ends when its standard input closes.
    drop(stdin);
    assert_eq!(wait(child, TEST_TIMEOUT).status.code(), Some(0));
}

#[test]
fn beyond_this_machine_only_what_the_operator_wrote_down() {
    let setting = Setting::new();
    let refused = setting.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, Some(126), "{refused:?}");
    for words in ["can be reached by other machines", "rule: auth", "`auth: tokens`"] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let open = setting.run(&["serve", "--listen", "0.0.0.0:0", "--conformance"]);
    assert_eq!(open.code, Some(126), "{open:?}");
    setting.write("ringfence.yaml", "listen: '0.0.0.0:0'\nauth: tokens\n");
    let mut child = setting.start(&["serve", "--config", "ringfence.yaml"]);
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("notice: listening on http://0.0.0.0:"), "{line}");
}

#[test]
fn what_cannot_be_served_is_said_before_anything_starts() {
    let setting = Setting::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    setting.write("hosts.yaml", "listen: { hosts: ['https://x.example'] }\n");
    setting.write("otlp.yaml", "telemetry: { otlp: 'http://' }\n");
    let cases: [(&[&str], &str); 6] = [
        (&["--listen", &address], "cannot listen on"),
        (&["--listen", "127.0.0.1:0", "--direct", "a b"], "--direct a b"),
        (
            &["--listen", "127.0.0.1:0", "--config", "hosts.yaml"],
            "is no host name",
        ),
        (
            &["--listen", "127.0.0.1:0", "--config", "otlp.yaml"],
            "not the address of a collector",
        ),
        (&["--listen", "nowhere"], "invalid"),
        (&["--stdio", "--listen", "127.0.0.1:0"], "cannot be used with"),
    ];
    for (args, words) in cases {
        let mut all = vec!["serve"];
        all.extend(args);
        let done = setting.run(&all);
        assert_ne!(done.code, Some(0), "{done:?}");
        assert!(done.stderr.contains(words), "{args:?}: {}", done.stderr);
        assert!(!setting.home().join("ringfence.db").exists(), "{args:?}");
    }
}

#[test]
fn a_signal_lets_what_runs_end_and_a_second_one_does_not() {
    for signals in [1, 2] {
        let setting = Setting::new();
        let server = Server::start(&setting, &[]);
        let (_, secret) = token(&setting, "agent");
        let address = server.address;
        let seconds = if signals == 1 { 2 } else { 25 };
        let run = thread::spawn(move || {
            let body = json!({ "language": "shell", "code": format!("sleep {seconds}; echo done") }).to_string();
            let asked = std::panic::catch_unwind(|| ask(address, &secret, "POST", "/api/v1/runs", "", &body));
            asked.ok()
        });
        eventually("it runs", || {
            let open = setting.json(&["session", "list", "--json"]);
            (open[0]["executions"] == 1).then_some(())
        });
        server.signal(rustix::process::Signal::TERM);
        eventually("nobody is let in any more", || TcpStream::connect(address).err());
        let started = Instant::now();
        if signals == 2 {
            server.signal(rustix::process::Signal::TERM);
            assert_ne!(wait(server.child, TEST_TIMEOUT).status.code(), Some(0));
            assert!(started.elapsed() < Duration::from_secs(5));
            continue;
        }
        assert_eq!(wait(server.child, TEST_TIMEOUT).status.code(), Some(0));
        let (status, execution) = run.join().unwrap().unwrap();
        assert_eq!((status, &execution["stdout"]), (200, &json!("done\n")));
    }
}

/// A collector: takes spans, and can be away at first.
fn collector(busy: usize) -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, spans) = mpsc::channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut length = 0;
            let mut line = String::new();
            let mut first = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
                if first.is_empty() {
                    first.clone_from(&line);
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let status = if number < busy { "503 Busy" } else { "200 OK" };
            let mut stream = reader.into_inner();
            let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}");
            stream.write_all(answer.as_bytes()).unwrap();
            if number >= busy {
                assert_eq!(first, "POST /v1/traces HTTP/1.1\r\n");
                let body: Value = serde_json::from_slice(&body).unwrap();
                let of = &body["resourceSpans"][0];
                assert_eq!(of["resource"]["attributes"][0]["value"]["stringValue"], "ringfence");
                for span in of["scopeSpans"][0]["spans"].as_array().unwrap() {
                    sender.send(span.clone()).unwrap();
                }
            }
        }
    });
    (address, spans)
}

#[test]
fn a_collector_gets_a_span_of_every_run_below_the_clients_own() {
    let setting = Setting::new();
    let (address, spans) = collector(1);
    setting.write("ringfence.yaml", format!("telemetry: {{ otlp: '{address}' }}\n"));
    let server = Server::start(&setting, &["--config", "ringfence.yaml"]);
    let (_, secret) = token(&setting, "agent");
    let parent = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    let body = json!({ "language": "typescript", "code": "throw new Error('no')" }).to_string();
    let (_, execution) = ask(server.address, &secret, "POST", "/api/v1/runs", parent, &body);
    let span = spans.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(span["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(
        (&span["name"], &span["kind"], &span["status"]["code"]),
        (&json!("run typescript"), &json!(2), &json!(2))
    );
    assert_eq!(span["attributes"][0]["value"]["stringValue"], execution["execution_id"]);
    // Events just before the end are sent before the server ends.
    let body = json!({ "language": "typescript", "code": "1" }).to_string();
    ask(server.address, &secret, "POST", "/api/v1/runs", "", &body);
    assert_eq!(server.end(), Some(0));
    let last = spans.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!((last.get("parentSpanId"), &last["status"]["code"]), (None, &json!(1)));
}

#[test]
fn what_waits_for_a_person_outlives_a_killed_server_and_calls_each_tool_once() {
    let setting = crate::approvals::setting();
    let start = || Server::start(&setting, &["--servers", "servers.json", "--policy", "policy.yaml"]);
    let server = start();
    let (_, secret) = token(&setting, "agent");
    let (_, operator) = token(&setting, "operator");
    let code = "const all = await Promise.allSettled(['ann', 'bob'].map(to => tools.mail.send({ to }))); \
        all.map(one => one.status === 'fulfilled' ? one.value : one.reason.code)";
    let body = json!({ "language": "typescript", "code": code }).to_string();
    let (status, run) = ask(server.address, &secret, "POST", "/api/v1/runs", "", &body);
    assert_eq!((status, &run["status"]), (202, &json!("waiting_approval")), "{run}");
    let questions = crate::approvals::waiting(&setting, 2);
    server.signal(rustix::process::Signal::KILL);
    drop(wait(server.child, TEST_TIMEOUT));
    let session = run["session_id"].as_str().unwrap();
    let shown = setting.run(&["session", "show", session]).stdout;
    assert!(
        shown.contains("once answered, it goes on under `ringfence serve`"),
        "{shown}"
    );
    let to = |name: &str| {
        questions.iter().find(|one| one["arguments"]["to"] == name).unwrap()["id"]
            .as_str()
            .unwrap()
    };
    let approved = setting.run(&["approvals", "approve", to("ann")]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let server = start();
    let path = format!("/api/v1/approvals/{}/deny", to("bob"));
    assert_eq!(ask(server.address, &secret, "POST", &path, "", "").0, 403);
    let (status, denied) = ask(server.address, &operator, "POST", &path, "", r#"{"note":"no"}"#);
    assert_eq!(status, 200, "{denied}");
    let path = format!("/api/v1/runs/{}?wait=2", run["execution_id"].as_str().unwrap());
    let done = eventually("the run ends", || {
        let (status, run) = ask(server.address, &secret, "GET", &path, "", "");
        (status == 200).then_some(run)
    });
    assert_eq!(done["value"], json!(["sent to ann", "approval.denied"]), "{done}");
    assert_eq!(crate::approvals::sent(&setting), ["send ann"]);
    assert_eq!(server.end(), Some(0));
    let checked = setting.run(&["audit", "verify"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
}
