use std::collections::BTreeMap;

use ringfence_gateway::{ApprovalPort, CallLog, PassConfig};
use ringfence_journal::Principal;
use ringfence_policy::{Ceiling, Draft};

use super::*;
use crate::sessions::context::ExecutionContext;
use crate::{Engine, EngineConfig};

fn finished() -> ConcludedExecution {
    ConcludedExecution {
        verdict: Verdict::Finished,
        refused: None,
        outcome: None,
        value: Vec::new(),
        usage: ringfence_sandbox::MeasuredUsage::default(),
        output_bytes: (0, 0),
        violations: Vec::new(),
        more_violations: 0,
        unanswered: Vec::new(),
        trace: Vec::new(),
        unrepeatable: None,
        emitted: Vec::new(),
    }
}

async fn keeper(home: &std::path::Path) -> CallDispatcher {
    let settings = EngineConfig {
        home: home.to_owned(),
        sinks: Vec::new(),
        principal: Principal::Local(1),
        python: None,
        servers: ringfence_gateway::Servers::default(),
        server_policies: BTreeMap::new(),
        credentials: ringfence_gateway::Credentials::default(),
        checkers: crate::CheckerTools::default(),
        environment: Arc::new(|_| None),
        serve: None,
    };
    let engine = Engine::open(settings).await.unwrap();
    let ids = (SessionId::generate().unwrap(), ExecutionId::generate().unwrap());
    let policy = Draft::builtin().under(&Ceiling::unlimited()).unwrap();
    let session = ExecutionContext::new(ids, Principal::Local(1), Arc::new(policy), home.join("folders"));
    let pass = Pass::new(PassConfig {
        gateway: Arc::clone(engine.tools().gateway()),
        policy: Arc::clone(&session.policy),
        recorder: Arc::clone(&engine.workspaces().records.store),
        session: ids.0,
        execution: ids.1,
        parent: None,
        history: Arc::clone(&session.history),
        call_log: Arc::new(CallLog::off()),
        approvals: ApprovalPort::closed(),
        redactor: Arc::clone(&session.redactor),
    });
    let discover = engine
        .tools()
        .discover_in(&session, ringfence_catalog::StubLanguage::TypeScript);
    let rest = SuspendState {
        is_recorded: false,
        unrepeatable: UnrepeatableReason::default(),
        notifier: ApprovalNotifier::default(),
    };
    CallDispatcher::new(
        Arc::new(pass),
        discover,
        Arc::clone(&engine.workspaces().records.store),
        ids,
        rest,
    )
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
        let ended = keeper.run_program(async { Ok(finished()) }, calls, stop).await.unwrap();
        assert_eq!(ended.verdict, expected);
    }
}
