//! Approval questions and answers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ringfence_journal::{
    ApprovalAnswer, ApprovalId, ApprovalScope, ApprovalVia, AskReason, ContentHash, Event, EventKind, ExecutionId,
    Principal, Recorder as _, ReplayEntryKind, SessionId,
};
use ringfence_policy::ToolHints;
use ringfence_store::{
    AnswerOutcome, ApprovalGrounds, ApprovalQuery, ApprovalQuestion, ApprovalResponse, ApprovalState, Lease,
    RecordingState, StopOwner, StopRequest, StopTarget, Store, WakeEvent,
};

use crate::process::{lines, start};
use crate::recordings::{begin, begin_in, is_readable};
use crate::support::{World, closed, ended, entry, report, suspended, world};

const ME: Principal = Principal::Local(7);

pub(crate) fn question(
    session: SessionId,
    execution: ExecutionId,
    number: u32,
    lasts: SignedDuration,
) -> ApprovalQuestion {
    let asked = Timestamp::now();
    ApprovalQuestion {
        id: ApprovalId::generate().unwrap(),
        principal: Principal::Local(1000),
        session,
        execution,
        number,
        program: "the program itself".into(),
        tool: "mail.send".into(),
        rule: "tools.rules[0]".into(),
        why: AskReason::Rule,
        arguments: r#"{"to":"somebody in particular"}"#.into(),
        masked: None,
        shown: ContentHash::digest(b"shown"),
        asked,
        expires: asked + lasts,
        grounds: ApprovalGrounds {
            policy: Some("blake3:0011".into()),
            hints: Some(ToolHints {
                destructive: Some(true),
                ..ToolHints::none()
            }),
            grantee: Some("mail.send".into()),
            code: Some(ContentHash::digest(b"code")),
            source: Some("the code itself".into()),
        },
    }
}

fn asked(question: &ApprovalQuestion) -> Event {
    let kind = EventKind::ApprovalAsked {
        id: question.id,
        number: question.number.into(),
        tool: "mail.send".into(),
        rule: "tools.rules[0]".into(),
        why: question.why,
        shown: question.shown,
        expires: question.expires,
    };
    Event::from_host(question.session, Some(question.execution), kind)
}

fn answered(question: &ApprovalQuestion, answer: ApprovalAnswer) -> Event {
    let kind = EventKind::ApprovalAnswered {
        id: question.id,
        number: question.number.into(),
        answer,
        scope: None,
        by: None,
        via: None,
    };
    Event::from_host(question.session, Some(question.execution), kind)
}

pub(crate) async fn ask(
    store: &Store,
    session: SessionId,
    execution: ExecutionId,
    lasts: SignedDuration,
) -> ApprovalQuestion {
    let question = question(session, execution, 1, lasts);
    let entries = vec![entry(1, ReplayEntryKind::Call, "call")];
    store
        .record_question(asked(&question), question.clone(), entries)
        .await
        .unwrap();
    question
}

/// A person is asked and approves, and the execution has heard the answer.
pub(crate) async fn answer_and_note(world: &World, session: SessionId, execution: ExecutionId) {
    let question = ask(&world.store, session, execution, HOUR).await;
    let taken = world
        .store
        .answer_question(question.id, question.shown, yes())
        .await
        .unwrap();
    assert_eq!(taken, AnswerOutcome::Accepted);
    let heard = answered(&question, ApprovalAnswer::Approved);
    world.store.record(heard).await.unwrap();
}

pub(crate) const HOUR: SignedDuration = SignedDuration::from_hours(1);

fn yes() -> ApprovalResponse {
    ApprovalResponse {
        approve: true,
        scope: ApprovalScope::Once,
        by: ME,
        via: ApprovalVia::Cli,
        note: Some("go on, somebody said".into()),
    }
}

fn no() -> ApprovalResponse {
    ApprovalResponse {
        approve: false,
        note: None,
        ..yes()
    }
}

async fn state(world: &World, question: &ApprovalQuestion) -> ApprovalState {
    world.store.approval(question.id).await.unwrap().unwrap().state
}

#[tokio::test]
async fn a_question_is_asked_listed_and_answered_once() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let question = ask(&world.store, session, execution, HOUR).await;
    let found = world.store.approval(question.id).await.unwrap().unwrap();
    assert_eq!(
        (&found.question, found.state, found.answer),
        (&question, ApprovalState::Pending, None)
    );
    assert_eq!(
        world.store.recording(execution).await.unwrap().unwrap().entries.len(),
        1
    );

    let answer = |said| world.store.answer_question(question.id, question.shown, said);
    let unknown = ApprovalId::generate().unwrap();
    let told = world
        .store
        .answer_question(unknown, question.shown, yes())
        .await
        .unwrap();
    assert_eq!(told, AnswerOutcome::Unknown);
    let told = world
        .store
        .answer_question(question.id, ContentHash::digest(b"other"), yes())
        .await
        .unwrap();
    assert_eq!(told, AnswerOutcome::Changed);
    assert_eq!(answer(yes()).await.unwrap(), AnswerOutcome::Accepted);
    let anybody = ApprovalResponse {
        by: Principal::Local(8),
        ..yes()
    };
    assert_eq!(answer(anybody).await.unwrap(), AnswerOutcome::AlreadyAnswered);
    let longer = ApprovalResponse {
        scope: ApprovalScope::Session,
        ..yes()
    };
    for other in [no(), longer] {
        let AnswerOutcome::Conflict(first) = answer(other).await.unwrap() else {
            panic!("two answers");
        };
        let (said, at) = first.answer.unwrap();
        assert_eq!((first.state, said), (ApprovalState::Approved, yes()));
        assert!(at >= question.asked);
    }
    // A question with an existing id is refused.
    let error = world
        .store
        .record_question(asked(&question), question.clone(), Vec::new())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "store.keep");
    assert!(report(&world.store).await.is_ok());
}

#[tokio::test]
async fn questions_are_listed_newest_first_in_pages() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let (other, elsewhere) = begin(&world).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(ask(&world.store, session, execution, HOUR).await.id);
    }
    let old = ask(&world.store, other, elsewhere, SignedDuration::ZERO).await;
    let denied = all[1];
    all.push(old.id);
    all.sort();
    all.reverse();
    let shown = ContentHash::digest(b"shown");
    let told = world.store.answer_question(denied, shown, no()).await.unwrap();
    assert_eq!(told, AnswerOutcome::Accepted);
    let list = async |which: ApprovalQuery| {
        let found = world.store.list_approvals(which).await.unwrap();
        found.iter().map(|one| one.question.id).collect::<Vec<_>>()
    };
    assert_eq!(list(ApprovalQuery::default()).await, all);
    let page = ApprovalQuery {
        before: Some(all[0]),
        limit: Some(2),
        ..ApprovalQuery::default()
    };
    assert_eq!(list(page).await, all[1..3]);
    let of = |state| ApprovalQuery {
        state: Some(state),
        ..ApprovalQuery::default()
    };
    assert_eq!(list(of(ApprovalState::Expired)).await, [old.id]);
    assert_eq!(list(of(ApprovalState::Denied)).await, [denied]);
    assert_eq!(list(of(ApprovalState::Pending)).await.len(), 2);
    let in_session = ApprovalQuery {
        session: Some(other),
        ..ApprovalQuery::default()
    };
    assert_eq!(list(in_session).await, [old.id]);
    let of_execution = ApprovalQuery {
        execution: Some(execution),
        ..ApprovalQuery::default()
    };
    assert_eq!(list(of_execution).await.len(), 3);
    let stranger = ApprovalQuery {
        principal: Some(ME),
        ..ApprovalQuery::default()
    };
    assert!(list(stranger).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_people_who_answer_at_once_one_is_taken() {
    let world = world().await;
    let other = Store::open(world.home()).await.unwrap();
    for round in 0..20 {
        let (session, execution) = begin(&world).await;
        let question = ask(&world.store, session, execution, HOUR).await;
        let second = if round % 2 == 0 { no() } else { yes() };
        let (one, two) = tokio::join!(
            world.store.answer_question(question.id, question.shown, yes()),
            other.answer_question(question.id, question.shown, second)
        );
        let told = [one.unwrap(), two.unwrap()];
        assert_eq!(
            told.iter().filter(|told| **told == AnswerOutcome::Accepted).count(),
            1,
            "{told:?}"
        );
        let lost = told.iter().find(|told| **told != AnswerOutcome::Accepted).unwrap();
        assert_eq!(matches!(lost, AnswerOutcome::Conflict(_)), round % 2 == 0, "{lost:?}");
        assert_eq!(
            matches!(lost, AnswerOutcome::AlreadyAnswered),
            round % 2 == 1,
            "{lost:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_after_the_time_or_the_end_is_told_so() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let late = ask(&world.store, session, execution, SignedDuration::ZERO).await;
    let answer = |question: &ApprovalQuestion| world.store.answer_question(question.id, question.shown, yes());
    assert_eq!(answer(&late).await.unwrap(), AnswerOutcome::Expired);
    assert_eq!(state(&world, &late).await, ApprovalState::Expired);
    let settled = world
        .store
        .settle_question(late.id, ApprovalAnswer::Expired)
        .await
        .unwrap();
    assert_eq!(settled, Some(ApprovalState::Expired));
    assert_eq!(answer(&late).await.unwrap(), AnswerOutcome::Expired);

    let gone = ask(&world.store, session, execution, HOUR).await;
    let settled = world
        .store
        .settle_question(gone.id, ApprovalAnswer::Withdrawn)
        .await
        .unwrap();
    assert_eq!(settled, Some(ApprovalState::Withdrawn));
    assert_eq!(answer(&gone).await.unwrap(), AnswerOutcome::Withdrawn);

    // Somebody else answered before the owner.
    let taken = ask(&world.store, session, execution, HOUR).await;
    assert_eq!(answer(&taken).await.unwrap(), AnswerOutcome::Accepted);
    let settled = world
        .store
        .settle_question(taken.id, ApprovalAnswer::Withdrawn)
        .await
        .unwrap();
    assert_eq!(settled, Some(ApprovalState::Approved));
    let nobody = ApprovalId::generate().unwrap();
    assert_eq!(
        world
            .store
            .settle_question(nobody, ApprovalAnswer::Expired)
            .await
            .unwrap(),
        None
    );

    let open = ask(&world.store, session, execution, HOUR).await;
    world.store.record(ended(session, execution)).await.unwrap();
    assert_eq!(state(&world, &open).await, ApprovalState::Withdrawn);
    assert_eq!(answer(&open).await.unwrap(), AnswerOutcome::Ended);

    let next = begin_in(&world.store, session).await;
    let open = ask(&world.store, session, next, HOUR).await;
    world.store.record(closed(session)).await.unwrap();
    assert_eq!(state(&world, &open).await, ApprovalState::Withdrawn);
    assert_eq!(answer(&open).await.unwrap(), AnswerOutcome::Ended);
    let standing = world.store.recording_status(next).await.unwrap().unwrap();
    assert_eq!((standing.state, standing.due), (RecordingState::Over, None));
    assert!(report(&world.store).await.is_ok());
}

#[tokio::test]
async fn an_execution_goes_on_when_a_question_is_answered_or_expires() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let first = ask(&world.store, session, execution, HOUR).await;
    let second = ask(&world.store, session, execution, HOUR * 2).await;
    // An answer that it has already heard does not wake it.
    let heard = ask(&world.store, session, execution, HOUR).await;
    world.store.answer_question(heard.id, heard.shown, no()).await.unwrap();
    world
        .store
        .record(answered(&heard, ApprovalAnswer::Denied))
        .await
        .unwrap();
    world
        .store
        .suspend(suspended(session, execution), None, Vec::new())
        .await
        .unwrap();
    assert_eq!(world.store.next_due_time().await.unwrap(), Some(first.expires));
    assert!(
        world
            .store
            .ready_executions(Timestamp::now(), 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        world.store.ready_executions(first.expires, 10).await.unwrap(),
        [(execution, session)]
    );
    world
        .store
        .answer_question(second.id, second.shown, yes())
        .await
        .unwrap();
    assert_eq!(
        world.store.ready_executions(Timestamp::now(), 10).await.unwrap(),
        [(execution, session)]
    );
    world.store.resume(&world.lease, execution).await.unwrap();
    world
        .store
        .record(answered(&second, ApprovalAnswer::Approved))
        .await
        .unwrap();

    // An answer that comes while the execution releases its sandbox is not lost.
    world.store.answer_question(first.id, first.shown, yes()).await.unwrap();
    world
        .store
        .suspend(suspended(session, execution), None, Vec::new())
        .await
        .unwrap();
    assert_eq!(
        world.store.ready_executions(Timestamp::now(), 10).await.unwrap(),
        [(execution, session)]
    );
    assert!(report(&world.store).await.is_ok());
}

#[tokio::test]
async fn whoever_waits_is_told_of_answers_and_of_stops() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let early = ask(&world.store, session, execution, HOUR).await;
    let late = ask(&world.store, session, execution, HOUR).await;
    let other = Store::open(world.home()).await.unwrap();
    other.answer_question(early.id, early.shown, yes()).await.unwrap();
    let mut wakes = world.store.listen_for_wakes(&world.lease).unwrap();
    let soon = Duration::from_secs(10);
    let next = tokio::time::timeout(soon, wakes.next()).await.unwrap().unwrap();
    assert_eq!(next, WakeEvent::Answered(early.id));
    let waited = tokio::time::timeout(Duration::from_millis(20), wakes.next()).await;
    assert!(waited.is_err());
    other.answer_question(late.id, late.shown, no()).await.unwrap();
    let next = tokio::time::timeout(soon, wakes.next()).await.unwrap().unwrap();
    assert_eq!(next, WakeEvent::Answered(late.id));
    let told = other.request_stop(StopTarget::Session(session), ME).await.unwrap();
    assert_eq!(told, [(session, StopOwner::Notified)]);
    let next = tokio::time::timeout(soon, wakes.next()).await.unwrap().unwrap();
    assert_eq!(next, WakeEvent::Stop(StopRequest { session, by: ME }));

    // Answers in sessions of another process are not delivered; those in sessions of no process are delivered to all.
    let neighbour = Lease::acquire(world.home()).unwrap();
    let stranger = std::sync::Arc::new(Store::open(world.home()).await.unwrap());
    let mut ears = stranger.listen_for_wakes(&neighbour).unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(50), ears.next()).await;
    assert!(waited.is_err());
    let (session, execution) = begin(&world).await;
    let third = ask(&world.store, session, execution, HOUR).await;
    world
        .store
        .suspend(suspended(session, execution), None, Vec::new())
        .await
        .unwrap();
    world.store.release_session(session).await.unwrap();
    other.answer_question(third.id, third.shown, yes()).await.unwrap();
    for listener in [&mut wakes, &mut ears] {
        let next = tokio::time::timeout(soon, listener.next()).await.unwrap().unwrap();
        assert_eq!(next, WakeEvent::Answered(third.id));
    }
}

#[tokio::test]
async fn what_a_person_is_shown_and_says_is_sealed() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let question = ask(&world.store, session, execution, HOUR).await;
    world
        .store
        .answer_question(question.id, question.shown, yes())
        .await
        .unwrap();
    for text in ["the program itself", "somebody in particular", "somebody said"] {
        assert!(!is_readable(world.home(), text), "{text}");
    }
    assert!(is_readable(world.home(), "mail.send"));
    world.store.record(closed(session)).await.unwrap();
    world.store.forget_recordings(session).await.unwrap();
    assert_eq!(world.store.approval(question.id).await.unwrap(), None);
    let told = world
        .store
        .answer_question(question.id, question.shown, yes())
        .await
        .unwrap();
    assert_eq!(told, AnswerOutcome::Unknown);
}

/// The principals in the answers of a session's journal, in order.
async fn heard(world: &World, session: SessionId) -> Vec<(ApprovalAnswer, Option<ApprovalScope>, Option<Principal>)> {
    let records = world.store.session_records(session).await.unwrap();
    let heard = records.iter().filter_map(|record| {
        let EventKind::ApprovalAnswered { answer, scope, by, .. } = record.event().unwrap().kind else {
            return None;
        };
        Some((answer, scope, by))
    });
    heard.collect()
}

#[tokio::test]
async fn no_answer_is_without_an_event_whoever_ends_what_it_was_for() {
    let world = world().await;
    let yes_by_me = (ApprovalAnswer::Approved, Some(ApprovalScope::Once), Some(ME));
    let no_by_me = (ApprovalAnswer::Denied, None, Some(ME));
    for ending in ["execution", "recording", "session"] {
        let (session, execution) = begin(&world).await;
        let one = ask(&world.store, session, execution, HOUR).await;
        let other = ask(&world.store, session, execution, HOUR).await;
        let silent = ask(&world.store, session, execution, HOUR).await;
        world.store.answer_question(one.id, one.shown, yes()).await.unwrap();
        world.store.answer_question(other.id, other.shown, no()).await.unwrap();
        // The question is withdrawn; the answer stays recorded.
        let withdrawn = world
            .store
            .settle_question(one.id, ApprovalAnswer::Withdrawn)
            .await
            .unwrap();
        assert_eq!(withdrawn, Some(ApprovalState::Approved));
        assert_eq!(heard(&world, session).await, []);
        match ending {
            "execution" => drop(world.store.record(ended(session, execution)).await.unwrap()),
            "recording" => {
                let end = ended(session, execution);
                world
                    .store
                    .record_end_with_outcome(end, Vec::new(), Vec::new())
                    .await
                    .unwrap();
            }
            _ => {}
        }
        world.store.record(closed(session)).await.unwrap();
        assert_eq!(heard(&world, session).await, [yes_by_me, no_by_me], "{ending}");
        assert_eq!(state(&world, &silent).await, ApprovalState::Withdrawn);
    }
    assert!(report(&world.store).await.is_ok());
}

#[tokio::test]
async fn an_answer_for_what_is_swept_has_an_event() {
    let world = world().await;
    let mut child = start("ask and wait", world.home());
    let (session, _, id) = named(&lines(&mut child).next().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    let taken = world
        .store
        .answer_question(id, ContentHash::digest(b"shown"), no())
        .await
        .unwrap();
    assert_eq!(taken, AnswerOutcome::Accepted);
    world
        .store
        .request_stop(StopTarget::Session(session), ME)
        .await
        .unwrap();
    let mut lost = Vec::new();
    for dead in world.store.dead_leases().await.unwrap() {
        lost.extend(world.store.finish_dead_lease(dead, &[]).await.unwrap());
    }
    assert_eq!(lost, [session]);
    assert_eq!(heard(&world, session).await, [(ApprovalAnswer::Denied, None, Some(ME))]);
    assert!(report(&world.store).await.is_ok());
}

/// The execution and the question that the other process names.
fn named(line: &[String]) -> (SessionId, ExecutionId, ApprovalId) {
    (
        line[0].parse().unwrap(),
        line[1].parse().unwrap(),
        line[2].parse().unwrap(),
    )
}

#[tokio::test]
async fn a_process_killed_while_it_waits_loses_nothing() {
    let world = world().await;
    for job in ["ask and wait", "ask and suspend"] {
        let mut child = start(job, world.home());
        let said = lines(&mut child).next().unwrap();
        let (session, execution, id) = named(&said);
        child.kill().unwrap();
        child.wait().unwrap();
        // An answer counts even while no process runs the execution.
        let shown = ContentHash::digest(b"shown");
        assert_eq!(
            world.store.answer_question(id, shown, yes()).await.unwrap(),
            AnswerOutcome::Accepted
        );
        for dead in world.store.dead_leases().await.unwrap() {
            assert!(world.store.finish_dead_lease(dead, &[]).await.unwrap().is_empty());
        }
        let expected = match job {
            "ask and wait" => RecordingState::Interrupted,
            _ => RecordingState::Waiting,
        };
        let standing = world.store.recording_status(execution).await.unwrap().unwrap();
        assert_eq!(standing.state, expected);
        let interrupted = world.store.interrupted_executions(10).await.unwrap();
        // An execution with a question is listed as ready, not as interrupted.
        assert!(!interrupted.contains(&(execution, session)));
        let ready = world.store.ready_executions(Timestamp::now(), 10).await.unwrap();
        assert_eq!(ready, [(execution, session)]);
        world.store.resume(&world.lease, execution).await.unwrap();
        let kept = world.store.recording(execution).await.unwrap().unwrap();
        assert_eq!(kept.entries, [entry(1, ReplayEntryKind::Call, "call")]);
        world.store.record(ended(session, execution)).await.unwrap();
        world.store.record(closed(session)).await.unwrap();
        assert!(report(&world.store).await.is_ok());
    }
}
