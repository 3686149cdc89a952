//! Files that go in and come out, and what must not.

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
