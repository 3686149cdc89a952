use std::collections::BTreeMap;

use ringfence_gateway::{Desk, Tape, Terms};
use ringfence_journal::Principal;
use ringfence_policy::{Ceiling, Draft};

use super::*;
use crate::session::Session;
use crate::{Engine, Settings};

fn finished() -> Ended {
    Ended {
        verdict: Verdict::Finished,
        refused: None,
        outcome: None,
        value: Vec::new(),
        usage: ringfence_sandbox::Usage::default(),
        written: (0, 0),
        violations: Vec::new(),
        more_violations: 0,
        unanswered: Vec::new(),
        trace: Vec::new(),
        unrepeatable: None,
        emitted: Vec::new(),
    }
}

async fn keeper(home: &std::path::Path) -> Keeper {
    let settings = Settings {
        home: home.to_owned(),
        sinks: Vec::new(),
        principal: Principal::Local(1),
        python: None,
        servers: ringfence_gateway::Servers::default(),
        server_policies: BTreeMap::new(),
        credentials: ringfence_gateway::Credentials::default(),
        checkers: crate::Tools::default(),
        environment: Arc::new(|_| None),
        front: None,
    };
    let engine = Engine::open(settings).await.unwrap();
    let ids = (SessionId::generate().unwrap(), ExecutionId::generate().unwrap());
    let policy = Draft::builtin().under(&Ceiling::own_word()).unwrap();
    let session = Session::new(ids, Principal::Local(1), Arc::new(policy), home.join("folders"));
    let pass = Pass::new(Terms {
        gateway: Arc::clone(engine.door()),
        policy: Arc::clone(&session.policy),
        recorder: Arc::clone(&engine.store),
        session: ids.0,
        execution: ids.1,
        parent: None,
        past: Arc::clone(&session.past),
        tape: Arc::new(Tape::off()),
        desk: Desk::closed(),
        screen: Arc::clone(&session.screen),
    });
    let discover = engine.discover_in(&session, ringfence_catalog::Language::TypeScript);
    let rest = Rest {
        is_kept: false,
        unrepeatable: Unrepeatable::default(),
        bells: Bells::default(),
    };
    Keeper::new(Arc::new(pass), discover, Arc::clone(&engine.store), ids, rest)
}

#[tokio::test]
async fn a_stop_is_heard_while_the_calls_of_a_finished_program_are_seen_out() {
    let home = tempfile::tempdir().unwrap();
    let keeper = keeper(home.path()).await;
    for (is_pulled, expected) in [(false, Verdict::Finished), (true, Verdict::Cancelled)] {
        let (switch, stop) = Stop::new();
        switch.send_replace(is_pulled);
        let calls = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(())
        };
        let ended = keeper.run(async { Ok(finished()) }, calls, stop).await.unwrap();
        assert_eq!(ended.verdict, expected);
    }
}
