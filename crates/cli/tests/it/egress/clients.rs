//! HTTP client libraries: Python's requests, Node's fetch, and a WebSocket written by hand.

use serde_json::{Value, json};

use super::allowed;
use super::world::{self, Net, enter_internet};
use crate::setting::tool;

/// The policy with a folder of the machine shown at `at`, and variables.
fn with(mut policy: Value, at: &str, from: &std::path::Path, env: Value) -> Value {
    policy["fs"] = json!({ "mounts": [{ "path": at, "access": "ro", "from": from }] });
    policy["env"] = env;
    policy
}

const REQUESTS: &str = r#"
import requests
answer = requests.get("https://allowed.example.com/echo", headers={"X-Own": "1"}, timeout=20)
print(answer.status_code, answer.json()["host"], answer.json()["method"])
answer = requests.post("http://allowed.example.com/echo", json={"a": 1}, timeout=20)
print(answer.status_code, answer.json()["body"])
session = requests.Session()
print([session.get("https://api.example.com/echo/%d" % number, timeout=20).json()["path"] for number in range(3)])
answer = requests.get("http://evil.example.net/", timeout=20)
print(answer.status_code, answer.json()["code"])
try:
    requests.get("https://evil.example.net/", timeout=20)
except requests.exceptions.ProxyError as error:
    print("403" in str(error))
"#;

#[test]
fn python_requests_works_and_is_refused() {
    if !enter_internet(concat!(module_path!(), "::python_requests_works_and_is_refused")) {
        return;
    }
    let Some(requests) = tool("requests") else { return };
    let net = Net::new(|world| world);
    let policy = with(allowed(), "/deps", &requests, json!({ "PYTHONPATH": "/deps" }));
    let result = net.exec(&policy, &["python3", "-c", REQUESTS]);
    let wanted =
        "200 allowed.example.com GET\n200 {\"a\": 1}\n['/echo/0', '/echo/1', '/echo/2']\n403 net.denied\nTrue\n";
    assert_eq!(result["stdout"], wanted, "{result}");
    assert_eq!(result["violations"].as_array().map(Vec::len), Some(2), "{result}");
    net.check_nobody_strayed();
}

const FETCH: &str = r#"
const first = await fetch("https://allowed.example.com/echo", { method: "POST", body: "hello" });
console.log(first.status, (await first.json()).body);
const many = await Promise.all([1, 2, 3].map(n => fetch(`https://api.example.com/echo/${n}`).then(a => a.json())));
console.log(many.map(one => one.path).join(" "));
const plain = await fetch("http://allowed.example.com/page");
console.log((await plain.text()).trim());
try {
    await fetch("https://evil.example.net/");
    console.log("let through");
} catch (error) {
    console.log("refused");
}
"#;

#[test]
fn fetch_of_node_works_and_is_refused() {
    if !enter_internet(concat!(module_path!(), "::fetch_of_node_works_and_is_refused")) {
        return;
    }
    let arch = if std::env::consts::ARCH == "aarch64" {
        "arm64"
    } else {
        "x64"
    };
    let Some(node) = tool(&format!("mcp/node_modules/node-linux-{arch}")) else {
        return;
    };
    let net = Net::new(|world| world);
    let policy = with(allowed(), "/node", &node, json!({}));
    // Its parser of answers is WebAssembly, which wants ten gigabytes of addresses unless it is told otherwise: more than an
    // ordinary user's memory limit has where no control group holds it.
    let result = net.exec(
        &policy,
        &[
            "/node/bin/node",
            "--disable-wasm-trap-handler",
            "--input-type=module",
            "-e",
            FETCH,
        ],
    );
    let wanted = "200 hello\n/echo/1 /echo/2 /echo/3\nallowed.example.com 93.184.216.34\nrefused\n";
    assert_eq!(result["stdout"], wanted, "{result}");
    net.check_nobody_strayed();
}

const SOCKET: &str = r#"
import base64, os, socket, ssl, sys
def talk(stream, host):
    key = base64.b64encode(os.urandom(16)).decode()
    stream.sendall(("GET /ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n" % (host, key)).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = stream.recv(4096)
        if not piece: break
        head += piece
    print(head.split(b"\r\n")[0].decode())
    if b" 101 " not in head: return
    for number in range(3):
        data = b"word %d" % number
        mask = b"\1\2\3\4"
        stream.sendall(bytes([0x81, 0x80 | len(data)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))
        frame = b""
        while len(frame) < 2 + len(data): frame += stream.recv(100)
        print(frame[2:].decode())
def tunnel(target):
    stream = socket.create_connection(("127.0.0.1", 3128), 20)
    stream.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target)).encode())
    answer = stream.recv(4096)
    assert b" 200 " in answer, answer
    return stream
for host in sys.argv[1:]:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    talk(context.wrap_socket(tunnel(host + ":443"), server_hostname=host), host)
talk(tunnel(sys.argv[1] + ":80"), sys.argv[1])
"#;

#[test]
fn a_websocket_goes_through_tls_plain_and_where_requests_are_read() {
    if !enter_internet(concat!(
        module_path!(),
        "::a_websocket_goes_through_tls_plain_and_where_requests_are_read"
    )) {
        return;
    }
    let net = Net::new(|world| world);
    let policy = world::policy(&json!({
        "enabled": true,
        "allowlist": [
            "allowed.example.com",
            { "host": "allowed.example.com", "scheme": "http" },
            { "host": "api.example.com", "methods": ["GET"], "paths": ["/ws"] },
        ],
    }));
    let result = net.exec(
        &policy,
        &["python3", "-c", SOCKET, "allowed.example.com", "api.example.com"],
    );
    let one = "HTTP/1.1 101 Switching Protocols\nword 0\nword 1\nword 2\n";
    assert_eq!(result["stdout"], one.repeat(3), "{result}");
    net.check_nobody_strayed();
}
