use ringfence_policy::{Ceiling, Draft};

use super::*;

fn me() -> Principal {
    Principal::Local(1)
}

fn added(runs: &Runs) -> Result<Arc<Run>, RunError> {
    let id = ExecutionId::generate().unwrap();
    let place = runs.place(me())?;
    Ok(runs.add(id, through(), (me(), place), PathBuf::new()).0)
}

fn through() -> Through {
    Through {
        screen: Arc::default(),
        policy: Arc::new(Draft::builtin().under(&Ceiling::own_word()).unwrap()),
        rules: std::sync::Weak::new(),
        draft: None,
        session: SessionId::generate().unwrap(),
    }
}

fn over(runs: &Runs, run: &Run) -> usize {
    run.end(Err(Arc::new(RunError::Abandoned)));
    runs.ended(run).len()
}

#[test]
fn one_principal_has_so_many_at_once_and_another_has_its_own() {
    let runs = Runs::default();
    let all: Vec<_> = (0..MOST_AT_ONCE).map(|_| added(&runs).unwrap()).collect();
    assert!(matches!(added(&runs), Err(RunError::Crowded)));
    assert!(runs.place(Principal::Local(2)).is_ok());
    over(&runs, &all[0]);
    assert!(added(&runs).is_ok());
}

#[test]
fn the_oldest_are_forgotten_where_there_are_too_many_and_what_goes_on_stays() {
    let runs = Runs::default();
    let goes_on = added(&runs).unwrap();
    let mut forgotten = 0;
    for _ in 0..=MOST.runs {
        forgotten += over(&runs, &added(&runs).unwrap());
    }
    assert_eq!(forgotten as u64, MOST.runs + 1 - MOST.less().runs);
    assert!(runs.find(me(), goes_on.id).is_some());
    assert_eq!(lock(&runs.0).load.runs, MOST.less().runs);
}

#[test]
fn results_and_files_weigh() {
    let light = Load {
        runs: 1,
        memory: MOST.memory,
        disk: 0,
    };
    assert!(!light.is_over(MOST));
    for heavy in [
        Load {
            memory: MOST.memory + 1,
            ..light
        },
        Load {
            disk: MOST.disk + 1,
            ..light
        },
    ] {
        assert!(heavy.is_over(MOST));
    }
}
