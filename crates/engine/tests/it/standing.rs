//! Permanent approval rules: rule and answer are stored together, whatever other process writes and whatever fails in between.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ringfence_engine::approvals::{self, AnswerError, AnswerReceipt, AnswerSubmission, ApprovalState};
use ringfence_engine::standing_rules;
use ringfence_journal::{
    ApprovalId, ApprovalScope, ApprovalVia, AskReason, ContentHash, Event, EventKind, ExecutionId, PolicyRef,
    Principal, RecordedLimits, Recorder as _, SessionId,
};
use ringfence_policy::{Ceiling, Draft, Policy, ToolHints};
use ringfence_store::{ApprovalGrounds, ApprovalQuestion, Lease, NewSession, Store};
use tempfile::TempDir;

const ME: Principal = Principal::Local(1);

/// A data folder with a session in which an execution asks for an approval.
struct Inbox {
    store: Arc<Store>,
    home: TempDir,
    session: SessionId,
    execution: ExecutionId,
    _lease: Lease,
}

fn under(text: &str, ceiling: &Ceiling) -> Policy {
    let draft = Draft::builtin().layer(&Draft::parse(text, "test").unwrap());
    draft.under(ceiling).unwrap()
}

/// A policy that requires an approval for each letter.
fn asks() -> Policy {
    under("tools: { rules: [{ ask: 'mail.*' }] }", &Ceiling::unlimited())
}

impl Inbox {
    async fn new(policy: &Policy) -> Inbox {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(home.path()).await.unwrap());
        let lease = Lease::acquire(home.path()).unwrap();
        let (session, execution) = (SessionId::generate().unwrap(), ExecutionId::generate().unwrap());
        let opening = NewSession {
            session,
            principal: ME,
            policy: PolicyRef {
                name: policy.name().into(),
                digest: policy.digest().into(),
            },
            policy_json: policy.to_json().to_string(),
            backend: ringfence_sandbox::BackendKind::default().name().into(),
            enforcement: Vec::new(),
            durable: false,
            journal_bytes: 1 << 26,
            uid: None,
            keeping: None,
        };
        store.open_session(&lease, opening).await.unwrap();
        let inbox = Inbox {
            store,
            home,
            session,
            execution,
            _lease: lease,
        };
        inbox
            .note(EventKind::ExecutionStarted {
                language: "typescript".into(),
                program: None,
                code: ContentHash::digest(b"1"),
                bytes: 1,
                files: Vec::new(),
                limits: RecordedLimits::default(),
                client: None,
                parent: None,
            })
            .await;
        inbox
    }

    async fn note(&self, kind: EventKind) {
        let event = Event::from_host(self.session, Some(self.execution), kind);
        self.store.record(event).await.unwrap();
    }

    fn question(&self, number: u32, to: &str) -> ApprovalQuestion {
        let asked = Timestamp::now();
        ApprovalQuestion {
            id: ApprovalId::generate().unwrap(),
            principal: ME,
            session: self.session,
            execution: self.execution,
            number,
            program: "main.ts".to_owned(),
            tool: "mail.send".to_owned(),
            rule: "tools.rules[0]".to_owned(),
            why: AskReason::Rule,
            arguments: serde_json::json!({ "to": to }).to_string(),
            masked: None,
            shown: ContentHash::digest(to.as_bytes()),
            asked,
            expires: asked + jiff::SignedDuration::from_hours(1),
            grounds: ApprovalGrounds::default(),
        }
    }

    async fn ask(&self, question: ApprovalQuestion) -> ApprovalId {
        let id = question.id;
        let kind = EventKind::ApprovalAsked {
            id,
            number: question.number.into(),
            tool: question.tool.as_str().into(),
            rule: question.rule.as_str().into(),
            why: question.why,
            shown: question.shown,
            expires: question.expires,
        };
        let event = Event::from_host(self.session, Some(self.execution), kind);
        self.store.record_question(event, question, Vec::new()).await.unwrap();
        id
    }

    async fn always(&self, id: ApprovalId) -> Result<AnswerReceipt, AnswerError> {
        always(&self.store, id).await
    }

    async fn state(&self, id: ApprovalId) -> ApprovalState {
        self.store.approval(id).await.unwrap().unwrap().state
    }

    /// The rules of the file, one per line.
    fn rules(&self) -> Vec<String> {
        let text = fs::read_to_string(self.home.path().join("rules.yaml")).unwrap_or_default();
        let rules = text.lines().filter(|line| line.starts_with("  - "));
        rules.map(str::to_owned).collect()
    }
}

async fn always(store: &Store, id: ApprovalId) -> Result<AnswerReceipt, AnswerError> {
    let say = AnswerSubmission {
        approve: true,
        scope: ApprovalScope::Always,
        shown: None,
        by: ME,
        via: ApprovalVia::Api,
        note: None,
    };
    standing_rules::answer_always(store, store.home(), id, say, None).await
}

#[tokio::test]
async fn what_the_ceiling_asks_after_other_calls_is_not_answered_for_good() {
    let above = "tools: { default: allow, rules: [{ ask: 'mail.send', after: 'web.*' }] }";
    let ceiling = Ceiling::from_policy(&under(above, &Ceiling::unlimited()));
    let inbox = Inbox::new(&under("tools: { rules: [{ ask: 'mail.*' }] }", &ceiling)).await;
    let early = inbox.ask(inbox.question(1, "ann")).await;
    inbox.always(early).await.unwrap();
    assert_eq!(inbox.rules().len(), 1);
    inbox
        .note(EventKind::CallStarted {
            number: 2,
            tool: "web.fetch".into(),
            rule: "tools.default".into(),
            arguments: ContentHash::digest(b"{}"),
            bytes: 2,
        })
        .await;
    let id = inbox.ask(inbox.question(3, "bob")).await;
    let told = inbox.always(id).await.unwrap_err();
    assert_eq!(
        (told.code(), told.to_string().as_str()),
        (
            "approval.ceiling",
            "a rule would not do: `ceiling.tools.rules[0]` stays above it"
        )
    );
    assert_eq!(inbox.state(id).await, ApprovalState::Pending);
    assert_eq!(inbox.rules().len(), 1);
}

#[tokio::test]
async fn what_a_server_says_of_its_tool_counts_where_it_is_answered_for_good() {
    let above = "tools: { default: allow, rules: [{ ask: '**', hint: destructive }] }";
    let ceiling = Ceiling::from_policy(&under(above, &Ceiling::unlimited()));
    let inbox = Inbox::new(&under("tools: { rules: [{ ask: 'mail.*' }] }", &ceiling)).await;
    let said = |read_only| {
        let hints = ToolHints {
            read_only,
            ..ToolHints::none()
        };
        ApprovalGrounds {
            hints: Some(hints),
            ..ApprovalGrounds::default()
        }
    };
    let cases = [
        (ApprovalGrounds::default(), false),
        (said(None), false),
        (said(Some(true)), true),
    ];
    for (number, (grounds, is_taken)) in (1..).zip(cases) {
        let question = ApprovalQuestion {
            grounds,
            ..inbox.question(number, "ann")
        };
        let id = inbox.ask(question).await;
        match inbox.always(id).await {
            Ok(_) => assert!(is_taken, "{number}"),
            Err(told) => assert_eq!((told.code(), is_taken), ("approval.ceiling", false), "{told}"),
        }
    }
    assert_eq!(inbox.rules().len(), 1);
}

#[tokio::test]
async fn what_is_asked_for_this_once_is_not_answered_for_good() {
    let inbox = Inbox::new(&asks()).await;
    let cases = [
        (AskReason::Unknown, "tools.unknown", "makes the call again"),
        (AskReason::Drift, "tools.drift", "`ringfence tools accept`"),
    ];
    for (number, (why, rule, next)) in (1..).zip(cases) {
        let question = ApprovalQuestion {
            why,
            rule: rule.to_owned(),
            ..inbox.question(number, "ann")
        };
        let id = inbox.ask(question).await;
        let shown = standing_rules::preview_rule(&inbox.store, inbox.home.path(), id, None).await;
        for told in [shown.map(drop).unwrap_err(), inbox.always(id).await.unwrap_err()] {
            assert_eq!(told.code(), "approval.once", "{told}");
            assert!(told.hint().unwrap().contains(next), "{told}");
        }
        assert_eq!(inbox.state(id).await, ApprovalState::Pending);
    }
    assert!(inbox.rules().is_empty());
}

#[tokio::test]
async fn an_answer_without_its_rule_is_completed_by_the_same_answer() {
    let inbox = Inbox::new(&asks()).await;
    let id = inbox.ask(inbox.question(1, "ann")).await;
    let in_the_way = inbox.home.path().join("rules.new");
    fs::create_dir(&in_the_way).unwrap();
    for _ in 0..2 {
        let told = inbox.always(id).await.unwrap_err();
        assert_eq!(told.code(), "approval.unplaced", "{told}");
        assert_eq!(inbox.state(id).await, ApprovalState::Approved, "{told}");
        assert!(inbox.rules().is_empty());
    }
    fs::remove_dir(&in_the_way).unwrap();
    assert!(inbox.always(id).await.unwrap().already_answered);
    assert_eq!(inbox.rules().len(), 1);
    // Once is enough.
    assert!(inbox.always(id).await.unwrap().already_answered);
    assert_eq!(inbox.rules().len(), 1);
}

#[tokio::test]
async fn an_answer_without_its_rule_is_completed_by_the_next_start() {
    let inbox = Inbox::new(&asks()).await;
    let id = inbox.ask(inbox.question(1, "ann")).await;
    let in_the_way = inbox.home.path().join("rules.new");
    fs::create_dir(&in_the_way).unwrap();
    let told = inbox.always(id).await.unwrap_err();
    assert_eq!(told.code(), "approval.unplaced", "{told}");
    fs::remove_dir(&in_the_way).unwrap();
    super::engine(inbox.home.path()).await;
    assert_eq!(inbox.rules().len(), 1);
    assert!(!inbox.home.path().join("rules.intent").exists());
}

#[tokio::test]
async fn a_rule_whose_answer_was_never_given_is_not_written() {
    let inbox = Inbox::new(&asks()).await;
    let (pending, other) = (
        inbox.ask(inbox.question(1, "ann")).await,
        inbox.ask(inbox.question(2, "bob")).await,
    );
    let whole = serde_json::json!({ "question": pending, "rule": { "allow": "mail.*" } }).to_string();
    for left in [whole.as_str(), &whole[..20]] {
        fs::write(inbox.home.path().join("rules.intent"), left).unwrap();
        inbox.always(other).await.unwrap();
        assert_eq!(inbox.state(pending).await, ApprovalState::Pending);
        assert_eq!(inbox.rules().len(), 1, "{:?}", inbox.rules());
        assert!(inbox.rules()[0].contains("bob"), "{:?}", inbox.rules());
    }
}

#[test]
fn many_who_answer_for_good_at_once_hold_nobody_up() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let work = async {
        let inbox = Inbox::new(&asks()).await;
        let mut answers = Vec::new();
        for number in 0..24 {
            let id = inbox.ask(inbox.question(number, &format!("to-{number}"))).await;
            let store = Arc::clone(&inbox.store);
            answers.push(tokio::spawn(async move { always(&store, id).await.map(drop) }));
        }
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
        assert_eq!(inbox.rules().len(), 24, "{:?}", inbox.rules());
    };
    // Every worker thread may be blocked: only the clock of another thread tells.
    let (done, ends) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        work.await;
        done.send(()).unwrap();
    });
    let ended = ends.recv_timeout(Duration::from_mins(1));
    runtime.shutdown_background();
    ended.unwrap();
}

#[tokio::test]
async fn where_another_process_does_not_end_its_writing_nothing_is_answered() {
    let inbox = Inbox::new(&asks()).await;
    let id = inbox.ask(inbox.question(1, "ann")).await;
    // A file lock belongs to the open file, so a second open file acts like another process.
    let other = File::create(inbox.home.path().join("run/rules.lock")).unwrap();
    other.lock().unwrap();
    let begun = Instant::now();
    let told = inbox.always(id).await.unwrap_err();
    assert_eq!(told.code(), "approval.busy", "{told}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(inbox.state(id).await, ApprovalState::Pending);
    assert!(inbox.rules().is_empty());
    other.unlock().unwrap();
    inbox.always(id).await.unwrap();
    assert_eq!(inbox.rules().len(), 1);
}

#[tokio::test]
async fn the_policy_that_asks_says_who_may_answer() {
    let by = |by: &str| under(&format!("approvals: {{ by: [{by}] }}"), &Ceiling::unlimited());
    let (open, strict, formal) = (by("inbox, client"), by("inbox"), by("client"));
    let inbox = Inbox::new(&open).await;
    for policy in [&strict, &formal] {
        let named = PolicyRef {
            name: policy.name().into(),
            digest: policy.digest().into(),
        };
        inbox
            .store
            .keep_policy(inbox.session, named, policy.to_json().to_string())
            .await
            .unwrap();
    }
    let cases = [
        (&open, [true, true]),
        (&strict, [true, false]),
        (&formal, [false, true]),
    ];
    for (number, (policy, expected)) in (1..).zip(cases) {
        let question = ApprovalQuestion {
            grounds: ApprovalGrounds {
                policy: Some(policy.digest().to_owned()),
                ..ApprovalGrounds::default()
            },
            ..inbox.question(number, "ann")
        };
        let id = inbox.ask(question).await;
        for (via, expected) in [ApprovalVia::Cli, ApprovalVia::Client].into_iter().zip(expected) {
            assert_eq!(
                approvals::accepts_via(&inbox.store, id, via).await.unwrap(),
                expected,
                "{number}"
            );
            let say = AnswerSubmission {
                approve: false,
                scope: ApprovalScope::Once,
                shown: None,
                by: ME,
                via,
                note: None,
            };
            match approvals::answer_approval(&inbox.store, id, say).await {
                Ok(_) => assert!(expected, "{number}"),
                Err(told) => assert_eq!((told.code(), expected), ("approval.way", false), "{told}"),
            }
        }
    }
}
