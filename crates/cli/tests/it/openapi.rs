//! A large web API as an upstream, from its `OpenAPI` document: every operation is a tool, and each call is exactly one
//! of its requests.

mod document;
mod server;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use self::document::{RESOURCES, document};
use self::server::Interface;
use crate::clients::arch;
use crate::setting::{Done, Setting, finish, tool};

fn setting() -> (Setting, Interface) {
    let (setting, interface) = (Setting::new(), Interface::start());
    let document = document(&interface.address.to_string());
    setting.write("everything.json", document.to_string());
    let servers = "servers: { all: { openapi: everything.json, headers: { Authorization: Bearer sesame-4711 } } }\n";
    let policy = "policy: { tools: { rules: [{ allow: 'all.*' }] } }\n";
    setting.write("ringfence.yaml", format!("{servers}{policy}"));
    (setting, interface)
}

fn say(setting: &Setting, words: &[&str]) -> Value {
    setting.json(&[words, &["--json", "--config", "ringfence.yaml"]].concat())
}

#[test]
fn two_hundred_and_eighty_operations_are_tools_that_are_found() {
    let (setting, interface) = setting();
    let listed = say(&setting, &["tools", "list", "all"]);
    let names = listed["tools"].as_array().unwrap().iter();
    let names: BTreeSet<&str> = names.map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected: BTreeSet<String> = RESOURCES
        .iter()
        .flat_map(|resource| {
            let verbs = ["list", "create", "get", "replace", "change", "delete"];
            let own = verbs.map(|verb| format!("all.{verb}_{resource}"));
            own.into_iter().chain([format!("all.get_{resource}_id_history_codes")])
        })
        .collect();
    assert_eq!(expected.len(), 280);
    assert_eq!(names, expected.iter().map(String::as_str).collect());
    for (request, tool) in [
        ("list the newest refunds", "all.list_refunds"),
        ("create a coupon", "all.create_coupons"),
        ("rename a folder", "all.change_folders"),
        ("what happened to a payout", "all.get_payouts_id_history_codes"),
        ("delete an image for good", "all.delete_images"),
    ] {
        let found = say(&setting, &["tools", "search", request]);
        let slots = found["intents"][0]["slots"].as_array().unwrap();
        assert!(
            slots.iter().take(3).any(|slot| slot["name"] == tool),
            "{request}: {found:#}"
        );
    }
    assert_eq!(
        interface.seen(),
        Vec::<Value>::new(),
        "looking at a document asks its server nothing"
    );
}

/// Ten calls of every kind of parameter.
const PROGRAM: &str = r#"
    import { all } from "tools";
    const page = await all.list_refunds({ limit: 2, status: "open", tag: ["a b", "c&d"], fields: ["id", "name"], colours: ["red", "blue"],
        created: { from: "2026-01-01", to: "2026-02-01" }, where: { price: { gt: 5 } }, "X-Request-Tag": "t-1" });
    const made = await all.create_coupons({ body: { name: "Ten", tags: ["x"], price: { amount: 10, currency: "EUR" } }, "Idempotency-Key": "k-1" });
    const one = await all.get_folders({ id: "a/b ?ü", expand: true });
    const replaced = await all.replace_images({ id: "i-1", name: "New", status: "held", note: null, body_id: "i-2" });
    const renamed = await all.change_tickets({ id: "t-1", body: { kind: "rename", name: "Other" } });
    await all.change_tickets({ id: "t-2", body: { kind: "reprice", price: { amount: 1, currency: "CHF" } } });
    const gone = await all.delete_images({ id: "i-1", force: false, "If-Match": "\"v1\"" });
    const past = await all.get_payouts_id_history_codes({ id: "p-1", codes: ["a,b", "c"], "X-Labels": ["x", "y"] });
    const missing = await all.get_keys({ id: "missing" }).catch((error: ToolError) => [error.code, error.message.includes("no such thing")]);
    const wrong = await (all as any).get_keys({ id: 7 }).catch((error: ToolError) => error.code);
    const plain = await all.list_jobs({});
    ({ ids: page.items.map(item => item.id), made: made.id, one: one.id, replaced: replaced.name, renamed: renamed.name ?? null, gone,
        past: past.length, missing, wrong, plain: plain.items.length });
"#;

#[test]
fn a_program_calls_operations_with_every_kind_of_parameter() {
    let (setting, interface) = setting();
    setting.write("main.ts", PROGRAM);
    let done = say(&setting, &["run", "main.ts"]);
    assert_eq!(done["status"], "completed", "{done:#}");
    let expected = json!({
        "ids": ["1", "2"], "made": "3", "one": "a%2Fb%20%3F%C3%BC", "replaced": "New", "renamed": "Other", "gone": null, "past": 1,
        "missing": ["tool.failed", true], "wrong": "tool.arguments", "plain": 2,
    });
    assert_eq!(done["value"], expected, "{done:#}");
    let request = |method: &str, target: &str, headers: Value, body: Value| {
        let mut all = json!({ "authorization": "Bearer sesame-4711" });
        if !body.is_null() {
            all["content-type"] = json!("application/json");
        }
        all.as_object_mut()
            .unwrap()
            .extend(headers.as_object().unwrap().clone());
        json!({ "method": method, "target": format!("/v2{target}"), "headers": all, "body": body })
    };
    let list = "/refunds?limit=2&status=open&tag=a+b&tag=c%26d&fields=id%2Cname&colours=red%7Cblue\
        &created%5Bfrom%5D=2026-01-01&created%5Bto%5D=2026-02-01&where=%7B%22price%22%3A%7B%22gt%22%3A5%7D%7D";
    let none = || json!({});
    let coupon = json!({ "name": "Ten", "tags": ["x"], "price": { "amount": 10, "currency": "EUR" } });
    let image = json!({ "name": "New", "status": "held", "note": null, "id": "i-2" });
    let reprice = json!({ "kind": "reprice", "price": { "amount": 1, "currency": "CHF" } });
    let expected = [
        request("GET", list, json!({ "x-request-tag": "t-1" }), Value::Null),
        request("POST", "/coupons", json!({ "idempotency-key": "k-1" }), coupon),
        request("GET", "/folders/a%2Fb%20%3F%C3%BC?expand=true", none(), Value::Null),
        request("PUT", "/images/i-1", none(), image),
        request(
            "PATCH",
            "/tickets/t-1",
            none(),
            json!({ "kind": "rename", "name": "Other" }),
        ),
        request("PATCH", "/tickets/t-2", none(), reprice),
        request(
            "DELETE",
            "/images/i-1?force=false",
            json!({ "if-match": "\"v1\"" }),
            Value::Null,
        ),
        request(
            "GET",
            "/payouts/p-1/history/a%2Cb,c",
            json!({ "x-labels": "x,y" }),
            Value::Null,
        ),
        request("GET", "/keys/missing", none(), Value::Null),
        request("GET", "/jobs", none(), Value::Null),
    ];
    let seen = interface.seen();
    for (seen, expected) in seen.iter().zip(&expected) {
        assert_eq!(seen, expected);
    }
    assert_eq!(seen.len(), expected.len(), "{seen:#?}");
    assert!(!done.to_string().contains("sesame"), "{done:#}");
}

/// An interface from before JSON was everywhere.
fn older(address: &str) -> Value {
    let body = |kind: &str, schema: Value| json!({ "required": true, "content": { kind: { "schema": schema } } });
    let fields = |extra: Value| {
        let mut properties =
            json!({ "title": { "type": "string" }, "tags": { "type": "array", "items": { "type": "string" } } });
        properties
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        json!({ "type": "object", "required": ["title"], "properties": properties })
    };
    let session = json!({ "name": "session", "in": "cookie", "required": true, "schema": { "type": "string" } });
    let file = json!({ "file": { "type": "string", "format": "binary" } });
    json!({
        "openapi": "3.0.3", "info": { "title": "Older", "version": "1" }, "servers": [{ "url": format!("http://{address}/v2") }],
        "paths": {
            "/notes": {
                "post": { "operationId": "post_note", "parameters": [session], "responses": {},
                    "requestBody": body("application/x-www-form-urlencoded", fields(json!({}))) },
                "put": { "operationId": "put_note", "responses": {}, "requestBody": body("multipart/form-data", fields(file)) },
                "patch": { "operationId": "patch_notes", "responses": {}, "requestBody": body("text/csv", json!({ "type": "string" })) },
            },
        },
    })
}

#[test]
fn forms_parts_texts_and_cookies_are_written_as_the_document_says() {
    let (setting, interface) = (Setting::new(), Interface::start());
    setting.write("older.json", older(&interface.address.to_string()).to_string());
    let policy = "policy: { tools: { rules: [{ allow: 'old.*' }] } }\n";
    setting.write(
        "ringfence.yaml",
        format!("servers: {{ old: {{ openapi: older.json }} }}\n{policy}"),
    );
    let program = r#"
        import { old } from "tools";
        await old.post_note({ session: "a b;c", title: "x&y", tags: ["1", "2"] });
        await old.put_note({ title: "t", file: "line\r\n" });
        await old.patch_notes({ body: "a,b\n1,2\n" });
        const refused = await (old as any).post_note({ session: "s", tags: [] }).catch((error: ToolError) => error.code);
        refused
    "#;
    setting.write("main.ts", program);
    let done = say(&setting, &["run", "main.ts"]);
    assert_eq!(done["value"], "tool.arguments", "{done:#}");
    let seen = interface.seen();
    let [form, parts, text] = seen.as_slice() else {
        panic!("{seen:#?}");
    };
    assert_eq!(
        form["headers"],
        json!({ "cookie": "session=a%20b%3Bc", "content-type": "application/x-www-form-urlencoded" })
    );
    assert_eq!(form["body"], "title=x%26y&tags=1&tags=2");
    let kind = parts["headers"]["content-type"].as_str().unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let expected = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nt\r\n--{boundary}\r\nContent-Disposition: form-data; \
         name=\"file\"; filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\nline\r\n\r\n--{boundary}--\r\n"
    );
    assert_eq!(parts["body"], expected);
    assert_eq!(
        (&text["headers"]["content-type"], &text["body"]),
        (&json!("text/csv"), &json!("a,b\n1,2\n"))
    );
}

#[test]
fn the_stubs_of_a_large_document_satisfy_the_type_checkers() {
    let compiler = format!("npm/node_modules/@typescript/typescript-linux-{}/lib/tsc", arch());
    let (Some(tsc), Some(ty)) = (tool(&compiler), tool("py/bin/ty")) else {
        return;
    };
    let (setting, _interface) = setting();
    for lang in ["ts", "py"] {
        let args = [
            "tools",
            "stubs",
            "--lang",
            lang,
            "--out",
            lang,
            "--config",
            "ringfence.yaml",
        ];
        let written = setting.run(&args);
        assert_eq!(written.code, Some(0), "{written:?}");
    }
    let check = |lang: &str, program: &Path, options: &str| {
        let folder = setting.work().join(lang);
        let mut checker = Command::new(program);
        checker
            .args(options.split(' '))
            .current_dir(&folder)
            .stdin(Stdio::null());
        if lang == "ts" {
            let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
            checker.args(["--types", ""]).args(files);
        }
        finish_quietly(checker)
    };
    let strict =
        "--noEmit --strict --target es2023 --lib es2023 --module esnext --moduleDetection force --pretty false";
    let plain = "check --output-format concise --python-version 3.11 --project .";
    setting.write("ts/main.ts", format!("{PROGRAM}\nexport {{}};\n"));
    setting.write("py/main.py", PYTHON);
    for (lang, program, options, wrong) in [
        (
            "ts",
            &tsc,
            strict,
            "import { all } from \"tools\";\nawait all.get_folders({ id: 7 });\nexport {};\n",
        ),
        (
            "py",
            &ty,
            plain,
            "from tools import all\nasync def wrong():\n    await all.get_folders(id=7)\n",
        ),
    ] {
        let good = check(lang, program, options);
        assert_eq!(good.code, Some(0), "{good:?}");
        // The control: the checkers do look.
        setting.write(&format!("{lang}/wrong.{lang}"), wrong);
        let bad = check(lang, program, options);
        assert!(
            bad.code != Some(0) && bad.stdout.contains(&format!("wrong.{lang}")),
            "{bad:?}"
        );
    }
}

/// Calls as Python has them.
const PYTHON: &str = r#"
from tools import all

async def main() -> list[str]:
    page = await all.list_refunds(limit=2, status="open", tag=["a"], fields=["id"], created={"from": "2026-01-01"})
    one = await all.get_folders(id="a", expand=True)
    await all.replace_images(id="i-1", name="New", status="held", note=None, body_id="i-2")
    await all.change_tickets(id="t-1", body={"kind": "rename", "name": "Other"})
    await all.delete_images(id="i-1", force=False)
    return [row["id"] for row in page["items"]] + [one["id"]]
"#;

fn finish_quietly(mut checker: Command) -> Done {
    checker.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(checker, &[])
}
