//! Programs in every language, the values they return, and how these are printed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::setting::{Done, Setting};

fn check(done: &Done, code: i32, stdout: &str) {
    assert_eq!((done.code, done.stdout.as_str()), (Some(code), stdout), "{done:?}");
}

#[test]
fn typescript_filters_and_groups_twenty_megabytes_of_json() {
    let setting = Setting::new();
    let mut sales = String::from("[");
    let mut total = 0_u64;
    for number in 0..250_000_u64 {
        let region = ["north", "south", "west"][usize::try_from(number % 3).unwrap()];
        let amount = number * 7 % 100;
        total += if number % 3 == 0 && amount >= 50 { amount } else { 0 };
        let comma = if number == 0 { "" } else { "," };
        sales.extend([format!(
            r#"{comma}{{"id":{number},"region":"{region}","amount":{amount},"note":"a note that makes the file longer"}}"#
        )]);
    }
    sales.push(']');
    assert!(sales.len() > 20_000_000, "{}", sales.len());
    let data = setting.write("sales.json", &sales);
    let program = r#"
        type Sale = { region: string; amount: number };
        const sales: Sale[] = JSON.parse(files.read("input/sales.json"));
        const sums: Record<string, number> = {};
        for (const { region, amount } of sales.filter(sale => sale.amount >= 50)) {
            sums[region] = (sums[region] ?? 0) + amount;
        }
        console.log(sales.length);
        ({ north: sums.north });
    "#;
    setting.write("group.ts", program);
    let input = format!("{}:input/sales.json", data.display());
    let done = setting.run(&["run", "group.ts", "--file", &input]);
    check(&done, 0, &format!("250000\n{{\"north\":{total}}}\n"));
}

#[test]
fn python_with_a_class_a_generator_and_csv() {
    let setting = Setting::new();
    setting.write("people.csv", "name,age\nAda,36\nGrace,45\nAlan,41\n");
    let program = "import csv\n\nclass Person:\n    def __init__(self, name, age):\n        self.name, self.age = name, int(age)\n\n\
        def people(path):\n    with open(path, newline='') as file:\n        for row in csv.DictReader(file):\n            yield Person(**row)\n\n\
        old = [p for p in people('people.csv') if p.age > 40]\nprint(len(old))\n{'names': [p.name for p in old], 'sum': sum(p.age for p in old)}\n";
    setting.write("people.py", program);
    let done = setting.run(&["run", "people.py", "--file", "people.csv"]);
    check(&done, 0, "2\n{\"names\":[\"Grace\",\"Alan\"],\"sum\":86}\n");
}

#[test]
fn a_virtual_environment_can_be_the_python() {
    let setting = Setting::new();
    // Below `/tmp`, which is the sandbox's own inside: its folder is shown there all the same.
    fs::set_permissions(setting.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let venv = setting.path("venv");
    let made = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&venv)
        .status()
        .unwrap();
    assert!(made.success());
    let python = venv.join("bin/python3");
    setting.write(
        "ringfence.yaml",
        format!("runtimes: {{ python: {} }}\n", python.display()),
    );
    setting.write("who.py", "import sys, json\nsys.executable\n");
    let done = setting.run(&["run", "who.py", "--config", "ringfence.yaml"]);
    check(&done, 0, &format!("\"{}\"\n", python.display()));
}

#[test]
fn a_missing_python_stops_only_python() {
    let setting = Setting::new();
    setting.write("ringfence.yaml", "runtimes: { python: /nowhere/python3 }\n");
    setting.write("one.ts", "1 + 1");
    setting.write("one.py", "1 + 1");
    check(&setting.run(&["run", "one.ts", "--config", "ringfence.yaml"]), 0, "2\n");
    check(
        &setting.run(&["exec", "--config", "ringfence.yaml", "--", "echo", "here"]),
        0,
        "here\n",
    );
    let refused = setting.run(&["run", "one.py", "--config", "ringfence.yaml"]);
    assert_eq!(refused.code, Some(127), "{refused:?}");
    assert!(
        refused.stderr.contains("cannot use `/nowhere/python3` as Python")
            && refused.stderr.contains("`runtimes.python`"),
        "{refused:?}"
    );
}

#[test]
fn any_program_runs_confined() {
    let setting = Setting::new();
    let done = setting.run(&["exec", "--", "git", "--version"]);
    assert!(
        done.code == Some(0) && done.stdout.starts_with("git version "),
        "{done:?}"
    );
    let done = setting.run(&["exec", "sh", "-c", "echo $0 $1 >&2; exit 3", "zero", "--json"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(3), "zero --json\n"));
    check(&setting.run(&["exec", "--", "id", "-u"]), 0, "1000\n");
    check(&setting.run(&["exec", "--", "ls", "/home"]), 2, "");
}

#[test]
fn a_shell_pipeline_reads_what_the_caller_gives() {
    let setting = Setting::new();
    setting.write(
        "count.sh",
        "grep -v '^#' | cut -d, -f2 | sort | uniq -c | sort -rn | awk '{print $2 \"=\" $1}'\n",
    );
    let done = setting.run_with(&["run", "count.sh"], b"# comment\n1,b\n2,a\n3,b\n");
    check(&done, 0, "b=2\na=1\n");
    let megabyte = vec![b'x'; 1 << 20];
    check(
        &setting.run_with(&["exec", "--", "wc", "-c"], &megabyte),
        0,
        "1048576\n",
    );
}

#[test]
fn a_program_from_standard_input_needs_its_language_and_takes_arguments() {
    let setting = Setting::new();
    let done = setting.run_with(&["run", "-", "--lang", "ts", "--", "a", "--b"], b"args");
    check(&done, 0, "[\"a\",\"--b\"]\n");
    let done = setting.run_with(&["run", "-"], b"1");
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("hint: add `--lang ts`"), "{}", done.stderr);
}

#[test]
fn a_value_stands_on_a_line_of_its_own_and_null_is_not_printed() {
    let setting = Setting::new();
    let cases = [
        ("1 + 1", "2\n"),
        ("undefined", ""),
        ("null", ""),
        ("console.log('x')", "x\n"),
        (
            "console.log('x'); ({b: 1, a: [1, 'two']})",
            "x\n{\"b\":1,\"a\":[1,\"two\"]}\n",
        ),
    ];
    for (source, expected) in cases {
        check(
            &setting.run_with(&["run", "-", "--lang", "js"], source.as_bytes()),
            0,
            expected,
        );
    }
    let done = setting.run_with(
        &["run", "-", "--lang", "python"],
        b"print('x', end='')\n12345678901234567890123",
    );
    check(&done, 0, "x\n12345678901234567890123\n");
}

#[test]
fn bytes_pass_unchanged_where_nobody_watches() {
    let setting = Setting::new();
    let mut command = setting.command(&["exec", "--", "printf", r"\033]52;c;aGk=\007\377\200"]);
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"\x1b]52;c;aGk=\x07\xff\x80");
}

#[test]
fn json_is_one_object_of_the_promised_shape() {
    let setting = Setting::new();
    setting.write("a.ts", "console.log('out'); console.error('err'); ({ a: 1 })");
    let done = setting.run(&["run", "a.ts", "--json"]);
    assert_eq!(done.stdout.lines().count(), 1, "{done:?}");
    let object: Value = serde_json::from_str(&done.stdout).unwrap();
    let keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    let promised = [
        "execution_id",
        "session_id",
        "status",
        "exit_code",
        "value",
        "stdout",
        "stderr",
        "error",
        "diagnostics",
        "calls",
        "files",
        "violations",
        "truncated",
        "usage",
        "tokens",
        "enforcement",
        "policy",
    ];
    assert_eq!(keys, promised);
    assert_eq!(object["value"], json!({ "a": 1 }));
    assert_eq!(
        (&object["stdout"], &object["stderr"]),
        (&json!("out\n"), &json!("err\n"))
    );
    assert_eq!(
        (&object["status"], &object["exit_code"]),
        (&json!("completed"), &json!(0))
    );
    // Also where there is no execution: a program that reads it finds the same keys.
    let refused = setting.json(&["run", "a.ts", "--json", "--set", "proc.mem_limt=1"]);
    let keys: Vec<&str> = refused.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, promised);
    assert_eq!(
        (&refused["status"], &refused["exit_code"]),
        (&json!("refused"), &json!(126))
    );
}

#[test]
fn errors_name_file_and_line_and_keep_the_output() {
    let setting = Setting::new();
    setting.write("bad.ts", "let a = 1;\nlet b: = 3;\n");
    let done = setting.run(&["run", "bad.ts"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("error: bad.ts:2:"), "{}", done.stderr);
    setting.write(
        "throws.ts",
        "console.log('before');\nconst f = (): never => { throw new Error('boom'); };\nf();\n",
    );
    let done = setting.run(&["run", "throws.ts"]);
    check(&done, 1, "before\n");
    assert!(done.stderr.contains("error: throws.ts:2:"), "{}", done.stderr);
    let failed = setting.json(&["run", "throws.ts", "--json"]);
    assert_eq!(
        (&failed["status"], &failed["stdout"]),
        (&json!("failed"), &json!("before\n"))
    );
    let done = setting.run(&["exec", "--", "no-such-program"]);
    assert_eq!(done.code, Some(127));
    assert!(done.stderr.contains("no-such-program"), "{}", done.stderr);
}

#[test]
fn a_script_for_bash_is_run_by_bash_or_not_at_all() {
    if !std::path::Path::new("/usr/bin/bash").exists() {
        println!("SKIPPED: this machine has no bash");
        return;
    }
    let setting = Setting::new();
    let which = "[ -n \"$BASH_VERSION\" ] && echo bash || echo other\n";
    setting.write("a.sh", which);
    setting.write("a.bash", which);
    setting.write("first.sh", format!("#!/usr/bin/env bash\n{which}"));
    check(&setting.run(&["run", "a.bash"]), 0, "bash\n");
    check(&setting.run(&["run", "first.sh"]), 0, "bash\n");
    check(&setting.run(&["run", "a.sh", "--lang", "bash"]), 0, "bash\n");
    check(
        &setting.run_with(&["run", "-", "--lang", "bash"], which.as_bytes()),
        0,
        "bash\n",
    );
    // Where there is none it is refused, and no other shell takes its place.
    let done = setting.run(&["run", "a.bash", "--set", "env={PATH: /nowhere}"]);
    check(&done, 127, "");
    let says = "the script is for `bash`, which this machine does not have";
    assert!(done.stderr.contains(says) && done.stderr.contains("hint: "), "{done:?}");
}
