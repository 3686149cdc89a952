//! Python in code mode with a network: the usual clients use the proxy, under the same rules as programs.

use serde_json::json;

use super::allowed;
use super::fetch::run;
use super::world::{Net, enter_internet};
use crate::setting::{Setting, tool};

const URLLIB: &str = r#"
import json, urllib.error, urllib.request, socket, asyncio, os
out = []
def ask(url, **options):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **options), timeout=20) as answer:
            return [answer.status, json.loads(answer.read())["body"]]
    except urllib.error.HTTPError as error:
        return [error.code, json.loads(error.read())["code"]]
    except urllib.error.URLError as error:
        return [type(error.reason).__name__, "403" in str(error.reason)]
out.append(ask("https://allowed.example.com/echo", data=b"tls", method="POST"))
out.append(ask("http://allowed.example.com/echo", data=b"plain"))
out.append(ask("https://api.example.com/echo/1"))
out.append(ask("https://api.example.com/other"))
out.append(ask("http://evil.example.net/"))
out.append(ask("https://evil.example.net/"))
reader, writer = await asyncio.open_connection("127.0.0.1", 3128)
writer.write(b"GET http://allowed.example.com/page HTTP/1.1\r\nHost: allowed.example.com\r\nConnection: close\r\n\r\n")
out.append((await reader.read()).split(b"\r\n\r\n")[1].decode().strip())
try:
    socket.create_connection(("93.184.216.34", 80), 2)
    out.append("dialled")
except OSError as error:
    out.append("not dialled")
try:
    socket.getaddrinfo("allowed.example.com", 443)
except OSError as error:
    out.append("HTTPS_PROXY" in str(error))
for family in (socket.AF_UNIX, socket.AF_NETLINK):
    try:
        socket.socket(family)
        out.append("made")
    except OSError:
        out.append("refused")
out
"#;

#[test]
fn python_in_code_mode_reaches_what_is_allowed_and_nothing_else() {
    if !enter_internet(concat!(
        module_path!(),
        "::python_in_code_mode_reaches_what_is_allowed_and_nothing_else"
    )) {
        return;
    }
    let net = Net::new(|world| world);
    let result = run(&net, &allowed(), "ask.py", URLLIB);
    let wanted = json!([
        [200, "tls"],
        [200, "plain"],
        [200, ""],
        [403, "net.denied"],
        [403, "net.denied"],
        ["OSError", true],
        "allowed.example.com 93.184.216.34",
        "not dialled",
        true,
        "refused",
        "refused",
    ]);
    assert_eq!(result["value"], wanted, "{result:#}");
    assert_eq!(result["violations"].as_array().map(Vec::len), Some(3), "{result:#}");
    assert!(result["usage"]["egress_bytes"].as_u64() > Some(0), "{result:#}");
    net.check_nobody_strayed();
}

const REQUESTS: &str = r#"
import requests
session = requests.Session()
answers = [session.get("https://api.example.com/echo/%d" % number, timeout=20).json()["path"] for number in range(3)]
[requests.post("https://allowed.example.com/echo", json={"a": 1}, timeout=20).json()["body"], answers]
"#;

#[test]
fn requests_work_in_code_mode() {
    if !enter_internet(concat!(module_path!(), "::requests_work_in_code_mode")) {
        return;
    }
    let Some(requests) = tool("requests") else { return };
    let net = Net::new(|world| world);
    let mut policy = allowed();
    policy["fs"] = json!({ "mounts": [{ "path": "/deps", "access": "ro", "from": requests }] });
    let result = run(&net, &policy, "requests.py", REQUESTS);
    let wanted = json!(["{\"a\": 1}", ["/echo/0", "/echo/1", "/echo/2"]]);
    assert_eq!(result["value"], wanted, "{result:#}");
    net.check_nobody_strayed();
}

#[test]
fn python_without_a_network_is_told_the_key() {
    let setting = Setting::new();
    setting.write(
        "closed.py",
        "import socket, urllib.request\nfound = []\n\
         for act in (lambda: socket.socket(), lambda: urllib.request.urlopen('https://example.com/'), lambda: urllib.request.urlopen('http://127.0.0.1:3128/')):\n    \
             try:\n        act()\n        found.append('done')\n    except OSError as error:\n        found.append('net.enabled' in str(error))\nfound",
    );
    let result = setting.json(&["run", "--json", "closed.py"]);
    assert_eq!(result["value"], json!([true, true, true]), "{result:#}");
}
