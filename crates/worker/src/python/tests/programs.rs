//! Python programs: values, errors, exits, imports.
use std::{cell::OnceCell, fs};

use super::{ALLOW_ALL, PythonError, PythonResult, Ran, Zygote, run_on};

thread_local! {
    static ZYGOTE: OnceCell<Zygote> = const { OnceCell::new() };
}

pub(super) fn run(source: &str) -> Ran {
    ZYGOTE.with(|zygote| {
        let zygote = zygote.get_or_init(|| Zygote::start(&ALLOW_ALL));
        run_on(zygote, source, &["one", "zwei ü"], |place| {
            fs::write(place.join("text.txt"), "grüße\n").unwrap();
            fs::create_dir(place.join("sub")).unwrap();
        })
    })
}

#[track_caller]
pub(super) fn check(source: &str, json: &str) {
    let ran = run(source);
    let value_json = (json != "null").then(|| json.to_owned());
    assert_eq!(
        ran.result,
        PythonResult::Completed { value_json },
        "{source}\n{}",
        ran.stderr
    );
    assert_eq!(ran.status, 0);
}

#[track_caller]
fn failure(source: &str) -> (PythonError, String) {
    let ran = run(source);
    let PythonResult::Failed(error) = ran.result else {
        panic!("{source}\n{ran:?}")
    };
    (error, ran.stderr)
}

#[test]
fn the_value_is_the_last_expression() {
    check("1 + 1", "2");
    check("x = [1, 'ü']\nx", "[1, \"ü\"]");
    check("x = 5", "null");
    check("", "null");
    check("# nothing\n", "null");
    check("None", "null");
    check("'\\ud800'", "\"\\ud800\"");
    check("{1: (True, None)}", "{\"1\": [true, null]}");
    check("len(str(10 ** 10000))", "10001");
    check("if True:\n    5", "null");
    check("def f(n):\n    return n * 2\nf(4)", "8");
    check(
        "class A:\n    def __init__(self):\n        self.x = 1\n\ndef gen():\n    yield from range(3)\n\n[A().x, *gen()]",
        "[1, 0, 1, 2]",
    );
}

#[test]
fn await_works_at_the_top() {
    check("import asyncio\nawait asyncio.sleep(0)\n5", "5");
    check(
        "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.001)\n    return n\nawait asyncio.gather(f(1), f(2))",
        "[1, 2]",
    );
    check(
        "import asyncio\nasync def main():\n    return 3\nasyncio.run(main())",
        "3",
    );
    check("async def main():\n    return 4\nmain()", "4");
    let (error, stderr) =
        failure("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    raise KeyError('k')\nawait f()");
    assert_eq!((error.kind.as_str(), error.line), ("KeyError", Some(4)));
    assert!(!stderr.contains("asyncio/"), "{stderr}");
}

#[test]
fn the_program_sees_its_surroundings() {
    check("args", "[\"one\", \"zwei ü\"]");
    check("import sys\nsys.argv", "[\"program.py\", \"one\", \"zwei ü\"]");
    check("import os\ndict(os.environ)", "{\"GREETING\": \"hällo\"}");
    check(
        "import os\nos.path.samefile(os.getcwd(), os.path.dirname(__file__)), __name__, os.path.basename(__file__)",
        "[true, \"__main__\", \"program.py\"]",
    );
    check("import __main__\nx = 1\n__main__.x", "1");
    check("import helper_package\nhelper_package.ANSWER", "42");
    check(
        "import sys\n[p for p in sys.path if 'site-packages' in p or 'dist-packages' in p]",
        "[]",
    );
    check(
        "import pickle\nclass A: pass\nisinstance(pickle.loads(pickle.dumps(A())), A)",
        "true",
    );
    check("sorted(n for n in globals() if not n.startswith('__'))", "[]");
}

#[test]
fn files_are_in_the_workspace() {
    check("files.read('text.txt')", "\"grüße\\n\"");
    check("files.read('/workspace/text.txt')", "\"grüße\\n\"");
    check("list(files.read_bytes('text.txt')[2:4])", "[195, 188]");
    check("files.list(), files.list('sub')", "[[\"sub/\", \"text.txt\"], []]");
    check(
        "files.write('a/b.txt', 'x'); files.write('c.bin', b'\\x00'); files.list()",
        "[\"a/\", \"c.bin\", \"sub/\", \"text.txt\"]",
    );
    for (source, kind) in [
        ("files.read('missing')", "FileNotFoundError"),
        ("files.read('../x')", "PermissionError"),
        ("files.read('/etc/passwd')", "PermissionError"),
        ("files.read('/workspace/../etc/passwd')", "PermissionError"),
        ("files.write('x', {})", "TypeError"),
    ] {
        assert_eq!(failure(source).0.kind, kind, "{source}");
    }
    let ran = run("with open('made.txt', 'w') as f:\n    f.write('by open')");
    assert_eq!(
        fs::read_to_string(ran.workspace.path().join("made.txt")).unwrap(),
        "by open"
    );
}

#[test]
fn output_is_kept_whatever_the_end() {
    let ran = run("import sys\nprint('out', 'ü', '\\ud800')\nprint('err', file=sys.stderr)\n1/0");
    assert_eq!(ran.stdout, "out ü \\ud800\n");
    assert!(ran.stderr.starts_with("err\nTraceback"), "{}", ran.stderr);
    assert_eq!(ran.status, 1);
    let ran = run("print('no newline', end='')");
    assert_eq!(ran.stdout, "no newline");
    let ran = run(
        "import threading, time, atexit\natexit.register(lambda: print('at exit'))\nthreading.Thread(target=lambda: (time.sleep(0.02), print('thread'))).start()\nprint('main')",
    );
    assert_eq!(ran.stdout, "main\nthread\nat exit\n");
    let ran = run("import sys\nsys.stdout.close()\nsys.stderr = None\n1/0");
    assert!(matches!(ran.result, PythonResult::Failed(_)), "{ran:?}");
}

#[test]
fn a_traceback_shows_the_program_and_nothing_of_ours() {
    let (error, stderr) = failure("import json\n\ndef load(text):\n    return json.loads(text)\n\nload('{')");
    assert_eq!(
        stderr
            .lines()
            .filter(|line| line.trim_start().starts_with("File"))
            .collect::<Vec<_>>(),
        [
            "  File \"program.py\", line 6, in <module>",
            "  File \"program.py\", line 4, in load"
        ]
    );
    assert!(stderr.contains("    return json.loads(text)\n"), "{stderr}");
    assert!(stderr.trim_end().ends_with("(char 1)"), "{stderr}");
    let place = (
        error.kind.as_str(),
        error.file.as_deref(),
        error.line,
        error.text.as_deref(),
    );
    assert_eq!(
        place,
        (
            "JSONDecodeError",
            Some("program.py"),
            Some(4),
            Some("return json.loads(text)")
        )
    );
}

#[test]
fn failures_of_every_kind_are_told() {
    for (source, kind, message) in [
        ("raise ValueError('bad')", "ValueError", "bad"),
        (
            "def f():\n    f()\nf()",
            "RecursionError",
            "maximum recursion depth exceeded",
        ),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        (
            "class Odd(Exception):\n    def __str__(self):\n        raise TypeError\nraise Odd",
            "Odd",
            "an error that cannot be shown",
        ),
        ("input()", "EOFError", "EOF when reading a line"),
        (
            "try:\n    1/0\nexcept Exception as e:\n    raise RuntimeError('outer') from e",
            "RuntimeError",
            "outer",
        ),
        (
            "raise ExceptionGroup('many', [ValueError(1)])",
            "ExceptionGroup",
            "many (1 sub-exception)",
        ),
        ("raise GeneratorExit", "GeneratorExit", ""),
    ] {
        let (error, stderr) = failure(source);
        assert_eq!(
            (error.kind.as_str(), error.message.as_str()),
            (kind, message),
            "{source}"
        );
        assert!(!stderr.contains("<ringfence>"), "{stderr}");
    }
}

#[test]
fn exit_codes_are_the_programs_own() {
    for (source, code, stderr) in [
        ("import sys\nsys.exit(3)", 3, ""),
        ("exit()", 0, ""),
        ("raise SystemExit('message')", 1, "message\n"),
        ("quit(-1)", 255, ""),
    ] {
        let ran = run(source);
        assert_eq!(
            (ran.result, ran.stderr.as_str()),
            (PythonResult::Exit { code }, stderr),
            "{source}"
        );
        assert_eq!(ran.status, i32::from(code));
    }
}

#[test]
fn syntax_errors_have_a_place() {
    for (source, line, column) in [
        ("x = (1,\ny = 2", 1, 5),
        ("def f(:\n    pass", 1, 7),
        ("if True:\nx", 2, 1),
        ("x = 1\nreturn x", 2, 1),
        ("'unclosed", 1, 1),
        ("a\0b", 1, 1),
    ] {
        let ran = run(source);
        let PythonResult::SyntaxError(error) = ran.result else {
            panic!("{source}: {ran:?}")
        };
        assert_eq!(
            (error.line, error.column),
            (Some(line), Some(column)),
            "{source}: {error:?}"
        );
        assert!(ran.stderr.contains("Error: "), "{source}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
    let ran = run(&format!("{}1{}", "(".repeat(5000), ")".repeat(5000)));
    assert!(matches!(ran.result, PythonResult::SyntaxError(_)), "{ran:?}");
}

#[test]
fn imports_from_elsewhere_are_refused() {
    let ran = run("print('before')\nimport numpy.linalg");
    let PythonResult::ImportRefused(error) = ran.result else {
        panic!("{ran:?}")
    };
    assert_eq!(
        (error.message.as_str(), error.line),
        ("No module named 'numpy'", Some(2))
    );
    assert_eq!(ran.stdout, "before\n");
    check(
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\nnumpy is None",
        "true",
    );
    check(
        "import csv, sqlite3, hashlib, zoneinfo, ssl\nhashlib.sha256(b'').hexdigest()[:4]",
        "\"e3b0\"",
    );
}

#[test]
fn children_of_one_zygote_have_different_chance() {
    let first = run("import random\nrandom.random()").result;
    assert_ne!(first, run("import random\nrandom.random()").result);
}
