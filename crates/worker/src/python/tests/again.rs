//! Programs that are run again do the same: they read, call and write the same.
use std::time::Duration;

use super::{
    ALLOW_ALL, BTreeMap, Forked, FrameBuffer, PythonFrame, PythonJob, PythonRemark, PythonResult, Read, Write, Zygote,
    append_return_frame, clock_now, is_ready, wait_query_frame,
};

mod host;
mod programs;

use host::{Dice, Did, Host, Start, run};

fn start(source: &str, seed: u64) -> Start {
    Start {
        source: source.to_owned(),
        seed,
        clock: clock_now(),
        trace: Vec::new(),
    }
}

fn again(start: &Start, trace: Vec<u8>) -> Start {
    Start { trace, ..start.clone() }
}

#[track_caller]
fn assert_same(one: &Did, other: &Did, source: &str) {
    let end = |did: &Did| {
        let said = (did.stdout.clone(), did.stderr.clone());
        (said, did.emitted.clone(), did.result.clone())
    };
    assert_eq!(one.whats(), other.whats(), "{source}");
    assert_eq!(end(one), end(other), "{source}");
    assert!(other.unrepeatable.is_empty(), "{source}");
}

#[track_caller]
fn completed(did: &Did, source: &str) {
    assert!(
        matches!(did.result, Some(PythonResult::Completed { .. })),
        "{source}\n{did:?}"
    );
}

/// Runs a program, runs it again with its whole trace, and with its trace up to some call.
fn check(zygote: &Zygote, source: &str, seed: u64) {
    let mut dice = Dice::new(seed);
    let begun = start(source, seed);
    let first = run(zygote, &begun, Host::quick(seed));
    completed(&first, source);
    let whole = first.trace(first.calls.len());
    let second = run(zygote, &again(&begun, whole), Host::quick(seed + 1));
    assert_same(&first, &second, source);
    assert!(second.trace(second.calls.len()).is_empty(), "{source}");
    if first.calls.is_empty() {
        return;
    }
    let cut = usize::try_from(dice.below(first.calls.len() as u64)).unwrap();
    let half = first.trace(cut);
    let third = run(zygote, &again(&begun, half.clone()), Host::quick(seed + 2));
    completed(&third, source);
    assert_eq!(first.whats()[..cut], third.whats()[..cut], "{source}");
    let joined = [half, third.trace(third.calls.len())].concat();
    let fourth = run(zygote, &again(&begun, joined), Host::quick(seed + 3));
    assert_same(&third, &fourth, source);
}

#[test]
fn programs_run_again_do_the_same() {
    let zygote = Zygote::start(&ALLOW_ALL);
    for seed in 1..=16 {
        check(&zygote, &programs::generate(seed), seed);
    }
}

#[test]
fn two_hundred_calls_at_once_come_in_the_same_order_again() {
    let zygote = Zygote::start(&ALLOW_ALL);
    check(&zygote, programs::GATHER, 77);
    check(&zygote, programs::SEVERAL_LOOPS, 78);
    check(&zygote, programs::TASKS, 79);
}

#[test]
fn chance_follows_from_the_seed_and_time_from_the_clock() {
    let zygote = Zygote::start(&ALLOW_ALL);
    let one = run(&zygote, &start(programs::CHANCE, 5), Host::quick(1));
    completed(&one, programs::CHANCE);
    let same = run(&zygote, &start(programs::CHANCE, 5), Host::quick(1));
    assert_eq!(one.stdout, same.stdout);
    let other = run(&zygote, &start(programs::CHANCE, 6), Host::quick(1));
    assert_ne!(one.stdout, other.stdout);
    let mut early = start(programs::CLOCKS, 1);
    early.clock = 12_345_678_900_000;
    let did = run(&zygote, &early, Host::quick(1));
    assert_eq!(did.stdout, "2009-02-13 23:31:30\n2009-02-13\n", "{did:?}");
    completed(&did, programs::CLOCKS);
    let second = run(&zygote, &again(&early, did.trace(1)), Host::quick(1));
    assert_same(&did, &second, programs::CLOCKS);
}

#[test]
fn a_trace_that_grows_too_long_is_given_up() {
    let zygote = Zygote::start(&ALLOW_ALL);
    // A reading of the same time, encoded in as many bytes as a number may have.
    let reading = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
    let count = (4 << 20) / reading.len();
    let source = format!(
        "import asyncio, time\nfor _ in range({count}): time.time()\nfor _ in range(40): time.sleep(0.001)\nasync def main(): await tools.s.a()\nasyncio.run(main())\n'done'"
    );
    let did = run(
        &zygote,
        &again(&start(&source, 1), reading.repeat(count)),
        Host::quick(1),
    );
    completed(&did, "");
    assert_eq!(did.unrepeatable, ["its trace is longer than 4 MiB"]);
    assert!(did.trace(1).is_empty(), "{did:?}");
}

#[test]
fn a_refusal_says_when_to_try_again() {
    let zygote = Zygote::start(&ALLOW_ALL);
    let source = "found = []\nfor tool in (tools.s.refuse, tools.s.refuse_for_good):\n    try:\n        await tool()\n    except ToolError as error:\n        found.append(error.retry_after_ms)\nfound";
    let did = run(&zygote, &start(source, 1), Host::quick(1));
    let expected = PythonResult::Completed {
        value_json: Some("[1500, null]".to_owned()),
    };
    assert_eq!(did.result, Some(expected), "{did:?}");
}

#[test]
fn sets_and_folders_have_an_order_of_their_own() {
    let (one, two) = (Zygote::start(&ALLOW_ALL), Zygote::start(&ALLOW_ALL));
    let begun = start(programs::ORDERS, 1);
    let did = run(&one, &begun, Host::quick(1));
    completed(&did, programs::ORDERS);
    assert_same(&did, &run(&two, &begun, Host::quick(1)), programs::ORDERS);
}

#[test]
fn what_cannot_be_repeated_is_said_once_and_still_works() {
    let zygote = Zygote::start(&ALLOW_ALL);
    for (source, why) in programs::UNREPEATABLE {
        let did = run(&zygote, &start(source, 1), Host::quick(1));
        assert_eq!(did.unrepeatable, [why], "{source}\n{did:?}");
        let expected = PythonResult::Completed {
            value_json: Some("\"done\"".to_owned()),
        };
        assert_eq!(did.result, Some(expected), "{source}\n{did:?}");
        assert!(did.tail.is_empty());
    }
}

#[track_caller]
fn diverged(did: &Did, source: &str) -> (u32, String) {
    match &did.result {
        Some(PythonResult::Diverged { calls, message }) => (*calls, message.clone()),
        _ => panic!("{source}\n{did:?}"),
    }
}

#[test]
fn a_program_that_does_something_else_is_stopped() {
    let zygote = Zygote::start(&ALLOW_ALL);
    let source = "print('said')\nawait tools.s.a(n=1)\nawait tools.s.b(n=2)\nawait tools.s.c(n=3)\n1";
    let begun = start(source, 1);
    let first = run(&zygote, &begun, Host::quick(1));
    completed(&first, source);
    for (other, calls) in [
        ("", 0),
        ("await tools.s.a(n=1)\n1", 1),
        (
            "await tools.s.a(n=1)\nawait tools.s.b(n=2)\nimport time\n[time.time() for _ in range(99)]",
            2,
        ),
        ("import threading\nthreading.Thread(target=print).start()", 0),
        ("import time\nfor _ in range(99): time.time()", 0),
        ("import asyncio\nfor _ in range(9): await asyncio.sleep(0)", 0),
        ("import asyncio\nawait asyncio.Event().wait()", 0),
    ] {
        let source = format!("print('said')\n{other}");
        let begun = Start {
            source: source.clone(),
            ..again(&begun, first.trace(3))
        };
        let did = run(&zygote, &begun, Host::quick(1));
        assert_eq!(diverged(&did, &source).0, calls, "{source}\n{did:?}");
        assert_eq!(did.stdout, "said\n", "{source}");
    }
    // What the program does after the end of the trace is new, not a divergence.
    let longer = Start {
        source: source.replace("\n1", "\nawait tools.s.d()\n1"),
        ..again(&begun, first.trace(2))
    };
    completed(&run(&zygote, &longer, Host::quick(1)), source);
}

#[test]
fn a_damaged_trace_ends_the_program_and_nothing_else() {
    let zygote = Zygote::start(&ALLOW_ALL);
    let source = "import asyncio, time\nprint(time.time())\nawait asyncio.gather(*(tools.s.a(n=n) for n in range(5)))\nawait asyncio.sleep(0.001)\ntime.time()\nawait tools.s.b()\n1";
    let begun = start(source, 1);
    let first = run(&zygote, &begun, Host::quick(1));
    completed(&first, source);
    let whole = first.trace(first.calls.len());
    let mut dice = Dice::new(9);
    for round in 0..60 {
        let mut trace = whole.clone();
        if round % 3 == 0 {
            trace = (0..=dice.below(60))
                .map(|_| u8::try_from(dice.below(256)).unwrap())
                .collect();
        } else {
            for _ in 0..=dice.below(3) {
                let place = usize::try_from(dice.below(trace.len() as u64)).unwrap();
                trace[place] = u8::try_from(dice.below(256)).unwrap();
            }
        }
        let did = run(&zygote, &again(&begun, trace.clone()), Host::quick(round));
        // A changed time of day is damage that cannot be detected.
        let ended = matches!(
            did.result,
            Some(PythonResult::Diverged { .. } | PythonResult::Completed { .. })
        );
        assert!(ended, "{trace:?}\n{did:?}");
    }
    for trace in [
        vec![0xff; 20],
        vec![0x80],
        vec![3],
        vec![1],
        vec![2],
        vec![0xff, 0xff, 0xff, 0x7f],
    ] {
        let did = run(&zygote, &again(&begun, trace.clone()), Host::quick(1));
        diverged(&did, &format!("{trace:?}"));
    }
}

#[test]
fn a_program_says_that_it_waits_and_for_how_long() {
    let zygote = Zygote::start(&ALLOW_ALL);
    let held = |source: &str| {
        let host = Host {
            silent: |what| what.contains("held"),
            looks: Some((Duration::from_millis(30), 2)),
            idle: Duration::from_millis(600),
            ..Host::quick(1)
        };
        run(&zygote, &start(source, 1), host)
    };
    let did = held("await tools.s.a()\nawait tools.s.held()");
    assert_eq!(did.waits, [(1, None), (1, None)]);
    assert_eq!(did.calls.len(), 2);
    assert!(!did.tail.is_empty(), "what was recorded is told before the wait");
    let did = held(
        "import asyncio, time\nprint(time.time_ns() // 100000, flush=True)\nawait asyncio.gather(tools.s.held(), tools.s.held(), asyncio.sleep(3600))",
    );
    let begun: u64 = did.stdout.trim().parse().unwrap();
    let [(2, Some(due)), (2, Some(again))] = did.waits[..] else {
        panic!("{did:?}")
    };
    assert_eq!(due, again);
    assert!((begun + 36_000_000..begun + 36_001_000).contains(&due), "{begun} {due}");
    // A busy program reports its next wait, and nothing before it.
    let did = held("import time\nfor _ in range(5):\n    time.sleep(0.05)\nawait tools.s.held()");
    assert_eq!(did.waits, [(1, None)]);
    let did = held("import time\ntime.sleep(0.2)\n1");
    assert!(did.waits.is_empty(), "{did:?}");
}

#[test]
fn a_timer_whose_time_has_come_meanwhile_fires_at_once() {
    let zygote = Zygote::start(&ALLOW_ALL);
    for source in [
        "import asyncio\nawait asyncio.gather(asyncio.sleep(3600), tools.s.held())",
        "import asyncio\nasync def one():\n    await tools.s.held()\nasync def main():\n    try:\n        await asyncio.wait_for(one(), 3600)\n    except asyncio.TimeoutError:\n        await tools.s.a()\nawait main()\n'late'",
    ] {
        let begun = start(source, 1);
        let host = |silent| Host {
            silent,
            looks: Some((Duration::from_millis(30), 1)),
            idle: Duration::from_millis(400),
            ..Host::quick(1)
        };
        let first = run(&zygote, &begun, host(|what| what.contains("held")));
        assert!(matches!(first.waits[..], [(1, Some(_))]), "{first:?}");
        let later = Start {
            clock: begun.clock - 72_000_000,
            ..again(&begun, first.trace(1))
        };
        let second = run(&zygote, &later, host(|what| what.contains("held")));
        if source.contains("late") {
            completed(&second, source);
        } else {
            assert_eq!(second.waits, [(1, None)], "{second:?}");
        }
    }
}

#[test]
fn sleeping_again_takes_no_time() {
    let zygote = Zygote::start(&ALLOW_ALL);
    let source =
        "import asyncio, time\ntime.sleep(0.3)\nawait asyncio.sleep(0.3)\nt = time.time()\nawait tools.s.a()\nt";
    let begun = start(source, 1);
    let first = run(&zygote, &begun, Host::quick(1));
    let before = std::time::Instant::now();
    let second = run(&zygote, &again(&begun, first.trace(1)), Host::quick(1));
    assert_eq!(first.result, second.result);
    assert!(before.elapsed() < Duration::from_millis(250), "{:?}", before.elapsed());
}
