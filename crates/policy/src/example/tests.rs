use super::*;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let draft = Draft::parse(text, "x").unwrap();
    let failed = draft.check_examples().err().unwrap_or_default();
    let lines: Vec<String> = failed.iter().map(ToString::to_string).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_failing_example_says_expected_got_and_rule() {
    check(
        "tools: { rules: [{ allow: 'a.*' }, { deny: a.x }] }\nexamples:\n  - { tool: a.y, expect: allow }\n  - { tool: a.x, expect: allow }\n  - { tool: b.x, expect: ask }\n  - { tool: 'a b', expect: allow }",
        &[
            "`examples[1]` expects allow for tool `a.x`, `tools.rules[1]` says deny",
            "`examples[2]` expects ask for tool `b.x`, `tools.default` says deny",
            "`examples[3]` expects allow for tool `a b`, `builtin.names` says deny",
        ],
    );
    check(
        "net: { enabled: true, allowlist: [a.example.org] }\nexamples:\n  - { host: a.example.org, expect: deny }\n  - { host: a.example.org, port: 80, expect: allow }\n  - { host: '0x7f.1', expect: allow }\n  - { host: a.example.org, url_path: /../x, expect: allow }",
        &[
            "`examples[0]` expects deny for host `a.example.org`, `net.allowlist[0]` says allow",
            "`examples[1]` expects allow for host `a.example.org`, `net.default` says deny",
            "`examples[2]` expects allow for host `0x7f.1`, `builtin.hosts` says deny",
            "`examples[3]` expects allow for host `a.example.org`, `builtin.hosts` says deny",
        ],
    );
    check(
        "examples:\n  - { path: /workspace/x, access: rw, expect: deny }\n  - { path: .ssh/x, expect: allow }\n  - { path: ../x, expect: allow }\n  - { path: /workspace/.env, expect: allow }",
        &[
            "`examples[0]` expects deny for path `/workspace/x`, `fs.mounts[0]` says allow",
            "`examples[1]` expects allow for path `.ssh/x`, `fs.deny[**/.ssh/**]` says deny",
            "`examples[2]` expects allow for path `../x`, `builtin.paths` says deny",
            "`examples[3]` expects allow for path `/workspace/.env`, `fs.deny[**/.env*]` says deny",
        ],
    );
}

#[test]
fn an_example_asks_exactly_one_thing() {
    let message = "`examples[0]` must name exactly one of `tool`, `host`, `path`";
    check("examples: [{ expect: deny }]", &[message]);
    check(
        "examples: [{ tool: a.b, host: a.example.org, expect: deny }]",
        &[message],
    );
}
