//! A program that runs again with its trace does the same again, whatever it is and wherever the trace ends.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use ringfence_wire::{BoundedText, CallFailure, CallTarget, EmittedFile};

use super::super::{CallAnswer, EngineHost, JsEngine, JsOutcome, JsProgram, ReplayInput};
use super::{LIMITS, Said, check, run_again, value};

/// A small generator with a given seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A call as the host received it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Made {
    ask: CallTarget,
    body: String,
    /// How much output the program had written before the call.
    said: usize,
}

/// A host that answers in any order, and keeps everything that is needed to run the program again.
struct World {
    chance: Chance,
    /// Answers that an earlier run has received.
    known: BTreeMap<u32, CallAnswer>,
    waiting: Vec<(Instant, u32, CallAnswer)>,
    said: Said,
    made: Vec<Made>,
    answered: BTreeMap<u32, CallAnswer>,
    /// The trace before each call, and at the end.
    pieces: Vec<Vec<u8>>,
    trace: Vec<u8>,
}

impl World {
    fn new(seed: u64, known: BTreeMap<u32, CallAnswer>) -> World {
        World {
            chance: Chance(seed | 1),
            known,
            waiting: Vec::new(),
            said: Said::default(),
            made: Vec::new(),
            answered: BTreeMap::new(),
            pieces: Vec::new(),
            trace: Vec::new(),
        }
    }

    fn invent(&mut self, ask: &CallTarget, body: &str) -> CallAnswer {
        match self.chance.below(8) {
            _ if matches!(ask, CallTarget::Tool { server, .. } if *server == "echo") => Ok(body.to_owned()),
            0 => Err(CallFailure {
                code: BoundedText::truncated("limit.rate"),
                message: BoundedText::truncated("too often"),
                rule: None,
                hint: None,
                retry_after_ms: Some(1500),
            }),
            _ => Ok(format!("{{\"n\":{}}}", self.chance.below(1000))),
        }
    }
}

impl EngineHost for World {
    fn stdout(&mut self, bytes: &[u8]) {
        self.said.stdout(bytes);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.said.stderr(bytes);
    }

    fn call(&mut self, ask: CallTarget, body: String) -> Option<u32> {
        let said = self.said.stdout.len();
        let invented = self.invent(&ask, &body);
        self.made.push(Made { ask, body, said });
        self.pieces.push(std::mem::take(&mut self.trace));
        let number = u32::try_from(self.made.len()).unwrap();
        let (answer, wait) = match self.known.remove(&number) {
            Some(answer) => (answer, self.chance.below(50)),
            None => (invented, self.chance.below(3000)),
        };
        self.waiting
            .push((Instant::now() + Duration::from_micros(wait), number, answer));
        Some(number)
    }

    fn send_calls(&mut self) {}

    fn wait_for_answer(&mut self, until: Option<Instant>, due: Option<u64>) -> Option<(u32, CallAnswer)> {
        assert_eq!(until.is_some(), due.is_some(), "one moment on two clocks");
        let (place, ready) = self
            .waiting
            .iter()
            .enumerate()
            .map(|(place, (ready, ..))| (place, *ready))
            .min_by_key(|(_, ready)| *ready)?;
        let first = until.map_or(ready, |until| until.min(ready));
        thread::sleep(first.saturating_duration_since(Instant::now()));
        if until.is_some_and(|until| until < ready) {
            return None;
        }
        let (_, number, answer) = self.waiting.remove(place);
        self.answered.insert(number, answer.clone());
        Some((number, answer))
    }

    fn trace(&mut self, bytes: &[u8]) {
        self.trace.extend_from_slice(bytes);
    }

    fn emit(&mut self, emit: EmittedFile) {
        self.said.emit(emit);
    }
}

/// One run, and everything that it left.
struct Ran {
    outcome: JsOutcome,
    world: World,
}

impl Ran {
    /// What the run did: its calls, its output, its emitted files, its outcome.
    fn deeds(&self) -> (&[Made], &str, &str, &[EmittedFile], &JsOutcome) {
        let said = &self.world.said;
        let made = &self.world.made;
        (made, &said.stdout, &said.stderr, &said.emitted, &self.outcome)
    }
}

fn live(source: &str, clock: u64, trace: &[u8], world: World) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("given"), "here").unwrap();
    let engine = JsEngine::with_workspace(LIMITS, folder.path().to_owned()).unwrap();
    let world = Rc::new(RefCell::new(world));
    let program = JsProgram {
        source,
        typescript: true,
        file_name: "program.ts",
        args: &[],
        input: None,
        replay: ReplayInput { seed: 42, clock, trace },
    };
    let outcome = engine
        .run(&program, Rc::clone(&world) as Rc<RefCell<dyn EngineHost>>)
        .outcome;
    let mut world = world.replace(World::new(0, BTreeMap::new()));
    let last = std::mem::take(&mut world.trace);
    world.pieces.push(last);
    Ran { outcome, world }
}

const START: u64 = 17_000_000_000_000;

/// A program of a few parts, each of which depends on time, on random numbers or on the order of answers.
fn program(chance: &mut Chance) -> String {
    let mut source = String::from(
        "const out: unknown[] = [];\n\
         const note = (...v: unknown[]) => { console.log(JSON.stringify(v)); out.push(v) };\n\
         const sleep = (ms: number) => new Promise<string>(done => setTimeout(done, ms, 'slept'));\n\
         const call = async (name: string, args: object) => { const r = await tools.s[name].try(args); return r.ok ? r.data : r.error.retryAfterMs };\n",
    );
    for part in 0..4 + chance.below(4) {
        let many = if chance.below(6) == 0 {
            200
        } else {
            1 + chance.below(12)
        };
        let wait = chance.below(4);
        let text = match chance.below(14) {
            0 => "note('now', Date.now(), new Date().getTime(), performance.now())".to_owned(),
            1 => "note('chance', Math.random(), Date().length, new Date().toISOString())".to_owned(),
            2 => format!("note('call', await call('one', {{ part: {part}, at: Date.now(), r: Math.random() }}))"),
            3 => format!("note('race', await Promise.race([call('a', {{}}), sleep({wait}), call('b', {{ n: Date.now() }})]))"),
            4 => format!(
                "{{ const order: number[] = []; note('all', await Promise.all(Array.from({{ length: {many} }}, async (_, i) => {{ \
                 if (i % 3 === 1) await sleep(i % 5); \
                 const v = await call('p', {{ i, r: Math.random(), before: order.length }}); order.push(i); \
                 if (i % 7 === 2) return [v, await call('q', {{ i, first: order[0] }})]; return v }})), order) }}"
            ),
            5 => "{ let c = 0; await new Promise<void>(done => { const id = setInterval(() => { note('tick', ++c, Date.now()); if (c === 3) { clearInterval(id); done() } }, 1) }) }".to_owned(),
            6 => format!("files.write('f{part}', `${{Math.random()}} ${{Date.now()}}`); note(files.read('f{part}'), files.list())"),
            7 => format!("call('late', {{ part: {part} }}).then(v => note('late', v, Date.now()))"),
            8 => format!("setTimeout(() => note('timeout', {part}, Date.now()), {wait})"),
            9 => "if (Math.floor(performance.now() * 10) % 2) note(await call('odd', {})); else { await sleep(1); note('even') }".to_owned(),
            10 => format!("for (let i = 0; i < {many}; i++) note(i, await call('row', {{ i, t: Date.now() }}))"),
            11 => "{ const t = Date.now(); let n = 0; while (Date.now() - t < 2) n++; note('spun', n) }".to_owned(),
            12 => format!("emit({{ at: Date.now() }}, {{ name: `e{part}-${{Math.floor(Math.random() * 1e6)}}.json` }}); emit('given')"),
            _ => format!("note(await Promise.any([call('x', {{}}), call('y', {{}})]), (await Promise.allSettled([sleep({wait}), tools.s.z({{}})])).map(x => x.status))"),
        };
        let _ = writeln!(source, "{text};");
    }
    source.push_str("await sleep(1); note('end', Date.now(), await call('last', { out: out.length })); out");
    source
}

/// Runs a program, replays its whole trace, then replays the trace up to some call and continues live from there, and
/// replays that run too.
fn check_repeats(seed: u64) {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let source = program(&mut chance);
    let first = live(&source, START, &[], World::new(chance.next(), BTreeMap::new()));
    assert!(
        matches!(first.outcome, JsOutcome::Completed { .. }),
        "{source}\n{:?}",
        first.outcome
    );

    let whole = first.world.pieces.concat();
    let known = World::new(chance.next(), first.world.answered.clone());
    let second = live(&source, START, &whole, known);
    assert_eq!(second.deeds(), first.deeds(), "{source}");
    assert_eq!(
        second.world.pieces.concat(),
        b"",
        "what was given is not recorded again"
    );

    let calls = first.world.made.len();
    let cut = usize::try_from(chance.below(calls as u64)).unwrap();
    let before = first.world.pieces[..=cut].concat();
    let known = World::new(chance.next(), first.world.answered.clone());
    let third = live(&source, START, &before, known);
    assert!(
        matches!(third.outcome, JsOutcome::Completed { .. }),
        "{source}\n{:?}",
        third.outcome
    );
    assert_eq!(third.world.made[..=cut], first.world.made[..=cut], "{source}");
    let said = first.world.made[cut].said;
    assert_eq!(
        third.world.said.stdout[..said],
        first.world.said.stdout[..said],
        "{source}"
    );

    let whole = [before, third.world.pieces.concat()].concat();
    let known = World::new(chance.next(), third.world.answered.clone());
    let fourth = live(&source, START, &whole, known);
    assert_eq!(fourth.deeds(), third.deeds(), "{source}");
}

#[test]
fn any_program_repeats_itself_from_its_trace() {
    for seed in 1..=48 {
        check_repeats(seed);
    }
}

#[test]
fn a_program_without_clocks_has_the_same_value_however_often_it_is_broken_off() {
    let source = "const r: unknown[] = []; const sleep = (ms: number) => new Promise(done => setTimeout(done, ms));
        for (let n = 0; n < 8; n++) {
          await sleep(n % 2);
          r.push(await Promise.all([1, 2, 3].map(async i => { await sleep(i % 2); return tools.echo.it({ n, i, r: i === 1 ? Math.random() : 0 }) })));
        }
        files.write('x', JSON.stringify(r)); [r, files.read('x'), files.list()]";
    let first = live(source, START, &[], World::new(7, BTreeMap::new()));
    let (mut trace, mut answered) = (Vec::new(), BTreeMap::new());
    for round in 1..=7 {
        let again = live(source, START, &trace, World::new(round, answered));
        assert_eq!(again.outcome, first.outcome, "{round}");
        // The trace up to the call at which the next round goes live, a later one each time.
        let cut = usize::try_from(round).unwrap() * 3;
        trace.extend(again.world.pieces[..cut].concat());
        answered = again.world.answered;
        answered.retain(|number, _| *number <= u32::try_from(cut).unwrap());
    }
}

/// The trace of a program whose calls are answered at once.
fn recorded(source: &str) -> Vec<u8> {
    let (outcome, said) = run_again(source, 1, &[]);
    assert!(matches!(outcome, JsOutcome::Completed { .. }), "{source}: {outcome:?}");
    said.trace
}

#[track_caller]
fn check_diverges(source: &str, trace: &[u8], calls: u32) {
    let (outcome, said) = run_again(source, 1, trace);
    assert_eq!(outcome, JsOutcome::Diverged { calls }, "{source}");
    assert_eq!(said.made, calls, "{source}");
}

#[test]
fn a_program_that_does_something_else_is_stopped_there() {
    let two = recorded("await tools.a.b(); await tools.a.c(); 1");
    check_diverges("1", &two, 0);
    check_diverges("await tools.a.b(); 1", &two, 1);
    check_diverges("throw new Error('early')", &two, 0);
    check_diverges("Date.now(); await tools.a.b()", &two, 0);
    check_diverges("await tools.a.b(); setTimeout(() => {}, 1); await tools.a.c()", &two, 1);
    let clock = recorded("const t = Date.now(); await tools.a.b(); t");
    check_diverges("await tools.a.b(); Date.now()", &clock, 1);
    check_diverges("Date.now()", &clock, 0);
    let timer = recorded("const done = new Promise(r => setTimeout(r, 0)); const c = tools.a.b(); await done; await c");
    check_diverges("Date.now(); await tools.a.b()", &timer, 1);
    // The second wait ends with the answer to call 1, which is no longer open.
    let order = [1, 0, 1, 1];
    check_diverges("await tools.a.b(); await tools.a.c()", &order, 2);
}

#[test]
fn nothing_of_a_program_that_does_not_repeat_itself_is_real() {
    let folder = tempfile::tempdir().unwrap();
    let two = recorded("await tools.a.b(); await tools.a.c(); 1");
    for source in [
        "console.log(1); Date.now(); console.log(2); tools.a.b(); try { files.write('f', 'x') } catch {}",
        "console.log(1); Date.now(); try { emit('made', { name: 'f' }) } catch {}",
        "console.log(1); for (;;) { try { Date.now(); console.log(2); files.write('f', 'x') } catch {} }",
        "console.log(1); const spin = (): any => Promise.resolve().then(() => { Date.now(); return spin() }); await spin()",
        "console.log(1); try { Date.now(); for (;;); } finally { console.log(2); await tools.a.b() }",
    ] {
        let engine = JsEngine::with_workspace(LIMITS, folder.path().to_owned()).unwrap();
        let said = Rc::new(RefCell::new(Said::default()));
        let program = JsProgram {
            source,
            typescript: true,
            file_name: "program.ts",
            args: &[],
            input: None,
            replay: ReplayInput {
                seed: 1,
                clock: START,
                trace: &two,
            },
        };
        let outcome = engine
            .run(&program, Rc::clone(&said) as Rc<RefCell<dyn EngineHost>>)
            .outcome;
        assert_eq!(outcome, JsOutcome::Diverged { calls: 0 }, "{source}");
        assert_eq!(
            (said.borrow().stdout.as_str(), said.borrow().made),
            ("1\n", 0),
            "{source}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{source}");
        assert_eq!(said.borrow().emitted, [], "{source}");
    }
}

#[test]
fn no_trace_breaks_the_engine() {
    let source = "const t = Date.now(); setTimeout(() => console.log(Date.now() - t), 1); \
                  await Promise.all([tools.a.b(), tools.a.c()]); await tools.a.d(); performance.now() >= 0";
    let good = recorded(source);
    assert!(!good.is_empty());
    let mut chance = Chance(99);
    for round in 0..400_usize {
        let mut trace = good.clone();
        match round % 4 {
            0 => trace.truncate(usize::try_from(chance.below(good.len() as u64)).unwrap()),
            1 => trace = (0..chance.below(40)).map(|_| chance.next().to_le_bytes()[0]).collect(),
            2 => {
                let at = usize::try_from(chance.below(good.len() as u64)).unwrap();
                trace[at] = chance.next().to_le_bytes()[0];
            }
            _ => {
                let at = usize::try_from(chance.below(good.len() as u64)).unwrap();
                trace.splice(at..at, [0xff; 11]);
            }
        }
        let (outcome, _) = run_again(source, 1, &trace);
        let fine = matches!(outcome, JsOutcome::Completed { .. } | JsOutcome::Diverged { .. });
        assert!(fine, "{trace:?}: {outcome:?}");
    }
}

#[test]
fn chance_comes_from_the_seed() {
    let chance = |seed| run_again("[Math.random(), Math.random()]", seed, &[]).0;
    assert_eq!(chance(7), chance(7));
    assert_ne!(chance(7), chance(8));
    assert_ne!(chance(0), chance(1));
}

#[test]
fn a_trace_is_small() {
    let calls = recorded("for (let i = 0; i < 100; i++) await tools.a.b({ i })");
    assert_eq!(calls.len(), 200, "two bytes for an answer");
    let clocks = recorded("for (let i = 0; i < 100; i++) { Date.now(); await tools.a.b({ i }) }");
    assert!(clocks.len() <= 600, "{}", clocks.len());
    let spin = recorded("const t = Date.now(); while (Date.now() - t < 30); 1");
    assert!(spin.len() < 300, "{}", spin.len());
    assert_eq!(recorded("for (let i = 0; i < 1000; i++) Math.random(); 1"), b"");
}

#[test]
fn dates_are_dates() {
    for (source, json) in [
        (
            "[Date.length, Date.name, Date.now.name, Date.now.length]",
            r#"[7,"Date","now",0]"#,
        ),
        (
            "new Date().constructor === Date && Date.prototype.constructor === Date",
            "true",
        ),
        (
            "[typeof Date(), Date() === new Date().toString()]",
            r#"["string",true]"#,
        ),
        (
            "[Date.UTC(2020, 1), Date.parse('2020-02-01T00:00:00Z')]",
            "[1580515200000,1580515200000]",
        ),
        (
            "new Date(2020, 0, 31, 12).getTime() === Date.UTC(2020, 0, 31, 12)",
            "true",
        ),
        ("new Date(undefined as any).getTime()", "null"),
        (
            "class D extends Date { year() { return this.getUTCFullYear() } } const d = new D(0); [d.year(), d instanceof D, d instanceof Date, Object.getPrototypeOf(D) === Date, d.constructor === D]",
            "[1970,true,true,true,true]",
        ),
        (
            "class D extends Date {} Math.abs(new D().getTime() - Date.now()) < 1000",
            "true",
        ),
        ("Reflect.construct(Date, [5], Array) instanceof Array", "true"),
        ("Object.prototype.toString.call(new Date())", "\"[object Date]\""),
        (
            "Object.keys(Date).length + Object.getOwnPropertyNames(Date).sort().join()",
            "\"0UTC,length,name,now,parse,prototype\"",
        ),
        (
            "const d = Object.getOwnPropertyDescriptor(Date, 'prototype')!; [d.writable, d.enumerable, d.configurable]",
            "[false,false,false]",
        ),
        ("new Date(new Date(5)).getTime()", "5"),
        ("structuredClone(new Date(5)) instanceof Date", "true"),
        (
            "Number.isInteger(Date.now()) && new Date().getTime() <= Date.now()",
            "true",
        ),
        ("new Date().getTimezoneOffset()", "0"),
        ("performance.timeOrigin + performance.now() - Date.now() < 2", "true"),
        ("const { now } = Date; typeof now()", "\"number\""),
    ] {
        check(source, json);
    }
}

#[test]
fn what_the_collector_does_is_not_seen() {
    check(
        "let o: any = {}; o.self = o; const w = new WeakRef(o); o = null; for (let i = 0; i < 1e5; i++) ({ a: [i] }); typeof w.deref()",
        "\"object\"",
    );
    check(
        "let told = 0; const r = new FinalizationRegistry(() => told++); r.register({}, 1); const t = {}; r.register([], 1, t); await new Promise(d => setTimeout(d, 2)); [told, r.unregister(t), r.unregister(t)]",
        "[0,true,false]",
    );
    for source in [
        "new WeakRef(1 as any)",
        "new WeakRef(Symbol.for('x') as any)",
        "new FinalizationRegistry(1 as any)",
    ] {
        check(
            &format!("let e: any; try {{ {source} }} catch (x) {{ e = x }} e.name"),
            "\"TypeError\"",
        );
    }
    check(
        "[`${new WeakRef({})}`, WeakRef.name, new WeakRef(Symbol('x')) instanceof WeakRef]",
        r#"["[object WeakRef]","WeakRef",true]"#,
    );
    assert_eq!(
        value(
            "try { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1) } catch (e: any) { globalThis.e = e.name } (globalThis as any).e"
        ),
        "\"TypeError\""
    );
}

#[test]
fn time_goes_on_from_where_the_trace_ends() {
    // Two readings of 1.5 ms after the start, which is the epoch; after that the clock is the present.
    let (outcome, _) = run_again("[Date.now(), performance.now(), Date.now() > 1.7e12]", 1, &[0, 15, 1]);
    let value_json = Some("[1,1.5,true]".to_owned());
    assert_eq!(outcome, JsOutcome::Completed { value_json });
}
