//! What a program prints, and how values look there.
use super::run;

#[track_caller]
fn check(source: &str, stdout: &str) {
    let (outcome, said) = run(source);
    assert_eq!(said.stdout, stdout, "{source}\n{outcome:?}\n{}", said.stderr);
}

#[test]
fn the_two_streams_are_apart() {
    let (_, said) =
        run("console.log('a'); console.info('b'); console.debug('c'); console.warn('d'); console.error('e')");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("a\nb\nc\n", "d\ne\n"));
}

#[test]
fn values_are_shown_as_node_shows_them() {
    check(
        "console.log('a', 1, -0, true, null, undefined, 10n, Symbol('s'))",
        "a 1 -0 true null undefined 10n Symbol(s)\n",
    );
    check("console.log()", "\n");
    check(
        "console.log('%s is %d years, %i, %f, %j %% %o', 'Bob', 42.5, 42.5, '1.5', { a: 1 }, [1], 'rest')",
        "Bob is 42.5 years, 42, 1.5, {\"a\":1} % [ 1 ] rest\n",
    );
    check("console.log('100%', 5)", "100% 5\n");
    check(
        "console.log({ a: 1, 'b c': 'x', d: [1, 'two'], e: {} , f: [] })",
        "{ a: 1, 'b c': 'x', d: [ 1, 'two' ], e: {}, f: [] }\n",
    );
    check("console.log([\"it's\", 'a\\nb'])", "[ \"it's\", 'a\\nb' ]\n");
    check(
        "console.log(new Map<any, any>([['a', 1], [{}, new Set([1])]]))",
        "Map(2) { 'a' => 1, {} => Set(1) { 1 } }\n",
    );
    check(
        "class Foo { x = 1; get y() { return 1 } } ; console.log(new Foo(), Foo, () => 1, function named() {}, async () => {})",
        "Foo { x: 1 } [class Foo] [Function (anonymous)] [Function: named] [AsyncFunction (anonymous)]\n",
    );
    check(
        "console.log(new Date(0), /x/g, new Uint8Array([1, 2]), new ArrayBuffer(3), Object(1))",
        "1970-01-01T00:00:00.000Z /x/g Uint8Array(2) [ 1, 2 ] ArrayBuffer { byteLength: 3 } [Number: 1]\n",
    );
    check(
        "const a: any = { n: 1 }; a.self = a; console.log(a)",
        "{ n: 1, self: [Circular] }\n",
    );
    check(
        "console.log({ get a() { throw new Error('no') }, set b(v: any) {} })",
        "{ a: [Getter], b: [Setter] }\n",
    );
    check(
        "console.log(Object.create(null), [1, , 3], { [Symbol('k')]: 1 })",
        "[Object: null prototype] {} [ 1, <1 empty item>, 3 ] { [Symbol(k)]: 1 }\n",
    );
    check(
        "console.log({ a: { b: { c: { d: { e: { f: 1 } } } } } })",
        "{ a: { b: { c: { d: { e: [Object] } } } } }\n",
    );
    check(
        "console.log(Array.from({ length: 102 }, () => 'a').length, [Array.from({ length: 102 }, () => 1)].toString().length)",
        "102 203\n",
    );
    check("console.log('\\ud800')", "\u{fffd}\n");
    check(
        "console.log({ name: 'a long enough name', other: 'another long value', third: 'and a third one' })",
        "{\n  name: 'a long enough name',\n  other: 'another long value',\n  third: 'and a third one'\n}\n",
    );
    check("console.log([{ a: 1 }])", "[ { a: 1 } ]\n");
}

#[test]
fn long_values_are_cut() {
    let (_, said) = run("console.log(Array.from({ length: 105 }, (_, i) => i))");
    assert!(said.stdout.contains("... 5 more items"), "{}", said.stdout);
    let (_, said) = run(
        "const wide = (n: number): any => n === 0 ? 'x'.repeat(1000) : Array.from({ length: 100 }, () => wide(n - 1)); console.log(wide(3))",
    );
    assert!(said.stdout.len() < 1 << 20, "{}", said.stdout.len());
    let (_, said) = run("console.log(['x'.repeat(20000)])");
    assert!(said.stdout.contains("... 10000 more characters"));
}

#[test]
fn errors_are_shown_with_their_original_place() {
    let (_, said) = run(
        "interface A { a: string }\n\nfunction f(): never {\n  throw new TypeError('bad', { cause: new Error('deep') })\n}\ntry { f() } catch (e) { console.error(e) }",
    );
    assert!(
        said.stderr.starts_with("TypeError: bad\n    at f (program.ts:4:"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("[cause]: Error: deep"), "{}", said.stderr);
    assert!(!said.stderr.contains("ringfence:"), "{}", said.stderr);
    let (_, said) = run("console.log({ error: new Error('inner') }, new RangeError('outer').message)");
    assert!(said.stdout.contains("error: Error: inner\n"), "{}", said.stdout);
}

#[test]
fn the_other_methods_work() {
    check(
        "console.group('g'); console.log('a\\nb'); console.groupEnd(); console.log('c')",
        "g\n  a\n  b\nc\n",
    );
    check(
        "console.count(); console.count(); console.countReset(); console.count()",
        "default: 1\ndefault: 2\ndefault: 1\n",
    );
    check(
        "console.table([{ a: 1, b: 'x' }, { a: 2 }])",
        "┌─────────┬───┬─────┐\n│ (index) │ a │ b   │\n├─────────┼───┼─────┤\n│ 0       │ 1 │ 'x' │\n│ 1       │ 2 │     │\n└─────────┴───┴─────┘\n",
    );
    let (_, said) = run("console.assert(1 === 1, 'no'); console.assert(false, 'yes'); console.trace('t')");
    assert!(
        said.stderr
            .starts_with("Assertion failed yes\nTrace: t \n    at program.ts:1:"),
        "{}",
        said.stderr
    );
}
