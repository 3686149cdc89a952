//! Calls of tools, as a program makes them.

use ringfence_wire::{BoundedText, CallFailure, CallTarget};

use super::{CallAnswer, JsOutcome, check, failure, run};

/// The answers of the host in these tests: the name of the operation with its arguments, or what the tool's name asks for.
pub(super) fn answer(ask: &CallTarget, body: &str) -> CallAnswer {
    let name = match ask {
        CallTarget::Tool { server, tool } => format!("{server}.{tool}"),
        CallTarget::Search => "search".to_owned(),
        CallTarget::Describe => "describe".to_owned(),
        CallTarget::List => "list".to_owned(),
        CallTarget::Fetch => "fetch".to_owned(),
    };
    match name.as_str() {
        "no.rule" => Err(CallFailure {
            code: BoundedText::truncated("tool.denied"),
            message: BoundedText::truncated("not this one"),
            rule: Some(BoundedText::truncated("tools.default")),
            hint: None,
            retry_after_ms: None,
        }),
        "no.json" => Ok("{".to_owned()),
        _ => Ok(format!("[{name:?},{body}]")),
    }
}

#[test]
fn tools_are_called_by_any_name() {
    for (source, json) in [
        ("await tools.a.b({ x: 1 })", r#"["a.b",{"x":1}]"#),
        ("tools.a.b()", r#"["a.b",{}]"#),
        (
            "await tools['my-server']['my tool']({ 'é': [null] })",
            r#"["my-server.my tool",{"é":[null]}]"#,
        ),
        ("const { b } = tools.a; await b({})", r#"["a.b",{}]"#),
        ("await tools.a.name({})", r#"["a.name",{}]"#),
        (
            "const args = Object.create(null); args.x = 1; tools.a.b(args)",
            r#"["a.b",{"x":1}]"#,
        ),
        ("await search('x')", r#"["search",{"query":"x"}]"#),
        (
            "await search({ intents: ['x'], task: 't' })",
            r#"["search",{"intents":["x"],"task":"t"}]"#,
        ),
        (
            "await describe(['a.b'], { detail: 'full' })",
            r#"["describe",{"tools":["a.b"],"detail":"full"}]"#,
        ),
        ("await list()", r#"["list",{}]"#),
    ] {
        check(source, json);
    }
}

#[test]
fn tools_can_be_imported() {
    for source in [
        "import { a } from 'tools'; await a.b()",
        "import { a as other } from 'tools'; await other.b()",
        "import tools from 'tools'; await tools.a.b()",
        "import t from 'tools'; await t.a.b()",
        "import * as t from 'tools'; await t.a.b()",
        "import { tools } from 'tools'; await tools.a.b()",
        "const x = await f(); x; function f() { return a.b() } import { a } from 'tools'",
        "import { search, a } from 'tools'; search('x').then(() => a.b())",
        "import { type Issue, a } from 'tools'; let i: Issue | undefined; await a.b()",
        "import type { a as A } from 'tools'; await tools.a.b()",
        "import 'tools'; await tools.a.b()",
    ] {
        check(source, r#"["a.b",{}]"#);
    }
    for source in [
        "import { a } from 'other'; 1",
        "export { a } from 'tools'; 1",
        "export * from 'tools'; 1",
        "import fs from 'fs'; import { a } from 'tools'; 1",
    ] {
        assert!(matches!(run(source).0, JsOutcome::ImportRefused(_)), "{source}");
    }
}

#[test]
fn looking_at_tools_calls_nothing() {
    for (source, json) in [
        ("await tools; await tools.a; typeof tools.a.b", r#""function""#),
        ("JSON.stringify([tools, tools.a])", r#""[{},{}]""#),
        ("`${tools} ${tools.a}`", r#""[tools] [tools.a]""#),
        ("console.log(tools, tools.a, tools.a.b); Object.keys(tools).length", "0"),
        ("tools.a === tools.a && tools.a.b === tools.a.b", "true"),
        ("tools.a.b.name", r#""a.b""#),
        (
            "let threw = false; try { (tools as any).a = 1 } catch { threw = true } threw",
            "true",
        ),
        ("const tools = 1; const list = 2; tools + list", "3"),
    ] {
        check(source, json);
        assert_eq!(run(source).1.made, 0, "{source}");
    }
}

#[test]
fn arguments_are_one_plain_object() {
    for (args, given) in [
        ("1", "a number"),
        ("'x'", "a string"),
        ("null", "null"),
        ("[1]", "a list"),
        ("new Map()", "a Map"),
        ("{}, 2", "2 arguments"),
    ] {
        let source = format!("await tools.a.b({args} as any)").replace(", 2 as any", " as any, 2");
        let fault = failure(&source);
        let expected = format!("tools.a.b takes one object with named arguments, not {given}");
        assert_eq!(
            (fault.name.as_str(), fault.message.as_str()),
            ("TypeError", expected.as_str())
        );
    }
    assert_eq!(failure("await tools.a.b({ n: 1n })").name, "TypeError");
    assert_eq!(
        failure("const a: any = {}; a.a = a; await tools.a.b(a)").name,
        "TypeError"
    );
}

#[test]
fn refusals_are_errors_with_everything_that_was_said() {
    let caught = "let e: any; try { await tools.no.rule({}) } catch (error) { e = error }";
    check(
        &format!(
            "{caught} [e instanceof ToolError, e instanceof Error, e.name, e.message, e.code, e.rule, e.hint, e.tool]"
        ),
        r#"[true,true,"ToolError","not this one","tool.denied","tools.default",null,"no.rule"]"#,
    );
    check("await tools.a.b.try({ x: 1 })", r#"{"ok":true,"data":["a.b",{"x":1}]}"#);
    check(
        "const r = await tools.no.rule.try(); [r.ok, r.error.code]",
        r#"[false,"tool.denied"]"#,
    );
    let fault = failure("const x = 1;\nawait tools.no.rule({});");
    let place = fault.position.map(|place| (place.line, place.file));
    assert_eq!(
        (fault.code, fault.call, fault.hint, place),
        ("program.failed", Some(1), None, Some((2, "program.ts".to_owned())))
    );
    // The failure of a call that the program does not await is not lost.
    assert_eq!(failure("tools.no.rule(); 1").call, Some(1));
    // Only the number of the call goes out: the other properties of an error are claims of the program.
    let forged = failure("throw new ToolError('no', { code: 'policy.ceiling', rule: 'r', hint: 'h' })");
    assert_eq!((forged.code, forged.call, forged.hint), ("program.failed", None, None));
    assert_eq!(failure("await tools.no.json()").name, "SyntaxError");
}

#[test]
fn calls_and_timers_take_turns() {
    check(
        "const seen: string[] = []; setTimeout(() => seen.push('t'), 0); await tools.a.b(); await new Promise(r => setTimeout(r, 5)); seen.push('c'); seen",
        r#"["t","c"]"#,
    );
    check(
        "let n = 0; for (let i = 0; i < 50; i++) tools.a.b().then(() => { n++ }); await tools.a.b(); n",
        "50",
    );
    assert_eq!(
        run("await tools.a.b(); await new Promise(() => {})").0,
        JsOutcome::Stuck
    );
}
