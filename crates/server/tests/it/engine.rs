//! What the tests of both front doors stand on: an engine that serves from a folder of its own, and small tool servers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{BudgetOverrides, CheckerTools, Engine, EngineConfig, ServeConfig};
use ringfence_gateway::{Credentials, Servers};
use ringfence_journal::Principal;
use ringfence_policy::{Ceiling, Policy};
use serde_json::json;

/// The principal of the machine itself.
pub(crate) const ME: Principal = Principal::Local(1);

/// Opens an engine in `home` that serves under `policy`; drafts stay under `ceiling`.
pub(crate) async fn serving_engine(
    home: &Path,
    servers: Servers,
    policy: &Arc<Policy>,
    ceiling: Ceiling,
) -> Arc<Engine> {
    let serve = ServeConfig {
        ceiling,
        policy: Arc::clone(policy),
        idle: Duration::from_mins(10),
        warm: 1,
        budget: BudgetOverrides::default(),
    };
    let config = EngineConfig {
        home: home.to_owned(),
        sinks: Vec::new(),
        principal: ME,
        python: None,
        servers,
        server_policies: BTreeMap::new(),
        credentials: Credentials::default(),
        checkers: CheckerTools::default(),
        environment: Arc::new(|_| None),
        serve: Some(serve),
    };
    Engine::open_for_serving(config).await.unwrap()
}

/// A tool server in Python, written into `home`. `source` defines its `TOOLS` and `call(name, args)`, which returns a result.
pub(crate) fn python_server(home: &Path, name: &str, source: &str) -> Servers {
    let path = home.join("server.py");
    let source = format!("import json, sys, time\n{source}\n{}", SERVE.replace("NAME", name));
    std::fs::write(&path, source).unwrap();
    let section = json!({ name: { "command": "/usr/bin/python3", "args": [path] } });
    Servers::from_section(&section, home).unwrap()
}

const SERVE: &str = r#"
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    method, params = asked.get("method"), asked.get("params", {})
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "NAME", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": TOOLS}
    elif method == "tools/call":
        answer["result"] = call(params["name"], params.get("arguments") or {})
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;
