use super::*;
use crate::Ceiling;

fn policy(text: &str) -> Policy {
    Draft::parse(text, "mine")
        .unwrap()
        .under(&Ceiling::unlimited())
        .unwrap()
}

#[test]
fn the_built_in_default_is_as_promised() {
    let policy = Draft::builtin().under(&Ceiling::unlimited()).unwrap();
    let expected = ProgramLimits {
        cpu: CpuCount::millis(2_000).unwrap(),
        memory: ByteSize::mib(512),
        wall: Duration::from_secs(30),
        cpu_time: Duration::from_mins(1),
        lifetime: Duration::from_hours(1),
        processes: 64,
        open_files: 256,
        output: ByteSize::mib(1),
        programs: AllowedPrograms::All,
    };
    assert_eq!(policy.limits(), &expected);
    let network = crate::NetLimits {
        connections: 256,
        rate: "6000/min".parse().unwrap(),
        bytes: ByteSize::gib(1),
    };
    assert_eq!(policy.net_limits(), network);
    assert_eq!(policy.fs().mounts.len(), 2);
    assert_eq!(policy.fs().deny.len(), 14);
    assert_eq!(
        policy.env().iter().collect::<Vec<_>>(),
        [(&"LANG".to_owned(), &"C.UTF-8".to_owned())]
    );
    assert_eq!(
        policy.audit(),
        &AuditPolicy {
            durable: false,
            keep: Duration::from_hours(90 * 24),
            session_bytes: "64MiB".parse().unwrap(),
            output: JournalOutput::Head
        }
    );
    let data = "data: { pii: { mode: alias, inside: alias, names: keys, kinds: [email, phone, card, iban, ssn, name], reveal_to: [] }, secrets: redact, return: { bytes: 30KiB, rows: 200 } }";
    assert_eq!(policy.data(), Draft::parse(data, "").unwrap().data.as_ref());
    assert_eq!(policy.name(), "default");
}

#[test]
fn the_digest_is_of_what_is_in_force() {
    let base = policy("");
    assert_eq!(base.digest(), policy("proc: { mem_limit: 512MiB }").digest());
    assert_eq!(base.digest(), policy("proc: { mem_limit: 536870912 }").digest());
    assert_eq!(
        base.digest(),
        policy("examples: [{ host: a.example.org, expect: deny }]").digest()
    );
    assert_ne!(base.digest(), policy("proc: { mem_limit: 513MiB }").digest());
    assert_ne!(base.digest(), policy("env: { A: b }").digest());
    let narrow = Draft::empty().under(&Ceiling::from_policy(&policy("tools: { rules: [{ deny: a.b }] }")));
    assert_ne!(
        base.digest(),
        narrow.unwrap().digest(),
        "a ceiling's rules are in force too"
    );
}

#[test]
fn a_policy_shows_everything_in_force() {
    let top = policy("tools: { rules: [{ allow: 'a.*' }] }");
    let shown = Draft::empty().under(&Ceiling::from_policy(&top)).unwrap().to_json();
    assert_eq!(shown["policy"]["proc"]["mem_limit"], "512MiB");
    assert_eq!(shown["ceilings"][0]["tools"]["rules"][0]["allow"], "a.*");
    assert_eq!(shown["digest"].as_str().unwrap().len(), 64);
}

#[test]
fn guest_paths_follow_the_deepest_mount() {
    let policy = policy("fs: { mounts: [{ path: /workspace/data, access: ro, from: data }] }");
    let ask = |path: &str, access| {
        let decision = policy.decide_guest_path(&path.parse().unwrap(), access);
        (decision.effect(), decision.rule().to_string())
    };
    let rule = |verdict, rule: &str| (verdict, rule.to_owned());
    assert_eq!(
        ask("/workspace/x", FileAccess::Write),
        rule(RuleEffect::Allow, "fs.mounts[0]")
    );
    assert_eq!(
        ask("/workspace/data/x", FileAccess::Read),
        rule(RuleEffect::Allow, "fs.mounts[2]")
    );
    assert_eq!(
        ask("/workspace/data/x", FileAccess::Write),
        rule(RuleEffect::Deny, "fs.mounts[2]")
    );
    assert_eq!(
        ask("/workspace/data/.env", FileAccess::Read),
        rule(RuleEffect::Deny, "fs.deny[**/.env*]")
    );
    assert_eq!(
        ask("/workspaces", FileAccess::Read),
        rule(RuleEffect::Deny, "fs.mounts")
    );
    assert_eq!(policy.decide_host_file("../x").rule().as_str(), "builtin.paths");
    assert_eq!(policy.decide_host_file("src/main.rs").effect(), RuleEffect::Allow);
}

#[test]
fn a_kept_place_is_kept_for_a_day_unless_written() {
    let policy = policy(
        "fs: { mounts: [{ path: /workspace, access: rw, quota: 1GiB, keep: true }, { path: /tmp, access: rw, quota: 1MiB, keep: true, keep_for: 1h }] }",
    );
    let kept: Vec<(bool, u64)> = policy
        .fs()
        .mounts
        .iter()
        .map(|mount| (mount.keep, mount.keep_for.as_secs()))
        .collect();
    assert_eq!(kept, [(true, 86_400), (true, 3_600)]);
}

#[test]
fn another_name_of_a_host_is_judged_by_the_denylists_alone() {
    let draft = |text: &str| Draft::parse(text, "t").unwrap();
    let ceiling = draft("net: { enabled: true, default: allow, denylist: ['**.above.example.org'] }");
    let own = draft("net: { enabled: true, allowlist: [a.example.com], denylist: [own.example.org] }");
    let policy = own.under(&Ceiling::from_draft(&ceiling)).unwrap();
    for (host, rule) in [
        ("own.example.org", Some("net.denylist[")),
        ("x.above.example.org", Some("ceiling.net.denylist[")),
        ("metadata.google.internal", Some("builtin.hosts")),
        ("cdn.example.net", None),
    ] {
        let request = HostRequest {
            host: host.parse().unwrap(),
            scheme: crate::Scheme::Https,
            port: 443,
            method: None,
            path: None,
        };
        let decision = policy.decide_alias(&request);
        assert_eq!(
            decision.effect() == RuleEffect::Deny,
            rule.is_some(),
            "{host}: {decision:?}"
        );
        let prefix = rule.unwrap_or_default();
        assert!(decision.rule().as_str().starts_with(prefix), "{host}: {decision:?}");
    }
}

#[test]
fn it_is_known_whether_people_may_be_asked() {
    #[track_caller]
    fn check(own: &str, ceiling: &str, asks: bool, for_drift: bool) {
        let draft = |tools: &str| Draft::parse(&format!("tools: {{ {tools} }}"), "t").unwrap();
        let policy = draft(own).under(&Ceiling::from_draft(draft(ceiling))).unwrap();
        assert_eq!(
            (policy.may_ask(), policy.may_ask_for_drift()),
            (asks, for_drift),
            "{own}"
        );
    }
    const ALL: &str = "rules: [{ allow: 'a.*' }]";
    check("rules: [{ deny: 'a.*' }]", ALL, false, false);
    check(ALL, ALL, false, true);
    check("rules: [{ allow: 'a.*' }], drift: deny", ALL, false, false);
    check("rules: [{ ask: 'a.*' }], drift: deny", ALL, true, false);
    check("default: ask, drift: deny", "default: ask", true, false);
    check(
        "rules: [{ allow: 'a.*' }], drift: deny",
        "rules: [{ allow: 'a.*' }, { ask: a.b }]",
        true,
        false,
    );
}

#[test]
fn a_call_of_before_counts_under_what_may_have_been_about_it() {
    let text = "tools: { rules: [\
        { allow: a.x, where: { p: { equals: 1 } }, rate: 1/h },\
        { allow: 'a.*', rate: 2/h },\
        { allow: a.x, where: { p: { equals: 2 } }, rate: 3/h },\
        { ask: a.x, where: { p: { equals: 3 } }, rate: 4/h },\
        { allow: b.x, rate: 5/h }] }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    let rates = |by: &str| -> Vec<String> {
        let rates = policy.rates_of_past_call(&"a.x".parse().unwrap(), by);
        rates.iter().map(|(rule, _)| rule.to_string()).collect()
    };
    assert_eq!(rates("tools.rules[1]"), ["tools.rules[1]", "tools.rules[2]"]);
    assert_eq!(
        rates("tools.rules[0]"),
        ["tools.rules[0]", "tools.rules[1]", "tools.rules[2]"]
    );
    let all = ["tools.rules[0]", "tools.rules[1]", "tools.rules[2]", "tools.rules[3]"];
    assert_eq!(rates("tools.rules[3]"), all);
    // A standing rule decided, or rules that have changed since.
    assert_eq!(rates("rules.yaml[0]"), all);
}
