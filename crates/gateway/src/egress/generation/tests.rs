use ringfence_policy::{Ceiling, Draft, Scheme};

use super::*;

fn policy(net: &str) -> Arc<Policy> {
    let draft = Draft::parse(&format!("net: {{ enabled: true, {net} }}"), "t").unwrap();
    Arc::new(draft.under(&Ceiling::unlimited()).unwrap())
}

fn crossing(host: &str) -> ActiveFlow {
    ActiveFlow {
        request: HostRequest {
            host: host.parse().unwrap(),
            scheme: Scheme::Https,
            port: 443,
            method: None,
            path: None,
        },
        addresses: vec!["93.184.216.34".parse().unwrap()],
        is_opaque: true,
        hang_up: None,
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_judged_by_old_rules_gets_no_place() {
    let rules = Arc::new(EgressPolicy::new(policy("default: allow")));
    let before = rules.snapshot();
    assert_eq!(rules.replace_policy(policy("default: allow")).await, 2);
    assert!(rules.admit(&before, crossing("a.example.com")).is_none());
    assert!(rules.admit(&rules.snapshot(), crossing("a.example.com")).is_some());
}

#[tokio::test]
async fn a_change_waits_until_what_it_forbids_is_gone() {
    let rules = Arc::new(EgressPolicy::new(policy("default: allow")));
    let forbidden = rules.admit(&rules.snapshot(), crossing("a.example.com")).unwrap();
    let allowed = rules.admit(&rules.snapshot(), crossing("b.example.com")).unwrap();
    let leaving = tokio::spawn(async move {
        forbidden.wait_until_closed().await;
        assert!(forbidden.is_closed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    });
    assert_eq!(rules.replace_policy(policy("allowlist: [b.example.com]")).await, 2);
    assert!(
        leaving.is_finished() || rules.state().live.len() == 1,
        "it left before the change was told"
    );
    assert!(!allowed.is_closed());
    assert_eq!(rules.state().live.len(), 1);
    rules.close_all();
    assert!(allowed.is_closed());
}

#[tokio::test]
async fn denied_addresses_and_rules_to_see_close_as_well() {
    for net in [
        "default: allow, denylist: [93.184.216.34]",
        "allowlist: [{ host: a.example.com, paths: ['/a'] }]",
        "default: ask",
    ] {
        let rules = Arc::new(EgressPolicy::new(policy("default: allow")));
        let place = rules.admit(&rules.snapshot(), crossing("a.example.com")).unwrap();
        let leaving = tokio::spawn(async move { place.wait_until_closed().await });
        rules.replace_policy(policy(net)).await;
        leaving.await.unwrap();
        assert!(rules.state().live.is_empty(), "{net}");
    }
}
