use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::{Ceiling, Draft};

fn policy() -> Policy {
    let text = "net: { enabled: true, allowlist: [{ host: a.example.org, methods: [GET] }] }\ntools: { rules: [{ allow: 'a.*' }, { deny: a.x }, { ask: a.y }] }";
    Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap()
}

fn tool(name: &str) -> ExplainQuery {
    ExplainQuery::Tool {
        hints: ToolHints::none(),
        name: name.to_owned(),
        args: json!({}),
        after: Vec::new(),
    }
}

fn host(host: &str, port: Option<u16>) -> ExplainQuery {
    ExplainQuery::Host {
        host: host.to_owned(),
        port,
        scheme: Scheme::Https,
        method: None,
        path: None,
    }
}

fn path(path: &str, access: FileAccess) -> ExplainQuery {
    ExplainQuery::Path {
        path: path.to_owned(),
        access,
    }
}

fn limit(key: &str) -> ExplainQuery {
    ExplainQuery::Limit { key: key.to_owned() }
}

#[track_caller]
fn check(question: &ExplainQuery, expected: &str) {
    assert_eq!(policy().explain(question).to_string(), expected);
}

#[test]
fn an_explanation_names_the_rule_all_matches_and_a_next_step() {
    check(
        &tool("a.z"),
        "tool `a.z` is allowed by `tools.rules[0]`\n  allow tools.rules[0]",
    );
    check(
        &tool("a.x"),
        "tool `a.x` is denied by `tools.rules[1]`\n  allow tools.rules[0]\n  deny  tools.rules[1]\nhint: deny beats ask and allow; remove or narrow that rule if it is yours",
    );
    check(
        &tool("a.y"),
        "tool `a.y` asks a person by `tools.rules[2]`\n  allow tools.rules[0]\n  ask   tools.rules[2]\nhint: answer it in the inbox: `ringfence approvals list`",
    );
    check(
        &tool("b.x"),
        "tool `b.x` is denied by `tools.default`\n  deny  tools.default\nhint: add a rule such as `{ allow: \"server.tool\" }` to `tools.rules`",
    );
    check(
        &host("a.example.org", None),
        "host `a.example.org` port 443 is allowed by `net.allowlist[0]`, as far as its methods and paths allow\n  allow net.allowlist[0]",
    );
    check(
        &host("a.example.org", Some(22)),
        "host `a.example.org` port 22 is denied by `net.default`\n  deny  net.default\nhint: `net.allowlist[0]` allows this host at port 443 only: use that, or add `{ host: \"a.example.org\", ports: [22] }` to `net.allowlist`",
    );
    check(
        &host("127.1", None),
        "denied by `builtin.hosts`: `127.1` looks like a number, write an address as four decimal numbers\n  deny  builtin.hosts\nhint: write it in its plain form and ask again",
    );
    check(
        &path("/etc/passwd", FileAccess::Read),
        "path `/etc/passwd` is denied by `fs.mounts`\n  deny  fs.mounts\nhint: add a mount to `fs.mounts`",
    );
    check(
        &path(".ssh/id", FileAccess::Read),
        "path `.ssh/id` is denied by `fs.deny[**/.ssh/**]`\n  deny  fs.deny[**/.ssh/**]\nhint: this entry is built in and cannot be removed; give the program a copy under another name",
    );
    check(
        &path("/workspace/x", FileAccess::Write),
        "path `/workspace/x` is allowed by `fs.mounts[0]`\n  allow fs.mounts[0]",
    );
}

#[test]
fn a_limit_is_explained_with_its_ceiling() {
    check(
        &limit("proc.mem_limit"),
        "`proc.mem_limit` is 512MiB\nhint: set `proc.mem_limit` in the policy, or `--set proc.mem_limit=…`",
    );
    check(
        &limit("mem_limt"),
        "`mem_limt` is not a limit, known are cpu_quota, mem_limit, wall_timeout, cpu_time, lifetime, fork_limit, open_files, output, programs, connections, rate, bytes, rows, mode, inside, names, secrets\nhint: did you mean `mem_limit`?",
    );
    check(
        &limit("programs"),
        "`proc.programs` is all\nhint: set `proc.programs` in the policy, or `--set proc.programs=…`",
    );
    let ceiling = Ceiling::from_draft(Draft::parse("proc: { wall_timeout: 1m }", "c").unwrap());
    let policy = Draft::empty().under(&ceiling).unwrap();
    let sentence = policy.explain(&limit("wall_timeout")).sentence;
    assert_eq!(sentence, "`proc.wall_timeout` is 30s, the ceiling allows 1m");
    check(
        &limit("net.limits.bytes"),
        "`net.limits.bytes` is 1GiB\nhint: set `net.limits.bytes` in the policy, or `--set net.limits.bytes=…`",
    );
    let sentence = policy.explain(&limit("connections")).sentence;
    assert_eq!(sentence, "`net.limits.connections` is 256, the ceiling allows 256");
    let next = policy.explain(&tool("a.b")).next;
    assert!(next.is_some_and(|next| next.contains("tools.rules")));
}

#[test]
fn why_a_rule_with_a_hint_matched_is_said() {
    let text = "tools: { default: allow, rules: [{ ask: '**', hint: destructive }] }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    assert_eq!(
        policy.explain(&tool("a.b")).to_string(),
        "tool `a.b` asks a person by `tools.rules[0]`\n  ask   tools.rules[0]\n\
         note: `tools.rules[0]` has `hint: destructive`, and the tool's server does not say that it is not so\n\
         hint: answer it in the inbox: `ringfence approvals list`"
    );
}

#[test]
fn the_calls_of_a_session_are_explained_each_by_what_came_before() {
    let text = "tools: { default: allow, rules: [{ ask: mail.send, after: 'web.*' }] }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    let calls = [
        ("mail.send", true),
        // A refused call is not part of the history.
        ("web.get", false),
        ("mail.send", true),
        ("web.get", true),
        ("no name", true),
        ("mail.send", false),
    ];
    let calls = calls.map(|(name, made)| RedactedCall {
        name: name.to_owned(),
        hints: ToolHints::none(),
        args: json!({}),
        hidden: BTreeSet::new(),
        made,
    });
    let explained = policy.explain_past_calls("mail.send", &calls);
    let decided = |verdict, rule: &str| PastCallDecision::Decided(Decision::new(verdict, rule));
    let expected = [
        (0, decided(RuleEffect::Allow, "tools.default")),
        (2, decided(RuleEffect::Allow, "tools.default")),
        (5, decided(RuleEffect::Ask, "tools.rules[0]")),
    ];
    assert_eq!(explained, expected);
}

#[test]
fn what_holds_for_data_is_explained_too() {
    let text =
        "data: { pii: { mode: block, reveal_to: [a.b] }, return: { bytes: 1KiB, rows: 5 } }\ntools: { default: allow }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    for (key, sentence) in [
        ("data.pii.mode", "`data.pii.mode` is block"),
        ("data.return.bytes", "`data.return.bytes` is 1KiB"),
        ("rows", "`data.return.rows` is 5"),
    ] {
        assert_eq!(policy.explain(&limit(key)).sentence, sentence);
    }
    let notes = |name: &str| policy.explain(&tool(name)).notes;
    assert_eq!(
        notes("a.b"),
        ["`data.pii.reveal_to` names it: it gets real values in place of aliases"]
    );
    assert_eq!(notes("a.c"), [""; 0]);
}

#[test]
fn the_hint_for_a_host_is_a_rule_that_would_help() {
    let next = |host: &str, scheme, port, method| {
        let question = ExplainQuery::Host {
            host: host.to_owned(),
            port,
            scheme,
            method,
            path: None,
        };
        policy().explain(&question).next.expect("a next step")
    };
    assert_eq!(
        next("a.example.org", Scheme::Http, None, None),
        "`net.allowlist[0]` allows this host by https only: ask for it so, or add `{ host: \"a.example.org\", scheme: http }` to `net.allowlist`"
    );
    assert_eq!(
        next("a.example.org", Scheme::Https, None, Some(HttpMethod::Post)),
        "`net.allowlist[0]` names this host, and not this method or path: widen it if it is yours"
    );
    assert_eq!(
        next("b.example.org", Scheme::Http, Some(8080), None),
        "add `{ host: \"b.example.org\", scheme: http, ports: [8080] }` to `net.allowlist`: a bare host means https on port 443"
    );
    assert_eq!(
        next("b.example.org", Scheme::Https, None, None),
        "name the host in `net.allowlist`; a bare host means https on port 443"
    );
    // The suggestion of the hint leads to an allowed request.
    for (rule, scheme, port) in [
        ("{ host: \"a.example.org\", scheme: http }", Scheme::Http, 80),
        (
            "{ host: \"b.example.org\", scheme: http, ports: [8080] }",
            Scheme::Http,
            8080,
        ),
        ("{ host: \"a.example.org\", ports: [22] }", Scheme::Https, 22),
    ] {
        let text = format!("net: {{ enabled: true, allowlist: [{rule}] }}");
        let policy = Draft::parse(&text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
        let host = rule.split('"').nth(1).unwrap().parse().unwrap();
        let request = HostRequest {
            host,
            scheme,
            port,
            method: None,
            path: None,
        };
        assert_eq!(policy.decide_host(&request).effect(), RuleEffect::Allow, "{rule}");
    }
}
