use std::path::Path;

use ringfence_store::Sink;

use super::{Config, Source, parse};

fn read(text: &str) -> Result<Config, String> {
    let source = Source {
        path: Path::new("ringfence.yaml"),
        folder: Path::new("/etc/ringfence"),
    };
    parse(text, &source).map_err(|fault| match fault.hint {
        Some(hint) => format!("{}; {hint}", fault.message),
        None => fault.message,
    })
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_the_way_out() {
    let cases = [
        (
            "polcy: {}",
            "ringfence.yaml:1: unknown key `polcy`; did you mean `policy`?",
        ),
        (
            "\n\nruntimes: { pyhton: /x }",
            "ringfence.yaml:3: unknown key `runtimes.pyhton`; did you mean `python`?",
        ),
        (
            "runtimes: { python: 3 }",
            "ringfence.yaml:1: `runtimes.python` must be a path",
        ),
        (
            "credentials: [{ name: x }]",
            "ringfence.yaml:1: `credentials` is not built yet; leave the key out until this version has it",
        ),
        (
            "policy: { proc: { mem_limt: 1GiB } }",
            "ringfence.yaml: policy: unknown key `proc.mem_limt`; did you mean `mem_limit`?",
        ),
        ("ceiling: 7", "ringfence.yaml:1: `ceiling` must be a path or a policy"),
        (
            "audit: { sinks: [{ webhook: https://x }] }",
            "ringfence.yaml:1: the sink `webhook` is not built yet; use `file` or `syslog`",
        ),
        (
            "audit: { sinks: [sylog] }",
            "ringfence.yaml:1: unknown sink `sylog`; did you mean `syslog`?",
        ),
        (
            "audit: { sinks: 1 }",
            "ringfence.yaml:1: `audit.sinks` must be a list, such as `[{ file: audit.jsonl }, syslog]`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text).err().as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn paths_are_relative_to_the_file_and_empty_keys_ask_for_nothing() {
    let config = read(
        "servers: {}\ncredentials: []\nruntimes: { python: py/bin/python3 }\naudit: { sinks: [{ file: a.jsonl }, syslog, { syslog: /run/log }] }\n\
         ceiling: { fs: { mounts: [{ path: /deps, access: ro, from: deps }] } }\n",
    )
    .unwrap();
    assert_eq!(
        config.python.as_deref(),
        Some(Path::new("/etc/ringfence/py/bin/python3"))
    );
    let sinks = [
        Sink::File {
            path: "/etc/ringfence/a.jsonl".into(),
        },
        Sink::Syslog {
            path: "/dev/log".into(),
        },
        Sink::Syslog {
            path: "/run/log".into(),
        },
    ];
    assert_eq!(config.sinks, sinks);
    let from = config
        .ceiling
        .and_then(|ceiling| ceiling.fs?.mounts.first()?.from.clone());
    assert_eq!(from.as_deref(), Some(Path::new("/etc/ringfence/deps")));
    assert!(read("").unwrap().policy.is_none());
}
