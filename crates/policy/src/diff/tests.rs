use super::*;
use crate::Ceiling;

#[track_caller]
fn check(before: &str, after: &str, expected: &[&str]) {
    let draft = |text: &str| Draft::parse(text, "x").unwrap();
    let changes = diff(&draft(before), &draft(after));
    let lines: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, expected);
    // The reverse comparison gives the same list with opposite directions.
    let back = diff(&draft(after), &draft(before));
    assert_eq!(back.len(), changes.len());
    let weaker = |list: &[PolicyChange]| list.iter().filter(|c| c.direction == ChangeDirection::Weaker).count();
    let neutral = |list: &[PolicyChange]| list.iter().filter(|c| c.direction == ChangeDirection::Neutral).count();
    let from_moved = before.contains("from:") && after.contains("from:");
    assert!(from_moved || weaker(&back) + weaker(&changes) + neutral(&changes) == changes.len());
}

#[test]
fn changes_are_told_in_words_weaker_first() {
    check("", "", &[]);
    check("", "proc: { mem_limit: 512MiB }", &[]);
    check(
        "",
        "proc: { mem_limit: 1GiB, wall_timeout: 10s, cpu_quota: 4 }",
        &[
            "weaker   `proc.cpu_quota` changes from 2 to 4",
            "weaker   `proc.mem_limit` changes from 512MiB to 1GiB",
            "stricter `proc.wall_timeout` changes from 30s to 10s",
        ],
    );
    check(
        "",
        "proc: { programs: none }",
        &["stricter `proc.programs` changes from all to none"],
    );
    check(
        "net: { denylist: [old.example.org] }",
        "net: { enabled: true, allowlist: [a.example.org, { host: db.example.org, addresses: [10.0.0.0/8] }], denylist: [b.example.org] }",
        &[
            "weaker   new host reach: a.example.org",
            "weaker   `net.denylist` no longer has old.example.org",
            "weaker   `net.enabled` changes from false to true",
            "weaker   new reach into a private network: {\"addresses\":[\"10.0.0.0/8\"],\"host\":\"db.example.org\"}",
            "stricter newly denied: b.example.org",
        ],
    );
    check(
        "net: { limits: { connections: 8 } }",
        "net: { limits: { rate: 60/min, bytes: 2GiB } }",
        &[
            "weaker   `net.limits.bytes` changes from 1GiB to 2GiB",
            "weaker   `net.limits.connections` changes from 8 to 256",
            "stricter `net.limits.rate` changes from 6000/min to 60/min",
        ],
    );
    check(
        "tools: { rules: [{ deny: a.x }] }",
        "tools: { rules: [{ allow: a.y }], max_calls: 5 }",
        &[
            "weaker   new tool rule: {\"allow\":\"a.y\"}",
            "weaker   `tools.rules` no longer has {\"deny\":\"a.x\"}",
            "stricter `tools.max_calls` changes from 1000 to 5",
        ],
    );
    check(
        "data: { secrets: redact, pii: { mode: block } }\naudit: { durable: true }",
        "data: { secrets: 'off', pii: { mode: alias } }",
        &[
            "weaker   `data.pii.mode` changes from block to alias",
            "weaker   `data.secrets` changes from redact to off",
            "weaker   `audit.durable` changes from true to false",
        ],
    );
    check(
        "data: { pii: { own: [{ name: badge, pattern: 'B-\\d+', check: luhn }, { name: badge, pattern: 'C-\\d+' }] } }",
        "data: { pii: { own: [{ name: badge, pattern: 'B-\\d+' }, { name: staff, pattern: 'S-\\d+' }] } }",
        &[
            "weaker   `data.pii.own` no longer has {\"name\":\"badge\",\"pattern\":\"C-\\\\d+\"}",
            "stricter `data.pii.own[badge B-\\d+]` changes from {\"check\":\"luhn\",\"name\":\"badge\",\"pattern\":\"B-\\\\d+\"} to {\"name\":\"badge\",\"pattern\":\"B-\\\\d+\"}",
            "stricter newly looked for: {\"name\":\"staff\",\"pattern\":\"S-\\\\d+\"}",
        ],
    );
    check(
        "env: { A: '1' }",
        "env: { A: '2' }",
        &["changed  `env.A` changes from 1 to 2"],
    );
}

#[test]
fn mounts_are_compared_as_places() {
    check(
        "fs: { mounts: [{ path: /deps, access: ro, from: a }] }",
        "fs: { deny: ['**/x'], mounts: [{ path: /deps, access: ro, from: b }, { path: /tmp, access: rw, quota: 1MiB }] }",
        &[
            "weaker   mount changes from {\"access\":\"ro\",\"from\":\"a\",\"path\":\"/deps\"} to {\"access\":\"ro\",\"from\":\"b\",\"path\":\"/deps\"}",
            "stricter mount changes from {\"access\":\"rw\",\"path\":\"/tmp\",\"quota\":\"64MiB\"} to {\"access\":\"rw\",\"path\":\"/tmp\",\"quota\":\"1MiB\"}",
            "stricter newly hidden: **/x",
        ],
    );
}

#[test]
fn a_place_that_is_emptied_sooner_is_the_stricter_one() {
    let mount = |more: &str| format!("fs: {{ mounts: [{{ path: /k, access: rw, quota: 1MiB, keep: true{more} }}] }}");
    check(
        &mount(""),
        &mount(", clean: on_complete"),
        &[
            "stricter mount changes from {\"access\":\"rw\",\"keep\":true,\"path\":\"/k\",\"quota\":\"1MiB\"} to {\"access\":\"rw\",\"clean\":\"on_complete\",\"keep\":true,\"path\":\"/k\",\"quota\":\"1MiB\"}",
        ],
    );
}

#[test]
fn a_policy_compares_with_a_draft() {
    let policy = Draft::builtin().under(&Ceiling::unlimited()).unwrap();
    assert_eq!(diff(&policy, &Draft::empty()), []);
    assert!(!diff(&policy, &Draft::preset("level-4").unwrap()).is_empty());
}
