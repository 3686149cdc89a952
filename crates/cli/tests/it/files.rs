//! Files that are copied into and out of the sandbox, and files that must not be.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::setting::Setting;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn only_plain_files_come_out_with_plain_modes() {
    let setting = Setting::new();
    setting.write("in.txt", "as it was");
    setting.write("same.txt", "the same");
    let script = "mkdir sub; echo new >sub/new.txt; echo tool >tool; chmod 4777 tool; ln -s /etc/passwd link; mkfifo fifo; \
        echo changed >in.txt; echo secret >.env; ln -s sub folder";
    let args = [
        "exec", "--json", "--file", "in.txt", "--file", "same.txt", "--out", "out", "--", "sh", "-c", script,
    ];
    let object = setting.json(&args);
    assert_eq!(object["exit_code"], json!(0), "{object}");
    let files: Vec<_> = object["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].clone(), file["change"].clone()))
        .collect();
    let expected = [("in.txt", "changed"), ("sub/new.txt", "created"), ("tool", "created")];
    assert_eq!(files, expected.map(|(path, change)| (json!(path), json!(change))));
    let out = setting.work().join("out");
    assert_eq!(names(&out), ["in.txt", "sub", "tool"]);
    assert_eq!(fs::read_to_string(out.join("in.txt")).unwrap(), "changed\n");
    assert_eq!(fs::read_to_string(out.join("sub/new.txt")).unwrap(), "new\n");
    let mode = fs::metadata(out.join("tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7111, 0, "{mode:o}");
}

#[test]
fn what_a_program_emits_is_told_first_and_copied_out() {
    let setting = Setting::new();
    setting.write("in.csv", "1,2\n");
    setting.write("other.csv", "3\n");
    for (file, source) in [
        (
            "main.ts",
            "files.write('a.txt', 'a'); emit('in.csv'); emit({ n: [1] }, { name: 'out/n.json' }); emit(new Uint8Array([0, 255]), { name: 'z', type: 'x/y' })",
        ),
        (
            "main.py",
            "files.write('a.txt', 'a')\nemit('in.csv')\nemit({'n': [1]}, name='out/n.json')\nemit(bytes([0, 255]), name='z', type='x/y')",
        ),
    ] {
        setting.write(file, source);
        let args = [
            "run",
            "--json",
            "--file",
            "in.csv",
            "--file",
            "other.csv",
            "--out",
            file.trim_start_matches("main."),
            file,
        ];
        let object = setting.json(&args);
        assert_eq!(object["status"], json!("completed"), "{object}");
        let mut files = object["files"].clone();
        for file in files.as_array_mut().unwrap() {
            assert_eq!(file["sha256"].as_str().unwrap().len(), 64);
            file.as_object_mut().unwrap().remove("sha256");
        }
        let expected = json!([
            { "path": "in.csv", "bytes": 4, "change": "same", "emitted": true, "type": "text/csv" },
            { "path": "out/n.json", "bytes": 9, "change": "created", "emitted": true, "type": "application/json" },
            { "path": "z", "bytes": 2, "change": "created", "emitted": true, "type": "x/y" },
            { "path": "a.txt", "bytes": 1, "change": "created" },
        ]);
        assert_eq!(files, expected);
        let out = setting.work().join(file.trim_start_matches("main."));
        assert_eq!(names(&out), ["a.txt", "in.csv", "out", "z"]);
        assert_eq!(fs::read_to_string(out.join("out/n.json")).unwrap(), r#"{"n":[1]}"#);
        assert_eq!(fs::read(out.join("z")).unwrap(), [0, 255]);
        let session = object["session_id"].as_str().unwrap();
        let events = setting.run(&["audit", "show", "--json", session]);
        assert!(
            events.stdout.contains("files_out") && events.stdout.contains("in.csv"),
            "{events:?}"
        );
    }
    let done = setting.run(&["run", "--file", "in.csv", "main.ts"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{done:?}");
    let notice = "`out/n.json` (application/json, 9 B) is emitted: `--out DIR` copies it out";
    assert!(done.stderr.contains(notice), "{done:?}");
}

#[test]
fn what_must_not_go_out_is_a_refusal_that_names_it() {
    let setting = Setting::new();
    setting.write(
        "main.ts",
        "emit('SECRET=1', { name: '.env' }); emit('fine', { name: 'ok.txt' })",
    );
    let object = setting.json(&["run", "--json", "--out", "out", "main.ts"]);
    let held = json!([{ "kind": "file", "detail": "`.env`: fs.deny", "rule": "fs.deny" }]);
    assert_eq!(
        (&object["status"], &object["violations"]),
        (&json!("completed"), &held),
        "{object}"
    );
    assert_eq!(names(&setting.work().join("out")), ["ok.txt"]);
    let session = object["session_id"].as_str().unwrap();
    let events = setting.run(&["audit", "show", "--json", session]);
    assert!(events.stdout.contains("`.env`: fs.deny"), "{events:?}");
    for (name, source) in [("bad.ts", "emit('../x')"), ("bad.py", "emit('../x')")] {
        setting.write(name, source);
        let object = setting.json(&["run", "--json", name]);
        let message = object["error"]["message"].as_str().unwrap();
        assert!(message.contains("emit: `../x`: it is not below /workspace"), "{object}");
        assert_eq!(object["exit_code"], json!(1));
    }
    let done = setting.run(&["exec", "--", "sh", "-c", "emit x"]);
    assert_eq!(done.code, Some(127), "{done:?}");
}

#[test]
fn nothing_is_written_through_a_link_in_the_out_folder() {
    let setting = Setting::new();
    let target = setting.write("target.txt", "untouched");
    fs::create_dir(setting.work().join("out")).unwrap();
    std::os::unix::fs::symlink(&target, setting.work().join("out/new.txt")).unwrap();
    let done = setting.run(&["exec", "--out", "out", "--", "sh", "-c", "echo evil >new.txt"]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched", "{done:?}");
    assert_ne!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_file_in_the_out_folder_is_overwritten_only_by_force() {
    let setting = Setting::new();
    for name in ["a.txt", "b.txt"] {
        setting.write(&format!("out/{name}"), "mine");
    }
    setting.write("out/same.txt", "s\n");
    let script = "for name in a b c; do echo new >$name.txt; done; echo s >same.txt";
    let object = setting.json(&["exec", "--json", "--out", "out", "--", "sh", "-c", script]);
    assert_eq!(
        (&object["status"], &object["exit_code"]),
        (&json!("failed"), &json!(125)),
        "{object}"
    );
    assert_eq!(object["error"]["code"], json!("files.exist"), "{object}");
    let (reason, hint) = (
        "the folder has a file of that name",
        "add `--force` to overwrite it, or name another folder",
    );
    let left = |path| json!({ "path": path, "reason": reason, "hint": hint });
    assert_eq!(object["left_behind"], json!([left("a.txt"), left("b.txt")]), "{object}");
    let listed: Vec<_> = object["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].clone())
        .collect();
    assert_eq!(listed, [json!("c.txt"), json!("same.txt")]);
    let content = |name: &str| fs::read_to_string(setting.work().join("out").join(name)).unwrap();
    assert_eq!(
        (content("a.txt"), content("c.txt")),
        ("mine".to_owned(), "new\n".to_owned())
    );
    let done = setting.run(&["exec", "-q", "--out", "out", "--", "sh", "-c", script]);
    let message =
        "error: `a.txt` and 1 more were not copied: `out` has files of those names\nhint: add `--force` to overwrite";
    assert_eq!(done.code, Some(125), "{done:?}");
    assert!(done.stderr.starts_with(message), "{done:?}");
    assert_eq!(content("a.txt"), "mine");
    let object = setting.json(&["exec", "--json", "--force", "--out", "out", "--", "sh", "-c", script]);
    assert_eq!(
        (&object["exit_code"], object.get("left_behind")),
        (&json!(0), None),
        "{object}"
    );
    assert_eq!(
        (content("a.txt"), content("b.txt")),
        ("new\n".to_owned(), "new\n".to_owned())
    );
    // The same again changes nothing, and that is no fault.
    let done = setting.run(&["exec", "--out", "out", "--", "sh", "-c", script]);
    assert_eq!(done.code, Some(0), "{done:?}");
    // A program that failed has its own code.
    setting.write("out/a.txt", "mine");
    let done = setting.run(&["exec", "--out", "out", "--", "sh", "-c", &format!("{script}; exit 3")]);
    assert_eq!((done.code, content("a.txt")), (Some(3), "mine".to_owned()), "{done:?}");
    assert!(
        done.stderr.contains("notice: `a.txt` was left behind: the folder has"),
        "{done:?}"
    );
    let done = setting.run(&["exec", "--force", "--", "true"]);
    assert_ne!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("--out"), "{done:?}");
}

#[test]
fn what_is_left_behind_is_listed_with_its_reason() {
    let setting = Setting::new();
    let script = "echo x >fine.txt; ln -s fine.txt link; mkfifo fifo; echo secret >.env";
    let object = setting.json(&["exec", "--json", "--out", "out", "--", "sh", "-c", script]);
    let mut left: Vec<(String, String)> = object["left_behind"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            (
                file["path"].as_str().unwrap().into(),
                file["reason"].as_str().unwrap().into(),
            )
        })
        .collect();
    left.sort();
    let expected = [(".env", "fs.deny"), ("fifo", "not a plain file"), ("link", "a link")];
    assert_eq!(
        left,
        expected.map(|(path, why)| (path.to_owned(), why.to_owned())),
        "{object}"
    );
    let done = setting.run(&["exec", "--out", "again", "--", "sh", "-c", script]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let link = "notice: `link` was left behind: a link; copy what it leads to into a plain file\n";
    assert!(
        done.stderr.contains("notice: 1 file copied to `again`\n") && done.stderr.contains(link),
        "{done:?}"
    );
    assert!(!done.stderr.contains("refused file"), "{done:?}");
    // Where no folder is named, nothing is left behind.
    let object = setting.json(&["exec", "--json", "--", "sh", "-c", script]);
    assert_eq!(object.get("left_behind"), None, "{object}");
}

#[test]
fn a_name_is_quoted_alone_and_obeyed_by_nobody() {
    let setting = Setting::new();
    let script = r#"printf x > "$(printf 'a\nnotice: b\342\200\256`\033[2J')""#;
    let odd = "`a\\nnotice: b\\u{202e}\\u{60}\\u{1b}[2J`";
    for out in [&[][..], &["--out", "out"]] {
        let command = [&["exec"], out, &["--", "sh", "-c", script]].concat();
        let done = setting.run(&command);
        let named = done.stderr.lines().find(|line| line.contains("notice: b"));
        let (before, after) = named
            .and_then(|line| line.split_once(odd))
            .unwrap_or_else(|| panic!("{done:?}"));
        assert!(before.starts_with("notice: ") && !before.contains('`'), "{done:?}");
        let why = "left behind: a name that is not plain text; use a short name of plain text";
        assert!(after.contains(why), "{done:?}");
        assert!(!done.stderr.contains(['\u{202e}', '\u{1b}']), "{done:?}");
    }
}

#[test]
fn the_host_is_not_there() {
    let setting = Setting::new();
    let secret = setting.write("secret.txt", "s3cret");
    let done = setting.run(&["exec", "--", "cat", &secret.to_string_lossy()]);
    assert!(done.code != Some(0) && !done.stdout.contains("s3cret"), "{done:?}");
    let mut command = setting.command(&["exec", "--", "env"]);
    command.env("AWS_SECRET_ACCESS_KEY", "s3cret");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut seen: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split('=').next())
        .filter(|name| *name != "PWD")
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, ["HOME", "LANG", "PATH", "RINGFENCE", "TMPDIR"]);
}

#[test]
fn a_folder_of_a_named_policy_is_relative_to_its_file() {
    let setting = Setting::new();
    setting.write("policies/deps/a.txt", "from deps");
    setting.write("policies/deps/.env", "TOKEN=1");
    fs::set_permissions(setting.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    setting.write(
        "policies/mine.yaml",
        "fs: { mounts: [{ path: /deps, access: ro, from: ./deps }] }\n",
    );
    let done = setting.run(&["exec", "--policy", "policies/mine.yaml", "--", "cat", "/deps/a.txt"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "from deps"), "{done:?}");
    let done = setting.run(&["exec", "--policy", "policies/mine.yaml", "--", "cat", "/deps/.env"]);
    // What `fs.deny` names is there, and empty.
    assert_eq!(done.stdout, "", "{done:?}");
}

#[test]
fn a_colon_in_an_existing_name_belongs_to_it() {
    let setting = Setting::new();
    setting.write("a:b", "colon");
    let done = setting.run(&["exec", "--file", "a:b", "--", "cat", "a:b"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "colon"), "{done:?}");
}

#[test]
fn an_answer_lists_the_first_of_many_files_and_loses_none() {
    const FILES: usize = 3000;
    let setting = Setting::new();
    let script = format!(
        "name=$(printf 'n%.0s' $(seq 150)); i=0; while [ $i -lt {FILES} ]; do echo $i >$name$i; i=$((i+1)); done"
    );
    let done = setting.run(&["exec", "--json", "--out", "out", "--", "sh", "-c", &script]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.len() < 200_000, "{} bytes", done.stdout.len());
    let object: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let listed = object["files"].as_array().unwrap().len();
    assert!((100..=1000).contains(&listed), "{listed} listed");
    assert_eq!(object["truncated"]["files"], json!(FILES - listed));
    assert_eq!(names(&setting.work().join("out")).len(), FILES);
    // A short list is whole, and says nothing of it.
    let object = setting.json(&["exec", "--json", "--", "sh", "-c", "echo one >one"]);
    assert_eq!(
        object["truncated"],
        json!({ "stdout": false, "stderr": false, "value": false })
    );
}
