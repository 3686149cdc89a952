//! Tests of unsolicited messages, over either transport: floods end, changed tools are listed before the next call.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_gateway::UpstreamCallError;
use serde_json::{Value, json};

use crate::harness::bench;

/// A small server: `lines` over its standard streams, `http` with its answer as an event stream.
const SERVER: &str = r#"
import json, sys, http.server
described = "Before."
TELL = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
NOISE = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
def tool(name):
    return {"name": name, "title": "One", "annotations": {"title": described}, "description": described, "inputSchema": {"type": "object"}}
def answer(asked):
    global described
    method, answer = asked["method"], {"jsonrpc": "2.0", "id": asked["id"]}
    text = None
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [tool(name) for name in ["echo", "change", "deep", "flood"]]}
    elif method == "tools/call" and asked["params"]["name"] == "change":
        described = "After."
        answer["result"] = {"content": [{"type": "text", "text": "done"}]}
        text = [TELL, json.dumps(answer)]
    elif method == "tools/call" and asked["params"]["name"] == "deep":
        deep = "[" * 1000 + "]" * 1000
        text = ['{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":%s}}}' % (asked["id"], deep)]
    elif method == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": "fine"}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    return text or [json.dumps(answer)]
class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        self.send_response(405); self.send_header("Content-Length", "0"); self.end_headers()
    do_DELETE = do_GET
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in asked:
            self.send_response(202); self.send_header("Content-Length", "0"); self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream"); self.send_header("Connection", "close")
        self.end_headers()
        if asked.get("params", {}).get("name") == "flood":
            while True: self.wfile.write(("data: " + NOISE + "\n\n").encode() * 100)
        for text in answer(asked): self.wfile.write(("data: " + text + "\n\n").encode())
        self.close_connection = True
if sys.argv[1] == "http":
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    print(web.server_port, flush=True)
    web.serve_forever()
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        for text in answer(asked): print(text, flush=True)
"#;

/// The server over HTTP, killed when dropped.
struct Web(Child, u16);

impl Web {
    fn start() -> Web {
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", SERVER, "http"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Web(child, line.trim().parse().unwrap())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn entries(web: &Web) -> Value {
    json!({
        "lines": {"command": "/usr/bin/python3", "args": ["-c", SERVER, "lines"]},
        "web": {"url": format!("http://127.0.0.1:{}/mcp", web.1)},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_that_sends_events_without_end_is_cut_off() {
    let web = Web::start();
    let bench = bench(&entries(&web));
    bench.upstreams.ensure_connected("web").await.unwrap();
    let start = Instant::now();
    let error = bench
        .call_within("web", "flood", json!({}), Duration::from_mins(1))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, UpstreamCallError::Lost { .. })
            && text.contains("it floods us with messages that nobody asked for"),
        "{text}"
    );
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(bench.value("web", "echo", json!({})).await, json!("fine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_changed_before_an_answer_are_listed_before_the_next_call() {
    let web = Web::start();
    let bench = bench(&entries(&web));
    for server in ["lines", "web"] {
        bench.upstreams.ensure_connected(server).await.unwrap();
        let name = format!("{server}.echo");
        let before = bench.upstreams.snapshot().catalog.get(&name).unwrap().clone();
        bench.upstreams.pin(&before).unwrap();
        assert_eq!(bench.value(server, "change", json!({})).await, json!("done"));
        // A tool that was looked up before is not called with a changed definition.
        let refused = bench.call(server, "echo", json!({})).await.unwrap_err();
        assert!(
            matches!(refused, UpstreamCallError::Changed { .. }),
            "{server}: {refused}"
        );
        bench.upstreams.ensure_connected(server).await.unwrap();
        let known = bench.upstreams.snapshot();
        let after = known.catalog.get(&name).unwrap();
        assert_eq!(after.definition.description, "After.", "{server}");
        assert_eq!(after.definition.title.as_deref(), Some("One / After."), "{server}");
        assert_eq!(bench.value(server, "echo", json!({})).await, json!("fine"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_nested_too_deeply_is_told_as_our_limit() {
    let web = Web::start();
    let bench = bench(&entries(&web));
    for server in ["lines", "web"] {
        let error = bench.call(server, "deep", json!({})).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("server `{server}`: the result of `deep` is nested too deeply: 127 levels are read")
        );
    }
}
