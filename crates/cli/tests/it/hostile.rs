//! Broken, hostile and disconnected clients on both transports of the real program: each gets a clear error, memory stays
//! bounded, and other clients are not affected.

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ringfence_testkit::front_clients::{ClientEra, HttpClient, StdioClient, resident_memory, structured_content};
use serde_json::{Value, json};

use crate::serving::serving;
use crate::setting::{Setting, eventually, groups_with, processes_with};

/// The most memory in bytes that the program may use, whatever a client sends.
const MAX_MEMORY_BYTES: u64 = 200 * 1024 * 1024;
/// The unit of the sizes of floods, in bytes.
const MEBIBYTE: usize = 1024 * 1024;

fn sum(language: &str, code: &str) -> Value {
    json!({"language": language, "code": code})
}

#[track_caller]
fn alive(client: &mut StdioClient) {
    let called = client.call("sandboxed_code_run", &sum("javascript", "6*7")).unwrap();
    assert_eq!(structured_content(&called).unwrap()["value"], 42);
}

#[track_caller]
fn answers(address: &str, secret: &str) {
    let mut client = HttpClient::start(address, Some(secret), ClientEra::Modern).unwrap();
    let called = client.call("sandboxed_code_run", &sum("javascript", "6*7")).unwrap();
    assert_eq!(structured_content(&called).unwrap()["value"], 42);
}

/// The code of the error that a line gets.
#[track_caller]
fn refused(client: &mut StdioClient, line: &str) -> i64 {
    client.send(line).unwrap();
    let heard = client.receive().unwrap().unwrap();
    let shown: String = line.chars().take(80).collect();
    heard["error"]["code"]
        .as_i64()
        .unwrap_or_else(|| panic!("{shown}: {heard}"))
}

#[test]
fn what_is_no_message_on_stdio_gets_an_error() {
    let setting = serving();
    for era in [ClientEra::Legacy, ClientEra::Modern] {
        let mut client = StdioClient::start(&mut setting.stdio(), era).unwrap();
        assert_eq!(refused(&mut client, "{\"jsonrpc\": \"2.0\", "), -32700);
        assert_eq!(refused(&mut client, "\u{0}\u{1}\u{2}"), -32700);
        assert_eq!(refused(&mut client, &"[".repeat(200_000)), -32700);
        assert_eq!(
            refused(
                &mut client,
                &format!("{}{}", "{\"a\":".repeat(50_000), "}".repeat(50_000))
            ),
            -32700
        );
        assert_eq!(refused(&mut client, "[]"), -32600);
        let unknown = era.request(900, "no/such/method", json!({})).to_string();
        assert_eq!(refused(&mut client, &unknown), -32601);
        let strange = era.request(901, "tools/call", json!({"name": 7})).to_string();
        assert!(matches!(refused(&mut client, &strange), -32602 | -32600), "{strange}");
        alive(&mut client);
        assert!(resident_memory(client.pid()).unwrap() < MAX_MEMORY_BYTES);
    }
}

#[test]
fn a_line_of_100_mib_is_refused_and_not_held() {
    let setting = serving();
    let mut client = StdioClient::start(&mut setting.stdio(), ClientEra::Legacy).unwrap();
    client
        .write(br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":""#)
        .unwrap();
    let part = vec![b'a'; MEBIBYTE];
    let mut most = 0;
    for _ in 0..100 {
        client.write(&part).unwrap();
        most = most.max(resident_memory(client.pid()).unwrap());
    }
    client.send("\"}}").unwrap();
    let heard = client.receive().unwrap().unwrap();
    assert_eq!(
        (&heard["id"], &heard["error"]["code"]),
        (&json!(5), &json!(-32600)),
        "{heard}"
    );
    assert!(most < MAX_MEMORY_BYTES, "{most}");
    alive(&mut client);
}

#[test]
fn an_id_in_use_is_not_taken_twice() {
    let setting = serving();
    let mut client = StdioClient::start(&mut setting.stdio(), ClientEra::Legacy).unwrap();
    let slow = json!({"name": "sandboxed_code_run", "arguments": sum("shell", "sleep 1; echo slow")});
    let request = ClientEra::Legacy.request(70, "tools/call", slow).to_string();
    client.send(&request).unwrap();
    client
        .send(&ClientEra::Legacy.request(70, "tools/list", json!({})).to_string())
        .unwrap();
    let (first, second) = (client.receive().unwrap().unwrap(), client.receive().unwrap().unwrap());
    assert_eq!(
        (&first["id"], &first["error"]["code"]),
        (&json!(70), &json!(-32600)),
        "{first}"
    );
    assert_eq!(second["result"]["structuredContent"]["stdout"], "slow\n", "{second}");
}

#[test]
fn eras_may_be_mixed_up_and_nothing_hangs() {
    let setting = serving();
    // Newer requests in an older conversation, and the other way round: an answer each, whichever it is.
    let mut client = StdioClient::start(&mut setting.stdio(), ClientEra::Legacy).unwrap();
    client
        .send(&ClientEra::Modern.request(50, "tools/list", json!({})).to_string())
        .unwrap();
    let heard = client.wait_for_answer(50).unwrap();
    assert!(heard.get("result").is_some() || heard.get("error").is_some(), "{heard}");
    alive(&mut client);
    let mut client = StdioClient::start(&mut setting.stdio(), ClientEra::Modern).unwrap();
    client
        .send(&ClientEra::Legacy.request(51, "tools/list", json!({})).to_string())
        .unwrap();
    let heard = client.wait_for_answer(51).unwrap();
    assert!(heard.get("result").is_some() || heard.get("error").is_some(), "{heard}");
    alive(&mut client);
    let hello =
        json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "old", "version": "0"}});
    let mut client = StdioClient::spawn(&mut setting.stdio(), ClientEra::Legacy).unwrap();
    client
        .send(&ClientEra::Legacy.request(1, "initialize", hello).to_string())
        .unwrap();
    let heard = client.wait_for_answer(1).unwrap();
    assert!(
        heard["result"]["protocolVersion"].is_string() || heard["error"]["code"].is_i64(),
        "{heard}"
    );
}

#[test]
fn a_client_that_says_no_more_leaves_nothing_running() {
    let setting = serving();
    let mark = format!("31{}", std::process::id());
    let mut client = StdioClient::start(&mut setting.stdio(), ClientEra::Legacy).unwrap();
    let run = json!({"name": "sandboxed_code_run", "arguments": sum("shell", &format!("sleep {mark}"))});
    client.send_request("tools/call", run).unwrap();
    eventually("the run is there", || {
        (!processes_with(&format!("sleep\0{mark}")).is_empty()).then_some(())
    });
    client.close();
    let closed = Instant::now();
    client.wait().unwrap();
    assert!(closed.elapsed() < Duration::from_secs(10), "{:?}", closed.elapsed());
    eventually("the run ended with its client", || {
        processes_with(&format!("sleep\0{mark}")).is_empty().then_some(())
    });
}

#[test]
fn a_client_that_never_reads_holds_up_nobody_else() {
    let setting = serving();
    let mut neighbour = StdioClient::start(&mut setting.stdio(), ClientEra::Modern).unwrap();
    let mut deaf = StdioClient::start(&mut setting.stdio(), ClientEra::Legacy).unwrap();
    let pid = deaf.pid();
    // It asks until the pipe is full, and takes none of the answers.
    let asking = thread::spawn(move || {
        for _ in 0..20_000 {
            if deaf.send_request("tools/list", json!({})).is_err() {
                break;
            }
        }
    });
    let mut most = 0;
    for _ in 0..20 {
        alive(&mut neighbour);
        most = most.max(resident_memory(pid).unwrap());
        thread::sleep(Duration::from_millis(50));
    }
    assert!(most < MAX_MEMORY_BYTES, "{most}");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    asking.join().unwrap();
}

#[test]
fn what_is_no_message_over_http_gets_an_error() {
    let setting = serving();
    let (served, secret) = setting.serve_http(&[]);
    let post = |era: ClientEra, body: &str, headers: &[(&str, &str)]| {
        let mut client = HttpClient::connect(&served.address, Some(&secret), era).unwrap();
        client.post(body, headers).unwrap()
    };
    let deep = "[".repeat(200_000);
    for era in [ClientEra::Legacy, ClientEra::Modern] {
        for body in ["", "{", "nonsense", "[]", "7", "\u{0}", deep.as_str()] {
            let reply = post(era, body, &[("Mcp-Method", "tools/list")]);
            let shown: String = body.chars().take(40).collect();
            assert!((400..500).contains(&reply.status), "{era:?} {shown}: {reply:?}");
        }
    }
    let unknown = ClientEra::Modern.request(1, "no/such", json!({})).to_string();
    let reply = post(ClientEra::Modern, &unknown, &[("Mcp-Method", "no/such")]);
    assert_eq!(reply.status, 404, "{reply:?}");
    let listing = ClientEra::Modern.request(1, "tools/list", json!({})).to_string();
    let reply = post(ClientEra::Modern, &listing, &[("Mcp-Method", "tools/call")]);
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(reply.messages().unwrap()[0]["error"]["code"], -32020, "{reply:?}");
    // A body of the newer era under a header of the older one.
    let reply = post(ClientEra::Legacy, &listing, &[]);
    assert!((400..500).contains(&reply.status), "{reply:?}");
    // Without a secret, with a wrong one, under a foreign name.
    let mut stranger = HttpClient::connect(&served.address, None, ClientEra::Modern).unwrap();
    assert_eq!(stranger.post(&listing, &[]).unwrap().status, 401);
    let mut liar = HttpClient::connect(&served.address, Some("rf_nothing"), ClientEra::Modern).unwrap();
    assert_eq!(liar.post(&listing, &[]).unwrap().status, 401);
    let mut page = HttpClient::connect(&served.address, Some(&secret), ClientEra::Modern).unwrap();
    assert_eq!(
        page.post(&listing, &[("Origin", "https://evil.example")])
            .unwrap()
            .status,
        403
    );
    answers(&served.address, &secret);
    assert!(resident_memory(served.pid()).unwrap() < MAX_MEMORY_BYTES);
}

#[test]
fn floods_over_http_are_refused_and_not_held() {
    let setting = serving();
    let (served, secret) = setting.serve_http(&[]);
    let most = thread::scope(|scope| {
        let flood = |chunked| {
            let (address, secret) = (&served.address, &secret);
            scope.spawn(move || flood(address, secret, chunked))
        };
        let floods = [false, true, false, true].map(flood);
        // Half a head, half a body, and a client that does not read: all stay open meanwhile.
        let mut half = HttpClient::connect(&served.address, None, ClientEra::Modern).unwrap();
        half.stream().write_all(b"POST /mcp HTTP/1.1\r\nHost: 127").unwrap();
        let mut cut = HttpClient::connect(&served.address, Some(&secret), ClientEra::Modern).unwrap();
        cut.stream()
            .write_all(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
            .unwrap();
        cut.stream().shutdown(Shutdown::Write).unwrap();
        let mut most = 0;
        for _ in 0..20 {
            answers(&served.address, &secret);
            most = most.max(resident_memory(served.pid()).unwrap());
        }
        assert_eq!(floods.map(|flood| flood.join().unwrap()), [Some(413); 4]);
        most
    });
    assert!(most < MAX_MEMORY_BYTES, "{most}");
    answers(&served.address, &secret);
}

/// Sends 100 MiB to the server, which may close early; returns the status of its answer.
fn flood(address: &str, secret: &str, chunked: bool) -> Option<u16> {
    let mut client = HttpClient::connect(address, Some(secret), ClientEra::Modern).unwrap();
    let length = if chunked {
        "Transfer-Encoding: chunked".to_owned()
    } else {
        format!("Content-Length: {}", 100 * MEBIBYTE)
    };
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n{length}\r\n\r\n"
    );
    client.stream().write_all(head.as_bytes()).unwrap();
    let part = vec![b'['; MEBIBYTE];
    for _ in 0..100 {
        let size = format!("{MEBIBYTE:x}\r\n");
        let sent = if chunked {
            let stream = client.stream();
            stream
                .write_all(size.as_bytes())
                .and_then(|()| stream.write_all(&part))
                .and_then(|()| stream.write_all(b"\r\n"))
        } else {
            client.stream().write_all(&part)
        };
        if sent.is_err() {
            break;
        }
    }
    client.read_reply().ok().map(|reply| reply.status)
}

#[test]
fn killed_in_the_middle_of_32_runs_nothing_is_left_and_the_journal_holds() {
    let setting = serving();
    // Little each, so that the machine has room for all at once.
    let (mut served, secret) = setting.serve_http(&["--set", "proc.mem_limit=64MiB"]);
    let mark = format!("32{}", std::process::id());
    let barrier = Barrier::new(33);
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                let mut client = HttpClient::start(&served.address, Some(&secret), ClientEra::Modern).unwrap();
                barrier.wait();
                // The server dies under the call: there is no answer.
                client
                    .call("sandboxed_code_run", &sum("shell", &format!("sleep {mark}")))
                    .unwrap_err();
            });
        }
        barrier.wait();
        let sleeping = || processes_with(&format!("sleep\0{mark}")).len();
        eventually("all runs are under way", || (sleeping() >= 32).then_some(()));
        kill(served.pid());
    });
    served.wait().unwrap();
    eventually("every sandbox died with the server", || {
        processes_with(&format!("sleep\0{mark}")).is_empty().then_some(())
    });
    let open = open_sessions(&setting);
    assert!(!open.is_empty());
    let lease = open[0]["lease"].as_str().unwrap().to_owned();
    // The next start says what was lost, and puts away what was left.
    let mut next = setting.stdio();
    next.stderr(std::process::Stdio::piped());
    let done = crate::setting::finish(next, &[]);
    assert!(done.stderr.contains("is lost"), "{done:?}");
    assert_eq!(groups_with(&lease), Vec::<std::path::PathBuf>::new());
    assert_eq!(open_sessions(&setting), Vec::<Value>::new());
    let verified = setting.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let id = open[0]["id"].as_str().unwrap();
    let shown = setting.json(&["session", "show", id, "--json"]);
    assert_eq!(shown["state"], "lost", "{shown}");
}

#[test]
fn several_clients_share_one_home_and_one_that_dies_harms_no_other() {
    let setting = serving();
    let start = || StdioClient::start(&mut setting.stdio(), ClientEra::Modern).unwrap();
    let (mut one, mut two, mut doomed) = (start(), start(), start());
    let keep = |text: &str| json!({"language": "shell", "code": format!("printf {text} > note"), "session_id": "work"});
    let read = json!({"language": "shell", "code": "cat note", "session_id": "work"});
    for (client, text) in [(&mut one, "first"), (&mut two, "second")] {
        client.call("sandboxed_code_run", &keep(text)).unwrap();
    }
    let mark = format!("9{}", std::process::id());
    let pid = doomed.pid();
    thread::scope(|scope| {
        let sleeps = sum("shell", &format!("sleep {mark}"));
        scope.spawn(move || doomed.call("sandboxed_code_run", &sleeps).unwrap_err());
        eventually("it runs", || {
            (!processes_with(&format!("sleep\0{mark}")).is_empty()).then_some(())
        });
        kill(pid);
    });
    // A fourth start sweeps after the dead one, and leaves what the living have.
    alive(&mut start());
    assert_eq!(processes_with(&format!("sleep\0{mark}")), Vec::<u32>::new());
    for (client, text) in [(&mut one, "first"), (&mut two, "second")] {
        let called = client.call("sandboxed_code_run", &read).unwrap();
        assert_eq!(structured_content(&called).unwrap()["stdout"], text);
    }
    let verified = setting.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

fn open_sessions(setting: &Setting) -> Vec<Value> {
    let all = setting.json(&["session", "list", "--json"]);
    let open = all.as_array().unwrap().iter().filter(|one| one["state"] == "open");
    open.cloned().collect()
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
