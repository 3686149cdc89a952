use std::{
    cell::RefCell,
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    rc::Rc,
    time::Instant,
};

use ringfence_wire::{CallTarget, EmittedFile};

use super::{CallAnswer, EngineHost, JsEngine, JsEngineLimits, JsFault, JsOutcome, JsProgram, ReplayInput};

mod calls;
mod console;
mod emit;
mod errors;
mod files;
mod replay;
mod values;
mod web;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Said {
    stdout: String,
    stderr: String,
    made: u32,
    answers: VecDeque<(u32, CallAnswer)>,
    trace: Vec<u8>,
    emitted: Vec<EmittedFile>,
}

impl EngineHost for Said {
    fn stdout(&mut self, bytes: &[u8]) {
        self.stdout.push_str(std::str::from_utf8(bytes).unwrap());
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.stderr.push_str(std::str::from_utf8(bytes).unwrap());
    }

    fn call(&mut self, ask: CallTarget, body: String) -> Option<u32> {
        self.made += 1;
        self.answers.push_back((self.made, calls::answer(&ask, &body)));
        Some(self.made)
    }

    fn send_calls(&mut self) {}

    fn wait_for_answer(&mut self, _until: Option<Instant>, _due: Option<u64>) -> Option<(u32, CallAnswer)> {
        self.answers.pop_front()
    }

    fn trace(&mut self, bytes: &[u8]) {
        self.trace.extend_from_slice(bytes);
    }

    fn emit(&mut self, emit: EmittedFile) {
        self.emitted.push(emit);
    }
}

const LIMITS: JsEngineLimits = JsEngineLimits {
    memory: Some(64 << 20),
    stack: 512 << 10,
};

fn run_in(workspace: &Path, source: &str, typescript: bool, args: &[String]) -> (JsOutcome, Said) {
    let engine = JsEngine::with_workspace(LIMITS, workspace.to_owned()).unwrap();
    run_on(engine, source, typescript, args)
}

fn run_on(engine: JsEngine, source: &str, typescript: bool, args: &[String]) -> (JsOutcome, Said) {
    let again = ReplayInput {
        seed: 1,
        clock: 0,
        trace: &[],
    };
    run_with(engine, source, typescript, args, again)
}

/// Runs a TypeScript program with this seed and trace.
fn run_again(source: &str, seed: u64, trace: &[u8]) -> (JsOutcome, Said) {
    let clock = 0;
    let engine = JsEngine::with_workspace(LIMITS, "/nonexistent".into()).unwrap();
    run_with(engine, source, true, &[], ReplayInput { seed, clock, trace })
}

fn run_with(
    engine: JsEngine,
    source: &str,
    typescript: bool,
    args: &[String],
    again: ReplayInput<'_>,
) -> (JsOutcome, Said) {
    let said = Rc::new(RefCell::new(Said::default()));
    let file_name = if typescript { "program.ts" } else { "program.js" };
    let program = JsProgram {
        source,
        typescript,
        file_name,
        args,
        input: None,
        replay: again,
    };
    let finished = engine.run(&program, Rc::clone(&said) as Rc<RefCell<dyn EngineHost>>);
    let said = said.borrow().clone();
    (finished.outcome, said)
}

fn run(source: &str) -> (JsOutcome, Said) {
    run_in(Path::new("/nonexistent"), source, true, &[])
}

/// The value of a TypeScript program, as JSON text.
#[track_caller]
fn value(source: &str) -> String {
    let outcome = run(source).0;
    let JsOutcome::Completed { value_json } = outcome else {
        panic!("{source}\n{outcome:?}")
    };
    value_json.unwrap_or_else(|| "null".to_owned())
}

#[track_caller]
fn check(source: &str, json: &str) {
    assert_eq!(value(source), json, "{source}");
}

#[track_caller]
fn failure(source: &str) -> JsFault {
    let outcome = run(source).0;
    let JsOutcome::Failed(fault) = outcome else {
        panic!("{source}\n{outcome:?}")
    };
    fault
}

#[test]
fn the_value_is_the_default_export_or_the_last_expression() {
    check("1 + 1", "2");
    check("const x = [1, 2]; x", "[1,2]");
    check("export default { a: 1 }; 5", r#"{"a":1}"#);
    check("const a = 7; export { a as default }; 8", "7");
    check("double(4); function double(n: number) { return n * 2 }", "8");
    check("type A = string; 'x'; interface B { a: A }", "\"x\"");
    check("'only a string'", "\"only a string\"");
    check("'use strict'; 3", "3");
    check("(1, 2)", "2");
    check("({ a: 1 })", r#"{"a":1}"#);
    check("let n = 1; n = 5", "5");
    check("const x = 5;", "null");
    check("if (true) { 5 }", "null");
    check("", "null");
    check("// nothing", "null");
    check("undefined", "null");
    check("null", "null");
    check("(class {}).name", "\"\"");
}

#[test]
fn values_are_json() {
    check("new Date(0)", "\"1970-01-01T00:00:00.000Z\"");
    check("({ a: undefined, b: NaN, c: [undefined] })", r#"{"b":null,"c":[null]}"#);
    check("'\\ud800'", "\"\\ud800\"");
    check("'ü€😀'", "\"ü€😀\"");
    check("({ toJSON() { return 1 } })", "1");
    check("class P { x = 1; get y() { return 2 } m() {} }; new P()", r#"{"x":1}"#);
}

#[test]
fn promises_are_awaited() {
    check("await Promise.resolve(3)", "3");
    check("const f = async () => { await null; return 4 }; f()", "4");
    check("export default Promise.resolve([1])", "[1]");
    check("await Promise.all([1, 2].map(async n => n * 2))", "[2,4]");
    check(
        "const out: number[] = []; for await (const n of (async function* () { yield 1; yield 2 })()) out.push(n); out",
        "[1,2]",
    );
}

#[test]
fn timers_run_in_order_and_to_the_end() {
    check(
        "await new Promise<void>(done => setTimeout(done, 5)); 'later'",
        "\"later\"",
    );
    check("await new Promise(done => setTimeout(done, 1, 'passed'))", "\"passed\"");
    let (_, said) = run(
        "setTimeout(() => console.log('c'), 8); setTimeout(() => console.log('a')); setTimeout(() => console.log('b'));
         Promise.resolve().then(() => console.log('job')); console.log('now')",
    );
    assert_eq!(said.stdout, "now\njob\na\nb\nc\n");
    check(
        "let n = 0; await new Promise<void>(done => { const id = setInterval(() => { if (++n === 3) { clearInterval(id); done() } }, 1) }); n",
        "3",
    );
    check(
        "const id = setTimeout(() => { throw new Error('never') }, 1); clearTimeout(id); clearTimeout(99); 1",
        "1",
    );
    check("await new Promise<void>(done => queueMicrotask(done)); 2", "2");
}

#[test]
fn a_promise_that_cannot_settle_is_stuck() {
    assert_eq!(run("await new Promise(() => {})").0, JsOutcome::Stuck);
    assert_eq!(run("new Promise(() => {})").0, JsOutcome::Stuck);
    assert_eq!(
        run("setTimeout(() => {}, 1); await new Promise(() => {})").0,
        JsOutcome::Stuck
    );
}

#[test]
fn typescript_is_stripped_and_lowered() {
    check(
        "enum Color { Red, Green = 'g' } ; [Color.Red, Color[0], Color.Green]",
        r#"[0,"Red","g"]"#,
    );
    check("const enum E { A = 1 << 2, B = A | 1 } ; E.B", "5");
    check(
        "namespace N { export const x = 1; export namespace M { export const y = x + 1 } } ; N.M.y",
        "2",
    );
    check(
        "class P { constructor(public x: number, private readonly y = 2) {} sum() { return this.x + this.y } } ; new P(1).sum()",
        "3",
    );
    check(
        "const o = { a: 1 } satisfies Record<string, number>; o.a as unknown as string",
        "1",
    );
    check(
        "function id<T extends object>(x: T): T { return x } ; id<{ a: number }>({ a: 1 })!",
        r#"{"a":1}"#,
    );
    check(
        "abstract class A { abstract f(): number; declare x: string } ; class B extends A { override f() { return 1 } } ; new B().f()",
        "1",
    );
    check("let x: string | undefined; x ??= 'a'; (<string>x).length", "1");
    check(
        "import type { A } from 'nowhere'; import { type B } from 'nowhere'; const x: A | B = 1 as any; x",
        "1",
    );
    check(
        "export interface I { a: string } ; export type T = I; export const c: T = { a: 'x' }; c.a",
        "\"x\"",
    );
    check(
        "function over(a: string): string; function over(a: number): number; function over(a: any) { return a } ; over(1)",
        "1",
    );
    check("declare const ghost: number; typeof ghost", "\"undefined\"");
    check("const x: number = 'not a number'; x", "\"not a number\"");
    check(
        "class C { static #n = 1; static { this.#n++ } static get() { return C.#n } } ; C.get()",
        "2",
    );
}

#[test]
fn javascript_is_not_typescript() {
    let (outcome, _) = run_in(Path::new("/"), "const x: number = 1", false, &[]);
    assert!(matches!(outcome, JsOutcome::SyntaxError(_)), "{outcome:?}");
    let (outcome, _) = run_in(Path::new("/"), "#!/usr/bin/env node\n[1].at(-1)", false, &[]);
    assert_eq!(
        outcome,
        JsOutcome::Completed {
            value_json: Some("1".to_owned())
        }
    );
}

#[test]
fn args_reach_the_program() {
    let args = ["one".to_owned(), "zwei ü".to_owned()];
    let (outcome, _) = run_in(Path::new("/"), "args", true, &args);
    assert_eq!(
        outcome,
        JsOutcome::Completed {
            value_json: Some(r#"["one","zwei ü"]"#.to_owned())
        }
    );
}

#[test]
fn the_global_scope_holds_the_language_and_our_names_only() {
    let mut names: Vec<String> = serde_json::from_str(&value("Object.getOwnPropertyNames(globalThis)")).unwrap();
    names.sort();
    let expected = "
        AggregateError Array ArrayBuffer AsyncDisposableStack Atomics BigInt BigInt64Array BigUint64Array Boolean
        DataView Date DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array
        Function Headers Infinity Int16Array Int32Array Int8Array Intl Iterator JSON Map Math NaN Number Object Promise Proxy
        RangeError ReferenceError Reflect RegExp Response Set SharedArrayBuffer String SuppressedError Symbol SyntaxError
        TextDecoder TextEncoder ToolError TypeError URIError URL URLSearchParams Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap
        WeakRef WeakSet args atob btoa clearInterval clearTimeout console crypto decodeURI decodeURIComponent describe emit encodeURI
        encodeURIComponent escape eval fetch files globalThis isFinite isNaN list parseFloat parseInt performance queueMicrotask
        search setInterval setTimeout skills structuredClone tools undefined unescape
    ";
    assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn the_web_helpers_work() {
    check("[atob('aGk='), btoa('hi')]", r#"["hi","aGk="]"#);
    check("[...new TextEncoder().encode('ü')]", "[195,188]");
    check(
        "new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 195, 188, 255]))",
        "\"ü\u{fffd}\"",
    );
    check("new TextDecoder().decode(new Uint16Array([0x4141]).buffer)", "\"AA\"");
    check(
        "try { new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255])) } catch (e) { e.name }; 1",
        "1",
    );
    check(
        "const m = new Map([['a', new Set([1])]]); const c = structuredClone({ m, d: new Date(5) }); [c.m !== m, [...c.m.get('a')], c.d.getTime()]",
        "[true,[1],5]",
    );
    check(
        "const a: any = {}; a.a = a; const b = structuredClone(a); b.a === b && b !== a",
        "true",
    );
    check(
        "let name; try { structuredClone(() => 1) } catch (e: any) { name = e.name } ; name",
        "\"DataCloneError\"",
    );
    check(
        "const n = Math.random(); const m = Math.random(); n >= 0 && n < 1 && n !== m",
        "true",
    );
}

#[test]
fn imports_are_refused_with_a_hint() {
    for source in [
        "import fs from 'fs'; 1",
        "import 'fs'",
        "export * from 'fs'",
        "export { readFile } from 'fs'",
        "import fs = require('fs'); fs",
        "await import('fs')",
        "const fs = require('fs')",
    ] {
        let (outcome, _) = run(source);
        let JsOutcome::ImportRefused(fault) = outcome else {
            panic!("{source}: {outcome:?}")
        };
        assert_eq!(fault.code, "import.refused");
        let place = fault.position.map(|place| place.line);
        assert_eq!(place, (!source.starts_with("await")).then_some(1), "{source}");
    }
    check(
        "let caught = ''; try { await import('fs') } catch (e: any) { caught = e.name } ; caught",
        "\"ReferenceError\"",
    );
}

#[test]
fn the_heap_limit_is_an_outcome_of_its_own() {
    for source in [
        "const a = []; while (true) a.push(new Array(1000).fill(1))",
        "const a = []; for (let n = 0; ; n++) a.push(String(n).repeat(1000))",
        "const a: any[] = []; while (true) a.push({ a: {} })",
    ] {
        assert_eq!(run(source).0, JsOutcome::OutOfMemory, "{source}");
    }
    // Far from the memory limit, a thrown null is an ordinary failure.
    let limits = JsEngineLimits {
        memory: Some(1 << 40),
        ..LIMITS
    };
    let (outcome, _) = run_on(
        JsEngine::with_workspace(limits, PathBuf::from("/workspace")).unwrap(),
        "throw null",
        true,
        &[],
    );
    let JsOutcome::Failed(fault) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((fault.name.as_str(), fault.message.as_str()), ("Uncaught", "null"));
}

#[test]
fn a_large_file_is_parsed_whole() {
    let folder = tempfile::tempdir().unwrap();
    let row = r#"{"id":1,"name":"somebody","group":"a"}"#;
    let text = format!("[{}]", vec![row; 20_000].join(","));
    fs::write(folder.path().join("data.json"), text).unwrap();
    let source = "const rows = JSON.parse(files.read('data.json')); rows.filter((r: any) => r.group === 'a').length";
    let (outcome, _) = run_in(folder.path(), source, true, &[]);
    assert_eq!(
        outcome,
        JsOutcome::Completed {
            value_json: Some("20000".to_owned())
        }
    );
}
