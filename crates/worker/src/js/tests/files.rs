//! `files` works in the workspace, and nowhere else.
use std::fs;

use super::{JsOutcome, run_in};

#[track_caller]
fn check(source: &str, json: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text.txt"), "grüße\n").unwrap();
    fs::write(folder.path().join("raw.bin"), [0xff, 0x41]).unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let (outcome, _) = run_in(folder.path(), source, true, &[]);
    assert_eq!(
        outcome,
        JsOutcome::Completed {
            value_json: Some(json.to_owned())
        },
        "{source}"
    );
}

#[test]
fn files_are_read_in_each_encoding() {
    check("files.read('text.txt')", "\"grüße\\n\"");
    check("files.read('/workspace/text.txt').length", "6");
    check("files.read('sub/../text.txt', { encoding: 'utf8' }).length", "6");
    check("files.read('raw.bin')", "\"\u{fffd}A\"");
    check("files.read('raw.bin', { encoding: 'latin1' })", "\"ÿA\"");
    check("files.read('raw.bin', { encoding: 'base64' })", "\"/0E=\"");
    check("files.read('raw.bin', 'hex')", "\"ff41\"");
    check("[...files.readBytes('raw.bin')]", "[255,65]");
}

#[test]
fn files_are_written_and_listed() {
    check(
        "files.write('a/b/c.txt', 'hällo'); files.read('a/b/c.txt')",
        "\"hällo\"",
    );
    check(
        "files.write('b.bin', new Uint8Array([0, 255, 7]).subarray(1)); [...files.readBytes('b.bin')]",
        "[255,7]",
    );
    check(
        "files.write('b.bin', new Uint16Array([0x4142]).buffer); files.read('b.bin')",
        "\"BA\"",
    );
    check("files.write('n.txt', 5); files.read('n.txt')", "\"5\"");
    check("files.list()", r#"["raw.bin","sub/","text.txt"]"#);
    check("files.list('sub')", "[]");
    check("files.write('\\ud800', 'x'); files.list('.').length", "4");
}

#[test]
fn refusals_name_the_path() {
    for (source, message) in [
        (
            "files.read('missing.txt')",
            "files.read: `missing.txt`: no such file or folder",
        ),
        ("files.read('sub')", "files.read: `sub`: it is a folder"),
        ("files.read('../secret')", "files: `../secret` is not below /workspace"),
        (
            "files.read('/etc/passwd')",
            "files: `/etc/passwd` is not below /workspace",
        ),
        (
            "files.read('/workspace/../etc/passwd')",
            "files: `/workspace/../etc/passwd` is not below /workspace",
        ),
        ("files.write('../x', '')", "files: `../x` is not below /workspace"),
        ("files.list('missing')", "files.list: `missing`: no such file or folder"),
        (
            "files.read('text.txt', { encoding: 'utf-16' })",
            "files.read: the encoding `utf-16` is not one of utf-8, latin1, base64, hex",
        ),
        (
            "files.write('x.json', { a: 1 } as any)",
            "files.write: cannot write a value of type object: give a string or bytes, for example JSON.stringify(value)",
        ),
    ] {
        check(
            &format!("let said; try {{ {source} }} catch (e: any) {{ said = e.message }} ; said"),
            &serde_json::to_string(message).unwrap(),
        );
    }
}
