//! Programs that do not match the types of their tools are refused with the locations, and call nothing.

use std::fs;

use serde_json::{Value, json};

use crate::setting::{Setting, tool};
use crate::tools::SERVER;

/// A server that notes each call of its tools in a file, and a checker that the configuration names.
fn setting(key: &str, checker: &str) -> Option<Setting> {
    let checker = tool(checker)?;
    let setting = Setting::new();
    let log = setting.work().join("called").display().to_string();
    let noting = format!("def call(name, args):\n    open({log:?}, 'a').write(name + '\\n')\n");
    let server = SERVER.replace("def call(name, args):\n", &noting);
    assert!(server.contains("'a')"));
    let script = setting.write("server.py", server);
    let servers = json!({ "mcpServers": { "small": { "command": "/usr/bin/python3", "args": [script] } } });
    setting.write("servers.json", servers.to_string());
    setting.write("policy.yaml", "version: 1\ntools: { rules: [{ allow: 'small.*' }] }\n");
    setting.write(
        "ringfence.yaml",
        format!("runtimes: {{ {key}: {} }}\n", checker.display()),
    );
    Some(setting)
}

fn run(setting: &Setting, file: &str, source: &str) -> Value {
    setting.write(file, source);
    let words = ["run", file, "--json", "--servers", "servers.json"];
    let more = ["--policy", "policy.yaml", "--config", "ringfence.yaml"];
    setting.json(&[&words[..], &more].concat())
}

/// A program that does not fit is not run, not even the part that would fit; one that fits is.
fn check(setting: &Setting, file: &str, wrong: &str, right: &str, place: (u64, &str, &str)) {
    let done = run(setting, file, wrong);
    assert_eq!(done["status"], "failed", "{done:#}");
    assert_eq!(done["error"]["code"], "program.types", "{done:#}");
    let (line, code, words) = place;
    let found = done["diagnostics"].as_array().unwrap();
    assert_eq!(found.len(), 1, "{done:#}");
    assert_eq!(found[0]["line"], line, "{done:#}");
    assert_eq!(found[0]["code"], code, "{done:#}");
    assert!(found[0]["column"].as_u64().unwrap() > 1, "{done:#}");
    assert!(found[0]["message"].as_str().unwrap().contains(words), "{done:#}");
    assert_eq!(done["calls"], json!([]), "{done:#}");
    assert_eq!(done["stdout"], "", "{done:#}");
    let called = setting.work().join("called");
    assert!(!called.exists(), "a tool was called");
    let journal = setting.run(&["audit", "show", done["session_id"].as_str().unwrap()]);
    assert!(!journal.stdout.contains("call_started"), "{journal:?}");

    // The control: the same way, with nothing wrong.
    let done = run(setting, file, right);
    assert_eq!(done["value"], "hello x", "{done:#}");
    assert_eq!(fs::read_to_string(called).unwrap(), "hello\n");
}

#[test]
fn a_typescript_program_that_does_not_fit_its_tools_calls_none() {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let compiler = format!("npm/node_modules/@typescript/typescript-linux-{machine}/lib/tsc");
    let Some(setting) = setting("tsc", &compiler) else {
        return;
    };
    let right = "console.log('begins');\nawait tools.small.hello({ name: 'x' })";
    let wrong = format!("{right};\nawait tools.small.hello({{ name: 7 }})");
    let place = (3, "TS2322", "Type 'number' is not assignable to type 'string'");
    check(&setting, "a.ts", &wrong, right, place);
}

#[test]
fn a_python_program_that_does_not_fit_its_tools_calls_none() {
    let Some(setting) = setting("ty", "py/bin/ty") else {
        return;
    };
    let right = "from tools import small\nprint('begins')\nawait small.hello(name='x')";
    let wrong = format!("{right}\nawait small.hello(name=7)");
    let place = (4, "invalid-argument-type", "Expected `str`");
    check(&setting, "a.py", &wrong, right, place);
}
