use super::*;
use crate::{Host, HostRequest, Scheme};

fn draft(text: &str) -> Draft {
    Draft::parse(text, "mine").unwrap()
}

#[test]
fn a_policy_is_restored_with_its_ceilings() {
    let own = draft(
        "net: { enabled: true, allowlist: [a.example.org], limits: { rate: 5/s } }\ntools: { rules: [{ allow: a.b }] }",
    );
    let ceiling = Ceiling::from_draft(draft(
        "net: { enabled: true, default: allow, denylist: [b.example.org] }\ntools: { rules: [{ allow: 'a.*', rate: 5/min }] }\nfs: { deny: ['**/x'] }",
    ));
    let under = own.clone().under(&ceiling).unwrap();
    let twice = draft("net: { enabled: true }\nproc: { mem_limit: 64MiB }")
        .under(&Ceiling::from_policy(&under))
        .unwrap();
    let mut policies = vec![own.under(&Ceiling::unlimited()).unwrap(), under, twice];
    for name in crate::presets() {
        policies.push(Draft::preset(name).unwrap().under(&Ceiling::unlimited()).unwrap());
    }
    for policy in policies {
        let json: Value = serde_json::from_str(&policy.to_json().to_string()).unwrap();
        let restored = Policy::restore(&json).unwrap();
        assert_eq!((restored.digest(), restored.name()), (policy.digest(), policy.name()));
        for host in ["a.example.org", "b.example.org", "pypi.org", "10.0.0.1"] {
            let host: Host = host.parse().unwrap();
            let request = HostRequest {
                host,
                scheme: Scheme::Https,
                port: 443,
                method: None,
                path: None,
            };
            assert_eq!(restored.decide_host(&request), policy.decide_host(&request));
        }
    }
}

#[test]
fn what_was_changed_is_not_restored() {
    let policy = draft("net: { enabled: true }").under(&Ceiling::unlimited()).unwrap();
    let mut json = policy.to_json();
    json["policy"]["net"]["allowlist"] = serde_json::json!(["evil.example.org"]);
    assert_eq!(Policy::restore(&json), None);
    assert_eq!(Policy::restore(&Value::Null), None);
}
