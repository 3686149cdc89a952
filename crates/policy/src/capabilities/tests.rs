use super::*;
use crate::{Ceiling, Draft};

#[track_caller]
fn check(text: &str, built: &SupportedCapabilities, expected: &[&str]) {
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    let keys: Vec<String> = policy.unsupported(built).into_iter().map(|item| item.key).collect();
    assert_eq!(keys, expected, "{text}");
}

/// The capabilities that the built-in default requires.
fn clean() -> SupportedCapabilities {
    [
        Capability::Aliases,
        Capability::SecretRedaction,
        Capability::ReturnCaps,
        Capability::RowCaps,
    ]
    .into_iter()
    .fold(SupportedCapabilities::foundation(), SupportedCapabilities::with)
}

#[test]
fn the_default_and_the_first_levels_need_clean_data_and_nothing_more() {
    let data = ["data.pii", "data.secrets", "data.return.bytes", "data.return.rows"];
    check("", &SupportedCapabilities::foundation(), &data);
    for name in ["default", "level-1", "level-2"] {
        let policy = Draft::preset(name).unwrap().under(&Ceiling::unlimited()).unwrap();
        assert_eq!(policy.unsupported(&clean()), [], "{name}");
        assert_eq!(policy.data(), Draft::builtin().data.as_ref());
        assert_eq!(policy.approvals(), Draft::builtin().approvals.as_ref());
    }
}

#[test]
fn permissions_and_protections_without_mechanism_are_named() {
    let none = clean();
    check("net: { enabled: true }", &none, &["net.enabled"]);
    check("net: { enabled: false, allowlist: [a.example.org] }", &none, &[]);
    check("tools: { rules: [{ deny: 'a.*' }], max_calls: 5 }", &none, &[]);
    check(
        "tools: { rules: [{ deny: 'a.*' }, { allow: b.c }] }",
        &none,
        &["tools.rules[1]"],
    );
    check("tools: { default: ask }", &none, &["tools.default"]);
    check("approvals: { timeout: 1m }", &none, &["approvals"]);
    check(
        "fs: { mounts: [{ path: /workspace, access: rw, quota: 1MiB, keep: true }, { path: /data, access: rw, from: x }] }",
        &none,
        &["fs.mounts[/workspace].keep", "fs.mounts[/data].access"],
    );
    check("audit: { durable: true, output: all }", &none, &[]);
}

#[test]
fn protections_of_data_without_mechanism_are_named() {
    let none = SupportedCapabilities::foundation();
    let caps = ["data.return.bytes", "data.return.rows"];
    check("data: { pii: { mode: 'off' }, secrets: 'off' }", &none, &caps);
    check(
        "data: { pii: { kinds: [email] }, secrets: 'off' }",
        &none,
        &["data.pii", caps[0], caps[1]],
    );
    check(
        "data: { pii: { mode: 'off' } }",
        &none.with(Capability::ReturnCaps),
        &["data.secrets", "data.return.rows"],
    );
}

#[test]
fn what_is_built_is_no_longer_named() {
    let some = clean().with(Capability::Network).with(Capability::Tools);
    check("net: { enabled: true }\ntools: { default: ask }", &some, &[]);
    let policy = Draft::parse("approvals: { timeout: 1m }", "x")
        .unwrap()
        .under(&Ceiling::unlimited())
        .unwrap();
    assert_eq!(
        policy.unsupported(&some)[0].to_string(),
        "`approvals` needs approvals, which this version does not have; hint: leave the section out"
    );
}
