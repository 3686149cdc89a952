//! Checks, shows, explains and compares policies, and tests which one is in force.

use serde_json::json;

use crate::setting::Setting;

#[test]
fn check_lists_the_examples_and_what_is_not_built() {
    let setting = Setting::new();
    setting.write(
        "mine.yaml",
        "net: { enabled: true, allowlist: [example.org] }\nfs: { mounts: [{ path: /shared, access: rw, from: /tmp }] }\nexamples:\n  - { host: example.org, expect: allow }\n  - { path: /workspace/a, access: rw, expect: allow }\n",
    );
    let done = setting.run(&["policy", "check", "mine.yaml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        done.stdout,
        "  holds allow host example.org\n  holds allow path /workspace/a for writing\npolicy `mine.yaml` is good: 2 examples checked\n"
    );
    assert_eq!(
        done.stderr,
        "notice: `fs.mounts[/shared].access` needs writable host folders, which this version does not have, so a session with this policy is refused; set `access: ro` and take files out with `--out`\n"
    );
    let object = setting.json(&["policy", "check", "mine.yaml", "--json"]);
    assert_eq!(
        (&object["ok"], &object["unbuilt"][0]["key"]),
        (&json!(true), &json!("fs.mounts[/shared].access"))
    );
}

#[test]
fn check_names_the_place_and_the_nearest_key() {
    let setting = Setting::new();
    let cases = [
        (
            "proc:\n  mem_limt: 1GiB\n",
            "error: mine.yaml:2:3: unknown key `proc.mem_limt`\nhint: did you mean `mem_limit`?\n",
        ),
        (
            "examples:\n  - { host: example.org, expect: allow }\n",
            "error: policy `mine.yaml` does not keep its own examples:\n  `examples[0]` expects allow for host `example.org`, `net.enabled` says deny\nrule: examples\nhint: correct the rule or the example\n",
        ),
    ];
    for (text, expected) in cases {
        setting.write("mine.yaml", text);
        let done = setting.run(&["policy", "check", "mine.yaml"]);
        assert_eq!((done.code, done.stderr.as_str()), (Some(1), expected));
    }
}

#[test]
fn what_is_shown_reads_back_as_the_same_policy() {
    let setting = Setting::new();
    for preset in ["default", "demo"] {
        let done = setting.run(&["policy", "show", "--policy", preset]);
        assert_eq!(done.code, Some(0), "{done:?}");
        for added in [
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "HOME=/workspace",
            "own namespaces: ",
            "net, pid, user",
            "capabilities: none",
            "/usr ",
            "#   net.default: deny\n#   tools.drift: ask\n",
            "#   data.pii           gateway\n#   data.secrets       gateway\n",
        ] {
            assert!(done.stdout.contains(added), "{added}: {}", done.stdout);
        }
        setting.write("shown.yaml", &done.stdout);
        let done = setting.run(&["policy", "diff", preset, "shown.yaml"]);
        assert_eq!(done.stdout, "no difference: both allow the same\n");
    }
    let object = setting.json(&["policy", "show", "--json"]);
    assert_eq!(
        (&object["name"], &object["added"]["env"]["HOME"]),
        (&json!("default"), &json!("/workspace"))
    );
}

#[test]
fn explain_names_the_rule_and_the_next_step() {
    let setting = Setting::new();
    let cases: [(&[&str], &str); 4] = [
        (
            &["--host", "example.org"],
            "host `example.org` port 443 is denied by `net.enabled`\n",
        ),
        (
            &["--path", "/workspace/a", "--write"],
            "path `/workspace/a` is allowed by `fs.mounts[0]`\n",
        ),
        (
            &["--tool", "mail.send", "--args", "{\"to\": 1}"],
            "tool `mail.send` is denied by `tools.default`\n",
        ),
        (&["--limit", "mem_limit"], "`proc.mem_limit` is 512MiB\n"),
    ];
    for (question, expected) in cases {
        let args: Vec<&str> = ["policy", "explain"]
            .into_iter()
            .chain(question.iter().copied())
            .collect();
        let done = setting.run(&args);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(done.stdout.starts_with(expected), "{}", done.stdout);
        let args: Vec<&str> = args.into_iter().chain(["--json"]).collect();
        assert!(expected.starts_with(setting.json(&args)["sentence"].as_str().unwrap()));
    }
    assert_eq!(setting.run(&["policy", "explain"]).code, Some(2));
    assert_eq!(
        setting.run(&["policy", "explain", "--tool", "a.b", "--args", "{"]).code,
        Some(2)
    );
}

#[test]
fn diff_puts_what_is_weaker_first() {
    let setting = Setting::new();
    setting.write("a.yaml", "proc: { mem_limit: 1GiB, fork_limit: 64 }\n");
    setting.write("b.yaml", "proc: { mem_limit: 2GiB, fork_limit: 8 }\n");
    let done = setting.run(&["policy", "diff", "a.yaml", "b.yaml"]);
    let expected =
        "weaker   `proc.mem_limit` changes from 1GiB to 2GiB\nstricter `proc.fork_limit` changes from 64 to 8\n";
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), expected));
}

#[test]
fn the_schema_is_json() {
    let schema = Setting::new().json(&["policy", "schema"]);
    assert_eq!(schema["title"], json!("Ringfence policy"));
}

#[test]
fn a_found_policy_stays_under_the_ceiling() {
    let setting = Setting::new();
    setting.write(
        "sandbox.policy.yaml",
        "proc: { mem_limit: 4GiB, fork_limit: 10 }\nenv: { FOUND: '1' }\n",
    );
    let done = setting.run(&["exec", "--", "true"]);
    let expected = "error: policy `sandbox.policy.yaml` is refused:\n  `proc.mem_limit` asks for 4GiB, the ceiling allows 512MiB\nrule: proc.mem_limit\n";
    assert_eq!(done.code, Some(126));
    assert!(done.stderr.starts_with(expected), "{}", done.stderr);
    // The user's own word, in three ways.
    for flags in [
        &["--set", "proc.mem_limit=4GiB"][..],
        &["--policy", "sandbox.policy.yaml"],
        &["--config", "wide.yaml"],
    ] {
        setting.write("wide.yaml", "ceiling: { proc: { mem_limit: 8GiB } }\n");
        let args: Vec<&str> = ["exec"]
            .iter()
            .chain(flags)
            .chain(&["--", "printenv", "FOUND"])
            .copied()
            .collect();
        let done = setting.run(&args);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(0), "1\n"),
            "{flags:?} {done:?}"
        );
    }
}

#[test]
fn a_found_policy_shows_nothing_outside_its_folder() {
    let setting = Setting::new();
    let outside = setting.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "s3cret").unwrap();
    std::os::unix::fs::symlink(&outside, setting.work().join("link")).unwrap();
    for from in [
        "link",
        "../outside",
        &outside.to_string_lossy(),
        "/",
        "link/../../outside",
    ] {
        setting.write(
            "sandbox.policy.yaml",
            format!("fs: {{ mounts: [{{ path: /deps, access: ro, from: {from} }}] }}\n"),
        );
        let done = setting.run(&["exec", "--", "cat", "/deps/secret"]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(126), ""), "{from}: {done:?}");
        assert!(done.stderr.contains("rule: fs.mounts[/deps].from"), "{}", done.stderr);
    }
}

#[test]
fn what_is_hidden_is_shown_to_nobody_who_names_it() {
    let setting = Setting::new();
    for name in [".ssh/id", "svc/.aws/credentials", ".env", "server.pem", "src/main.py"] {
        setting.write(name, "s3cret");
    }
    for (target, link) in [(".ssh", "keys"), (".env", "settings"), ("svc/.aws", "svc/cloud")] {
        std::os::unix::fs::symlink(setting.work().join(target), setting.work().join(link)).unwrap();
    }
    let names = [
        "./.ssh",
        "./svc/.aws",
        "./.env",
        "./server.pem",
        "keys",
        "settings",
        "svc/cloud",
    ];
    for from in names {
        let mounts = format!("[{{ path: /deps, access: ro, from: {from} }}]");
        setting.write("sandbox.policy.yaml", format!("fs: {{ mounts: {mounts} }}\n"));
        let ceiling = format!(
            "ceiling: {{ fs: {{ mounts: [{{ path: /x, access: ro, from: {} }}] }} }}\n",
            setting.work().display()
        );
        setting.write("wide.yaml", ceiling);
        let set = format!("fs.mounts={mounts}");
        for flags in [
            &[][..],
            &["--config", "wide.yaml"],
            &["--policy", "sandbox.policy.yaml"],
            &["--policy", "default", "--set", &set],
        ] {
            let read = "cat /deps /deps/id /deps/credentials";
            let args: Vec<&str> = ["exec"]
                .iter()
                .chain(flags)
                .chain(&["--", "sh", "-c", read])
                .copied()
                .collect();
            let done = setting.run(&args);
            assert_eq!(
                (done.code, done.stdout.as_str()),
                (Some(126), ""),
                "{from} {flags:?}: {done:?}"
            );
            assert!(
                done.stderr.contains("is hidden by `fs.deny`"),
                "{from} {flags:?}: {}",
                done.stderr
            );
            assert!(
                done.stderr.contains("rule: fs.deny"),
                "{from} {flags:?}: {}",
                done.stderr
            );
        }
    }
    setting.write(
        "sandbox.policy.yaml",
        "fs: { mounts: [{ path: /deps, access: ro, from: . }] }\n",
    );
    let done = setting.run(&["exec", "--", "sh", "-c", "cat /deps/src/main.py; find /deps | sort"]);
    let shown = "s3cret/deps\n/deps/keys\n/deps/sandbox.policy.yaml\n/deps/settings\n/deps/src\n/deps/src/main.py\n/deps/svc\n/deps/svc/cloud\n/deps/wide.yaml\n";
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), shown), "{done:?}");
}

#[test]
fn a_found_configuration_counts_only_when_trusted_as_it_is() {
    let setting = Setting::new();
    setting.write("ringfence.yaml", "policy: { env: { TRUSTED: '1' } }\n");
    let told = |name: &str| {
        let done = setting.run(&["exec", "--", "sh", "-c", "echo ${TRUSTED-no}"]);
        assert_eq!(done.code, Some(0), "{name}: {done:?}");
        (done.stdout.trim().to_owned(), done.stderr)
    };
    let (value, notice) = told("found");
    assert_eq!(value, "no");
    assert!(
        notice.starts_with("notice: `./ringfence.yaml` is ignored: it was found, not chosen;"),
        "{notice}"
    );
    assert_eq!(setting.run(&["trust", "."]).code, Some(0));
    assert_eq!(told("trusted"), ("1".to_owned(), String::new()));
    setting.write("ringfence.yaml", "policy: { env: { TRUSTED: '2' } }\n");
    let (value, notice) = told("changed");
    assert_eq!(value, "no");
    assert!(notice.contains("it changed since it was trusted"), "{notice}");
}

#[test]
fn a_change_of_a_file_that_a_trusted_configuration_names_needs_a_word_again() {
    let setting = Setting::new();
    let document = |title: &str| {
        format!(
            r#"{{"openapi":"3.0.0","info":{{"title":"{title}","version":"1"}},"servers":[{{"url":"https://shop.example"}}],"paths":{{}}}}"#
        )
    };
    let own = |value: &str| format!("env: {{ TRUSTED: '{value}' }}\n");
    setting.write("rules/own.yaml", own("1"));
    std::os::unix::fs::symlink("rules/own.yaml", setting.work().join("linked.yaml")).unwrap();
    setting.write("top.yaml", own("1"));
    setting.write("guest.yaml", "version: 1\n");
    setting.write("shop.json", document("one"));
    setting.write(
        "ringfence.yaml",
        "policy: ./linked.yaml\nceiling: top.yaml\nservers:\n  guest: { command: 'true', policy: guest.yaml }\n  shop: { openapi: ./shop.json }\n",
    );
    let told = || {
        let done = setting.run(&["exec", "--", "sh", "-c", "echo ${TRUSTED-no}"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        (done.stdout.trim().to_owned(), done.stderr)
    };
    let trusted = setting.run(&["trust", "."]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    for name in ["linked.yaml", "top.yaml", "guest.yaml", "shop.json"] {
        assert!(trusted.stdout.contains(&format!("`{name}`")), "{}", trusted.stdout);
    }
    assert_eq!(told(), ("1".to_owned(), String::new()));
    // The list of the version before knew no such files: what it accepted counts no more.
    let list = setting.home().join("trusted.json");
    let kept = std::fs::read(&list).unwrap();
    std::fs::write(&list, r#"{"version":1,"folders":{"/x":"y"}}"#).unwrap();
    assert!(told().1.contains("it was found, not chosen"));
    std::fs::write(&list, kept).unwrap();
    let changes = [
        ("rules/own.yaml", "linked.yaml", own("2")),
        ("top.yaml", "top.yaml", "version: 1\n# other\n".to_owned()),
        ("top.yaml", "top.yaml", "no policy at all".to_owned()),
        (
            "guest.yaml",
            "guest.yaml",
            "version: 1\nnet: { enabled: true }\n".to_owned(),
        ),
        ("shop.json", "shop.json", document("two")),
    ];
    for (file, name, content) in changes {
        let before = std::fs::read(setting.work().join(file)).unwrap();
        setting.write(file, content);
        let (value, notice) = told();
        assert_eq!(value, "no", "{name}");
        let expected =
            format!("notice: `./ringfence.yaml` is ignored: `{name}`, which it names, changed since it was trusted");
        assert!(notice.starts_with(&expected), "{notice}");
        setting.write(file, before);
        assert_eq!(told().0, "1", "{name}");
    }
    std::fs::remove_file(setting.work().join("top.yaml")).unwrap();
    assert!(told().1.contains("`top.yaml`, which it names, changed"));
    setting.write("top.yaml", own("1"));
    setting.write("rules/own.yaml", own("1") + "# looked at\n");
    assert_eq!(setting.run(&["trust", "."]).code, Some(0));
    assert_eq!(told(), ("1".to_owned(), String::new()));
}

#[test]
fn a_check_tells_every_error_of_a_file() {
    let setting = Setting::new();
    let policy = "version: 1\nprox: {}\nproc:\n  mem_limit: lots\n  wall_timeut: 30s\ntools:\n  rules:\n    - { alow: x }\n    \
        - { allow: 'a.*' }\n    - { deny: 7 }\nnet: { enabled: maybe }\n";
    setting.write("bad.yaml", policy);
    let done = setting.run(&["policy", "check", "bad.yaml"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stderr.starts_with("error: `bad.yaml` has 6 errors:\n"),
        "{}",
        done.stderr
    );
    for part in [
        "bad.yaml:2:1: unknown key `prox`",
        "bad.yaml:4:14: `proc.mem_limit`",
        "bad.yaml:5:3: unknown key `proc.wall_timeut`",
        "bad.yaml:8:",
        "bad.yaml:10:15: `tools.rules[2].deny`",
        "bad.yaml:11:",
    ] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    // One error is told as everywhere.
    setting.write("one.yaml", "prox: {}\n");
    let done = setting.run(&["policy", "check", "one.yaml"]);
    assert!(
        done.stderr.starts_with("error: one.yaml:1:1: unknown key `prox`\n"),
        "{}",
        done.stderr
    );
}
