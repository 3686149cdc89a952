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
    assert_eq!(lock(&runs.table).load.runs, MAX_KEPT_LOAD.with_headroom().runs);
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

#[test]
fn a_draft_weighs_and_a_refused_run_keeps_none() {
    let runs = RunRegistry::default();
    let id = ExecutionId::generate().unwrap();
    let own = Arc::new(
        Draft::parse("{ tools: { rules: [{ deny: 'a.b' }] } }", "own")
            .unwrap()
            .under(&Ceiling::unlimited())
            .unwrap(),
    );
    let variables: serde_json::Map<_, _> = (0..1000).map(|number| (number.to_string(), "".into())).collect();
    let context = ReadContext {
        policy: Arc::clone(&own),
        draft: Some(serde_json::json!({ "env": variables })),
        ..through()
    };
    let place = runs.place(me()).unwrap();
    let (run, _) = runs.add(id, context, (me(), place), PathBuf::new());
    let own_policy = own.memory_bytes() as u64;
    assert!(run.load().memory > own_policy + 100_000, "{:?}", run.load());
    let usual = through().policy;
    run.forget_request(&usual);
    assert_eq!(run.load().memory, usual.memory_bytes() as u64);
    assert_eq!(Arc::strong_count(&own), 1);
    assert_eq!(run.read_context().draft, None);
}
