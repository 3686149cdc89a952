//! Calls leave through the call port and replies come back, in every order and size, and with every kind of failure.

use std::time::{Duration, Instant};

use ringfence_sandbox::{
    CallPort, ExecutionLimit, ExecutionTask, JobLanguage, OrderedCalls, Stop, ToolCall, ToolCallKind, ToolRefusal,
    ToolReply, Verdict,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::harness::{Ran, code, run, run_until};

type Calls = OrderedCalls;
type Answers = mpsc::Sender<ToolReply>;

/// Runs `task` with a call port that `behind` serves.
async fn run_with(
    task: ExecutionTask,
    settings: &[(&str, &str)],
    behind: impl FnOnce(Calls, Answers) -> JoinHandle<()>,
) -> Ran {
    let (task, keeper) = at_a_door(task, 1024, behind);
    let ran = run(task, settings).await;
    keeper.abort();
    ran
}

fn at_a_door(
    mut task: ExecutionTask,
    room: usize,
    behind: impl FnOnce(Calls, Answers) -> JoinHandle<()>,
) -> (ExecutionTask, JoinHandle<()>) {
    let (door, handler) = CallPort::new(room);
    task.call_port = Some(door);
    (task, behind(handler.calls, handler.replies))
}

/// Replies to every call with the result of `answer`.
fn each(
    mut answer: impl FnMut(ToolCall) -> Result<String, ToolRefusal> + Send + 'static,
) -> impl FnOnce(Calls, Answers) -> JoinHandle<()> {
    move |mut calls, answers| {
        tokio::spawn(async move {
            while let Some(asked) = calls.recv().await {
                let number = asked.number;
                let answer = answer(asked);
                if answers.send(ToolReply { number, answer }).await.is_err() {
                    return;
                }
            }
        })
    }
}

fn echo() -> impl FnOnce(Calls, Answers) -> JoinHandle<()> {
    each(|asked| Ok(asked.body))
}

/// Takes calls and never replies.
fn silence(mut calls: Calls, answers: Answers) -> JoinHandle<()> {
    tokio::spawn(async move {
        while calls.recv().await.is_some() {}
        answers.closed().await;
    })
}

fn denial() -> ToolRefusal {
    ToolRefusal {
        code: "tool.denied".to_owned(),
        message: "`github.drop` is not for this program".to_owned(),
        rule: Some("tools.rules[2]".to_owned()),
        hint: Some("ask the operator".to_owned()),
        retry_after_ms: None,
    }
}

fn ts(source: &str) -> ExecutionTask {
    code(JobLanguage::TypeScript, source)
}

fn py(source: &str) -> ExecutionTask {
    code(JobLanguage::Python, source)
}

#[track_caller]
fn check(ran: &Ran, value: &str) {
    assert_eq!((ran.ended.verdict, ran.value()), (Verdict::Finished, value), "{ran:?}");
    assert_eq!(ran.ended.unanswered, Vec::<u32>::new());
}

#[tokio::test]
async fn a_call_has_its_answer() {
    for task in [
        ts("const x = await tools.github.list_issues({ owner: 'a', n: 1 }); x"),
        ts("import { github } from 'tools'; await github.list_issues({ owner: 'a', n: 1 })"),
        ts(
            "import t, { ToolError } from 'tools'; [ToolError.name].length && t['github']['list_issues']({ owner: 'a', n: 1 })",
        ),
        py("from tools import github\nawait github.list_issues(owner='a', n=1)"),
        py(
            "import asyncio, tools\nasync def main():\n    return await tools.github['list_issues'](owner='a', n=1)\nasyncio.run(main())",
        ),
    ] {
        let ran = run_with(
            task,
            &[],
            each(|asked| {
                let ask = ToolCallKind::Tool {
                    server: "github".to_owned(),
                    tool: "list_issues".to_owned(),
                };
                assert_eq!((asked.number, asked.ask), (1, ask));
                Ok(asked.body)
            }),
        )
        .await;
        let value: String = ran.value().split_whitespace().collect();
        assert_eq!(
            (ran.ended.verdict, value.as_str()),
            (Verdict::Finished, r#"{"owner":"a","n":1}"#),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn questions_about_tools_go_the_same_road() {
    let told = |asked: ToolCall| Ok(format!("[{:?},{}]", format!("{:?}", asked.ask), asked.body));
    let ran = run_with(
        ts("JSON.stringify([await search('a', { limit: 2 }), await search(['b']), await describe('s.t'), await list('s'), await list()])"),
        &[],
        each(told),
    )
    .await;
    let ts_says = ran.value().replace('\\', "");
    assert!(ts_says.contains(r#"["Search",{"query":"a","limit":2}],["Search",{"intents":["b"]}],["Describe",{"tools":["s.t"]}],["List",{"server":"s"}],["List",{}]"#), "{ran:?}");
    let ran = run_with(
        py("from tools import list_tools\nimport json\njson.dumps([await search('a', limit=2), await search(['b']), await describe('s.t'), await list_tools('s'), await list_tools()], separators=(',', ':'))"),
        &[],
        each(told),
    )
    .await;
    let py_says = ran.value().replace('\\', "");
    assert!(py_says.contains(r#"["Search",{"limit":2,"query":"a"}],["Search",{"intents":["b"]}],["Describe",{"tools":["s.t"]}],["List",{"server":"s"}],["List",{}]"#), "{ran:?}");
}

#[tokio::test]
async fn a_thousand_calls_are_under_way_together() {
    // No call gets a reply before all have arrived, and then the last one comes first.
    let together = |mut calls: Calls, answers: Answers| {
        tokio::spawn(async move {
            let mut held = Vec::new();
            while held.len() < 1000 {
                held.push(calls.recv().await.unwrap());
            }
            for asked in held.into_iter().rev() {
                let (number, answer) = (asked.number, Ok(asked.body));
                answers.send(ToolReply { number, answer }).await.unwrap();
            }
            answers.closed().await;
        })
    };
    let source = "const all = await Promise.all(Array.from({ length: 1000 }, (_, i) => tools.a.b({ i }))); all.every((x, i) => x.i === i)";
    check(&run_with(ts(source), &[], together).await, "true");
    let source = "import asyncio\nfrom tools import a\nall = await asyncio.gather(*(a.b(i=i) for i in range(1000)))\n[x['i'] for x in all] == list(range(1000))";
    check(&run_with(py(source), &[], together).await, "true");
}

#[tokio::test]
async fn calls_one_after_the_other_keep_their_numbers() {
    let numbered = || each(|asked| Ok(asked.number.to_string()));
    let source =
        "const ns = []; for (let i = 0; i < 300; i++) ns.push(await tools.a.b()); ns.every((n, i) => n === i + 1)";
    check(&run_with(ts(source), &[], numbered()).await, "true");
    let source = "from tools import a\nns = [await a.b() for i in range(300)]\nns == list(range(1, 301))";
    check(&run_with(py(source), &[], numbered()).await, "true");
}

#[tokio::test]
async fn more_calls_than_may_be_unanswered_wait_their_turn() {
    let source = "const all = await Promise.all(Array.from({ length: 10000 }, (_, i) => tools.a.b({ i }))); all.length";
    check(&run_with(ts(source), &[], echo()).await, "10000");
    let (task, keeper) = at_a_door(ts(source), 1, echo());
    check(&run(task, &[]).await, "10000");
    keeper.abort();
    let source = "import asyncio\nfrom tools import a\nlen(await asyncio.gather(*(a.b(i=i) for i in range(6000))))";
    check(&run_with(py(source), &[], echo()).await, "6000");
}

#[tokio::test]
async fn large_bodies_go_both_ways() {
    let source = "const text = 'é'.repeat(2.5e6); const all = await Promise.all([1, 2, 3].map(n => tools.a.b({ n, text }))); all.every((x, i) => x.n === i + 1 && x.text === text)";
    check(&run_with(ts(source), &[], echo()).await, "true");
    let source = "import asyncio\nfrom tools import a\ntext = 'é' * 2500000\nall = await asyncio.gather(*(a.b(n=n, text=text) for n in range(3)))\nall == [dict(n=n, text=text) for n in range(3)]";
    check(&run_with(py(source), &[], echo()).await, "true");
}

#[tokio::test]
async fn what_is_too_large_is_refused_by_name() {
    let huge = || each(|_| Ok(format!("\"{}\"", "x".repeat(16 << 20))));
    for task in [
        ts("const r = await tools.a.b.try(); r.error.code"),
        ts("const r = await tools.a.b.try({ x: 'x'.repeat(17 * 2 ** 20) }); r.error.code"),
        py("from tools import a\ntry:\n    await a.b()\nexcept ToolError as e:\n    code = e.code\ncode"),
        py(
            "from tools import a\ntry:\n    await a.b(x='x' * (17 << 20))\nexcept ToolError as e:\n    code = e.code\ncode",
        ),
    ] {
        check(&run_with(task, &[], huge()).await, "\"call.too_large\"");
    }
}

#[tokio::test]
async fn a_refusal_is_an_error_that_can_be_caught() {
    let refuse = || each(|_| Err(denial()));
    let told = [
        "tool.denied",
        "tools.rules[2]",
        "ask the operator",
        "github.drop",
        &denial().message,
    ];
    let expected = format!("{told:?}");
    let source = "let told; try { await tools.github.drop({ all: true }) } catch (e) { told = e instanceof ToolError && [e.code, e.rule, e.hint, e.tool, e.message] } told";
    check(
        &run_with(ts(source), &[], refuse()).await,
        &expected.replace("\", \"", "\",\""),
    );
    let source = "from tools import github, ToolError as E\nimport json\ntry:\n    await github.drop(all=True)\nexcept E as e:\n    told = [e.code, e.rule, e.hint, e.tool, e.message]\ntold";
    check(&run_with(py(source), &[], refuse()).await, &expected);
}

#[tokio::test]
async fn a_refusal_that_nobody_catches_is_the_programs_error() {
    for task in [
        ts("const x = 1;\nawait tools.github.drop()"),
        py("from tools import github\nawait github.drop()"),
    ] {
        let ran = run_with(task, &[], each(|_| Err(denial()))).await;
        let error = ran.ended.outcome.as_ref().unwrap().error.as_ref().unwrap();
        assert_eq!(
            (error.code.as_str(), error.call, error.line),
            ("program.failed", Some(1), 2),
            "{ran:?}"
        );
        assert_eq!(ran.ended.refused, Some(denial()), "as this side said it");
        assert!(error.message.contains("not for this program"), "{error:?}");
    }
}

#[tokio::test]
async fn without_a_door_there_are_no_tools() {
    for task in [
        ts("const r = await tools.a.b.try({ x: 1 }); [r.ok, r.error.code, r.error.hint]"),
        py(
            "from tools import a\ntry:\n    await a.b(x=1)\nexcept ToolError as e:\n    told = [False, e.code, e.hint]\ntold",
        ),
    ] {
        let ran = run(task, &[]).await;
        let told = ran.value().replace(", ", ",");
        let expected = r#"[false,"tools.none","tool servers are named in `ringfence.yaml`"]"#;
        assert_eq!(
            (ran.ended.verdict, told.as_str()),
            (Verdict::Finished, expected),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn a_door_that_closes_answers_what_was_asked() {
    let leave = |mut calls: Calls, answers: Answers| {
        tokio::spawn(async move {
            calls.recv().await.unwrap();
            drop((calls, answers));
        })
    };
    let source = "const r = await Promise.all([1, 2, 3].map(n => tools.a.b.try({ n }))); r.map(x => x.error.code)";
    check(
        &run_with(ts(source), &[], leave).await,
        r#"["tools.gone","tools.gone","tools.gone"]"#,
    );
}

#[tokio::test]
async fn answers_to_nothing_and_twice_are_dropped() {
    let twice = |mut calls: Calls, answers: Answers| {
        tokio::spawn(async move {
            while let Some(ToolCall { number, body, .. }) = calls.recv().await {
                for (number, answer) in [(number + 7, "0"), (number, body.as_str()), (number, "1")] {
                    let answer = Ok(answer.to_owned());
                    answers.send(ToolReply { number, answer }).await.unwrap();
                }
            }
        })
    };
    let source = "[(await tools.a.b({ n: 1 })).n, (await tools.a.b({ n: 2 })).n]";
    check(&run_with(ts(source), &[], twice).await, "[1,2]");
}

#[tokio::test]
async fn calls_that_are_left_behind_are_told() {
    let ran = run_with(
        ts("tools.a.b({}); tools.a.b({}); await tools.a.c(); throw new Error('enough')"),
        &[],
        |mut calls: Calls, answers: Answers| {
            tokio::spawn(async move {
                while let Some(ToolCall { number, ask, .. }) = calls.recv().await {
                    if matches!(ask, ToolCallKind::Tool { tool, .. } if tool == "c") {
                        let answer = Ok("null".to_owned());
                        answers.send(ToolReply { number, answer }).await.unwrap();
                    }
                }
                answers.closed().await;
            })
        },
    )
    .await;
    assert_eq!(
        (ran.ended.verdict, ran.ended.unanswered.as_slice()),
        (Verdict::Finished, &[1, 2][..]),
        "{ran:?}"
    );
    let ran = run_with(
        py("import asyncio, os\nfrom tools import a\nasyncio.ensure_future(a.b())\nawait asyncio.sleep(0.05)\nos._exit(3)"),
        &[],
        silence,
    )
    .await;
    assert_eq!(ran.ended.unanswered, [1], "{ran:?}");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_answers() {
    for task in [ts("await tools.a.b()"), py("from tools import a\nawait a.b()")] {
        let (switch, stop) = Stop::new();
        let started = Instant::now();
        let (task, keeper) = at_a_door(task, 16, |mut calls, answers| {
            tokio::spawn(async move {
                calls.recv().await.unwrap();
                switch.send(true).unwrap();
                answers.closed().await;
            })
        });
        let ran = run_until(task, &[], stop).await;
        keeper.abort();
        assert_eq!(
            (ran.ended.verdict, ran.ended.unanswered.as_slice()),
            (Verdict::Cancelled, &[1][..]),
            "{ran:?}"
        );
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

/// Replies after a while.
fn after(wait: Duration) -> impl FnOnce(Calls, Answers) -> JoinHandle<()> {
    move |mut calls, answers| {
        tokio::spawn(async move {
            while let Some(ToolCall { number, body, .. }) = calls.recv().await {
                tokio::time::sleep(wait).await;
                let answer = Ok(body);
                answers.send(ToolReply { number, answer }).await.unwrap();
            }
        })
    }
}

#[tokio::test]
async fn the_clock_stands_while_only_the_outside_is_waited_for() {
    // An interpreter starts within the wall time as well; all of them wait at once, which costs nothing.
    let wall = Duration::from_secs(3);
    let waits = async |task: ExecutionTask| {
        let settings = [("proc.wall_timeout", "3s")];
        let ran = run_with(task, &settings, after(wall + Duration::from_millis(500))).await;
        check(&ran, "1");
        assert!(ran.ended.usage.wall < wall, "{:?}", ran.ended.usage);
    };
    tokio::join!(
        waits(ts("await tools.a.b(); 1")),
        waits(ts("setTimeout(() => {}, 1); await tools.a.b(); 1")),
        waits(py("from tools import a\nawait a.b()\n1")),
    );
}

#[tokio::test]
async fn the_clock_goes_on_for_a_program_that_works() {
    let settings = [("proc.wall_timeout", "400ms")];
    for task in [
        ts("tools.a.b(); for (;;) {}"),
        ts(
            "tools.a.b(); await null; const spin = () => { const t = Date.now(); while (Date.now() - t < 20); setTimeout(spin, 0) }; spin(); await new Promise(() => {})",
        ),
        ts("await tools.a.b(); await new Promise(r => setTimeout(r, 10000))"),
        py(
            "import asyncio\nfrom tools import a\nasyncio.ensure_future(a.b())\nawait asyncio.sleep(0.01)\nwhile True: pass",
        ),
    ] {
        let started = Instant::now();
        let ran = run_with(task, &settings, after(Duration::from_millis(100))).await;
        assert_eq!(ran.ended.verdict, Verdict::Limit(ExecutionLimit::Wall), "{ran:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "{ran:?}");
    }
}

#[tokio::test]
async fn a_lifetime_ends_what_waits() {
    let ran = run_with(ts("await tools.a.b()"), &[("proc.lifetime", "2s")], silence).await;
    assert_eq!(
        (ran.ended.verdict, ran.ended.unanswered.as_slice()),
        (Verdict::Limit(ExecutionLimit::Wall), &[1][..]),
        "{ran:?}"
    );
}

#[tokio::test]
async fn nonsense_from_a_python_process_ends_its_execution() {
    for frame in [
        "{\"call\":1}",
        "[]",
        "{\"call\":1,\"ask\":\"tool\",\"server\":\"a\",\"tool\":\"b\",\"body\":nonsense}",
    ] {
        let source = format!(
            "import socket, struct, time\ns = socket.socket(fileno=3)\nf = {frame:?}.encode()\ns.sendall(struct.pack('>I', len(f)) + f)\ntime.sleep(5)\n1"
        );
        let ran = run_with(py(&source), &[], echo()).await;
        let error = ran.ended.outcome.as_ref().unwrap().error.as_ref().unwrap();
        assert_eq!(error.code.as_str(), "python.ended", "{ran:?}");
    }
}

#[tokio::test]
async fn a_flood_of_calls_that_nobody_takes_is_held_back() {
    let idle = |calls: Calls, answers: Answers| {
        tokio::spawn(async move {
            answers.closed().await;
            drop(calls);
        })
    };
    let source = "for (let i = 0; i < 3000; i++) tools.a.b({ x: 'x'.repeat(30000) }); await new Promise(r => setTimeout(r, 60000))";
    let (task, keeper) = at_a_door(ts(source), 2, idle);
    let started = Instant::now();
    let ran = run(task, &[("proc.lifetime", "1500ms")]).await;
    keeper.abort();
    assert_eq!(
        (ran.ended.verdict, ran.ended.unanswered.len()),
        (Verdict::Limit(ExecutionLimit::Wall), 2),
        "{ran:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(10));
}
