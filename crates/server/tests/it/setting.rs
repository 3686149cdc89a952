//! An engine in its own folder, a small tool server, and the MCP service over both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{Engine, EngineConfig, RunProgram, RunRequest, ServeConfig};
use ringfence_gateway::{Credentials, Servers};
use ringfence_journal::Principal;
use ringfence_policy::{Ceiling, Draft};
use ringfence_server::{McpOptions, McpService, ServeError, serve_streams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::Client;

pub(crate) const ME: Principal = Principal::Local(1);

/// A tool server with tools that greet, fail, wait, and return much text.
const SERVER: &str = r#"
import json, sys, time
def tool(called, says, output=None, **properties):
    made = {"name": called, "description": says, "inputSchema": {"type": "object", "properties": properties}}
    if output: made["outputSchema"] = {"type": "object", "properties": output}
    return made
TEXT = {"type": "string"}
TOOLS = [
    tool("hello", "Greets somebody by name.", {"greeting": TEXT}, name=TEXT),
    tool("fail", "Always fails."),
    tool("delete_all", "Deletes everything."),
    tool("much", "Says very much."),
    tool("slow", "Takes a minute."),
]
def call(name, args):
    if name == "hello":
        said = {"greeting": "hello " + args.get("name", "you")}
        return {"content": [{"type": "text", "text": json.dumps(said)}], "structuredContent": said}
    if name == "much":
        return {"content": [{"type": "text", "text": "word " * 20000}]}
    if name == "slow":
        time.sleep(60)
    return {"isError": True, "content": [{"type": "text", "text": "no luck today"}]}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    method, params = asked.get("method"), asked.get("params", {})
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "small", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": TOOLS}
    elif method == "tools/call":
        answer["result"] = call(params["name"], params.get("arguments") or {})
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;

/// An engine, and the resources that it needs.
pub(crate) struct Setting {
    pub(crate) engine: Arc<Engine>,
    pub(crate) mcp: McpService,
    _home: TempDir,
}

impl Setting {
    /// A setting without tool servers.
    pub(crate) async fn new() -> Setting {
        Setting::made(&json!({}), &[], &[]).await
    }

    /// A setting with a tool server `small`. Every call but deleting is allowed, and `direct` names the exposed tools.
    pub(crate) async fn with_tools(direct: &[&str]) -> Setting {
        let servers = json!({ "small": { "command": "/usr/bin/python3", "args": ["server.py"] } });
        let rules = ("tools.rules", "[{ allow: 'small.*' }, { deny: 'small.delete_*' }]");
        Setting::made(&servers, &[rules], direct).await
    }

    /// A setting with the same tool server under the given rules.
    pub(crate) async fn ruled(rules: &str) -> Setting {
        let servers = json!({ "small": { "command": "/usr/bin/python3", "args": ["server.py"] } });
        Setting::made(&servers, &[("tools.rules", rules)], &[]).await
    }

    /// A setting with the same tool server whose calls all need approval; `by` names who may answer.
    pub(crate) async fn asking(by: &str, direct: &[&str]) -> Setting {
        let servers = json!({ "small": { "command": "/usr/bin/python3", "args": ["server.py"] } });
        let rules = [("tools.rules", "[{ ask: 'small.*' }]"), ("approvals.by", by)];
        Setting::made(&servers, &rules, direct).await
    }

    /// A setting without tools, in which only code on the engines may run.
    pub(crate) async fn without_programs() -> Setting {
        Setting::made(&json!({}), &[("proc.programs", "none")], &[]).await
    }

    async fn made(servers: &Value, policy: &[(&str, &str)], direct: &[&str]) -> Setting {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("server.py"), SERVER).unwrap();
        let servers = servers
            .to_string()
            .replace("server.py", home.path().join("server.py").to_str().unwrap());
        let servers = Servers::from_section(&serde_json::from_str(&servers).unwrap(), home.path()).unwrap();
        let draft = policy
            .iter()
            .fold(Draft::builtin(), |draft, (key, value)| draft.set(key, value).unwrap());
        let policy = Arc::new(draft.under(&Ceiling::unlimited()).unwrap());
        let front = ServeConfig {
            ceiling: Ceiling::from_policy(&policy),
            policy: Arc::clone(&policy),
            idle: Duration::from_mins(10),
            warm: 1,
            budget: ringfence_engine::BudgetOverrides::default(),
        };
        let settings = EngineConfig {
            home: home.path().to_owned(),
            sinks: Vec::new(),
            principal: ME,
            python: None,
            servers,
            server_policies: BTreeMap::new(),
            credentials: Credentials::default(),
            checkers: ringfence_engine::CheckerTools::default(),
            environment: Arc::new(|_| None),
            serve: Some(front),
        };
        let engine = Engine::open_for_serving(settings).await.unwrap();
        let direct = direct.iter().map(|pattern| pattern.parse().unwrap()).collect();
        let mcp = McpService::new(Arc::clone(&engine), McpOptions { policy, direct });
        Setting {
            engine,
            mcp,
            _home: home,
        }
    }

    /// Opens a connection for `who`, and returns the client's end.
    pub(crate) fn open(&self, who: Principal) -> (DuplexStream, JoinHandle<Result<(), ServeError>>) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let mcp = self.mcp.clone();
        let served = tokio::spawn(async move {
            let (read, write) = tokio::io::split(theirs);
            serve_streams(&mcp, who, (read, write), CancellationToken::new()).await
        });
        (ours, served)
    }

    /// A client of the older era that has completed its handshake.
    pub(crate) async fn client(&self) -> Client {
        self.client_of(ME).await
    }

    pub(crate) async fn client_of(&self, who: Principal) -> Client {
        let (stream, served) = self.open(who);
        let mut client = Client::new(stream, served);
        client.hello().await;
        client
    }
}

/// A request to the engine to run a shell script.
pub(crate) fn shell(source: &str) -> RunRequest {
    RunRequest {
        args: Vec::new(),
        stdin: None,
        program: RunProgram::Shell {
            file_name: "script".to_owned(),
            source: source.to_owned(),
        },
        files: Vec::new(),
        session: None,
        draft: None,
        timeout: None,
        trace: None,
    }
}
