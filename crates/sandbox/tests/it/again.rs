//! Replayed code does the same again, and an execution that only waits for a person is released.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringfence_sandbox::{
    CallHandler, CallPort, ExecutionTask, JobLanguage, JobOutcomeKind, ReplayState, Stop, ToolCall, ToolCallKind,
    ToolRefusal, ToolReply, Verdict,
};
use tokio::task::JoinHandle;

use crate::harness::{Ran, backend, code, run, run_in, run_until, shell, spec};

mod python;

type Answer = Result<String, ToolRefusal>;

/// What a handler of calls has seen.
#[derive(Debug, Default)]
struct Seen {
    calls: Vec<ToolCall>,
    answers: BTreeMap<u32, Answer>,
}

impl Seen {
    fn trace(&self) -> Vec<u8> {
        self.calls.iter().flat_map(|call| call.trace.clone()).collect()
    }

    fn made(&self) -> Vec<(u32, &ToolCallKind, &str)> {
        self.calls
            .iter()
            .map(|call| (call.number, &call.ask, call.body.as_str()))
            .collect()
    }
}

/// The handler's ends of a call port.
fn at_a_door(mut task: ExecutionTask) -> (ExecutionTask, CallHandler) {
    let (door, handler) = CallPort::new(256);
    task.call_port = Some(door);
    (task, handler)
}

/// Replies to known calls, and to others except those of tools called `wait`: when nothing else is open, these wait for a
/// person.
fn keep(mut post: CallHandler, known: BTreeMap<u32, Answer>) -> JoinHandle<Seen> {
    tokio::spawn(async move {
        let mut seen = Seen::default();
        let mut waiting = 0;
        while let Some(asked) = post.calls.recv().await {
            let number = asked.number;
            let waits = matches!(&asked.ask, ToolCallKind::Tool { tool, .. } if tool == "wait");
            let answer = match known.get(&number) {
                Some(answer) => Some(answer.clone()),
                None if waits => None,
                None => Some(Ok(asked.body.clone())),
            };
            seen.calls.push(asked);
            if let Some(answer) = answer {
                seen.answers.insert(number, answer.clone());
                if post.replies.send(ToolReply { number, answer }).await.is_err() {
                    break;
                }
            } else {
                waiting += 1;
                post.held.send_replace(Some(waiting));
            }
        }
        seen
    })
}

fn ts(source: &str, again: ReplayState) -> ExecutionTask {
    let mut task = code(JobLanguage::TypeScript, source);
    task.replay = Some(again);
    task
}

fn fresh(seed: u64) -> ReplayState {
    ReplayState {
        seed,
        ..ReplayState::fresh()
    }
}

async fn run_kept(task: ExecutionTask, known: BTreeMap<u32, Answer>) -> (Ran, Seen) {
    let (task, post) = at_a_door(task);
    let keeper = keep(post, known);
    let ran = run(task, &[]).await;
    (ran, keeper.await.unwrap())
}

const PROGRAM: &str = "
    const out: unknown[] = [Date.now(), Math.random(), new Date().toISOString()];
    const sleep = (ms: number) => new Promise(done => setTimeout(done, ms));
    out.push(await Promise.all([1, 2, 3, 4, 5].map(async i => { await sleep(i % 2); return tools.a.b({ i, at: Date.now(), r: Math.random() }) })));
    out.push(await Promise.race([sleep(2), tools.a.c({})]), performance.now());
    files.write('x', String(Math.random())); console.log(files.read('x'), out);
    const all = await Promise.all([tools.a.wait({ n: 1 }), tools.a.wait({ n: 2 }), tools.a.d({})]);
    out.push(all, await tools.a.e({ all })); out";

#[tokio::test]
async fn what_waits_for_people_is_released_and_goes_on_elsewhere() {
    let backend = backend();
    let place = spec(&[]);
    let mut sandbox = backend.launch(&place).await.unwrap();
    let again = fresh(7);
    let (task, post) = at_a_door(ts(PROGRAM, again.clone()));
    let keeper = keep(post, BTreeMap::new());
    let first = run_in(&mut sandbox, task).await;
    let seen = keeper.await.unwrap();
    assert_eq!(first.ended.verdict, Verdict::Released { due: None }, "{first:?}");
    assert_eq!((first.ended.outcome.as_ref(), first.value()), (None, ""));
    let waiting: Vec<u32> = (1..=9).filter(|number| !seen.answers.contains_key(number)).collect();
    assert_eq!(
        (first.ended.unanswered.as_slice(), waiting.len()),
        (waiting.as_slice(), 2),
        "{first:?}"
    );

    // The sandbox is as good as before.
    assert!(sandbox.is_sound());
    let next = run_in(&mut sandbox, code(JobLanguage::TypeScript, "6 * 7")).await;
    assert_eq!(next.value(), "42", "{next:?}");
    sandbox.end().await.unwrap();

    // A person has answered: the replay goes on elsewhere as if nothing had happened.
    let trace = [seen.trace(), first.ended.trace].concat();
    assert!(!trace.is_empty());
    let mut known = seen.answers.clone();
    known.extend(waiting.iter().map(|number| (*number, Ok(format!("\"yes {number}\"")))));
    let (second, then) = run_kept(
        ts(
            PROGRAM,
            ReplayState {
                trace: trace.clone(),
                ..again.clone()
            },
        ),
        known,
    )
    .await;
    assert_eq!(second.ended.verdict, Verdict::Finished, "{second:?}");
    assert_eq!(then.made()[..seen.calls.len()], seen.made()[..]);
    assert_eq!(second.stdout, first.stdout);
    assert_eq!(
        (then.calls.len(), second.ended.unrepeatable.as_deref()),
        (seen.calls.len() + 1, None)
    );
    assert!(
        second
            .value()
            .contains(&format!("[\"yes {}\",\"yes {}\",{{}}]", waiting[0], waiting[1])),
        "{second:?}"
    );

    // The whole run is replayed from the record alone.
    let whole = [trace, then.trace(), second.ended.trace.clone()].concat();
    let (third, last) = run_kept(ts(PROGRAM, ReplayState { trace: whole, ..again }), then.answers.clone()).await;
    assert_eq!(
        (third.value(), &third.stdout, last.made()),
        (second.value(), &second.stdout, then.made()),
        "{third:?}"
    );
    assert_eq!(
        (last.trace(), third.ended.trace),
        (vec![], vec![]),
        "nothing is recorded twice"
    );
}

/// Reports that one call waits for a person, and stops the program after a while: the host did not release it.
async fn check_stays(source: &str, held: usize) -> Ran {
    let (task, mut post) = at_a_door(ts(source, fresh(1)));
    let (switch, stop) = Stop::new();
    let keeper = tokio::spawn(async move {
        post.calls.recv().await.unwrap();
        post.held.send_replace(Some(held));
        tokio::time::sleep(Duration::from_millis(400)).await;
        switch.send_replace(true);
        post.replies.closed().await;
    });
    let ran = run_until(task, &[], stop).await;
    keeper.await.unwrap();
    assert_eq!(ran.ended.verdict, Verdict::Cancelled, "{source}: {ran:?}");
    ran
}

#[tokio::test]
async fn what_does_more_than_wait_is_not_released() {
    // A timer that is due soon repeats.
    check_stays("setInterval(() => {}, 300); await tools.a.wait()", 1).await;
    // Another call has no reply.
    check_stays("tools.a.b(); await tools.a.wait()", 1).await;
    // The program computes.
    check_stays(
        "tools.a.wait(); const t = Date.now(); while (Date.now() - t < 5000); 1",
        1,
    )
    .await;
    // The handler reports more waiting calls than there are.
    check_stays("await tools.a.wait()", 2).await;
}

#[tokio::test]
async fn a_program_is_released_once_its_work_is_done() {
    for source in [
        "setTimeout(() => console.log('late'), 200); await tools.a.wait()",
        "const c = tools.a.wait(); const t = Date.now(); while (Date.now() - t < 200); console.log('late'); await c",
    ] {
        let started = Instant::now();
        let (ran, seen) = run_kept(ts(source, fresh(1)), BTreeMap::new()).await;
        assert_eq!(ran.ended.verdict, Verdict::Released { due: None }, "{ran:?}");
        assert_eq!((ran.stdout.as_str(), seen.calls.len()), ("late\n", 1), "{ran:?}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_timer_that_is_due_later_is_told() {
    let source = "const t = new Promise(done => setTimeout(done, 3600_000, 'an hour')); t.then(console.log); await tools.a.wait()";
    let (ran, _) = run_kept(ts(source, fresh(1)), BTreeMap::new()).await;
    let now = ReplayState::fresh().clock;
    let Verdict::Released { due: Some(due) } = ran.ended.verdict else {
        panic!("{ran:?}")
    };
    assert!(due > now + 35_900_000 && due <= now + 36_000_100, "{due} {now}");
    // The program goes on once its time has come: here the clock began two hours ago.
    let mut again = fresh(1);
    again.clock -= 72_000_000;
    again.trace = vec![0, 0, 0];
    let (ran, _) = run_kept(ts(source, again), BTreeMap::new()).await;
    assert_eq!(
        (ran.ended.verdict, ran.stdout.as_str()),
        (Verdict::Released { due: None }, "an hour\n"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a_wait_that_ends_again_keeps_the_program() {
    let (task, mut post) = at_a_door(ts(
        "const a = await tools.a.wait(); const b = await tools.a.wait(); [a, b]",
        fresh(1),
    ));
    let keeper = tokio::spawn(async move {
        for _ in 0..2 {
            let asked = post.calls.recv().await.unwrap();
            // A person answers before the query: the call is held and answered at once.
            post.held.send_replace(Some(1));
            post.held.send_replace(None);
            let (number, answer) = (asked.number, Ok("1".to_owned()));
            post.replies.send(ToolReply { number, answer }).await.unwrap();
        }
        post.replies.closed().await;
    });
    let ran = run(task, &[]).await;
    keeper.await.unwrap();
    assert_eq!(
        (ran.ended.verdict, ran.value()),
        (Verdict::Finished, "[1,1]"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a_program_that_changed_is_told_so() {
    let (ran, seen) = run_kept(
        ts(
            "const t = Date.now(); await tools.a.b({ t }); await tools.a.c(); 1",
            fresh(1),
        ),
        BTreeMap::new(),
    )
    .await;
    let trace = [seen.trace(), ran.ended.trace].concat();
    for (source, calls) in [
        ("await tools.a.b({ t: 0 }); await tools.a.c(); 1", 1),
        ("const t = Date.now(); await tools.a.b({ t }); 1", 1),
        ("2", 0),
    ] {
        let again = ReplayState {
            trace: trace.clone(),
            ..fresh(1)
        };
        let (ran, _) = run_kept(ts(source, again), seen.answers.clone()).await;
        let outcome = ran.ended.outcome.as_ref().unwrap();
        let error = outcome.error.as_ref().unwrap();
        assert_eq!(
            (outcome.kind, error.code.as_str()),
            (JobOutcomeKind::Diverged, "replay.diverged"),
            "{ran:?}"
        );
        assert!(error.message.contains(&format!("after call {calls}:")), "{error:?}");
    }
}

#[tokio::test]
async fn a_trace_that_grows_too_long_is_given_up() {
    // The trace is as large as allowed, in numbers that are longer than necessary: any further byte is too much.
    let number = [&[0x80; 9][..], &[0]].concat();
    let reading = [&[0][..], &number, &number].concat();
    let readings = (4 << 20) / reading.len();
    let mut again = fresh(1);
    again.trace = reading.repeat(readings);
    let source = format!(
        "for (let n = 0; n < {readings}; n++) performance.now(); \
         for (let i = 0; i < 20; i++) await tools.a.b({{ i }}); await tools.a.wait(); 1"
    );
    let source = source.as_str();
    let (task, mut post) = at_a_door(ts(source, again));
    let keeper = tokio::spawn(async move {
        let mut traces = Vec::new();
        while let Some(asked) = post.calls.recv().await {
            let number = asked.number;
            traces.push(asked.trace.len());
            if number > 20 {
                post.held.send_replace(Some(1));
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            let answer = Ok("1".to_owned());
            post.replies.send(ToolReply { number, answer }).await.unwrap();
        }
        traces
    });
    let ran = run(task, &[]).await;
    let traces = keeper.await.unwrap();
    let why = ran.ended.unrepeatable.as_deref().unwrap_or_default();
    assert!(why.contains("4 MiB"), "{ran:?}");
    assert_eq!((ran.ended.verdict, ran.value()), (Verdict::Finished, "1"), "{ran:?}");
    assert!(traces.iter().sum::<usize>() < 100, "{traces:?}");
}

#[tokio::test]
async fn programs_and_scripts_are_never_asked() {
    let (task, post) = at_a_door(shell("sleep 0.3; echo done"));
    post.held.send_replace(Some(0));
    let ran = run(task, &[]).await;
    assert_eq!(
        (ran.ended.verdict, ran.stdout.as_str()),
        (Verdict::Finished, "done\n"),
        "{ran:?}"
    );
    assert_eq!((ran.ended.trace, ran.ended.unrepeatable), (vec![], None));
}
