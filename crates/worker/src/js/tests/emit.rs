//! Emitted files: which are accepted, with which media type, and what is refused.
use std::fs;
use std::os::unix::fs::symlink;

use ringfence_wire::{EmittedFile, MAX_EMITTED_FILES};

use super::{JsOutcome, Said, run_in};

/// A workspace with a file, a folder, links, and something that is no file.
fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    fs::write(place("report.csv"), "a,b\n").unwrap();
    fs::create_dir(place("sub")).unwrap();
    fs::write(place("sub/deep.txt"), "deep").unwrap();
    symlink("/etc/passwd", place("link")).unwrap();
    symlink("sub", place("around")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(place("socket")).unwrap());
    folder
}

#[track_caller]
fn check(source: &str, expected: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = workspace();
    let (outcome, Said { emitted, .. }) = run_in(folder.path(), source, true, &[]);
    assert_eq!(outcome, JsOutcome::Completed { value_json: None }, "{source}");
    let expected: Vec<EmittedFile> = expected
        .iter()
        .map(|(path, kind)| EmittedFile::new(path, kind).unwrap())
        .collect();
    assert_eq!(emitted, expected, "{source}");
    folder
}

#[test]
fn a_file_goes_out_as_what_its_name_or_its_program_says() {
    check("emit('report.csv')", &[("report.csv", "text/csv")]);
    check("emit('./sub/../report.csv')", &[("report.csv", "text/csv")]);
    check("emit('/workspace/sub/deep.txt', {})", &[("sub/deep.txt", "text/plain")]);
    check(
        "emit('report.csv', { type: 'Application/X.Mine+json' })",
        &[("report.csv", "application/x.mine+json")],
    );
    check(
        "emit('report.csv'); emit('report.csv'); emit('report.csv', { type: 'a/b' }); emit('sub/deep.txt', { name: undefined })",
        &[
            ("report.csv", "text/csv"),
            ("report.csv", "a/b"),
            ("sub/deep.txt", "text/plain"),
        ],
    );
}

#[test]
fn data_becomes_a_file_of_its_name() {
    for (data, name, kind, written) in [
        ("{ a: [1, 'é'] }", "out/a.json", "application/json", "{\"a\":[1,\"é\"]}"),
        ("null", "n.json", "application/json", "null"),
        ("[1, 2]", "list", "application/octet-stream", "[1,2]"),
        ("7", "seven.txt", "text/plain", "7"),
        ("'two\\nlines'", "text.md", "text/markdown", "two\nlines"),
        ("''", "empty.txt", "text/plain", ""),
        ("'lone \\ud800'", "lone.txt", "text/plain", "lone \u{fffd}"),
        (
            "new TextEncoder().encode('bytes')",
            "b.bin",
            "application/octet-stream",
            "bytes",
        ),
        ("new Uint16Array([0x4142]).buffer", "b.gz", "application/gzip", "BA"),
        ("'again'", "report.csv", "text/csv", "again"),
    ] {
        let folder = check(&format!("emit({data}, {{ name: '{name}' }})"), &[(name, kind)]);
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), written, "{data}");
    }
}

/// Calls that are refused, and their error messages.
const REFUSED: &[(&str, &str)] = &[
    ("emit('missing.csv')", "emit: `missing.csv`: there is no such file"),
    ("emit('report.csv/x')", "emit: `report.csv/x`: there is no such file"),
    ("emit('')", "emit: ``: it is no plain name of a file"),
    ("emit('../x')", "emit: `../x`: it is not below /workspace"),
    ("emit('/etc/passwd')", "emit: `/etc/passwd`: it is not below /workspace"),
    ("emit('sub')", "emit: `sub`: it is a folder: only files go out"),
    (
        "emit('link')",
        "emit: `link`: it is a link, or behind one: only plain files go out",
    ),
    (
        "emit('around/deep.txt')",
        "emit: `around/deep.txt`: it is a link, or behind one: only plain files go out",
    ),
    ("emit('socket')", "emit: `socket`: it is no plain file"),
    ("emit('a\\nb')", "emit: `a\\nb`: it is no plain name of a file"),
    (
        "emit('x', { name: 'a\\nb' })",
        "emit: `a\\nb`: it is no plain name of a file",
    ),
    (
        "emit('x', { name: '../x' })",
        "emit: `../x`: it is not below /workspace",
    ),
    (
        "emit('x', { name: 'sub' })",
        "emit: `sub`: it is a folder: only files go out",
    ),
    (
        "emit('x', { name: 'link' })",
        "emit: `link`: it is a link, or behind one: only plain files go out",
    ),
    (
        "emit('x', { name: 'report.csv/y' })",
        "emit: `report.csv/y`: File exists",
    ),
    (
        "emit('report.csv', { type: 'text/csv; charset=utf-8' })",
        "emit: `text/csv; charset=utf-8`: it is no media type such as `text/csv`, without parameters",
    ),
    ("emit('report.csv', { type: 'csv' })", "it is no media type"),
    (
        "emit('x', { name: 'n.txt', type: 5 })",
        "emit: `type` is text, not a value of type number",
    ),
    (
        "emit('x', { name: 'n.txt', mimeType: 'a/b' })",
        "emit: there is no option `mimeType`",
    ),
    ("emit('report.csv', 'text/csv')", "emit: options are an object such as"),
    (
        "emit('report.csv', { name: 'other.csv' })",
        "emit: `report.csv` is a file of the workspace: leave `name` out",
    ),
    ("emit({ a: 1 })", "emit: a value of type object needs a `name`"),
    ("emit(undefined, { name: 'n.txt' })", "emit: nothing was given"),
    (
        "emit({ a: new Map() }, { name: 'n.json' })",
        "emit: value.a is a Map, which JSON cannot hold; convert it",
    ),
    (
        "emit(Promise.resolve(1), { name: 'n.json' })",
        "emit: the value is a promise, which JSON cannot hold; await it",
    ),
    (
        "const a: any = []; a.push(a); emit(a, { name: 'n.json' })",
        "circular reference",
    ),
];

#[test]
fn what_cannot_go_out_is_refused_by_name_and_leaves_nothing() {
    let name = "x".repeat(5000);
    let (kind, path) = (
        format!("emit('report.csv', {{ type: 'a/{name}' }})"),
        format!("emit('{name}')"),
    );
    let long = [
        (kind.as_str(), "it is no media type"),
        (&path, "it is no plain name of a file"),
    ];
    for (call, expected) in REFUSED.iter().copied().chain(long) {
        let folder = workspace();
        let source = format!("let said = ''; try {{ {call} }} catch (e: any) {{ said = e.message }} ; said");
        let (outcome, said) = run_in(folder.path(), &source, true, &[]);
        let JsOutcome::Completed {
            value_json: Some(message),
        } = &outcome
        else {
            panic!("{call}: {outcome:?}")
        };
        let message: String = serde_json::from_str(message).unwrap();
        assert!(message.contains(expected), "{call}: {message}");
        assert!(message.len() < 500, "{call}: {message}");
        assert_eq!(said.emitted, [], "{call}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5, "{call}");
        assert_eq!(fs::read_to_string(folder.path().join("report.csv")).unwrap(), "a,b\n");
    }
}

#[test]
fn so_many_files_go_out_and_no_more() {
    let folder = workspace();
    let source = "let refused = 0, said = ''; \
        for (let i = 0; i < 10000; i++) try { emit('x', { name: `${i}.txt` }) } catch (e: any) { refused++; said = e.message } \
        emit('0.txt'); [refused, said, files.list().length]";
    let (outcome, said) = run_in(folder.path(), source, true, &[]);
    let refused = 10_000 - MAX_EMITTED_FILES;
    let there = 5 + MAX_EMITTED_FILES;
    let value = format!("[{refused},\"emit: `9999.txt`: 64 files go out already, which is the most\",{there}]");
    let value_json = Some(value);
    assert_eq!(outcome, JsOutcome::Completed { value_json });
    assert_eq!(said.emitted.len(), MAX_EMITTED_FILES);
}
