//! Values for which JSON has no form.

use super::{JsOutcome, check, run, value};

#[test]
fn kinds_that_json_does_not_have_take_their_usual_form() {
    for (source, json) in [
        ("new Map([['b', 1], ['a', new Set([2])]])", r#"{"b":1,"a":[2]}"#),
        ("new Map([[1, 'x'], [2, 'y']])", r#"{"1":"x","2":"y"}"#),
        (
            "new Map<any, any>([[{ k: 1 }, 'x'], ['y', 2]])",
            r#"[[{"k":1},"x"],["y",2]]"#,
        ),
        ("new Map<any, any>([[1, 'x'], ['1', 'y']])", r#"[[1,"x"],["1","y"]]"#),
        (
            "({ s: new Set([1, new Date(0)]) })",
            r#"{"s":[1,"1970-01-01T00:00:00.000Z"]}"#,
        ),
        ("[10n, -9007199254740991n, Object(5n)]", "[10,-9007199254740991,5]"),
        (
            "[new Uint8Array([1, 2]), new Float64Array([0.5]), new BigInt64Array([3n])]",
            "[[1,2],[0.5],[3]]",
        ),
        (
            "[new Uint8Array([1, 2]).buffer, new DataView(new ArrayBuffer(1))]",
            "[[1,2],[0]]",
        ),
        (
            "[/a/g, new TypeError('no')]",
            r#"["/a/g",{"type":"TypeError","message":"no"}]"#,
        ),
        (
            "new Error('a', { cause: new RangeError('b') })",
            r#"{"type":"Error","message":"a","cause":{"type":"RangeError","message":"b"}}"#,
        ),
        (
            "Object.assign(new Error('a'), { status: 404 })",
            r#"{"type":"Error","message":"a","status":404}"#,
        ),
        (
            "({ m: new Map(), n: Object(1), toJSON() { return new Set([this.n]) } })",
            "[1]",
        ),
        (
            "class P { x = new Map([['a', 1]]) }; [new P(), Object.assign(Object.create(null), { b: 1n })]",
            r#"[{"x":{"a":1}},{"b":1}]"#,
        ),
    ] {
        check(source, json);
        assert_eq!(run(source).1.stderr, "", "{source}");
    }
}

#[test]
fn an_error_of_a_tool_says_in_json_what_it_says_to_the_program() {
    let given = "{ code: 'call.failed', rule: 'tools.default', hint: 'ask', tool: 'a.b' }";
    let json = r#"{"type":"ToolError","code":"call.failed","message":"no","rule":"tools.default","hint":"ask","tool":"a.b","retryAfterMs":null}"#;
    check(&format!("new ToolError('no', {given})"), json);
    check(
        &format!("JSON.parse(JSON.stringify({{ e: new ToolError('no', {given}) }})).e"),
        json,
    );
}

#[test]
fn a_value_of_another_kind_is_its_text_with_a_notice_and_the_run_is_good() {
    for (source, json, notice) in [
        (
            "() => 1",
            r#""[Function: default]""#,
            "the value is a function, which JSON cannot hold: its text is given instead; call it",
        ),
        (
            "[Symbol('x')]",
            r#"["Symbol(x)"]"#,
            "value[0] is a symbol, which JSON cannot hold",
        ),
        (
            "({ list: [1, { f() {} }] })",
            r#"{"list":[1,{"f":"[Function: f]"}]}"#,
            "value.list[1].f is a function",
        ),
        (
            "[1].map(async n => n)",
            r#"["Promise {}"]"#,
            "value[0] is a promise, which JSON cannot hold: its text is given instead; await it",
        ),
        (
            "({ 'a b': 2n ** 64n })",
            r#"{"a b":"18446744073709551616"}"#,
            "value[\"a b\"] is a large BigInt",
        ),
        (
            "const a: any = { n: 1 }; a.a = a; a",
            r#"{"n":1,"a":"[circular]"}"#,
            "value.a is a reference back to what holds it",
        ),
        (
            "const m = new Map<any, any>(); m.set('m', m); m",
            r#"{"m":"[circular]"}"#,
            "value.m is a reference back",
        ),
        (
            "[[1].values()]",
            r#"["Object [Array Iterator] {}"]"#,
            "value[0] is an iterator, which JSON cannot hold: its text is given instead; convert it: `[...iterator]`",
        ),
        (
            "({ get a() { throw new Error('no') } })",
            r#""{ a: [Getter] }""#,
            "the value is an object that cannot be read (no)",
        ),
    ] {
        let (outcome, said) = run(&format!("console.log('kept'); {source}"));
        let value_json = Some(json.to_owned());
        assert_eq!(outcome, JsOutcome::Completed { value_json }, "{source}");
        assert!(
            said.stderr.starts_with("notice: ") && said.stderr.contains(notice),
            "{source}: {}",
            said.stderr
        );
        assert_eq!(
            (said.stdout.as_str(), said.stderr.lines().count()),
            ("kept\n", 1),
            "{source}"
        );
    }
}

#[test]
fn no_value_fails_a_run_by_its_depth_or_its_number_of_oddities() {
    // This is deep, but JSON holds it whole.
    let deep = value("let a: any = []; for (let n = 0; n < 300; n++) a = [a]; a");
    assert_eq!(deep.matches('[').count(), 301);
    let (outcome, said) = run("let a: any = []; for (let n = 0; n < 100000; n++) a = { a }; a");
    assert!(
        matches!(&outcome, JsOutcome::Completed { value_json: Some(text) } if text.contains("[nested too deeply]")),
        "{outcome:?}"
    );
    assert!(said.stderr.contains("nested very deeply"), "{}", said.stderr);
    let (outcome, said) = run("Array.from({ length: 1000 }, () => () => 1)");
    assert!(
        matches!(outcome, JsOutcome::Completed { value_json: Some(_) }),
        "{outcome:?}"
    );
    assert_eq!(said.stderr.lines().count(), 6, "{}", said.stderr);
    assert!(
        said.stderr.contains("notice: 995 more parts of the value"),
        "{}",
        said.stderr
    );
}
