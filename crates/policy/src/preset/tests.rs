use super::*;
use crate::Ceiling;

#[test]
fn every_preset_parses_and_keeps_its_examples() {
    for name in presets() {
        let draft = Draft::parse(preset_text(name).unwrap(), name).unwrap();
        assert!(draft.examples.len() >= 5, "{name} shows what it does");
        assert_eq!(draft.check_examples(), Ok(()), "{name}");
        let policy = draft.under(&Ceiling::own_word()).unwrap();
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
        let policy = Draft::preset(name).unwrap().under(&Ceiling::own_word()).unwrap();
        let limits = policy.limits();
        assert_eq!(limits.cpu.as_millis(), 2_000);
        assert_eq!(limits.memory, crate::Bytes::gib(4));
        assert_eq!(limits.wall.as_secs(), 600);
        let workspace = &policy.fs().mounts[0];
        assert_eq!(workspace.path.as_str(), "/workspace");
        assert_eq!(workspace.quota, Some(crate::Bytes::gib(10)));
    }
}
