use std::time::Instant;

use super::*;
use crate::plan::ProcessLimits;

#[test]
fn a_template_that_ends_at_once_is_an_error_and_not_a_wait() {
    let nothing = Plan {
        ids: UserIds::choose().unwrap(),
        entries: Vec::new(),
        landlock_rules: Vec::new(),
        limits: ProcessLimits {
            open_files: 64,
            processes: None,
            file_bytes: 1 << 20,
            processors: None,
        },
        handles: Vec::new(),
    };
    let launcher = Launcher::start(SealedProgram::new(&fs::read("/bin/true").unwrap()).unwrap()).unwrap();
    let started = Instant::now();
    for _ in 0..2 {
        let error = launcher.launch(nothing.clone()).unwrap_err();
        assert!(matches!(error, LauncherError::Template(_)), "{error:?}");
    }
    assert!(started.elapsed() < LAUNCH_TIMEOUT);
}

#[test]
fn a_number_for_a_sandbox_is_never_root() {
    let check = |map: &str, expected: Option<u32>| assert_eq!(unprivileged_number(map, 7), expected, "{map}");
    check("0 0 4294967295", Some(0x4000_0007));
    check("0 100000 65536", Some(8));
    check("0 1000 1", Some(0));
    check("0 0 1", None);
    check("", None);
}
