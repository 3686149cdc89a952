use super::*;
use crate::{AllowedPrograms, Ceiling};

#[test]
fn every_preset_parses_and_keeps_its_examples() {
    for name in presets() {
        let draft = Draft::parse(preset_text(name).unwrap(), name).unwrap();
        assert!(draft.examples.len() >= 5, "{name} shows what it does");
        assert_eq!(draft.check_examples(), Ok(()), "{name}");
        let policy = draft.under(&Ceiling::unlimited()).unwrap();
        assert_eq!(policy.name(), name);
        assert_eq!(policy.digest().len(), 64);
    }
}

#[test]
fn an_unknown_preset_is_none() {
    assert_eq!(Draft::preset("level-5"), None);
    assert_eq!(Draft::preset("builtin"), None);
}

#[test]
fn net_presets_name_rules_for_reading() {
    for preset in [NetPreset::PythonPackages, NetPreset::Npm, NetPreset::GithubRead] {
        assert!(!preset.rules().is_empty(), "{preset}");
        assert!(preset.rules().iter().all(|rule| rule.methods.is_some()), "{preset}");
    }
}

#[test]
fn levels_have_the_profile_of_a_task() {
    for name in ["level-1", "level-2", "level-3", "level-4"] {
        let policy = Draft::preset(name).unwrap().under(&Ceiling::unlimited()).unwrap();
        let limits = policy.limits();
        assert_eq!(limits.cpu.as_millis(), 2_000);
        assert_eq!(limits.memory, crate::ByteSize::gib(4));
        assert_eq!(limits.wall.as_secs(), 600);
        let workspace = &policy.fs().mounts[0];
        assert_eq!(workspace.path.as_str(), "/workspace");
        assert_eq!(workspace.quota, Some(crate::ByteSize::gib(10)));
        let expected = match name {
            "level-1" => AllowedPrograms::None,
            _ => AllowedPrograms::All,
        };
        assert_eq!(limits.programs, expected, "{name}");
    }
}

#[test]
fn model_vendors_are_bare_hosts_and_found_by_each_spelling_of_a_rule() {
    let rules = DenyPreset::ModelVendors.rules();
    assert!(rules.len() > 100, "{}", rules.len());
    for (place, rule) in rules.iter().enumerate() {
        assert_eq!(*rule, HostRule::for_host(rule.host.clone()), "only hosts are named");
        let host: Host = rule.host.as_str().replace('*', "x1").parse().unwrap();
        let found = DenyPreset::ModelVendors.matching_rule(&host).unwrap();
        assert!(found == place || rules[found].host.matches(&host), "{host}");
    }
    for open in [
        "huggingface.co",
        "storage.googleapis.com",
        "s3.eu-west-1.amazonaws.com",
        "github.com",
        "pypi.org",
        "93.184.216.34",
    ] {
        assert_eq!(
            DenyPreset::ModelVendors.matching_rule(&open.parse().unwrap()),
            None,
            "{open}"
        );
    }
}

#[test]
fn a_preset_in_a_denylist_is_a_name_that_wins() {
    let text = "net: { enabled: true, default: allow, allowlist: [openrouter.ai], denylist: ['preset:model-vendors', a.example.org] }";
    let draft = Draft::parse(text, "test").unwrap();
    let written = serde_json::to_value(&draft).unwrap();
    assert_eq!(
        written["net"]["denylist"],
        serde_json::json!(["preset:model-vendors", "a.example.org"])
    );
    let policy = draft.under(&Ceiling::unlimited()).unwrap();
    let asked = |host: &str| {
        let request = crate::HostRequest {
            host: host.parse().unwrap(),
            scheme: crate::Scheme::Https,
            port: 443,
            method: None,
            path: None,
        };
        policy.decide_host(&request).rule().as_str().to_owned()
    };
    for host in [
        "openrouter.ai",
        "api.anthropic.com",
        "bedrock-runtime.us-east-1.amazonaws.com",
        "my.openai.azure.com",
    ] {
        assert!(
            asked(host).starts_with("net.denylist[0].model-vendors["),
            "{host}: {}",
            asked(host)
        );
    }
    assert_eq!(asked("a.example.org"), "net.denylist[1]");
    assert_eq!(asked("b.example.org"), "net.default");
    let unknown = Draft::parse("net: { denylist: ['preset:vendors'] }", "test")
        .unwrap_err()
        .to_string();
    assert!(
        unknown.contains("there is no `preset:vendors`; known: `preset:model-vendors`"),
        "{unknown}"
    );
    assert!(Draft::parse("net: { allowlist: ['preset:model-vendors'] }", "test").is_err());
}

#[test]
fn all_tls_is_ended_where_the_policy_or_its_ceiling_says_so() {
    let draft = |text: &str| Draft::parse(text, "test").unwrap();
    let request = crate::HostRequest {
        host: "a.example.org".parse().unwrap(),
        scheme: crate::Scheme::Https,
        port: 443,
        method: None,
        path: None,
    };
    let ends = |ceiling: &str, own: &str| {
        let policy = draft(own).under(&Ceiling::from_draft(draft(ceiling)));
        policy
            .map(|policy| (policy.terminates_tls(&request), policy.needs_inspection(&request)))
            .map_err(|error| error.keys[0].key.clone())
    };
    let all = "net: { inspect: all }";
    assert_eq!(ends("", ""), Ok((false, false)));
    assert_eq!(ends("", all), Ok((true, false)));
    assert_eq!(ends(all, ""), Ok((true, false)));
    assert_eq!(ends(all, "net: { inspect: needed }"), Err("net.inspect".to_owned()));
}
