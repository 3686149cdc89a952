//! Which backends a name leads to, and what one that is for tests says of itself.

use std::sync::Arc;

use ringfence_policy::{Ceiling, Draft};

use super::{Backend, BackendKind, BackendLaunchError};
use crate::spec::{Spec, SpecOptions};

#[test]
fn a_name_leads_to_what_users_may_choose_and_to_nothing_else() {
    for kind in BackendKind::ALL {
        assert_eq!(BackendKind::from_name(kind.name()), Some(kind));
    }
    for name in [BackendKind::TestProcess.name(), "container", "Native", ""] {
        assert_eq!(BackendKind::from_name(name), None, "{name}");
    }
    assert!(BackendKind::ALL.contains(&BackendKind::default()));
}

fn spec(settings: &[(&str, &str)]) -> Arc<Spec> {
    let set = |draft: Draft, (key, value): &(&str, &str)| draft.set(key, value).unwrap();
    let draft = settings.iter().fold(Draft::builtin(), set);
    let policy = draft.under(&Ceiling::unlimited()).unwrap();
    Arc::new(Spec::new(&policy, &SpecOptions::default()).unwrap())
}

#[tokio::test]
async fn an_ordinary_process_is_refused_what_it_does_not_hold() {
    let name = format!("ringfence-refused-{}", std::process::id());
    let backend = Backend::new(BackendKind::TestProcess, &name).unwrap();
    let enforced = backend.enforcement(&spec(&[]));
    for rule in ["fs.mounts", "net.enabled"] {
        assert!(enforced.iter().all(|one| one.rule != rule), "{rule} is not enforced");
    }
    assert!(!backend.soft_rules(&spec(&[])).is_empty());
    assert!(backend.support().held.is_empty());
    let folder = tempfile::tempdir().unwrap();
    let mounts = format!("[{{ path: /data, access: ro, from: {} }}]", folder.path().display());
    for settings in [("net.enabled", "true"), ("fs.mounts", &mounts)] {
        let error = backend.launch(&spec(&[settings])).await.unwrap_err();
        assert!(matches!(error, BackendLaunchError::Unsupported { .. }), "{error}");
    }
}
