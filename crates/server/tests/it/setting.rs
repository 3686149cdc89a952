//! An engine in its own folder, a small tool server, and the MCP service over both.

use std::sync::Arc;

use ringfence_engine::{Engine, RunProgram, RunRequest};
use ringfence_gateway::Servers;
use ringfence_journal::Principal;
use ringfence_policy::{Ceiling, Draft};
use ringfence_server::{McpOptions, McpService, ServeError, serve_streams};
use tempfile::TempDir;
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
pub(crate) use crate::engine::ME;
use crate::engine::{python_server, serving_engine};

/// Tools that greet, fail, wait, and return much text.
const SERVER: &str = r#"
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
        Setting::made(None, &[], &[]).await
    }

    /// A setting with a tool server `small`. Every call but deleting is allowed, and `direct` names the exposed tools.
    pub(crate) async fn with_tools(direct: &[&str]) -> Setting {
        let rules = ("tools.rules", "[{ allow: 'small.*' }, { deny: 'small.delete_*' }]");
        Setting::made(Some(SERVER), &[rules], direct).await
    }

    /// A setting with the same tool server under the given rules.
    pub(crate) async fn ruled(rules: &str) -> Setting {
        Setting::made(Some(SERVER), &[("tools.rules", rules)], &[]).await
    }

    /// A setting with the same tool server whose calls all need approval; `by` names who may answer.
    pub(crate) async fn asking(by: &str, direct: &[&str]) -> Setting {
        let rules = [("tools.rules", "[{ ask: 'small.*' }]"), ("approvals.by", by)];
        Setting::made(Some(SERVER), &rules, direct).await
    }

    /// A setting without tools, in which only code on the engines may run.
    pub(crate) async fn without_programs() -> Setting {
        Setting::made(None, &[("proc.programs", "none")], &[]).await
    }

    async fn made(tools: Option<&str>, policy: &[(&str, &str)], direct: &[&str]) -> Setting {
        let home = tempfile::tempdir().unwrap();
        let servers = tools.map_or_else(Servers::default, |source| python_server(home.path(), "small", source));
        let draft = policy
            .iter()
            .fold(Draft::builtin(), |draft, (key, value)| draft.set(key, value).unwrap());
        let policy = Arc::new(draft.under(&Ceiling::unlimited()).unwrap());
        let engine = serving_engine(home.path(), servers, &policy, Ceiling::from_policy(&policy)).await;
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
            serve_streams(&mcp, who, read, write, CancellationToken::new()).await
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
