//! `fetch` in code mode: requests obey the network rules, are bounded, and are repeated from the recording.

use std::sync::Arc;

use ringfence_testkit::internet::SiteAnswer;
use serde_json::{Value, json};

use super::allowed;
use super::world::{self, Net, enter_internet};

/// The result of code in the sandbox.
pub(super) fn run(net: &Net, policy: &Value, file: &str, source: &str) -> Value {
    let policy = net.setting.write("policy.json", policy.to_string());
    let file = net.setting.write(file, source);
    let words = [
        "run",
        "--json",
        "--policy",
        &policy.display().to_string(),
        &file.display().to_string(),
    ];
    let done = net.ringfence(&words);
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("not one JSON object: {done:?}"))
}

const FETCH: &str = r#"
const out: unknown[] = [];
const first = await fetch("https://allowed.example.com/echo", {
    method: "post", headers: { "X-Own": "1", Host: "evil.example.net", "Content-Length": "999" }, body: "héllo",
});
const told = await first.json();
out.push(first.ok, first.status, first.statusText, first.url, first.headers.get("Content-Type"), told.body, told.host, Object.fromEntries(told.headers)["x-own"]);
const many = await Promise.all([1, 2, 3].map(n => fetch(new URL(`https://api.example.com/echo/${n}`)).then(a => a.json())));
out.push(many.map(one => one.path).join(" "));
const plain = await fetch({ url: "http://allowed.example.com/page" });
const copy = plain.clone();
out.push((await plain.text()).trim(), (await copy.bytes()).length, (await fetch("http://allowed.example.com/bytes/5")).status);
const form = await fetch("http://allowed.example.com/echo", { method: "PUT", body: new URLSearchParams({ a: "b c" }) });
out.push((await form.json()).body);
const buffer = await fetch("http://allowed.example.com/bytes/3").then(a => a.arrayBuffer());
out.push(buffer.byteLength, (await fetch("https://allowed.example.com/none")).ok);
const moved = await fetch("http://allowed.example.com/redirect?https://allowed.example.com/page");
out.push(moved.redirected, moved.url, (await fetch("http://allowed.example.com/redirect?/page", { redirect: "manual" })).status);
out
"#;

#[test]
fn code_fetches_what_is_allowed() {
    if !enter_internet(concat!(module_path!(), "::code_fetches_what_is_allowed")) {
        return;
    }
    let net = Net::new(|world| world);
    let result = run(&net, &allowed(), "fetch.ts", FETCH);
    let wanted = json!([
        true,
        200,
        "OK",
        "https://allowed.example.com/echo",
        "application/json",
        "héllo",
        "allowed.example.com",
        "1",
        "/echo/1 /echo/2 /echo/3",
        "allowed.example.com 93.184.216.34",
        34,
        200,
        "a=b+c",
        3,
        false,
        true,
        "https://allowed.example.com/page",
        302,
    ]);
    assert_eq!(result["value"], wanted, "{result:#}");
    assert_eq!(result["violations"], json!([]), "{result:#}");
    assert!(result["usage"]["egress_bytes"].as_u64() > Some(0), "{result:#}");
    assert_eq!(result["calls"][0]["tool"], "fetch", "{result:#}");
    net.check_nobody_strayed();
    let events = net.ringfence(&["audit", "export"]).stdout;
    for word in ["egress_started", "egress_ended", "call_started", "\"tool\":\"fetch\""] {
        assert!(events.contains(word), "{word}: {events}");
    }
}

const REFUSED: &str = r#"
const tries: [string, object?][] = [
    ["https://evil.example.net/"],
    ["http://169.254.169.254/latest/meta-data/"],
    ["http://127.0.0.1:8080/"],
    ["http://2130706433/"],
    ["https://10.0.0.5/"],
    ["http://allowed.example.com/redirect?http://169.254.169.254/"],
    ["https://api.example.com/other"],
    ["https://api.example.com/echo/1", { method: "POST", body: "x" }],
    ["https://stranger.example.com/"],
    ["file:///etc/passwd"],
    ["http://user:word@allowed.example.com/page"],
    ["http://allowed.example.com/page", { headers: { a: "x\r\nhost: evil.example.net" } }],
    ["http://allowed.example.com/page", { method: "CONNECT" }],
];
const out = [];
for (const [url, options] of tries) {
    try { const answer = await fetch(url, options); out.push(answer.status); } catch (error) { out.push(error.code); }
}
out
"#;

#[test]
fn code_fetches_nothing_else_and_hears_why() {
    if !enter_internet(concat!(module_path!(), "::code_fetches_nothing_else_and_hears_why")) {
        return;
    }
    let net = Net::new(|world| world);
    let result = run(&net, &allowed(), "refused.ts", REFUSED);
    let denied = "net.denied";
    let wanted = json!([
        denied,
        denied,
        denied,
        denied,
        denied,
        denied,
        denied,
        denied,
        denied,
        "net.protocol",
        "net.request",
        "net.request",
        "net.request",
    ]);
    assert_eq!(result["value"], wanted, "{result:#}");
    assert!(!result.to_string().contains(world::SECRET), "{result:#}");
    let violations = result["violations"].as_array().unwrap();
    assert_eq!(violations.len(), 9, "{result:#}");
    assert!(violations.iter().all(|one| one["kind"] == "net"), "{result:#}");
    net.check_nobody_strayed();
}

#[test]
fn fetch_where_the_network_is_closed_names_the_key() {
    let setting = crate::setting::Setting::new();
    setting.write(
        "closed.ts",
        "let told; try { await fetch('https://example.com/') } catch (e) { told = [e.code, e.rule, e.message] } told",
    );
    let result = setting.json(&["run", "--json", "closed.ts"]);
    let wanted = json!([
        "net.denied",
        "net.enabled",
        "`fetch` was refused: this session has no network"
    ]);
    assert_eq!(result["value"], wanted, "{result:#}");
    assert_eq!(result["violations"][0]["rule"], "net.enabled", "{result:#}");
}

const BOUNDED: &str = r#"
const at = "http://allowed.example.com";
const tries: [string, object?][] = [
    ["/bytes/9000000"], ["/bytes/100000000000"], ["/slow/20000"], ["/loop"], ["/redirect?/page", { redirect: "error" }], ["/heads"],
    ["/echo", { method: "POST", body: "x".repeat(9_000_000) }],
    ["/page", { headers: Object.fromEntries([...Array(200).keys()].map(n => [`x-${n}`, "1"])) }],
    [`/${"x".repeat(100_000)}`],
];
const out = [];
for (const [path, options] of tries) {
    try { const answer = await fetch(at + path, options); out.push(answer.status); } catch (error) { out.push([error.code, error.rule]); }
}
out
"#;

#[test]
fn what_fetch_holds_and_waits_for_is_bounded() {
    if !enter_internet(concat!(module_path!(), "::what_fetch_holds_and_waits_for_is_bounded")) {
        return;
    }
    let net = Net::new(|world| {
        world.with_site(Arc::new(|asked| {
            let mut answer = SiteAnswer::ok("text/plain", "x");
            match asked.path.as_str() {
                "/loop" => {
                    answer.status = 307;
                    answer.headers.push(("location".to_owned(), "/loop".to_owned()));
                }
                "/heads" => answer
                    .headers
                    .extend((0..2000).map(|number| (format!("x-{number}"), "1".repeat(100)))),
                _ => return None,
            }
            Some(answer)
        }))
    });
    let mut policy = allowed();
    policy["tools"] = json!({ "call_timeout": "3s" });
    let result = run(&net, &policy, "bounded.ts", BOUNDED);
    let large = json!(["net.too_large", "builtin.fetch"]);
    let wanted = json!([
        large,
        large,
        ["net.timeout", "tools.call_timeout"],
        ["net.redirects", "builtin.fetch"],
        ["net.redirects", "builtin.fetch"],
        ["net.unreachable", null],
        large,
        ["net.protocol", "builtin.protocols"],
        ["net.request", "builtin.fetch"],
    ]);
    assert_eq!(result["value"], wanted, "{result:#}");
    let loops = net.internet.traffic().requests();
    let loops = loops.iter().filter(|one| one.path == "/loop").count();
    assert_eq!(loops, 21);
}

const KEYED: &str = r#"
const ask = async (url, headers) => {
    try { return (await fetch(url, { headers })).status; } catch (error) { return error.code; }
};
[
    await ask("https://keyed.example.com/echo", { authorization: "Bearer {{KEY}}" }),
    await ask("https://allowed.example.com/echo", { authorization: "Bearer {{KEY}}" }),
    await ask("https://keyed.example.com/echo", { other: "{{KEY}}" }),
]
"#;

#[test]
fn fetch_sends_a_credential_by_its_name_and_only_where_it_belongs() {
    if !enter_internet(concat!(
        module_path!(),
        "::fetch_sends_a_credential_by_its_name_and_only_where_it_belongs"
    )) {
        return;
    }
    let net = Net::new(|world| world);
    let key = net.setting.write("key", "a-secret-of-the-operator");
    let config = json!({
        "credentials": [{ "name": "KEY", "from": format!("file:{}", key.display()), "for": [{ "host": "keyed.example.com" }] }],
    });
    let config = net.setting.write("ringfence.yaml", config.to_string());
    let policy = world::policy(&json!({ "enabled": true, "allowlist": ["keyed.example.com", "allowed.example.com"] }));
    let policy = net.setting.write("policy.json", policy.to_string());
    let file = net.setting.write("keyed.js", KEYED);
    let words = [&config, &policy, &file].map(|path| path.display().to_string());
    let done = net.ringfence(&["run", "--json", "--config", &words[0], "--policy", &words[1], &words[2]]);
    let result: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!(
        result["value"],
        json!([200, "credential.host", "credential.place"]),
        "{result:#}"
    );
    let asked = net.internet.traffic().requests();
    let sent: Vec<_> = asked
        .iter()
        .map(|one| (one.host.as_str(), one.header("authorization")))
        .collect();
    assert_eq!(sent, [("keyed.example.com", Some("Bearer a-secret-of-the-operator"))]);
    assert!(!done.stdout.contains("a-secret-of-the-operator"), "{done:?}");
}

#[test]
fn a_run_looked_at_again_has_its_fetches_from_the_recording() {
    if !enter_internet(concat!(
        module_path!(),
        "::a_run_looked_at_again_has_its_fetches_from_the_recording"
    )) {
        return;
    }
    let net = Net::new(|world| world);
    let source = r#"
        const answer = await fetch("https://allowed.example.com/echo", { method: "POST", body: "once" });
        let denied; try { await fetch("https://evil.example.net/"); } catch (error) { denied = error.code; }
        [answer.status, (await answer.json()).body, denied]
    "#;
    let result = run(&net, &allowed(), "once.ts", source);
    assert_eq!(result["value"], json!([200, "once", "net.denied"]), "{result:#}");
    let asked = net.internet.traffic().requests().len();
    let session = result["session_id"].as_str().unwrap();
    let again = net.ringfence(&["session", "replay", session, "--json"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap_or_else(|_| panic!("{again:?}"));
    assert_eq!(again[0]["differences"], json!([]), "{again:#}");
    assert_eq!(net.internet.traffic().requests().len(), asked, "a replay asks nobody");
}
