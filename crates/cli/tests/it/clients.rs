//! Clients of other projects over both transports, standard input and output and HTTP: the protocol's inspector, Claude
//! Code and `OpenCode`. The agents talk to a scripted model on this machine.

use std::path::PathBuf;
use std::process::Command;

use ringfence_testkit::front_clients::ServedProgram;
use ringfence_testkit::model::{ModelTurn, ScriptedModel};
use serde_json::{Value, json};

use crate::serving::{Door, serve_stdio, serving};
use crate::setting::{Done, Setting, finish, tool};

pub(crate) fn arch() -> &'static str {
    if std::env::consts::ARCH == "aarch64" {
        "arm64"
    } else {
        "x64"
    }
}

/// The Node.js that the client programs run on.
pub(crate) fn node() -> Option<PathBuf> {
    tool(&format!("mcp/node_modules/node-linux-{}/bin/node", arch()))
}

/// Runs `act` over both transports, each with a setting of its own.
fn doors(act: impl Fn(&Setting, &Door)) {
    doors_under(serving, act);
}

/// Runs `act` over both transports, each with a setting that `make` creates.
pub(crate) fn doors_under(make: impl Fn() -> Setting, act: impl Fn(&Setting, &Door)) {
    let setting = make();
    act(&setting, &Door::Stdio(serve_stdio(&setting)));
    let setting = make();
    let (server, secret) = setting.serve_http(&[]);
    act(&setting, &Door::Http(server.url(), secret));
    drop::<ServedProgram>(server);
}

/// The inspector's answer to one request.
fn inspect(setting: &Setting, door: &Door, era: &str, args: &[&str]) -> Option<Done> {
    let node = node()?;
    let script = tool("mcp/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")?;
    let mut inspector = Command::new(node);
    inspector
        .arg(script)
        .args(["--cli", "--protocol-era", era, "--format", "json"]);
    inspector.args(args);
    let entry = match door {
        Door::Stdio(server) => {
            json!({"type": "stdio", "command": server.command, "args": server.args, "env": server.env})
        }
        Door::Http(url, secret) => {
            json!({"type": "streamable-http", "url": url, "headers": {"Authorization": format!("Bearer {secret}")}})
        }
    };
    let config = setting.write(
        "inspector.json",
        json!({"mcpServers": {"ringfence": entry}}).to_string(),
    );
    inspector.arg("--config").arg(config).args(["--server", "ringfence"]);
    inspector
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", setting.path("user"));
    inspector.current_dir(setting.work());
    inspector.stdin(std::process::Stdio::null());
    inspector
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    Some(finish(inspector, &[]))
}

#[test]
fn the_inspector_lists_and_calls_in_both_eras() {
    doors(|setting, door| {
        for era in ["legacy", "modern"] {
            let list = ["--method", "tools/list", "--strict"];
            let Some(listed) = inspect(setting, door, era, &list) else {
                return;
            };
            assert_eq!(listed.code, Some(0), "{door:?} {era}: {listed:?}");
            for name in [
                "search_tools",
                "list_tools",
                "describe_tools",
                "sandboxed_code_run",
                "wait_run",
            ] {
                assert!(
                    listed.stdout.contains(&format!("\"{name}\"")),
                    "{door:?} {era}: {listed:?}"
                );
            }
            let call = [
                "--method",
                "tools/call",
                "--tool-name",
                "sandboxed_code_run",
                "--tool-arg",
                "code=20+22",
                "language=javascript",
            ];
            let called = inspect(setting, door, era, &call).unwrap();
            assert_eq!(called.code, Some(0), "{door:?} {era}: {called:?}");
            let answer: Value = serde_json::from_str(&called.stdout).unwrap_or_else(|_| panic!("{called:?}"));
            let value = answer
                .pointer("/structuredContent/value")
                .or_else(|| answer.pointer("/result/structuredContent/value"));
            assert_eq!(value, Some(&json!(42)), "{door:?} {era}: {answer}");
            let unknown = inspect(
                setting,
                door,
                era,
                &["--method", "tools/call", "--tool-name", "no_such_tool"],
            )
            .unwrap();
            assert_ne!(unknown.code, Some(0), "{door:?} {era}: {unknown:?}");
        }
    });
}

/// The actions of the scripted model: search for a tool, run a program, run a shell command.
fn script() -> Vec<ModelTurn> {
    let call = |tool: &str, input: Value| ModelTurn::Call {
        tool: tool.to_owned(),
        input,
    };
    let program = "const all = await tools.company.list_customers({}); JSON.stringify(all).length > 2";
    vec![
        call("search_tools", json!({"intents": ["list customers"]})),
        call("sandboxed_code_run", json!({"language": "typescript", "code": program})),
        call(
            "sandboxed_code_run",
            json!({"language": "shell", "code": "echo from-the-$((40 + 2))-shell"}),
        ),
        ModelTurn::Say("done".to_owned()),
    ]
}

/// Checks that the agent saw the tools and that their answers reached its model.
#[track_caller]
fn check(agent: &str, door: &Door, model: &ScriptedModel, done: &Done) {
    let results = model.results();
    assert_eq!(done.code, Some(0), "{agent} {door:?}: {done:?}\n{results:?}");
    let [found, ran, shell] = results.as_slice() else {
        panic!("{agent} {door:?}: {} results\n{results:?}\n{done:?}", results.len());
    };
    assert!(found.contains("company.list_customers"), "{agent} {door:?}: {found}");
    assert!(
        ran.contains("true") && ran.contains("completed"),
        "{agent} {door:?}: {ran}"
    );
    assert!(shell.contains("from-the-42-shell"), "{agent} {door:?}: {shell}");
}

fn claude(setting: &Setting, door: &Door) {
    let Some(program) = tool(&format!(
        "agents/node_modules/@anthropic-ai/claude-code-linux-{}/claude",
        arch()
    )) else {
        return;
    };
    let model = ScriptedModel::start(script()).unwrap();
    let entry = match door {
        Door::Stdio(server) => {
            json!({"type": "stdio", "command": server.command, "args": server.args, "env": server.env, "alwaysLoad": true})
        }
        Door::Http(url, secret) => {
            json!({"type": "http", "url": url, "headers": {"Authorization": format!("Bearer {secret}")}, "alwaysLoad": true})
        }
    };
    let config = setting.write("claude.json", json!({"mcpServers": {"ringfence": entry}}).to_string());
    let mut claude = Command::new(program);
    claude.args([
        "-p",
        "List the customers.",
        "--output-format",
        "stream-json",
        "--verbose",
    ]);
    claude.args([
        "--dangerously-skip-permissions",
        "--setting-sources",
        "",
        "--strict-mcp-config",
    ]);
    claude.args(["--max-turns", "8", "--mcp-config"]).arg(config);
    claude
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", setting.path("user"));
    claude
        .env("LANG", "C.UTF-8")
        .env("NO_PROXY", "127.0.0.1,localhost")
        .env("IS_SANDBOX", "1");
    claude
        .env("ANTHROPIC_BASE_URL", &model.url)
        .env("ANTHROPIC_API_KEY", "sk-nothing");
    claude
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("CLAUDE_CODE_MAX_RETRIES", "1");
    check("claude", door, &model, &agent(setting, claude));
}

fn opencode(setting: &Setting, door: &Door) {
    let Some(program) = tool(&format!("agents/node_modules/opencode-linux-{}/bin/opencode", arch())) else {
        return;
    };
    let model = ScriptedModel::start(script()).unwrap();
    let entry = match door {
        Door::Stdio(server) => {
            let command: Vec<&String> = std::iter::once(&server.command).chain(&server.args).collect();
            json!({"type": "local", "command": command, "environment": server.env, "enabled": true})
        }
        Door::Http(url, secret) => json!({"type": "remote", "url": url, "enabled": true, "oauth": false,
            "headers": {"Authorization": format!("Bearer {secret}")}}),
    };
    let config = json!({
        "autoupdate": false, "share": "disabled", "lsp": false, "formatter": false, "snapshot": false,
        "enabled_providers": ["gw"], "model": "gw/one", "small_model": "gw/one", "permission": "allow",
        "provider": {"gw": {"npm": "@ai-sdk/anthropic", "options": {"baseURL": format!("{}/v1", model.url), "apiKey": "sk-nothing"},
            "models": {"one": {"tool_call": true, "limit": {"context": 200_000, "output": 8192}}}}},
        "mcp": {"ringfence": entry},
    });
    let mut opencode = Command::new(program);
    opencode.args(["run", "--pure", "--format", "json", "--auto", "List the customers."]);
    opencode
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", setting.path("user"));
    opencode
        .env("OPENCODE_CONFIG_CONTENT", config.to_string())
        .env("OPENCODE_DISABLE_PROJECT_CONFIG", "1");
    for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
        opencode.env(format!("OPENCODE_DISABLE_{name}"), "1");
    }
    check("opencode", door, &model, &agent(setting, opencode));
}

fn agent(setting: &Setting, mut agent: Command) -> Done {
    std::fs::create_dir_all(setting.path("user")).unwrap();
    agent.current_dir(setting.work()).stdin(std::process::Stdio::null());
    agent
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    finish(agent, &[])
}

#[test]
fn claude_code_searches_and_runs_code() {
    doors(claude);
}

#[test]
fn opencode_searches_and_runs_code() {
    doors(opencode);
}
