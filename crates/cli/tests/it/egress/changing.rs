//! Resources that disappear during use: a host that a `fetch` waits for, a tool server in the middle of a call.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ringfence_testkit::front_clients::{ClientEra, HttpClient, ServedProgram};
use ringfence_testkit::internet::{SiteAnswer, SiteHandler, SiteRequest};
use serde_json::{Value, json};

use super::allowed;
use super::servers::with_server;
use super::world::{Net, enter_internet};

const TEST_TIMEOUT: Duration = Duration::from_secs(40);

/// A site whose page `/held` says when it is asked for, and is answered when the test lets it.
struct Held {
    asked: mpsc::Receiver<()>,
    answer: mpsc::Sender<()>,
}

fn held() -> (Held, SiteHandler) {
    let ((say, asked), (answer, let_go)) = (mpsc::channel(), mpsc::channel::<()>());
    let ends = Mutex::new((say, let_go));
    let site: SiteHandler = Arc::new(move |request: &SiteRequest| {
        (request.path == "/held").then(|| {
            let ends = ends.lock().unwrap();
            ends.0.send(()).unwrap();
            // The test may be over.
            let _ = ends.1.recv_timeout(TEST_TIMEOUT);
            SiteAnswer::ok("text/plain", "late")
        })
    });
    (Held { asked, answer }, site)
}

/// A server of this internet, and the secrets of an agent and an operator.
struct Server {
    served: ServedProgram,
    secrets: [String; 2],
}

impl Server {
    fn start(net: &Net, more: &[&str]) -> Server {
        let secret = |scope: &str| {
            let made = net.ringfence(&["token", "create", "--name", scope, "--scope", scope]);
            made.stdout.trim().to_owned()
        };
        let secrets = ["agent", "operator"].map(secret);
        let words = ["serve", "--listen", "127.0.0.1:0", "--policy", "policy.json"];
        let words: Vec<&str> = words.iter().chain(more).copied().collect();
        Server {
            served: ServedProgram::start(&mut net.command(&words)).unwrap(),
            secrets,
        }
    }

    fn ask(&self, secret: usize, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut client = HttpClient::connect(&self.served.address, None, ClientEra::Legacy).unwrap();
        let headers = [
            ("Content-Type", "application/json".to_owned()),
            ("Authorization", format!("Bearer {}", self.secrets[secret])),
        ];
        let reply = client
            .send(method, path, &headers, body.to_string().as_bytes())
            .unwrap();
        (reply.status, serde_json::from_slice(&reply.body).unwrap_or_default())
    }

    fn begin(&self, code: &str) -> Value {
        let ask = json!({ "language": "javascript", "code": code });
        let (status, begun) = self.ask(0, "POST", "/api/v1/runs?wait=0", &ask);
        assert_eq!(status, 202, "{begun}");
        begun
    }

    fn ended(&self, run: &Value) -> Value {
        let path = format!("/api/v1/runs/{}?wait=40", run["execution_id"].as_str().unwrap());
        let (status, ended) = self.ask(0, "GET", &path, &Value::Null);
        assert_eq!(status, 200, "{ended}");
        ended
    }
}

const FETCH: &str = r#"
let told = "it came";
try { await fetch("https://allowed.example.com/held") } catch (error) { told = [error.code, error.rule] }
told
"#;

#[test]
fn a_fetch_under_way_is_closed_by_a_rule_and_told_which() {
    if !enter_internet(concat!(
        module_path!(),
        "::a_fetch_under_way_is_closed_by_a_rule_and_told_which"
    )) {
        return;
    }
    let (held, site) = held();
    let net = Net::new(|world| world.with_site(site));
    net.setting.write("policy.json", allowed().to_string());
    let server = Server::start(&net, &[]);
    let run = server.begin(FETCH);
    held.asked.recv_timeout(TEST_TIMEOUT).unwrap();
    let path = format!("/api/v1/sessions/{}/policy", run["session_id"].as_str().unwrap());
    let narrower = json!({ "net": { "enabled": true, "denylist": ["allowed.example.com"] } });
    let (status, changed) = server.ask(1, "PUT", &path, &narrower);
    assert_eq!(status, 200, "{changed}");
    let ended = server.ended(&run);
    assert_eq!(ended["value"][0], "net.denied", "{ended:#}");
    assert!(
        ended["value"][1].as_str().unwrap().starts_with("net.denylist["),
        "{ended:#}"
    );
    held.answer.send(()).unwrap();
}

const CALLS: &str = r#"
const told = [];
for (const page of ["held", "page"]) {
    try { told.push((await tools.web.ask({ url: `http://allowed.example.com/${page}` })).trim()) }
    catch (error) { told.push([error.code, error.message]) }
}
told
"#;

#[test]
fn a_call_ends_with_its_servers_session_and_the_next_one_starts_it_anew() {
    if !enter_internet(concat!(
        module_path!(),
        "::a_call_ends_with_its_servers_session_and_the_next_one_starts_it_anew"
    )) {
        return;
    }
    let (held, site) = held();
    let opened = json!({ "enabled": true, "allowlist": [{ "host": "allowed.example.com", "scheme": "http" }] });
    let net = with_server(&opened, |world| world.with_site(site));
    let server = Server::start(&net, &["--servers", "servers.json"]);
    let run = server.begin(CALLS);
    held.asked.recv_timeout(TEST_TIMEOUT).unwrap();
    // The session in which its server's connections are written down.
    let events = net.ringfence(&["audit", "export"]).stdout;
    let crossed = events
        .lines()
        .find(|line| line.contains("\"kind\":\"egress_started\""))
        .unwrap();
    let crossed: Value = serde_json::from_str(crossed).unwrap();
    let session = crossed["session"]
        .as_str()
        .or_else(|| crossed["event"]["session"].as_str())
        .unwrap();
    assert_ne!(session, run["session_id"]);
    let stopped = net.ringfence(&["session", "stop", session]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let ended = server.ended(&run);
    let told = &ended["value"];
    assert_eq!(told[0][0], "tool.unknown_effect", "{ended:#}");
    assert!(
        told[0][1]
            .as_str()
            .unwrap()
            .starts_with("server `web`: the connection ended"),
        "{ended:#}"
    );
    assert_eq!(told[1], "allowed.example.com 93.184.216.34", "{ended:#}");
    held.answer.send(()).unwrap();
}
