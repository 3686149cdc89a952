//! Skills on the command line: saved, promoted from a run, listed, shown, imported and exported.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::setting::{Done, Setting, program};

const PROGRAM: &str = "export default async function (input: { n: number }) { return input.n + 1 }\n";

fn good(done: &Done) -> &str {
    assert_eq!(done.code, Some(0), "{done:?}");
    done.stdout.as_str()
}

#[track_caller]
fn refused(setting: &Setting, args: &[&str], words: &str) {
    let done = setting.run(args);
    assert_eq!(done.code, Some(1), "{args:?}: {done:?}");
    assert!(done.stderr.contains(words), "{args:?}: {}", done.stderr);
}

fn saved(setting: &Setting) {
    setting.write("add.ts", PROGRAM);
    setting.write("rates.csv", "a,b\n");
    setting.write(
        "in.json",
        r#"{"type": "object", "properties": {"n": {"type": "number"}}}"#,
    );
    setting.write("out.json", r#"{"type": "number"}"#);
    let args = [
        "skills",
        "save",
        "add-one",
        "--file",
        "add.ts",
        "--description",
        "Adds one to a number.",
        "--with",
        "rates.csv:data/rates.csv",
        "--inputs",
        "in.json",
        "--outputs",
        "out.json",
    ];
    assert_eq!(good(&setting.run(&args)), "add-one  version 1  (user)\n");
}

/// A kept version's folder.
fn folder(setting: &Setting, name: &str, version: u32) -> PathBuf {
    let users = fs::read_dir(setting.home().join("skills/user")).unwrap();
    let user = users.map(|entry| entry.unwrap().path()).next().unwrap();
    user.join(name).join(version.to_string())
}

#[test]
fn a_program_is_saved_listed_shown_and_removed() {
    let setting = Setting::new();
    let none = setting.run(&["skills", "list"]);
    assert_eq!(good(&none), "");
    assert!(none.stderr.contains("there are no skills yet"), "{none:?}");
    assert_eq!(setting.json(&["skills", "list", "--json"]), json!([]));
    saved(&setting);
    let listed = setting.run(&["skills", "list"]);
    assert!(good(&listed).contains("Adds one to a number."), "{listed:?}");
    let shown = setting.json(&["skills", "show", "add_one", "--json"]);
    assert_eq!(shown["name"], "add-one");
    assert_eq!(shown["call"], "skills.add_one");
    assert_eq!((&shown["version"], &shown["scope"]), (&json!(1), &json!("user")));
    assert_eq!(
        (&shown["source"], &shown["language"]),
        (&json!(PROGRAM), &json!("typescript"))
    );
    assert_eq!(shown["files"], json!([{"path": "data/rates.csv", "bytes": 4}]));
    assert_eq!(shown["outputs"], json!({"type": "number"}));
    let words = setting.run(&["skills", "show", "add-one"]);
    assert!(
        good(&words).contains("skills.add_one(…)") && words.stdout.contains("input.n + 1"),
        "{words:?}"
    );
    // The same again is the same version; another program is the next.
    saved(&setting);
    setting.write("add.py", "def main(n):\n    return n + 1\n");
    let save = [
        "skills",
        "save",
        "add-one",
        "--file",
        "add.py",
        "--description",
        "Adds one.",
    ];
    assert_eq!(good(&setting.run(&save)), "add-one  version 2  (user)\n");
    assert_eq!(
        setting.json(&["skills", "show", "add-one", "--json"])["versions"],
        json!([1, 2])
    );
    let first = setting.json(&["skills", "show", "add-one", "--version", "1", "--json"]);
    assert_eq!(first["source"], PROGRAM);
    refused(
        &setting,
        &["skills", "show", "add-one", "--version", "7"],
        "there is no skill `add-one` version `7`",
    );
    assert!(good(&setting.run(&["skills", "rm", "add-one"])).contains("2 versions"));
    refused(&setting, &["skills", "rm", "add-one"], "there is no skill `add-one`");
    assert_eq!(setting.json(&["skills", "list", "--json"]), json!([]));
}

#[test]
fn a_skill_is_run_with_an_input() {
    let setting = Setting::new();
    saved(&setting);
    let value = |args: &[&str]| setting.json(&[&["skills", "run", "add-one"], args, &["--json"]].concat());
    let ran = value(&[r#"{"n": 4}"#]);
    assert_eq!(
        (&ran["status"], &ran["value"]),
        (&json!("completed"), &json!(5)),
        "{ran:#}"
    );
    assert_eq!(good(&setting.run(&["skills", "run", "add-one", r#"{"n": 1}"#])), "2\n");
    setting.write("four.json", r#"{"n": 4, "__proto__": {"n": 1}}"#);
    assert_eq!(value(&["@four.json"])["value"], 5);
    // An input that does not match the schema fails in the skill; one that is not JSON is refused before anything runs.
    let wrong = setting.run(&["skills", "run", "add-one", r#"{"n": "four"}"#, "--json"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stdout.contains("tool.arguments"), "{wrong:?}");
    let usage = setting.run(&["skills", "run", "add-one", "{n: 4}"]);
    assert_eq!(usage.code, Some(2), "{usage:?}");
    assert!(
        usage.stderr.contains("no JSON") && usage.stderr.contains("@input.json"),
        "{usage:?}"
    );
    refused(&setting, &["skills", "run", "add-two"], "add-two");
}

#[test]
fn a_function_that_was_run_becomes_a_skill() {
    let setting = Setting::new();
    setting.write("add.ts", PROGRAM);
    let ran = setting.json(&["run", "add.ts", "--json"]);
    assert_eq!(ran["status"], "completed", "{ran:#}");
    let id = ran["execution_id"].as_str().unwrap();
    let save = ["skills", "save", "add", "--from-run", id, "--description", "Adds one."];
    good(&setting.run(&save));
    assert_eq!(good(&setting.run(&["skills", "run", "add", r#"{"n": 6}"#])), "7\n");
}

#[test]
fn a_skill_goes_to_another_machine_as_a_folder_or_an_archive() {
    let (here, there) = (Setting::new(), Setting::new());
    saved(&here);
    let mut digests = vec![here.json(&["skills", "show", "add-one", "--json"])["digest"].clone()];
    for to in ["out.tar.gz", "out.zip", "folder"] {
        let place = there.work().join(to);
        let place = place.to_str().unwrap();
        good(&here.run(&["skills", "export", "add-one", place]));
        let imported = there.json(&["skills", "import", to, "--scope", "team", "--json"]);
        assert_eq!(
            (&imported["scope"], &imported["version"]),
            (&json!("team"), &json!(1)),
            "{imported}"
        );
        digests.push(imported["digest"].clone());
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    assert!(there.work().join("folder/SKILL.md").is_file());
    refused(
        &here,
        &[
            "skills",
            "export",
            "add-one",
            there.work().join("out.zip").to_str().unwrap(),
        ],
        "file exists",
    );
    // Other people's tools read what we write.
    let tar = Command::new("tar")
        .args(["-tzf", "out.tar.gz"])
        .current_dir(there.work())
        .output()
        .unwrap();
    let names = String::from_utf8(tar.stdout).unwrap();
    assert!(names.contains("add-one/files/data/rates.csv\n"), "{names}");
}

#[test]
fn archives_of_other_peoples_tools_are_taken_in_and_hostile_ones_refused() {
    let setting = Setting::new();
    setting.write(
        "sum/SKILL.md",
        "---\nname: sum\ndescription: Adds.\nlicense: MIT\n---\n# Use it\n",
    );
    setting.write("sum/scripts/run.py", "1 + 1\n");
    let tar = |args: &[&str]| {
        let done = Command::new("tar")
            .args(args)
            .current_dir(setting.work())
            .status()
            .unwrap();
        assert!(done.success());
    };
    tar(&["-czf", "good.tar.gz", "sum"]);
    refused(&setting, &["skills", "import", "good.tar.gz"], "--program PATH");
    let imported = setting.json(&[
        "skills",
        "import",
        "good.tar.gz",
        "--program",
        "scripts/run.py",
        "--json",
    ]);
    assert_eq!(
        (&imported["name"], &imported["language"]),
        (&json!("sum"), &json!("python"))
    );
    setting.write("sum/program.sh", "echo 1\n");
    good(&setting.run(&["skills", "import", "sum"]));
    std::os::unix::fs::symlink("/etc/passwd", setting.work().join("sum/evil")).unwrap();
    tar(&["-czf", "link.tar.gz", "sum"]);
    tar(&[
        "-czf",
        "up.tar.gz",
        "--transform",
        "s,^sum/program.sh,../../evil,",
        "--absolute-names",
        "sum",
    ]);
    for evil in ["sum", "link.tar.gz", "up.tar.gz"] {
        refused(&setting, &["skills", "import", evil], "is not imported");
    }
    assert!(!setting.path("evil").exists());
    setting.write("text.zip", "no archive");
    refused(
        &setting,
        &["skills", "import", "text.zip"],
        "neither a `.tar.gz` nor a `.zip`",
    );
    refused(&setting, &["skills", "import", "nowhere"], "no such file or folder");
}

#[test]
fn what_was_changed_by_hand_is_marked_and_not_given() {
    let setting = Setting::new();
    saved(&setting);
    let at = folder(&setting, "add-one", 1);
    fs::set_permissions(&at, fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_file(at.join("program.ts")).unwrap();
    fs::write(at.join("program.ts"), "evil()").unwrap();
    refused(&setting, &["skills", "show", "add-one"], "`program.ts` was changed");
    refused(
        &setting,
        &["skills", "export", "add-one", "x.zip"],
        "is not as it was saved",
    );
    fs::remove_file(at.join("SKILL.md")).unwrap();
    let listed = setting.run(&["skills", "list"]);
    assert!(good(&listed).contains("damaged"), "{listed:?}");
    assert!(setting.json(&["skills", "list", "--json"])[0]["damaged"].is_string());
    good(&setting.run(&["skills", "rm", "add-one"]));
}

#[test]
fn what_is_no_skill_is_said() {
    let setting = Setting::new();
    setting.write("a.ts", "1");
    setting.write("a.txt", "1");
    setting.write("bad.json", "{");
    setting.write("big.ts", "/".repeat(2 << 20));
    let long = "x".repeat(1025);
    let save = |name: &'static str, file: &'static str, more: &[&'static str]| {
        let mut args = vec!["skills", "save", name, "--file", file];
        args.extend(more);
        if !more.contains(&"--description") {
            args.extend(["--description", "Does."]);
        }
        args
    };
    refused(&setting, &save("Bad Name", "a.ts", &[]), "no name of a skill");
    refused(&setting, &save("../up", "a.ts", &[]), "no name of a skill");
    refused(&setting, &save("a", "a.txt", &[]), "does not say its language");
    refused(&setting, &save("a", "none.ts", &[]), "no such file");
    refused(&setting, &save("a", "big.ts", &[]), "the most is 1048576");
    refused(&setting, &save("a", "a.ts", &["--inputs", "bad.json"]), "is no JSON");
    refused(
        &setting,
        &save("a", "a.ts", &["--tool", "crm.never"]),
        "was never called here",
    );
    refused(
        &setting,
        &save("a", "a.ts", &["--with", "a.ts:../up"]),
        "--with LOCAL:NAME",
    );
    refused(&setting, &save("a", "a.ts", &["--description", ""]), "1 to 1024");
    refused(
        &setting,
        &["skills", "save", "a", "--file", "a.ts", "--description", &long],
        "1 to 1024",
    );
    refused(
        &setting,
        &["skills", "show", "none"],
        "`ringfence skills list` shows the names",
    );
    refused(
        &setting,
        &["skills", "list", "--session", "none"],
        "`none` is not a session id",
    );
    let usage = setting.run(&["skills", "save", "a", "--description", "Does."]);
    assert_eq!(usage.code, Some(2), "{usage:?}");
    assert_eq!(setting.json(&["skills", "list", "--json"]), json!([]));
}

#[test]
fn a_schema_that_nothing_can_be_checked_by_is_refused_on_every_road() {
    let setting = Setting::new();
    setting.write("a.ts", "1");
    setting.write("list.json", "[]");
    setting.write("text.json", r#"{"type": "string"}"#);
    let save = |more: &[&'static str]| {
        let args = ["skills", "save", "a", "--file", "a.ts", "--description", "Does."];
        [&args[..], more].concat()
    };
    refused(
        &setting,
        &save(&["--outputs", "list.json"]),
        "`outputs` is no usable JSON Schema: it is no object",
    );
    refused(
        &setting,
        &save(&["--inputs", "text.json"]),
        "`inputs` is no usable JSON Schema: a skill takes one object",
    );
    setting.write(
        "broken/SKILL.md",
        "---\nname: broken\ndescription: Does.\nmetadata:\n  ringfence-inputs:\n    properties: { a: { pattern: \"(\" } }\n---\n",
    );
    setting.write("broken/program.ts", "1");
    refused(
        &setting,
        &["skills", "import", "broken"],
        "`inputs` is no usable JSON Schema",
    );
    assert_eq!(setting.json(&["skills", "list", "--json"]), json!([]));
}

/// A tool server that can be changed, and a policy that allows it.
fn with_tools() -> Setting {
    let setting = Setting::new();
    fs::set_permissions(setting.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let servers = json!({ "mcpServers": { "company": { "command": program(), "args": ["company"] } } });
    setting.write("servers.json", servers.to_string());
    setting.write(
        "policy.yaml",
        "version: 1\ntools:\n  rules:\n    - { allow: 'company.list_*' }\n    - { deny: 'company.delete_*' }\n",
    );
    setting
}

fn run(setting: &Setting, file: &str, source: &str, more: &[&str]) -> Value {
    setting.write(file, source);
    let mut args = vec![
        "run",
        file,
        "--json",
        "--servers",
        "servers.json",
        "--policy",
        "policy.yaml",
    ];
    args.extend(more);
    setting.json(&args)
}

#[test]
fn a_past_run_becomes_a_skill_in_one_command() {
    let setting = with_tools();
    setting.write("rates.csv", "a,b\n");
    let source = "const t = tools as any; const found = await t.company.list_orders({});\n\
                  const no = await t.company.delete_customer({ id: 'C-1' }).catch((e: any) => e.code);\n\
                  ({ no, n: Array.isArray(found) ? found.length : 1 })";
    let done = run(&setting, "a.ts", source, &["--file", "rates.csv"]);
    assert_eq!(done["status"], "completed", "{done:#}");
    let id = done["execution_id"].as_str().unwrap();
    let save = [
        "skills",
        "save",
        "orders",
        "--from-run",
        id,
        "--description",
        "Counts orders.",
        "--scope",
        "team",
    ];
    assert_eq!(good(&setting.run(&save)), "orders  version 1  (team)\n");
    let shown = setting.json(&["skills", "show", "orders", "--json"]);
    assert_eq!(shown["source"], source);
    assert_eq!(shown["files"], json!([{"path": "rates.csv", "bytes": 4}]));
    assert_eq!(shown["policy"], done["policy"]["digest"]);
    // The tools that answered, as they are pinned; not the one that was refused.
    let pins: Value = serde_json::from_slice(&fs::read(setting.home().join("catalog/pins.json")).unwrap()).unwrap();
    let digest = &pins["tools"]["company.list_orders"]["digest"];
    assert_eq!(
        shown["tools"],
        json!([{"name": "company.list_orders", "digest": digest}])
    );
    assert_eq!(shown["changed_tools"], json!([]));

    // The tool is accepted as another one later: the skill is marked, and the run is no longer promoted.
    let mut pins = pins.clone();
    pins["tools"]["company.list_orders"] = json!({"digest": "0".repeat(64), "since": 4_000_000_000_u64});
    fs::write(setting.home().join("catalog/pins.json"), pins.to_string()).unwrap();
    let listed = setting.run(&["skills", "list"]);
    assert!(good(&listed).contains("[changed: company.list_orders]"), "{listed:?}");
    refused(&setting, &save, "was changed after the run");
    fs::remove_file(setting.home().join("catalog/pins.json")).unwrap();
    refused(&setting, &save, "it is not known what `company.list_orders` was like");
}

#[test]
fn personal_data_gets_into_a_skill_by_an_operators_word_only() {
    let setting = with_tools();
    setting.write("people.csv", "name,email\nAnn Lee,ann.lee@example.com\n");
    setting.write("badges.txt", "seen: B-123456\n");
    setting.write("said.txt", "to ‹badge:k7q2mn›\n");
    setting.write("plain.csv", "month,total\n1,12\n");
    setting.write(
        "inputs.json",
        r#"{"type":"object","properties":{"to":{"examples":["bo.ek@example.org"]}}}"#,
    );
    let own = "data.pii.own=[{ name: badge, pattern: 'B-[0-9]{6}' }]";
    let of = |file: &str| {
        let done = run(&setting, "a.ts", "files.list().length", &["--file", file, "--set", own]);
        assert_eq!(done["status"], "completed", "{done:#}");
        done["execution_id"].as_str().unwrap().to_owned()
    };
    let save = |id: &str, more: &[&str]| {
        let args = [
            "skills",
            "save",
            "a",
            "--from-run",
            id,
            "--description",
            "Counts.",
            "--scope",
            "team",
        ];
        setting.run(&[&args[..], more].concat())
    };
    let people = of("people.csv");
    for (id, more, words) in [
        (
            &people,
            &[][..],
            "`people.csv` has personal data or secrets: email, name",
        ),
        (
            &of("badges.txt"),
            &[],
            "`badges.txt` has personal data or secrets: badge",
        ),
        (
            &of("said.txt"),
            &[],
            "`said.txt` has personal data or secrets: aliases of its session",
        ),
        (
            &of("plain.csv"),
            &["--inputs", "inputs.json"],
            "its schema of inputs has personal data or secrets: email",
        ),
    ] {
        let refused = save(id, more);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
        assert!(refused.stderr.contains("--allow-personal-data"), "{refused:?}");
    }
    assert!(!good(&setting.run(&["skills", "list"])).contains("team"));
    assert_eq!(
        good(&save(&people, &["--allow-personal-data"])),
        "a  version 1  (team)\n"
    );
    good(&save(&of("plain.csv"), &[]));
}

#[test]
fn a_run_that_is_not_fit_does_not_become_a_skill() {
    let setting = with_tools();
    let id = |done: &Value| done["execution_id"].as_str().unwrap().to_owned();
    let save = |id: &str, words: &str| {
        refused(
            &setting,
            &["skills", "save", "a", "--from-run", id, "--description", "Does."],
            words,
        );
    };
    save("x", "is not an execution id");
    let failed = run(&setting, "a.ts", "throw new Error('no')", &[]);
    save(&id(&failed), "ended as `failed`");
    save("x_00000000000000000000000000", "nothing is kept of execution");
    let shell = run(&setting, "a.sh", "echo 1", &[]);
    save(&id(&shell), "nothing is kept of execution");
    let alias = run(
        &setting,
        "b.ts",
        "const to = '‹email:k7q2mn›'; 1",
        &["--set", "data.pii.mode=off"],
    );
    save(&id(&alias), "aliases for personal data");
    let own = "const to = '‹badge:k7q2mn›'; 1";
    let own = run(
        &setting,
        "d.ts",
        own,
        &["--set", "data.pii.own=[{ name: badge, pattern: 'B-[0-9]{6}' }]"],
    );
    save(&id(&own), "aliases for personal data");
    let whole = run(&setting, "c.ts", "1", &["--", "word"]);
    let saved = setting.run(&[
        "skills",
        "save",
        "a",
        "--from-run",
        &id(&whole),
        "--description",
        "Does.",
    ]);
    good(&saved);
    assert!(saved.stderr.contains("the run had arguments"), "{saved:?}");
    let session = whole["session_id"].as_str().unwrap();
    good(&setting.run(&["session", "rm", session]));
    save(&id(&whole), "nothing is kept of execution");
}
