use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{CallHistory, Decision, Host, HostRequest, HttpMethod, RuleEffect, Scheme, ToolHints};

fn draft(text: &str) -> Draft {
    Draft::parse(text, "asked").unwrap()
}

/// The keys that exceed the ceiling.
#[track_caller]
fn check(ceiling: &str, asked: &str, expected: &[&str]) {
    let ceiling = Ceiling::from_draft(draft(ceiling));
    let keys: Vec<String> = match draft(asked).under(&ceiling) {
        Ok(_) => Vec::new(),
        Err(error) => {
            assert_eq!(error.examples, []);
            error.keys.into_iter().map(|excess| excess.key).collect()
        }
    };
    assert_eq!(keys, expected, "{asked}");
}

#[test]
fn every_number_above_the_ceiling_is_named() {
    check(
        "proc: { mem_limit: 1GiB, wall_timeout: 1m }",
        "proc: { cpu_quota: 4, mem_limit: 2GiB, wall_timeout: 2m, cpu_time: 2m, lifetime: 2h, fork_limit: 65, open_files: 257, output: 2MiB }",
        &[
            "proc.cpu_quota",
            "proc.mem_limit",
            "proc.wall_timeout",
            "proc.cpu_time",
            "proc.lifetime",
            "proc.fork_limit",
            "proc.open_files",
            "proc.output",
        ],
    );
    check(
        "proc: { mem_limit: 1GiB }",
        "proc: { mem_limit: 1GiB, fork_limit: 64 }",
        &[],
    );
    check(
        "proc: { programs: none }",
        "proc: { programs: all }",
        &["proc.programs"],
    );
    check("proc: { programs: none }", "proc: { mem_limit: 1MiB }", &[]);
    check("proc: { programs: all }", "proc: { programs: none }", &[]);
    check(
        "tools: { max_calls: 5, call_timeout: 5s }",
        "tools: { max_calls: 6, call_timeout: 6s }",
        &["tools.max_calls", "tools.call_timeout"],
    );
}

/// A limit that is not set is unlimited, so any number requests less.
const UNLIMITED: [&str; 4] = [
    "tools.limits.tenant",
    "tools.limits.session",
    "tools.limits.server",
    "tools.limits.tool",
];

/// Every key of a policy file that holds a number, each with one that is larger than any default.
fn numbers(
    root: &serde_json::Value,
    schema: &serde_json::Value,
    key: &str,
    found: &mut Vec<(String, serde_json::Value)>,
) {
    let named = schema["$ref"].as_str().map(|name| name.trim_start_matches("#/$defs/"));
    let huge = match (
        named,
        schema["type"].as_str(),
        schema["type"].get(0).and_then(|kind| kind.as_str()),
    ) {
        (Some("ByteSize"), ..) => json!("1TiB"),
        (Some("Period"), ..) => json!("365d"),
        (Some("Rate"), ..) => json!("1000000/s"),
        (Some("CpuCount"), ..) => json!(4096),
        (_, Some("integer"), _) | (_, _, Some("integer")) => json!(4_000_000_000_u32),
        (Some(name), ..) => return numbers(root, &root["$defs"][name], key, found),
        (None, ..) => {
            for either in schema["anyOf"].as_array().into_iter().flatten() {
                numbers(root, either, key, found);
            }
            for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
                let key = if key.is_empty() {
                    name.clone()
                } else {
                    format!("{key}.{name}")
                };
                numbers(root, inner, &key, found);
            }
            return;
        }
    };
    found.push((key.to_owned(), huge));
}

#[test]
fn no_number_goes_beyond_a_ceiling_that_does_not_name_it() {
    let schema = crate::schema();
    let builtin = serde_json::to_value(Draft::builtin()).unwrap();
    let mut found = Vec::new();
    numbers(&schema, &schema, "", &mut found);
    found.retain(|(key, _)| key != "version");
    // The operator decides how long records are kept: a request may neither lengthen nor shorten it.
    check("", "audit: { keep: 1h }", &["audit.keep"]);
    check("audit: { keep: 30d }", "audit: { keep: 31d }", &["audit.keep"]);
    check("audit: { keep: 30d }", "audit: { keep: 30d }", &[]);
    assert!(found.len() >= 20, "{found:?}");
    for (key, huge) in found {
        if builtin.pointer(&format!("/{}", key.replace('.', "/"))).is_none() {
            assert!(
                UNLIMITED.contains(&key.as_str()),
                "`{key}` has no default in the policy"
            );
            continue;
        }
        let asked = key.rsplit('.').fold(huge, |inner, part| json!({ part: inner }));
        check("", &asked.to_string(), &[&key]);
        // A policy in force that does not name it refuses it as well.
        let in_force = draft("").under(&Ceiling::unlimited()).unwrap();
        let refused = draft(&asked.to_string())
            .under(&Ceiling::from_policy(&in_force))
            .unwrap_err();
        assert_eq!(refused.keys.len(), 1, "{refused}");
    }
    // A key that the draft leaves out takes the stricter of default and ceiling.
    let wide = Ceiling::from_draft(draft("tools: { call_timeout: 1h }"));
    let policy = draft("").under(&wide).unwrap();
    assert_eq!(policy.tools().call_timeout.unwrap().to_string(), "1m");
}

#[test]
fn the_network_has_limits_under_the_ceiling() {
    let all = ["net.limits.connections", "net.limits.rate", "net.limits.bytes"];
    check(
        "",
        "net: { limits: { connections: 257, rate: 6001/min, bytes: 2GiB } }",
        &all,
    );
    check(
        "",
        "net: { limits: { connections: 256, rate: 100/s, bytes: 1GiB } }",
        &[],
    );
    check("", "net: { limits: { rate: 101/s } }", &["net.limits.rate"]);
    check(
        "net: { limits: { bytes: 4GiB } }",
        "net: { limits: { bytes: 3GiB } }",
        &[],
    );

    let limits = |ceiling: &str, asked: &str| {
        let policy = draft(asked).under(&Ceiling::from_draft(draft(ceiling))).unwrap();
        let limits = policy.net_limits();
        (limits.connections, limits.rate.to_string(), limits.bytes.to_string())
    };
    let shown = |connections, rate: &str, bytes: &str| (connections, rate.to_owned(), bytes.to_owned());
    let narrow = "net: { limits: { connections: 4, rate: 1/s } }";
    assert_eq!(limits(narrow, ""), shown(4, "1/s", "1GiB"), "unasked, the stricter");
    let wide = "net: { limits: { connections: 1024, bytes: 4GiB } }";
    assert_eq!(
        limits(wide, ""),
        shown(256, "6000/min", "1GiB"),
        "a ceiling grants nothing"
    );
}

#[test]
fn tool_patterns_must_be_contained() {
    let ceiling = "tools: { rules: [{ allow: 'github.list_*', rate: 60/min }, { ask: 'mail.*' }, { deny: 'x.*' }] }";
    check(
        ceiling,
        "tools: { rules: [{ allow: github.list_issues }, { ask: mail.send }] }",
        &[],
    );
    check(
        ceiling,
        "tools: { rules: [{ allow: 'github.*' }] }",
        &["tools.rules[0]"],
    );
    check(
        ceiling,
        "tools: { rules: [{ deny: 'anything.*' }, { allow: x.y }] }",
        &["tools.rules[1]"],
    );
    check(
        ceiling,
        "tools: { rules: [{ allow: github.list_a, rate: 61/min }] }",
        &["tools.rules[0].rate"],
    );
    check(ceiling, "tools: { default: ask }", &["tools.default"]);
    check(
        "tools: { default: ask }",
        "tools: { default: allow }",
        &["tools.default"],
    );
    check("tools: { default: ask }", "tools: { rules: [{ allow: a.b }] }", &[]);
    check("", "tools: { drift: allow }", &["tools.drift"]);
}

#[test]
fn host_rules_must_be_contained() {
    let ceiling = "net: { enabled: true, presets: [npm], allowlist: [{ host: '*.example.com', ports: [443, 8443], methods: [GET, POST], paths: ['/a/**'] }, { host: db.example.org, addresses: [10.0.0.0/8] }] }";
    check(ceiling, "net: { enabled: true, allowlist: [a.example.com] }", &[]);
    check(
        ceiling,
        "net: { allowlist: [{ host: a.example.com, methods: [HEAD], paths: ['/a/b/*'] }] }",
        &[],
    );
    check(ceiling, "net: { allowlist: [example.com] }", &["net.allowlist[0]"]);
    check(ceiling, "net: { allowlist: ['**.example.com'] }", &["net.allowlist[0]"]);
    check(
        ceiling,
        "net: { allowlist: [{ host: a.example.com, ports: [22] }] }",
        &["net.allowlist[0]"],
    );
    check(
        ceiling,
        "net: { allowlist: [{ host: a.example.com, scheme: http }] }",
        &["net.allowlist[0]"],
    );
    check(
        ceiling,
        "net: { allowlist: [{ host: a.example.com, methods: [PUT] }] }",
        &["net.allowlist[0]"],
    );
    check(
        ceiling,
        "net: { allowlist: [{ host: a.example.com, paths: ['/b/**'] }] }",
        &["net.allowlist[0]"],
    );
    check(
        ceiling,
        "net: { allowlist: [{ host: a.example.com, addresses: [10.0.0.0/8] }] }",
        &["net.allowlist[0]"],
    );
    check(
        ceiling,
        "net: { allowlist: [{ host: db.example.org, addresses: [10.1.0.0/16] }] }",
        &[],
    );
    check(
        ceiling,
        "net: { allowlist: [{ host: db.example.org, addresses: [192.168.0.0/16] }] }",
        &["net.allowlist[0]"],
    );
    check(ceiling, "net: { presets: [npm] }", &[]);
    check(ceiling, "net: { default: allow }", &["net.default"]);
    check("", "net: { enabled: true }", &["net.enabled"]);
    check(
        "net: { enabled: true, default: allow }",
        "net: { allowlist: [a.example.com, { host: b.example.com, ports: [22] }] }",
        &["net.allowlist[1]"],
    );
}

#[test]
fn mounts_must_lie_in_the_ceilings() {
    let ceiling = "fs: { mounts: [{ path: /workspace, access: rw, quota: 1GiB, keep: true, keep_for: 48h }, { path: /deps, access: ro, from: /srv/deps }] }";
    check(
        ceiling,
        "fs: { mounts: [{ path: /workspace, access: rw, quota: 1GiB, keep: true }] }",
        &[],
    );
    check(
        ceiling,
        "fs: { mounts: [{ path: /workspace, access: rw, quota: 2GiB, keep: true, keep_for: 72h }] }",
        &["fs.mounts[/workspace].quota", "fs.mounts[/workspace].keep_for"],
    );
    check(
        ceiling,
        "fs: { mounts: [{ path: /tmp, access: rw, quota: 64MiB, keep: true }] }",
        &["fs.mounts[/tmp].keep"],
    );
    check(
        ceiling,
        "fs: { mounts: [{ path: /scratch, access: rw, quota: 1MiB }] }",
        &["fs.mounts[/scratch]"],
    );
    check(
        ceiling,
        "fs: { mounts: [{ path: /lib2, access: ro, from: /srv/deps/python }] }",
        &[],
    );
    check(
        ceiling,
        "fs: { mounts: [{ path: /deps, access: rw, from: /srv/deps }] }",
        &["fs.mounts[/deps].access"],
    );
    for from in ["/srv", "/srv/deps2", "/srv/deps/../secret", "/", "srv/deps"] {
        let asked = format!("fs: {{ mounts: [{{ path: /deps, access: ro, from: {from} }}] }}");
        check(ceiling, &asked, &["fs.mounts[/deps].from"]);
    }
}

#[test]
fn protections_cannot_be_weakened() {
    let ceiling = "data: { pii: { mode: alias, inside: alias, names: dictionary, kinds: [email, ip], reveal_to: ['crm.*'] }, secrets: redact, return: { bytes: 1KiB, rows: 5 } }\napprovals: { timeout: 1m, by: [inbox] }\naudit: { durable: true, output: head }";
    check(
        ceiling,
        "data: { pii: { mode: 'off', inside: real, names: keys, kinds: [email], reveal_to: ['mail.*'] }, secrets: 'off', return: { bytes: 2KiB, rows: 6 } }\napprovals: { timeout: 2m, by: [inbox, client] }\naudit: { durable: false, output: all }",
        &[
            "data.pii.kinds",
            "data.pii.reveal_to[0]",
            "data.pii.mode",
            "data.pii.inside",
            "data.pii.names",
            "data.secrets",
            "data.return.bytes",
            "data.return.rows",
            "approvals.by",
            "approvals.timeout",
            "audit.output",
            "audit.durable",
        ],
    );
    check(
        ceiling,
        "data: { pii: { mode: block, kinds: [ip, email, card], reveal_to: [crm.get] } }\naudit: { output: head }",
        &[],
    );
    check("", "approvals: { by: [client] }", &["approvals.by"]);
    check("", "audit: { output: none }", &["audit.output"]);
}

#[test]
fn a_place_that_the_ceiling_empties_stays_one() {
    let mount = |more: &str| format!("fs: {{ mounts: [{{ path: /k, access: rw, quota: 1MiB, keep: true{more} }}] }}");
    let ceiling = mount(", clean: on_complete");
    check(&ceiling, &mount(", clean: on_complete"), &[]);
    check(&ceiling, &mount(", clean: never"), &["fs.mounts[/k].clean"]);
    check(&ceiling, &mount(""), &["fs.mounts[/k].clean"]);
    check(&mount(""), &ceiling, &[]);
}

#[test]
fn what_is_not_asked_is_never_wider_than_the_ceiling() {
    let ceiling = draft(
        "proc: { mem_limit: 64MiB, wall_timeout: 5s }\nfs: { deny: ['**/private'], mounts: [{ path: /workspace, access: rw, quota: 8MiB }] }\ndata: { secrets: redact }\naudit: { durable: true }\ntools: { max_calls: 3, default: allow }\nnet: { enabled: true, default: allow }",
    );
    let policy = Draft::empty().under(&Ceiling::from_draft(&ceiling)).unwrap();
    assert_eq!(policy.limits().memory, crate::ByteSize::mib(64));
    assert_eq!(policy.limits().wall.as_secs(), 5);
    assert_eq!(policy.limits().processes, 64);
    assert_eq!(policy.fs().mounts[0].quota, Some(crate::ByteSize::mib(8)));
    assert_eq!(policy.decide_host_file("a/private/x").effect(), RuleEffect::Deny);
    assert_eq!(policy.data().unwrap().secrets, Some(crate::SecretMode::Redact));
    assert!(policy.audit().durable);
    assert_eq!(policy.tools().max_calls, Some(3));
    // An open ceiling allows; it does not ask.
    assert_eq!(policy.tools().default, Some(RuleEffect::Deny));
    assert_eq!(policy.net().enabled, Some(false));
    assert_eq!(policy.net().default, None);
}

#[test]
fn the_message_names_asked_and_allowed() {
    let ceiling = Ceiling::from_draft(draft("proc: { mem_limit: 1GiB }"));
    let error = draft("proc: { mem_limit: 2GiB }\ntools: { rules: [{ allow: 'a.*' }] }")
        .under(&ceiling)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy `asked` is refused: `proc.mem_limit` asks for 2GiB, the ceiling allows 1GiB; `tools.rules[0]` asks for allow `a.*`, the ceiling allows no pattern that contains it"
    );
}

#[test]
fn a_failing_example_refuses_the_policy() {
    let error = draft("examples: [{ host: example.org, expect: allow }]")
        .under(&Ceiling::unlimited())
        .unwrap_err();
    assert_eq!(error.keys, []);
    assert_eq!(
        error.to_string(),
        "policy `asked` is refused: `examples[0]` expects allow for host `example.org`, `net.enabled` says deny"
    );
}

#[test]
fn a_policy_is_the_ceiling_of_requests() {
    let operator =
        draft("tools: { rules: [{ allow: 'files.*', where: { path: { under: /data } } }, { deny: files.delete }] }");
    let operator = operator.under(&Ceiling::unlimited()).unwrap();
    let request = operator
        .to_draft()
        .layer(&draft("tools: { rules: [{ allow: 'files.*' }] }"));
    let policy = request.under(&Ceiling::from_policy(&operator)).unwrap();
    let ask = |tool: &str, path: &str| {
        policy.decide_tool(tool, ToolHints::none(), &json!({ "path": path }), &CallHistory::new())
    };
    assert_eq!(ask("files.read", "/data/x").effect(), RuleEffect::Allow);
    // The request's own rule has no condition; the ceiling's still holds.
    let denied = ask("files.read", "/etc/passwd");
    assert_eq!(
        (denied.effect(), denied.rule().as_str()),
        (RuleEffect::Deny, "ceiling.tools.default")
    );
    assert_eq!(ask("files.delete", "/data/x").effect(), RuleEffect::Deny);
    let third = Draft::empty().under(&Ceiling::from_policy(&policy)).unwrap();
    assert_eq!(third.layers().len(), 3);
    assert_eq!(third.layers()[2].prefix, "ceiling2.");
}

fn verdicts() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("allow"), Just("ask"), Just("deny")]
}

prop_compose! {
    fn any_draft()(
        rules in prop::collection::vec((verdicts(), "(a|b|\\*)\\.(x|y|\\*|x\\*)", any::<bool>()), 0..4),
        default in prop::option::of(verdicts()),
        hosts in prop::collection::vec(("(a|b|\\*|\\*\\*)\\.example\\.com", prop::option::of(prop_oneof![Just("[GET]"), Just("[POST]")])), 0..3),
        denied in prop::collection::vec("(a|b|\\*)\\.example\\.com", 0..2),
        enabled in any::<bool>(),
        net_default in prop::option::of(verdicts()),
        memory in prop::option::of(1u32..2_000),
        processes in prop::option::of(1u32..200),
    ) -> Draft {
        let rules: Vec<_> = rules.into_iter().map(|(verdict, pattern, narrow)| {
            let mut rule = json!({ verdict: pattern });
            if narrow {
                rule["where"] = json!({ "path": { "under": "/data" } });
            }
            rule
        }).collect();
        let hosts: Vec<_> = hosts.into_iter().map(|(host, methods)| match methods {
            Some("[GET]") => json!({ "host": host, "methods": ["GET"] }),
            Some(_) => json!({ "host": host, "methods": ["POST"] }),
            None => json!(host),
        }).collect();
        let text = json!({
            "tools": { "rules": rules, "default": default },
            "net": { "enabled": enabled, "default": net_default, "allowlist": hosts, "denylist": denied },
            "proc": { "mem_limit": memory.map(|mib| format!("{mib}MiB")), "fork_limit": processes },
        });
        Draft::parse(&text.to_string(), "generated").unwrap()
    }
}

/// Removes one key from a draft.
fn strip(draft: &mut Draft, key: &str) {
    let place = key
        .split(['[', ']'])
        .nth(1)
        .map(|index| index.parse::<usize>().unwrap());
    let net = draft.net.as_mut().unwrap();
    let tools = draft.tools.as_mut().unwrap();
    match key.split('[').next().unwrap() {
        "tools.default" => tools.default = None,
        "tools.rules" => drop(tools.rules.remove(place.unwrap())),
        "net.enabled" => net.enabled = None,
        "net.default" => net.default = None,
        "net.allowlist" => drop(net.allowlist.remove(place.unwrap())),
        "proc.mem_limit" => draft.proc.as_mut().unwrap().mem_limit = None,
        "proc.fork_limit" => draft.proc.as_mut().unwrap().fork_limit = None,
        other => panic!("{other} was not asked for"),
    }
}

fn answers(policy: &Policy) -> Vec<Decision> {
    let mut answers = Vec::new();
    for tool in ["a.x", "a.y", "b.x", "b.xy", "c.x"] {
        for args in [
            json!({}),
            json!({ "path": "/data/f" }),
            json!({ "path": "/data/../etc" }),
        ] {
            answers.push(policy.decide_tool(tool, ToolHints::none(), &args, &CallHistory::new()));
        }
    }
    for host in [
        "a.example.com",
        "b.example.com",
        "c.example.com",
        "x.a.example.com",
        "example.com",
        "10.0.0.1",
    ] {
        for method in [HttpMethod::Get, HttpMethod::Head, HttpMethod::Post] {
            let host: Host = host.parse().unwrap();
            let request = HostRequest {
                host,
                scheme: Scheme::Https,
                port: 443,
                method: Some(method),
                path: None,
            };
            answers.push(policy.decide_host(&request));
        }
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn under_a_ceiling_nothing_is_looser_than_the_ceiling(asked in any_draft(), top in any_draft()) {
        let most = top.clone().under(&Ceiling::unlimited()).unwrap();
        for ceiling in [Ceiling::from_draft(&top), Ceiling::from_policy(&most)] {
            if let Ok(policy) = asked.clone().under(&ceiling) {
                for (mine, above) in answers(&policy).iter().zip(answers(&most)) {
                    prop_assert!(mine.effect() >= above.effect(), "{:?} {:?}", mine, above);
                }
                prop_assert!(policy.limits().memory <= most.limits().memory);
                prop_assert!(policy.limits().processes <= most.limits().processes);
            }
        }
    }

    #[test]
    fn without_the_named_keys_a_draft_is_accepted_and_no_looser(asked in any_draft(), top in any_draft()) {
        let ceiling = Ceiling::from_draft(&top);
        let most = top.under(&Ceiling::unlimited()).unwrap();
        let mut asked = asked;
        if let Err(error) = asked.clone().under(&ceiling) {
            for excess in error.keys.iter().rev() {
                strip(&mut asked, &excess.key);
            }
        }
        let policy = asked.under(&ceiling).unwrap();
        for (mine, above) in answers(&policy).iter().zip(answers(&most)) {
            prop_assert!(mine.effect() >= above.effect(), "{:?} {:?}", mine, above);
        }
    }

    #[test]
    fn a_draft_lies_under_itself(asked in any_draft()) {
        let policy = asked.clone().under(&Ceiling::from_draft(&asked));
        prop_assert!(policy.is_ok(), "{:?}", policy);
    }

    #[test]
    fn a_deny_only_ever_narrows(asked in any_draft(), tool in "(a|b)\\.(x|y)") {
        let before = asked.clone().under(&Ceiling::unlimited()).unwrap();
        let after = asked.set("tools.rules", &format!("[{{ deny: '{tool}' }}]")).unwrap();
        let after = after.under(&Ceiling::unlimited()).unwrap();
        for (mine, old) in answers(&after).iter().zip(answers(&before)) {
            prop_assert!(mine.effect() >= old.effect());
        }
        prop_assert_eq!(after.decide_tool(&tool, ToolHints::none(), &json!({}), &CallHistory::new()).effect(), RuleEffect::Deny);
    }

    #[test]
    fn layering_is_idempotent(base in any_draft(), over in any_draft()) {
        let once = base.layer(&over);
        prop_assert_eq!(once.layer(&over), once);
    }
}

#[test]
fn limits_on_calls_are_at_most_the_ceilings() {
    let top = "tools: { limits: { tenant: 100/min, session: 10/s } }";
    check(
        top,
        "tools: { limits: { tenant: 99/min, session: 10/s, tool: 1000/s } }",
        &[],
    );
    check(top, "tools: { limits: { tenant: 101/min } }", &["tools.limits.tenant"]);
    check(
        top,
        "tools: { limits: { tenant: 2/s, session: 11/s } }",
        &["tools.limits.tenant", "tools.limits.session"],
    );
}

#[test]
fn a_refusal_names_some_keys_and_counts_the_rest() {
    let rules: Vec<_> = (0..3000)
        .map(|number| json!({ "allow": format!("a{number}.b") }))
        .collect();
    let asked = json!({ "tools": { "rules": rules } }).to_string();
    let error = draft(&asked).under(&Ceiling::from_draft(draft("{}"))).unwrap_err();
    assert_eq!(error.keys.len(), 3000);
    for text in [error.to_string(), error.rule()] {
        assert!(text.ends_with("and 2980 more") && text.len() < 4 << 10, "{text}");
    }
}
