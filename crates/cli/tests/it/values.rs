//! Values of types that JSON lacks: the run succeeds, and its result is readable.

use serde_json::{Value, json};

use crate::setting::{Setting, tool};

fn run(setting: &Setting, name: &str, source: &str) -> Value {
    setting.write(name, source);
    setting.json(&["run", name, "--json"])
}

#[test]
fn a_run_that_did_its_work_is_completed_whatever_its_value_is() {
    let setting = Setting::new();
    let python = run(
        &setting,
        "a.py",
        "import datetime\n{'day': datetime.date(2026, 1, 2), 'seen': {2, 1}, 'odd': object}",
    );
    assert_eq!(
        (&python["status"], &python["exit_code"], &python["error"]),
        (&json!("completed"), &json!(0), &Value::Null),
        "{python}"
    );
    let value = json!({ "day": "2026-01-02", "seen": [1, 2], "odd": "<class 'object'>" });
    assert_eq!(python["value"], value, "{python}");
    let notice = "notice: value['odd'] is a type, which JSON cannot hold: its `repr` is given instead; leave it out\n";
    assert_eq!(python["stderr"], notice, "{python}");
    let script = run(
        &setting,
        "a.ts",
        "const a: any = { m: new Map([['x', 1n]]), f: () => 1 }; a.self = a; a",
    );
    assert_eq!(script["status"], "completed", "{script}");
    let value = json!({ "m": { "x": 1 }, "f": "[Function: f]", "self": "[circular]" });
    assert_eq!(script["value"], value, "{script}");
    let told = script["stderr"].as_str().unwrap_or_default();
    assert_eq!(told.matches("notice: value.").count(), 2, "{script}");
}

#[test]
fn a_refused_call_can_be_given_back_as_it_was_told() {
    let setting = Setting::new();
    let source = "const got = await tools.a.b.try({}); got.ok ? null : got.error";
    let script = run(&setting, "a.ts", source);
    let error = &script["value"];
    assert_eq!(error["type"], "ToolError", "{script}");
    assert_eq!(error["tool"], "a.b", "{script}");
    for field in ["code", "message"] {
        assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{script}");
    }
}

/// Values of the real libraries. Needs no network: `cargo xtask test` installs them.
const PANDAS: &str = r#"
import numpy as np, pandas as pd
frame = pd.DataFrame({"city": ["Bonn", "Ulm", "Bonn"], "n": [1, 2, 3], "at": pd.to_datetime(["2026-01-01", None, "2026-01-03"]), "x": [0.5, np.nan, 1.5]})
{
    "int": np.int64(5), "float": np.float32(0.5), "bool": np.bool_(True), "nan": np.float64("nan"), "long": np.longdouble(2),
    "array": np.array([[1, 2], [3, 4]]), "days": np.array(["2026-01-01", "NaT"], dtype="datetime64[D]"), "wait": np.timedelta64(90, "s"),
    "frame": frame, "filtered": frame[frame.n > 2][["city", "n"]], "grouped": frame.groupby("city").n.sum(), "table": frame.groupby("city")[["n"]].sum(),
    "two": frame.groupby(["city", "n"]).x.count(), "many": frame.groupby("city").agg({"n": ["min", "max"]}),
    "column": frame.n, "moment": pd.Timestamp("2026-01-01"), "nat": pd.NaT, "na": pd.NA, "delta": pd.Timedelta("1min"), "index": frame.columns,
    "category": pd.Categorical(["a"]), "period": pd.Period("2026-01"), "keys": {np.int64(1): np.int64(2)}, "empty": pd.DataFrame({"a": []}),
}
"#;

#[test]
fn tables_and_numbers_of_pandas_and_numpy_are_values() {
    let Some(pandas) = tool("pandas") else { return };
    let setting = Setting::new();
    let mounts = json!([{ "path": "/deps", "access": "ro", "from": pandas }]);
    let policy = json!({ "fs": { "mounts": mounts }, "proc": { "mem_limit": "2GiB", "wall_timeout": "10m", "cpu_time": "10m" } });
    setting.write("mine.yaml", policy.to_string());
    setting.write("a.py", PANDAS);
    let ran = setting.json(&["run", "a.py", "--policy", "mine.yaml", "--json"]);
    assert_eq!(
        (&ran["status"], &ran["stderr"]),
        (&json!("completed"), &json!("")),
        "{ran}"
    );
    let wanted = json!({
        "int": 5, "float": 0.5, "bool": true, "nan": null, "long": 2.0,
        "array": [[1, 2], [3, 4]], "days": ["2026-01-01", null], "wait": 90.0,
        "frame": [
            { "city": "Bonn", "n": 1, "at": "2026-01-01T00:00:00", "x": 0.5 },
            { "city": "Ulm", "n": 2, "at": null, "x": null },
            { "city": "Bonn", "n": 3, "at": "2026-01-03T00:00:00", "x": 1.5 },
        ],
        "filtered": [{ "city": "Bonn", "n": 3 }],
        "grouped": { "Bonn": 4, "Ulm": 2 },
        "table": [{ "city": "Bonn", "n": 4 }, { "city": "Ulm", "n": 2 }],
        "two": [{ "city": "Bonn", "n": 1, "x": 1 }, { "city": "Bonn", "n": 3, "x": 1 }, { "city": "Ulm", "n": 2, "x": 0 }],
        "many": [{ "city": "Bonn", "n_min": 1, "n_max": 3 }, { "city": "Ulm", "n_min": 2, "n_max": 2 }],
        "column": [1, 2, 3], "moment": "2026-01-01T00:00:00", "nat": null, "na": null, "delta": 60.0,
        "index": ["city", "n", "at", "x"], "category": ["a"], "period": "2026-01", "keys": { "1": 2 }, "empty": [],
    });
    for (name, value) in wanted.as_object().into_iter().flatten() {
        assert_eq!(&ran["value"][name], value, "{name}: {ran}");
    }
}

/// A tool server that returns its arguments.
const ECHO: &str = r#"
import json, sys
TOOLS = [{"name": "echo", "description": "Gives it back.", "inputSchema": {"type": "object"}}]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "e", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif asked["method"] == "tools/call":
        result = {"content": [], "structuredContent": asked["params"]["arguments"]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no such method"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

#[test]
fn many_large_calls_at_once_all_end() {
    let setting = Setting::new();
    let server = setting.write("echo.py", ECHO);
    let servers = json!({ "mcpServers": { "e": { "command": "/usr/bin/python3", "args": [server] } } });
    setting.write("servers.json", servers.to_string());
    setting.write(
        "policy.yaml",
        "version: 1\ntools:\n  rules:\n    - { allow: 'e.*' }\nproc: { wall_timeout: 2m, cpu_time: 2m }\n",
    );
    setting.write(
        "a.ts",
        "const all = []; for (let i = 0; i < 300; i++) all.push(tools.e.echo({ i, x: 'y'.repeat(200000) }));
        (await Promise.all(all)).filter((one, at) => one.i === at && one.x.length === 200000).length",
    );
    // Neither side may wait for the other: what is on its way in both directions is more than either holds.
    for _ in 0..3 {
        let args = [
            "run",
            "a.ts",
            "--servers",
            "servers.json",
            "--policy",
            "policy.yaml",
            "--timeout",
            "2m",
        ];
        let done = setting.run(&args);
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "300\n"), "{done:?}");
    }
}

/// Answers with an object whose keys are in an order of their own, as structure and as text.
const ORDERED_SERVER: &str = r#"
import json, sys
ANSWER = {"zulu": 1, "alpha": {"yankee": [{"n": 1, "a": "ann@example.com"}], "bravo": 2}, "mike": None}
TOOLS = [{"name": name, "description": "Gets it.", "inputSchema": {"type": "object"}} for name in ["structured", "text"]]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "o", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif asked["method"] == "tools/call" and asked["params"]["name"] == "structured":
        result = {"content": [], "structuredContent": ANSWER}
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(ANSWER)}]}
    else:
        unknown = {"code": -32601, "message": "unknown method"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": unknown}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

#[test]
fn keys_keep_their_order_on_every_road() {
    let setting = Setting::new();
    let server = setting.write("server.py", ORDERED_SERVER);
    let servers = json!({ "mcpServers": { "o": { "command": "/usr/bin/python3", "args": [server] } } });
    setting.write("servers.json", servers.to_string());
    setting.write("policy.yaml", "version: 1\ntools:\n  rules:\n    - { allow: 'o.*' }\n");
    let order = |text: &str| -> Vec<usize> {
        let keys = ["zulu", "alpha", "yankee", "bravo", "mike"];
        keys.iter()
            .map(|key| text.find(key).unwrap_or_else(|| panic!("{key}: {text}")))
            .collect()
    };
    setting.write(
        "a.ts",
        "const got = await tools.o.structured({}); console.log(JSON.stringify(got)); ({ got, text: await tools.o.text({}) })",
    );
    setting.write(
        "a.py",
        "import json\nfrom tools import o\ngot = await o.structured()\nprint(json.dumps(got))\n{'got': got, 'text': await o.text()}",
    );
    for program in ["a.ts", "a.py"] {
        let args = [
            "run",
            program,
            "--servers",
            "servers.json",
            "--policy",
            "policy.yaml",
            "--json",
        ];
        let ran = setting.run(&args);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        // The printed text, the returned value and the parsed text all keep the order of the server.
        let whole: Value = serde_json::from_str(&ran.stdout).unwrap();
        let printed = whole["stdout"].as_str().unwrap();
        let (_, value) = ran
            .stdout
            .split_once("\"value\":{\"got\":")
            .unwrap_or_else(|| panic!("{ran:?}"));
        for text in [printed, value] {
            assert!(order(text).is_sorted(), "{program}: {text}");
        }
        let (_, second) = value.split_once("\"text\":").unwrap();
        assert!(order(second).is_sorted(), "{program}: {second}");
    }
}
