use std::path::Path;

use super::{AccessSettings, AuditSinkConfig, Config, ConfigSource, NamedFiles, parse_config};

fn read(text: &str) -> Result<Config, String> {
    let source = ConfigSource {
        path: Path::new("ringfence.yaml"),
        folder: Path::new("/etc/ringfence"),
        files: &NamedFiles::default(),
    };
    parse_config(text, &source).map_err(|fault| match fault.hint {
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
            "policy: { proc: { mem_limt: 1GiB } }",
            "ringfence.yaml: policy: unknown key `proc.mem_limt`; did you mean `mem_limit`?",
        ),
        (
            "ceiling: 7",
            "ringfence.yaml:1: `ceiling` must be a preset, a path or a policy",
        ),
        (
            "listen: 7411",
            "ringfence.yaml:1: `listen` must have keys: address, hosts, origins, limits",
        ),
        (
            "listen: localhost",
            "ringfence.yaml:1: `listen` must be an address and a port, such as `127.0.0.1:7411`",
        ),
        (
            "listen: { limits: { boddy: 1MiB } }",
            "ringfence.yaml:1: unknown key `listen.limits.boddy`; did you mean `body`?",
        ),
        (
            "listen: { limits: { body: 0B } }",
            "ringfence.yaml:1: `listen.limits.body`: `0B` is zero: a limit must let something through",
        ),
        (
            "listen: { limits: { requests: 0 } }",
            "ringfence.yaml:1: `listen.limits.requests` must be a number above zero",
        ),
        (
            "auth: none",
            "ringfence.yaml:1: `auth` must be `tokens`, or have keys: issuers, resource",
        ),
        (
            "telemetry: { otlp: 'localhost:4318' }",
            "ringfence.yaml:1: `telemetry.otlp` must be an address that begins with http:// or https://",
        ),
        (
            "sessions: { idle: 1 }",
            "ringfence.yaml:1: `sessions.idle`: `1` is not a length of time, write it like `30s`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text).err().as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn what_is_wrong_with_a_sink_is_named() {
    let cases = [
        (
            "audit: { sinks: 1 }",
            "ringfence.yaml:1: `audit.sinks` must be a list, such as `[{ file: audit.jsonl }, syslog]`",
        ),
        (
            "audit: { sinks: [{ webhook: https://x }] }",
            "ringfence.yaml:1: `audit.sinks.webhook` must have keys: url, secret, durable",
        ),
        (
            "audit: { sinks: [{ webhook: { url: https://x, secrt: 'env:X' } }] }",
            "ringfence.yaml:1: unknown key `audit.sinks.webhook.secrt`; did you mean `secret`?",
        ),
        (
            "audit: { sinks: [{ webhook: { url: https://x } }] }",
            "ringfence.yaml:1: `audit.sinks.webhook.secret` must be a text",
        ),
        (
            "audit: { sinks: [{ webhook: { url: https://x, secret: plain } }] }",
            "ringfence.yaml:1: `audit.sinks.webhook`: `secret` must say where the secret is: `env:NAME`, `file:PATH` or `vault:NAME`",
        ),
        (
            "audit: { sinks: [{ webhook: { url: http://audit.example.org, secret: 'env:X' } }] }",
            "ringfence.yaml:1: `audit.sinks.webhook`: the address must be https (http only to a loopback address)",
        ),
        (
            "audit: { sinks: [{ webhook: { url: https://x, secret: 'env:X', durable: maybe } }] }",
            "ringfence.yaml:1: `audit.sinks.webhook.durable` must be true or false",
        ),
        (
            "audit: { sinks: [{ otlp: { url: nowhere } }] }",
            "ringfence.yaml:1: `audit.sinks.otlp`: `nowhere` is not an address; write it like `https://audit.example.org/ringfence`",
        ),
        (
            "audit: { sinks: [{ otlp: { url: https://x, headers: [a] } }] }",
            "ringfence.yaml:1: `audit.sinks.otlp.headers` must have keys with texts",
        ),
        (
            "audit: { sinks: [sylog] }",
            "ringfence.yaml:1: unknown sink `sylog`; did you mean `syslog`?",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text).err().as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn paths_are_relative_to_the_file_and_empty_keys_ask_for_nothing() {
    let config = read(
        "servers: {}\ncredentials: []\nruntimes: { python: py/bin/python3 }\naudit: { sinks: [{ file: a.jsonl }, syslog, { syslog: /run/log }, \
         { webhook: { url: 'https://audit.example.org/x', secret: 'env:KEY', durable: true } }, { otlp: { url: 'http://127.0.0.1:4318', headers: { a: 'env:B' } } }] }\n\
         ceiling: { fs: { mounts: [{ path: /deps, access: ro, from: deps }] } }\n",
    )
    .unwrap();
    assert_eq!(
        config.python.as_deref(),
        Some(Path::new("/etc/ringfence/py/bin/python3"))
    );
    let [
        AuditSinkConfig::Local(file),
        AuditSinkConfig::Local(log),
        AuditSinkConfig::Local(socket),
        AuditSinkConfig::Remote(webhook),
        AuditSinkConfig::Remote(otlp),
    ] = config.sinks.as_slice()
    else {
        panic!("{:?}", config.sinks);
    };
    let path = "/etc/ringfence/a.jsonl".into();
    assert_eq!(*file, ringfence_store::SinkConfig::File { path });
    let syslog = |path: &str| ringfence_store::SinkConfig::Syslog { path: path.into() };
    assert_eq!((log, socket), (&syslog("/dev/log"), &syslog("/run/log")));
    assert_eq!(format!("{webhook:?}"), "webhook `https://audit.example.org`");
    assert!(webhook.is_durable() && !otlp.is_durable());
    let from = config
        .ceiling
        .and_then(|ceiling| ceiling.fs?.mounts.first()?.from.clone());
    assert_eq!(from.as_deref(), Some(Path::new("/etc/ringfence/deps")));
    assert!(read("").unwrap().policy.is_none());
}

#[test]
fn doors_as_the_operator_wants_them() {
    let config = read(
        "listen: { address: '0.0.0.0:80', hosts: [a.example], origins: ['https://b.example'], limits: { body: 1MiB, connections: 9, requests: 8, rate: 600/min } }\n\
         auth: { issuers: ['https://login.example'], resource: 'https://a.example' }\n\
         sessions: { idle: 10m }\ntelemetry: { otlp: 'http://127.0.0.1:4318' }\n",
    )
    .unwrap();
    let doors = config.doors;
    assert_eq!(doors.address, Some("0.0.0.0:80".parse().unwrap()));
    assert_eq!(
        (doors.hosts, doors.origins),
        (vec!["a.example".to_owned()], vec!["https://b.example".to_owned()])
    );
    let limits = ringfence_server::HttpLimits {
        body: 1 << 20,
        connections: 9,
        requests: 8,
        rate: 10,
        ..ringfence_server::HttpLimits::default()
    };
    assert_eq!(doors.limits, limits);
    let access = AccessSettings {
        resource: Some("https://a.example".to_owned()),
        issuers: vec!["https://login.example".to_owned()],
    };
    assert_eq!(doors.access, Some(access));
    assert_eq!(doors.idle, std::time::Duration::from_mins(10));
    assert_eq!(doors.otlp.as_deref(), Some("http://127.0.0.1:4318"));
    assert!(
        read("listen: '127.0.0.1:1'\nauth: tokens")
            .unwrap()
            .doors
            .access
            .is_some()
    );
    assert!(read("auth: {}").unwrap().doors.access.is_none());
}

#[test]
fn credentials_say_what_is_wrong_with_them() {
    let expected = "ringfence.yaml:1: `credentials[0]`: `for` is a list of `{ tool }` or `{ host, methods, paths, header }`; \
        each is `{ name, from, for: [{ tool: \"SERVER.*\" }, { host, methods, paths, header }] }`";
    assert_eq!(read("credentials: [{ name: x, from: 'env:X' }]").unwrap_err(), expected);
    let fine = read("credentials: [{ name: X, from: 'env:X', for: [{ host: api.example.org }] }]").unwrap();
    assert_eq!(fine.credentials.iter().count(), 1);
}
