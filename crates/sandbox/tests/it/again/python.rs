//! The replay tests for Python programs, on the machine's own interpreter.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{
    BTreeMap, Duration, ExecutionTask, Instant, JobLanguage, JobOutcomeKind, ReplayState, Stop, ToolReply, Verdict,
    at_a_door, backend, code, fresh, keep, run, run_in, run_kept, run_until, spec,
};

fn py(source: &str, again: ReplayState) -> ExecutionTask {
    let mut task = code(JobLanguage::Python, source);
    task.replay = Some(again);
    task
}

const PROGRAM: &str = "
import asyncio, datetime, os, random, time, uuid
out = [time.time(), random.random(), str(datetime.datetime.now()), str(uuid.uuid4()), os.urandom(4).hex(), list({'a', 'b', 'c'})]
async def one(i):
    await asyncio.sleep(0.001 * (i % 2))
    return await tools.a.b(i=i, at=time.time(), r=random.random())
out.append(await asyncio.gather(*(one(i) for i in range(5))))
try:
    await asyncio.wait_for(tools.a.c(), 0.002)
except asyncio.TimeoutError:
    out.append('late')
files.write('x', str(random.random()))
print(files.read('x'), out)
found = await asyncio.gather(tools.a.wait(n=1), tools.a.wait(n=2), tools.a.d())
out += [found, await tools.a.e(all=found)]
out";

#[tokio::test]
async fn what_waits_for_people_is_released_and_goes_on_elsewhere() {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
    let again = fresh(7);
    let (task, post) = at_a_door(py(PROGRAM, again.clone()));
    let keeper = keep(post, BTreeMap::new());
    let first = run_in(&mut sandbox, task).await;
    let seen = keeper.await.unwrap();
    assert_eq!(first.ended.verdict, Verdict::Released { due: None }, "{first:?}");
    let waiting: Vec<u32> = (1..=9).filter(|number| !seen.answers.contains_key(number)).collect();
    assert_eq!((first.ended.unanswered.as_slice(), waiting.len()), (&waiting[..], 2));
    assert!(sandbox.is_sound());
    let next = run_in(&mut sandbox, code(JobLanguage::Python, "6 * 7")).await;
    assert_eq!(next.value(), "42", "{next:?}");
    sandbox.end().await.unwrap();

    let trace = [seen.trace(), first.ended.trace].concat();
    let mut known = seen.answers.clone();
    known.extend(waiting.iter().map(|number| (*number, Ok(format!("\"yes {number}\"")))));
    let half = ReplayState {
        trace: trace.clone(),
        ..again.clone()
    };
    let (second, then) = run_kept(py(PROGRAM, half), known).await;
    assert_eq!(second.ended.verdict, Verdict::Finished, "{second:?}");
    assert_eq!(then.made()[..seen.calls.len()], seen.made()[..]);
    assert_eq!(
        (
            second.stdout.as_str(),
            then.calls.len(),
            second.ended.unrepeatable.as_deref()
        ),
        (first.stdout.as_str(), seen.calls.len() + 1, None)
    );

    let whole = [trace, then.trace(), second.ended.trace.clone()].concat();
    let (third, last) = run_kept(py(PROGRAM, ReplayState { trace: whole, ..again }), then.answers.clone()).await;
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

#[tokio::test]
async fn what_does_more_than_wait_is_not_released() {
    for (source, unrepeatable) in [
        (
            "import asyncio\nasync def tick():\n    while True: await asyncio.sleep(0.2)\nasyncio.create_task(tick())\nawait tools.a.wait()",
            false,
        ),
        (
            "import asyncio\nawait asyncio.gather(tools.a.wait(), tools.a.b())",
            false,
        ),
        (
            "import asyncio, time\nasyncio.create_task(tools.a.wait())\nawait asyncio.sleep(0)\nawait asyncio.sleep(0)\nwhile True: time.sleep(0.01)",
            false,
        ),
        (
            "import threading\nthreading.Thread(target=print).start()\nawait tools.a.wait()",
            true,
        ),
    ] {
        let (task, mut post) = at_a_door(py(source, fresh(1)));
        let (switch, stop) = Stop::new();
        let keeper = tokio::spawn(async move {
            post.calls.recv().await.unwrap();
            post.held.send_replace(Some(1));
            tokio::time::sleep(Duration::from_millis(400)).await;
            switch.send_replace(true);
            post.replies.closed().await;
        });
        let ran = run_until(task, &[], stop).await;
        keeper.await.unwrap();
        assert_eq!(ran.ended.verdict, Verdict::Cancelled, "{source}: {ran:?}");
        assert_eq!(ran.ended.unrepeatable.is_some(), unrepeatable, "{source}: {ran:?}");
    }
}

#[tokio::test]
async fn a_program_is_released_once_its_work_is_done() {
    for source in [
        "import asyncio\nasyncio.get_running_loop().call_later(0.2, print, 'late')\nawait tools.a.wait()",
        "import asyncio, time\ncall = asyncio.create_task(tools.a.wait())\nawait asyncio.sleep(0.01)\ntime.sleep(0.2)\nprint('late')\nawait call",
    ] {
        let started = Instant::now();
        let (ran, seen) = run_kept(py(source, fresh(1)), BTreeMap::new()).await;
        assert_eq!(ran.ended.verdict, Verdict::Released { due: None }, "{ran:?}");
        assert_eq!((ran.stdout.as_str(), seen.calls.len()), ("late\n", 1), "{ran:?}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_timer_that_is_due_later_is_told() {
    let source = "import asyncio\nasync def hour():\n    await asyncio.sleep(3600)\n    print('an hour')\nawait asyncio.gather(hour(), tools.a.wait())";
    let begun = fresh(1);
    let (first, seen) = run_kept(py(source, begun.clone()), BTreeMap::new()).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = now.as_secs() * 10_000 + u64::from(now.subsec_micros()) / 100;
    let Verdict::Released { due: Some(due) } = first.ended.verdict else {
        panic!("{first:?}")
    };
    assert!(due > now + 35_900_000 && due <= now + 36_000_100, "{due} {now}");
    // The program goes on once its time has come: here everything happened two hours ago.
    let early = ReplayState {
        clock: begun.clock - 72_000_000,
        trace: [seen.trace(), first.ended.trace].concat(),
        ..begun
    };
    let (second, _) = run_kept(py(source, early), BTreeMap::new()).await;
    assert_eq!(
        (second.ended.verdict, second.stdout.as_str()),
        (Verdict::Released { due: None }, "an hour\n"),
        "{second:?}"
    );
}

#[tokio::test]
async fn a_wait_that_ends_again_keeps_the_program() {
    let source = "[await tools.a.wait() for _ in range(50)]";
    let (task, mut post) = at_a_door(py(source, fresh(1)));
    let keeper = tokio::spawn(async move {
        while let Some(asked) = post.calls.recv().await {
            post.held.send_replace(Some(1));
            post.held.send_replace(None);
            let (number, answer) = (asked.number, Ok("1".to_owned()));
            post.replies.send(ToolReply { number, answer }).await.unwrap();
        }
    });
    let ran = run(task, &[]).await;
    keeper.await.unwrap();
    assert_eq!(ran.ended.verdict, Verdict::Finished, "{ran:?}");
}

#[tokio::test]
async fn a_program_that_changed_is_told_so() {
    let source = "import time\nt = time.time()\nawait tools.a.b(t=t)\nawait tools.a.c()\n1";
    let (ran, seen) = run_kept(py(source, fresh(1)), BTreeMap::new()).await;
    let trace = [seen.trace(), ran.ended.trace].concat();
    for (source, calls) in [("await tools.a.b(t=0)\n1", 1), ("print('x')\n2", 0)] {
        let again = ReplayState {
            trace: trace.clone(),
            ..fresh(1)
        };
        let (ran, _) = run_kept(py(source, again), seen.answers.clone()).await;
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
