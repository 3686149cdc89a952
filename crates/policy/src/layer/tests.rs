use crate::{ByteSize, Draft};

fn draft(text: &str) -> Draft {
    Draft::parse(text, "").unwrap()
}

#[test]
fn scalars_replace_and_the_rest_stays() {
    let base = draft("proc: { mem_limit: 1GiB, fork_limit: 8 }\ntools: { default: deny }");
    let over = draft("proc: { mem_limit: 2GiB }\ntools: { default: ask }");
    let expected = draft("proc: { mem_limit: 2GiB, fork_limit: 8 }\ntools: { default: ask }");
    assert_eq!(base.layer(&over), expected);

    let base = draft("net: { limits: { connections: 8, rate: 5/s } }");
    let over = draft("net: { limits: { rate: 60/min, bytes: 1MiB } }");
    let expected = draft("net: { limits: { connections: 8, rate: 60/min, bytes: 1MiB } }");
    assert_eq!(base.layer(&over), expected);
}

#[test]
fn mounts_replace_by_path() {
    let over =
        draft("fs: { mounts: [{ path: /tmp, access: rw, quota: 1MiB }, { path: /deps, access: ro, from: deps }] }");
    let mounts = Draft::builtin().layer(&over).fs.unwrap().mounts;
    let seen: Vec<(&str, Option<ByteSize>)> = mounts.iter().map(|mount| (mount.path.as_str(), mount.quota)).collect();
    let expected = [
        ("/workspace", Some(ByteSize::mib(128))),
        ("/tmp", Some(ByteSize::mib(1))),
        ("/deps", None),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn lists_of_rules_add_and_environment_merges() {
    let base = draft(
        "net: { allowlist: [a.example.org], denylist: [x.example.org] }\nfs: { deny: [a] }\nenv: { A: '1', B: '1' }\ntools: { rules: [{ allow: a.b }] }",
    );
    let over = draft(
        "net: { allowlist: [b.example.org, a.example.org], denylist: [y.example.org] }\nfs: { deny: [b] }\nenv: { B: '2' }\ntools: { rules: [{ deny: a.b }] }",
    );
    let expected = draft(
        "net: { allowlist: [a.example.org, b.example.org], denylist: [x.example.org, y.example.org] }\nfs: { deny: [a, b] }\nenv: { A: '1', B: '2' }\ntools: { rules: [{ allow: a.b }, { deny: a.b }] }",
    );
    assert_eq!(base.layer(&over), expected);
}

#[test]
fn data_and_approvals_merge_key_by_key() {
    let base = draft(
        "data: { pii: { mode: alias, kinds: [email], own: [{ name: badge, pattern: x }] }, return: { rows: 5 } }\napprovals: { timeout: 1m, by: [inbox] }\naudit: { durable: true }",
    );
    let over = draft(
        "data: { pii: { kinds: [ip], own: [{ name: badge, pattern: x }, { name: badge, pattern: y }] }, secrets: redact, return: { bytes: 1KiB } }\napprovals: { by: [client] }\naudit: { output: none }",
    );
    let expected = draft(
        "data: { pii: { mode: alias, kinds: [ip], own: [{ name: badge, pattern: x }, { name: badge, pattern: y }] }, secrets: redact, return: { bytes: 1KiB, rows: 5 } }\napprovals: { timeout: 1m, by: [client] }\naudit: { durable: true, output: none }",
    );
    assert_eq!(base.layer(&over), expected);
}

#[test]
fn laying_twice_is_laying_once() {
    for name in crate::presets() {
        let base = Draft::builtin();
        let over = Draft::preset(name).unwrap();
        let once = base.layer(&over);
        assert_eq!(once.layer(&over), once, "{name}");
        assert_eq!(
            over.layer(&Draft::empty()),
            Draft {
                examples: Vec::new(),
                ..over.clone()
            }
        );
    }
}
