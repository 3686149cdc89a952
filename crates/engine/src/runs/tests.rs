use ringfence_policy::{Ceiling, Draft};

use super::*;

fn me() -> Principal {
    Principal::Local(1)
}

fn added(runs: &RunRegistry) -> Result<Arc<TrackedRun>, OperationError> {
    let id = ExecutionId::generate().unwrap();
    let place = runs.place(me())?;
    Ok(runs.add(id, through(), (me(), place), PathBuf::new()).0)
}

fn through() -> ReadContext {
    ReadContext {
        redactor: Arc::default(),
        policy: Arc::new(Draft::builtin().under(&Ceiling::unlimited()).unwrap()),
        rules: std::sync::Weak::new(),
        draft: None,
        session: SessionId::generate().unwrap(),
    }
}

fn over(runs: &RunRegistry, run: &TrackedRun) -> usize {
    run.finish(Err(Arc::new(OperationError::Abandoned)));
    runs.record_end(run).len()
}

#[test]
fn one_principal_has_so_many_at_once_and_another_has_its_own() {
    let runs = RunRegistry::default();
    let all: Vec<_> = (0..MAX_ACTIVE_RUNS).map(|_| added(&runs).unwrap()).collect();
    assert!(matches!(added(&runs), Err(OperationError::TooManyRuns)));
    assert!(runs.place(Principal::Local(2)).is_ok());
    over(&runs, &all[0]);
    assert!(added(&runs).is_ok());
}

#[test]
fn the_oldest_are_forgotten_where_there_are_too_many_and_what_goes_on_stays() {
    let runs = RunRegistry::default();
    let goes_on = added(&runs).unwrap();
    let mut forgotten = 0;
    for _ in 0..=MAX_KEPT_LOAD.runs {
        forgotten += over(&runs, &added(&runs).unwrap());
    }
    assert_eq!(
        forgotten as u64,
        MAX_KEPT_LOAD.runs + 1 - MAX_KEPT_LOAD.with_headroom().runs
    );
    assert!(runs.find(me(), goes_on.id).is_some());
    assert_eq!(lock(&runs.0).load.runs, MAX_KEPT_LOAD.with_headroom().runs);
}

#[test]
fn results_and_files_weigh() {
    let light = RunLoad {
        runs: 1,
        memory: MAX_KEPT_LOAD.memory,
        disk: 0,
    };
    assert!(!light.is_over(MAX_KEPT_LOAD));
    for heavy in [
        RunLoad {
            memory: MAX_KEPT_LOAD.memory + 1,
            ..light
        },
        RunLoad {
            disk: MAX_KEPT_LOAD.disk + 1,
            ..light
        },
    ] {
        assert!(heavy.is_over(MAX_KEPT_LOAD));
    }
}
