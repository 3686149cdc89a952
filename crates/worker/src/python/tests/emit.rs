//! Emitted files: which are accepted, with which media type, and what is refused.
use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::symlink;

use super::{ALLOW_ALL, PythonFrame, PythonRemark, PythonResult, Ran, Zygote, run_on};

thread_local! {
    static ZYGOTE: OnceCell<Zygote> = const { OnceCell::new() };
}

/// Runs in a workspace with a file, a folder, links, and something that is no file.
fn run(source: &str) -> Ran {
    ZYGOTE.with(|zygote| {
        let zygote = zygote.get_or_init(|| Zygote::start(&ALLOW_ALL));
        run_on(zygote, source, &[], |folder| {
            let place = |name: &str| folder.join(name);
            fs::write(place("report.csv"), "a,b\n").unwrap();
            fs::create_dir(place("sub")).unwrap();
            fs::write(place("sub/deep.txt"), "deep").unwrap();
            symlink("/etc/passwd", place("link")).unwrap();
            symlink("sub", place("around")).unwrap();
            drop(std::os::unix::net::UnixListener::bind(place("socket")).unwrap());
        })
    })
}

#[track_caller]
fn check(source: &str, expected: &[(&str, Option<&str>)]) -> Ran {
    let ran = run(source);
    let value_json = None;
    assert_eq!(
        ran.result,
        PythonResult::Completed { value_json },
        "{source}\n{}",
        ran.stderr
    );
    let emitted: Vec<_> = ran
        .emitted
        .iter()
        .map(|(path, kind)| (path.as_str(), kind.as_deref()))
        .collect();
    assert_eq!(emitted, expected, "{source}");
    ran
}

#[test]
fn a_file_goes_out_as_what_its_name_or_its_program_says() {
    check("emit('report.csv')", &[("report.csv", None)]);
    check("emit('./sub/../report.csv')", &[("report.csv", None)]);
    check("emit('/workspace/sub/deep.txt')", &[("sub/deep.txt", None)]);
    check(
        "import pathlib\nemit(pathlib.Path('sub') / 'deep.txt')",
        &[("sub/deep.txt", None)],
    );
    check(
        "emit('report.csv', type='Application/X.Mine+json')",
        &[("report.csv", Some("application/x.mine+json"))],
    );
    check(
        "emit('report.csv')\nemit('report.csv')\nemit('report.csv', type='a/b')",
        &[("report.csv", None), ("report.csv", Some("a/b"))],
    );
}

#[test]
fn data_becomes_a_file_of_its_name() {
    for (data, name, written) in [
        ("{'a': [1, 'é']}", "out/a.json", "{\"a\":[1,\"é\"]}"),
        ("None", "n.json", "null"),
        ("(1, 2)", "list", "[1,2]"),
        ("7", "seven.txt", "7"),
        ("'two\\nlines'", "text.md", "two\nlines"),
        ("''", "empty.txt", ""),
        ("'lone \\ud800'", "lone.txt", "lone ?"),
        ("b'bytes'", "b.bin", "bytes"),
        ("bytearray(b'bytes')", "b.bin", "bytes"),
        ("memoryview(b'bytes')[1:]", "b.bin", "ytes"),
        ("'again'", "report.csv", "again"),
    ] {
        let ran = check(&format!("emit({data}, name='{name}')"), &[(name, None)]);
        let written_there = fs::read_to_string(ran.workspace.path().join(name)).unwrap();
        assert_eq!(written_there, written, "{data}");
    }
}

/// Calls that are refused, and their error messages.
const REFUSED: &[(&str, &str)] = &[
    (
        "emit('missing.csv')",
        "FileNotFoundError: emit: `missing.csv`: there is no such file",
    ),
    (
        "emit('report.csv/x')",
        "FileNotFoundError: emit: `report.csv/x`: there is no such file",
    ),
    ("emit('')", "IsADirectoryError: emit: ``: it is a folder"),
    (
        "emit('../x')",
        "PermissionError: emit: `../x`: it is not below /workspace",
    ),
    (
        "emit('/etc/passwd')",
        "PermissionError: emit: `/etc/passwd`: it is not below /workspace",
    ),
    (
        "emit('sub')",
        "IsADirectoryError: emit: `sub`: it is a folder: only files go out",
    ),
    (
        "emit('link')",
        "ValueError: emit: `link`: it is a link, or behind one: only plain files go out",
    ),
    (
        "emit('around/deep.txt')",
        "ValueError: emit: `around/deep.txt`: it is a link, or behind one: only plain files go out",
    ),
    ("emit('socket')", "ValueError: emit: `socket`: it is no plain file"),
    (
        "import os\nos.mkfifo('fifo')\nemit('fifo')",
        "ValueError: emit: `fifo`: it is no plain file",
    ),
    (
        "emit('a\\nb')",
        "ValueError: emit: `a\\nb`: it is no plain name of a file",
    ),
    (
        "emit('x', name='a\\nb')",
        "ValueError: emit: `a\\nb`: it is no plain name of a file",
    ),
    (
        "emit('x', name='a\\0b')",
        "ValueError: emit: `a\\x00b`: it is no plain name of a file",
    ),
    (
        "emit('x', name='\\ud800')",
        "ValueError: emit: `\\ud800`: it is no plain name of a file",
    ),
    (
        "emit('x', name='../x')",
        "PermissionError: emit: `../x`: it is not below /workspace",
    ),
    (
        "emit('x', name='sub')",
        "IsADirectoryError: emit: `sub`: it is a folder: only files go out",
    ),
    (
        "emit('x', name='link')",
        "ValueError: emit: `link`: it is a link, or behind one: only plain files go out",
    ),
    (
        "emit('report.csv', type='text/csv; charset=utf-8')",
        "ValueError: emit: `text/csv; charset=utf-8`: it is no media type such as `text/csv`, without parameters",
    ),
    ("emit('report.csv', type='text/csv\\n')", "it is no media type"),
    (
        "emit('x', name='n.txt', type=5)",
        "TypeError: emit: `type` is text, not an int",
    ),
    (
        "emit('report.csv', name='other.csv')",
        "TypeError: emit: `report.csv` is a file of the workspace: leave `name` out",
    ),
    ("emit({'a': 1})", "TypeError: emit: a dict needs a name"),
    (
        "import pathlib\nemit(pathlib.Path('report.csv'), name='b.csv')",
        "TypeError: emit: a path has its name already",
    ),
    (
        "emit({'a': {1, 2}}, name='n.json')",
        "TypeError: emit: value['a'] is a set, which JSON cannot hold; convert it",
    ),
    (
        "emit(float('nan'), name='n.json')",
        "TypeError: emit: the value is nan, which JSON cannot hold",
    ),
];

#[test]
fn what_cannot_go_out_is_refused_by_name_and_leaves_nothing() {
    let name = "x".repeat(5000);
    let (kind, path) = (
        format!("emit('report.csv', type='a/{name}')"),
        format!("emit('{name}')"),
    );
    let long = [
        (kind.as_str(), "it is no media type"),
        (&path, "it is no plain name of a file"),
    ];
    for (call, expected) in REFUSED.iter().copied().chain(long) {
        let ran = run(call);
        let PythonResult::Failed(error) = &ran.result else {
            panic!("{call}: {ran:?}")
        };
        let message = format!("{}: {}", error.kind, error.message);
        assert!(message.contains(expected), "{call}: {message}");
        assert!(message.len() < 500, "{call}: {message}");
        assert_eq!(ran.emitted, [], "{call}");
        let there = 5 + usize::from(call.contains("fifo"));
        assert_eq!(fs::read_dir(ran.workspace.path()).unwrap().count(), there, "{call}");
        assert_eq!(
            fs::read_to_string(ran.workspace.path().join("report.csv")).unwrap(),
            "a,b\n"
        );
    }
}

#[test]
fn so_many_files_go_out_and_no_more() {
    let source = "refused = 0\nfor i in range(10000):\n    try:\n        emit('x', name=f'{i}.txt')\n    \
                  except ValueError as error:\n        refused, said = refused + 1, str(error)\nemit('0.txt')\n\
                  (refused, said, len(files.list()))";
    let ran = run(source);
    let value = "[9936, \"emit: `9999.txt`: 64 files go out already, which is the most\", 69]";
    let value_json = Some(value.to_owned());
    assert_eq!(ran.result, PythonResult::Completed { value_json });
    assert_eq!(ran.emitted.len(), 64);
}

#[test]
fn what_a_child_says_of_a_file_is_parsed() {
    let read = |frame: &str| match PythonFrame::read(frame.as_bytes()) {
        Ok(PythonFrame::Remark(remark)) => Some(remark),
        _ => None,
    };
    let (path, media_type) = ("a".to_owned(), None);
    assert_eq!(
        read(r#"{"emit": {"path": "a", "type": null}}"#),
        Some(PythonRemark::Emit { path, media_type })
    );
    for broken in [
        r#"{"emit": "a"}"#,
        r#"{"emit": {"type": "a/b"}}"#,
        r#"{"emit": {"path": 5, "type": null}}"#,
        r#"{"emit": {"path": "a", "type": ["a/b"]}}"#,
        r#"{"emit": "#,
    ] {
        assert_eq!(read(broken), None, "{broken}");
    }
}
