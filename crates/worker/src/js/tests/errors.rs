//! Errors: their messages, and their places in the original source.
use super::{JsOutcome, check, failure, run};
use crate::js::SyntaxDiagnostic;

#[track_caller]
fn diagnostics(source: &str) -> Vec<SyntaxDiagnostic> {
    let outcome = run(source).0;
    let JsOutcome::SyntaxError(found) = outcome else {
        panic!("{source}\n{outcome:?}")
    };
    found
}

#[test]
fn an_error_points_at_the_original_source() {
    let fault = failure(
        "interface Row {\n  id: number\n}\n\n// comment\nfunction check(row: Row): void {\n  throw new RangeError(`bad ${row.id}`)\n}\n\nenum E { A }\ncheck({ id: E.A })\n",
    );
    assert_eq!(
        (fault.code, fault.name.as_str(), fault.message.as_str()),
        ("program.failed", "RangeError", "bad 0")
    );
    assert_eq!(fault.position.map(|place| place.line), Some(7));
    let lines: Vec<_> = fault.stack.lines().collect();
    assert!(lines[0].starts_with("    at check (program.ts:7:"), "{}", fault.stack);
    assert!(lines[1].starts_with("    at program.ts:11:"), "{}", fault.stack);
    assert_eq!(lines.len(), 2, "{}", fault.stack);
}

#[test]
fn columns_survive_removed_types() {
    let fault = failure("const a: { b?: { c: number } } = {}; const n: number = a.b!.c");
    assert_eq!(fault.name, "TypeError");
    assert_eq!(fault.position.as_ref().map(|place| place.line), Some(1));
    let column = fault.position.map(|place| place.column).unwrap();
    assert!((56..=62).contains(&column), "{column}");
}

#[test]
fn whatever_is_thrown_is_reported() {
    assert_eq!(failure("throw 'text'").message, "'text'");
    assert_eq!(failure("throw { a: 1 }").message, "{ a: 1 }");
    assert_eq!(failure("throw undefined").message, "undefined");
    let fault = failure("class MyError extends Error { name = 'MyError' } ; throw new MyError('m')");
    assert_eq!((fault.name.as_str(), fault.message.as_str()), ("MyError", "m"));
    let fault = failure("const e = new Error('x'); Object.defineProperty(e, 'name', { get() { throw 1 } }); throw e");
    assert_eq!((fault.name.as_str(), fault.message.as_str()), ("Error", "x"));
    assert_eq!(failure("throw new Error('half \\ud800')").message, "half \u{fffd}");
    assert!(failure("throw new Error('x'.repeat(1e6))").message.len() < 20_000);
}

#[test]
fn rejections_nobody_handles_fail_the_run() {
    assert_eq!(failure("Promise.reject(new Error('lost')); 5").message, "lost");
    assert_eq!(
        failure("(async () => { throw new TypeError('in main') })()").message,
        "in main"
    );
    assert_eq!(
        failure("setTimeout(() => { throw new Error('in timer') }, 1); 5").message,
        "in timer"
    );
    assert_eq!(
        failure("setTimeout(async () => { throw new Error('later') }, 1); 5").message,
        "later"
    );
    assert_eq!(
        failure("queueMicrotask(() => { throw new Error('in job') }); 5").message,
        "in job"
    );
    check("const p = Promise.reject(new Error('x')); p.catch(() => {}); 1", "1");
    check(
        "const all = await Promise.allSettled(Array.from({ length: 20000 }, async () => { throw 1 })); all.length",
        "20000",
    );
}

#[test]
fn output_before_a_failure_is_kept() {
    let (outcome, said) = run("console.log('before'); throw new Error('x')");
    assert!(matches!(outcome, JsOutcome::Failed(_)));
    assert_eq!(said.stdout, "before\n");
}

#[test]
fn endless_recursion_is_an_error() {
    let fault = failure("const f = (n: number): number => f(n + 1) + 1; f(0)");
    assert!(fault.message.contains("stack"), "{fault:?}");
}

#[test]
fn syntax_errors_come_several_at_once_with_their_places() {
    let found = diagnostics("const a = 1;\nconst a = 2;\nlet b; let b;\n");
    let places: Vec<_> = found.iter().map(|one| (one.line, one.file.as_str())).collect();
    assert_eq!(places, [(1, "program.ts"), (3, "program.ts")], "{found:?}");
    let found = diagnostics("const x = 'ü'; const = 5");
    assert_eq!((found[0].line, found[0].column), (1, 22), "{found:?}");
    for source in [
        "return 5",
        "const x = <div/>;",
        "let let = 1",
        "class {",
        "await = 1",
        "{",
        "\u{0}",
        "a b c",
        "for (;;",
        "`${",
        "/(/",
    ] {
        assert!(!diagnostics(source).is_empty(), "{source}");
    }
}

#[test]
fn what_only_the_engine_refuses_is_a_syntax_error_too() {
    let found = diagnostics("const x: string = '';\n\n@dec class A {}");
    assert_eq!((found.len(), found[0].line), (1, 3), "{found:?}");
}

#[test]
fn type_mistakes_do_not_stop_a_run() {
    check(
        "abstract class A { abstract x: number } ; class B { abstract y(): void } ; 1",
        "1",
    );
    check(
        "class C { constructor(a: string); constructor(public a: any) {} } ; new C('x').a",
        "\"x\"",
    );
}

#[test]
fn eval_and_function_work_and_fail_with_names() {
    check("eval('1 + 1') + new Function('return 3')()", "5");
    assert_eq!(failure("eval('throw new Error(\"in eval\")')").message, "in eval");
}

#[test]
fn a_place_is_reported_for_a_failing_await() {
    let fault =
        failure("type X = 1;\n\nasync function work() {\n  await null;\n  throw new Error('async');\n}\nawait work();");
    assert_eq!(fault.position.as_ref().map(|place| place.line), Some(5));
}

#[test]
fn a_megabyte_of_source_is_transpiled() {
    let function = |number: u32| {
        format!(
            "function f{number}(a: number): number {{ return a + {number} }}
"
        )
    };
    let mut source: String = (0..18_000).map(function).collect();
    assert!(source.len() > 900_000);
    source.push_str("f17999(1)");
    check(&source, "18000");
}

#[test]
fn deep_nesting_is_refused_before_it_costs_the_stack() {
    let found = diagnostics(&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)));
    assert_eq!((found[0].line, found[0].column), (1, 1001));
    assert_eq!(found[0].message, "brackets are nested deeper than 1000");
}
