use proptest::prelude::*;

use super::*;

/// Reads `GET https://host:port/path 1.2.3.4`, or a host without method and path, or a tool; what stands behind ` !` is
/// the code and the rule of a refusal.
fn attempt(text: &str) -> ObservedAttempt {
    let (text, refused) = match text.split_once(" !") {
        Some((text, refused)) => (text, refused.split_once(' ')),
        None => (text, None),
    };
    let refused = refused.map(|(code, rule)| (code.to_owned(), rule.to_owned()));
    let Some((before, rest)) = text.split_once("://") else {
        let name = text.to_owned();
        return ObservedAttempt {
            tried: AttemptedAction::Tool {
                name,
                arguments: None,
                hidden: BTreeSet::new(),
            },
            refused,
        };
    };
    let (method, scheme) = match before.split_once(' ') {
        Some((method, scheme)) => (Some(method.to_owned()), scheme),
        None => (None, before),
    };
    let (place, address) = match rest.split_once(' ') {
        Some((place, address)) => (place, Some(address.to_owned())),
        None => (rest, None),
    };
    let (host, path) = place
        .find('/')
        .map_or((place, None), |at| (&place[..at], Some(place[at..].to_owned())));
    let (host, port) = match host.rsplit_once(':').filter(|(host, _)| !host.ends_with(':')) {
        Some((host, port)) => (host, port.parse().unwrap()),
        None => (host, if scheme == "http" { 80 } else { 443 }),
    };
    ObservedAttempt {
        tried: AttemptedAction::Host {
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            port,
            method,
            path,
            address,
        },
        refused,
    }
}

#[track_caller]
fn check(tried: &[&str], expected: &str, notes: &[(bool, &str, &str)]) {
    let attempts: Vec<ObservedAttempt> = tried.iter().map(|text| attempt(text)).collect();
    let learnt = learn(&attempts).unwrap();
    let expected = Draft::parse(expected, "learnt").unwrap();
    assert_eq!(learnt.draft.to_yaml().unwrap(), expected.to_yaml().unwrap());
    let seen: Vec<(bool, &str, &str)> = learnt
        .notes
        .iter()
        .map(|note| (note.allowed, note.tried.as_str(), note.why.as_str()))
        .collect();
    assert_eq!(seen, notes);
    // Learning again under the learned policy gives the same policy.
    let lenient: Vec<ObservedAttempt> = attempts
        .iter()
        .filter(|attempt| rule_would_allow(attempt).is_ok())
        .map(|attempt| ObservedAttempt {
            refused: None,
            ..attempt.clone()
        })
        .collect();
    assert_eq!(learn(&lenient).unwrap().draft, learnt.draft);
}

#[test]
fn hosts_become_rules_with_no_more_than_they_need() {
    check(&[], "version: 1", &[]);
    check(
        &[
            "https://a.example.org",
            "https://a.example.org 93.184.216.34:443",
            "https://A.Example.org",
        ],
        "version: 1\nnet: { enabled: true, allowlist: [a.example.org] }",
        &[],
    );
    check(
        &[
            "https://a.example.org:8443",
            "https://a.example.org",
            "http://a.example.org",
            "http://b.example.org:8080",
            "https://93.184.216.34",
        ],
        "version: 1\nnet: { enabled: true, allowlist: [93.184.216.34, { host: a.example.org, ports: [443, 8443] }, { host: a.example.org, scheme: http }, { host: b.example.org, scheme: http, ports: [8080] }] }",
        &[],
    );
}

#[test]
fn methods_and_paths_are_kept_where_they_were_seen() {
    check(
        &[
            "GET https://a.example.org/x",
            "HEAD https://a.example.org/x",
            "POST https://a.example.org/y",
            "GET https://b.example.org/x",
            "POST https://b.example.org/x",
            "HEAD https://c.example.org/z",
        ],
        "version: 1\nnet: { enabled: true, allowlist: [{ host: a.example.org, methods: [GET], paths: [/x] }, { host: a.example.org, methods: [POST], paths: [/y] }, { host: b.example.org, methods: [GET, POST], paths: [/x] }, { host: c.example.org, methods: [HEAD], paths: [/z] }] }",
        &[],
    );
    // An uninspected request may have had any method and path.
    check(
        &["GET https://a.example.org/x", "https://a.example.org"],
        "version: 1\nnet: { enabled: true, allowlist: [a.example.org] }",
        &[],
    );
}

#[test]
fn a_path_that_held_personal_data_is_no_rule() {
    let why = "its path held personal data or a secret, which no rule repeats: write `paths` by hand";
    check(
        &[
            "GET https://a.example.org/users/‹email:k7q2wd›",
            "GET https://a.example.org/x",
        ],
        "version: 1\nnet: { enabled: true, allowlist: [{ host: a.example.org, methods: [GET], paths: [/x] }] }",
        &[(false, "https://a.example.org:443 GET /users/‹email:k7q2wd›", why)],
    );
}

#[test]
fn many_paths_of_a_folder_become_one_pattern() {
    let few: Vec<String> = (0..5).map(|n| format!("GET https://a.example.org/repos/{n}")).collect();
    let mut many: Vec<String> = (0..40)
        .map(|n| format!("GET https://a.example.org/repos/{n}"))
        .collect();
    many.push("GET https://a.example.org/".to_owned());
    let texts = |list: &'static [String]| list.iter().map(String::as_str).collect::<Vec<_>>();
    check(
        &texts(few.leak()),
        "version: 1\nnet: { enabled: true, allowlist: [{ host: a.example.org, methods: [GET], paths: [/repos/0, /repos/1, /repos/2, /repos/3, /repos/4] }] }",
        &[],
    );
    check(
        &texts(many.leak()),
        "version: 1\nnet: { enabled: true, allowlist: [{ host: a.example.org, methods: [GET], paths: [/, '/repos/*'] }] }",
        &[],
    );
    let deep: Vec<String> = (0..60).map(|n| format!("GET https://a.example.org/r/{n}/x")).collect();
    check(
        &texts(deep.leak()),
        "version: 1\nnet: { enabled: true, allowlist: [{ host: a.example.org, methods: [GET], paths: ['/r/**'] }] }",
        &[],
    );
    let wide: Vec<String> = (0..60).map(|n| format!("GET https://a.example.org/{n}/x")).collect();
    check(
        &texts(wide.leak()),
        "version: 1\nnet: { enabled: true, allowlist: [{ host: a.example.org, methods: [GET] }] }",
        &[],
    );
}

#[test]
fn refusals_by_default_are_learnt_and_others_are_told() {
    check(
        &[
            "https://a.example.org !net.denied net.default",
            "https://b.example.org !net.denied ceiling.net.enabled",
            "https://c.example.org !net.denied net.denylist[2]",
            "https://api.openai.com !net.denied net.denylist[1]",
            "https://api.anthropic.com",
            "https://d.example.org !net.address builtin.addresses",
            "https://e.example.org !limit.rate net.limits.rate",
            "files.read",
            "files.write !tool.unknown tools.default",
            "files.gone !tool.unknown catalog",
            "files.delete !policy.denied tools.rules[0]",
            "mail.send !approval.needed tools.rules[1]",
        ],
        "version: 1\nnet: { enabled: true, allowlist: [a.example.org, b.example.org] }\ntools: { rules: [{ allow: files.read }, { allow: files.write }] }",
        &[
            (
                false,
                "files.delete",
                "refused by `tools.rules[0]`, and deny beats allow",
            ),
            (false, "files.gone", "there is no such tool"),
            (
                false,
                "https://api.anthropic.com:443",
                "`api.anthropic.com` is denied by the built-in `net.denylist`",
            ),
            (
                false,
                "https://api.openai.com:443",
                "refused by `net.denylist[1]`, and deny beats allow",
            ),
            (
                true,
                "https://b.example.org:443",
                "the operator's ceiling refused it; ask the operator to widen it",
            ),
            (
                false,
                "https://c.example.org:443",
                "refused by `net.denylist[2]`, and deny beats allow",
            ),
            (
                false,
                "https://d.example.org:443",
                "refused with `net.address` by `builtin.addresses`: no allow rule helps",
            ),
            (
                false,
                "https://e.example.org:443",
                "refused with `limit.rate` by `net.limits.rate`: no allow rule helps",
            ),
            (false, "mail.send", "a person is asked by `tools.rules[1]`"),
        ],
    );
}

#[test]
fn what_no_rule_refused_names_none() {
    let attempt = ObservedAttempt {
        tried: AttemptedAction::Tool {
            name: "mail.send".to_owned(),
            arguments: None,
            hidden: BTreeSet::new(),
        },
        refused: Some(("tool.arguments".to_owned(), String::new())),
    };
    let learnt = learn(&[attempt]).unwrap();
    let notes = format!("{:?}", learnt.notes);
    assert!(
        notes.contains("refused with `tool.arguments`: no allow rule helps") && !notes.contains("``"),
        "{notes}"
    );
}

#[test]
fn what_no_policy_should_open_is_left_out() {
    let private = |address: &str| {
        format!(
            "`{address}` is not a public address: `builtin.addresses`; a private network needs `addresses` written by hand"
        )
    };
    for (tried, why) in [
        (
            "https://localhost",
            "this name always stays closed: `builtin.hosts`".to_owned(),
        ),
        (
            "https://metadata.google.internal",
            "this name always stays closed: `builtin.hosts`".to_owned(),
        ),
        ("https://10.0.0.1", private("10.0.0.1")),
        ("http://169.254.169.254/latest", private("169.254.169.254")),
        ("https://db.example.org 10.1.2.3:443", private("10.1.2.3")),
        (
            "https://2130706433",
            "`2130706433` looks like a number, write an address as four decimal numbers".to_owned(),
        ),
        ("ftp://a.example.org", "`ftp` is neither https nor http".to_owned()),
        (
            "PROPFIND https://a.example.org/x",
            "no rule can name the method `PROPFIND`".to_owned(),
        ),
        (
            "GET https://a.example.org/x/../y",
            "the URL path has a `.` or `..` segment".to_owned(),
        ),
    ] {
        let learnt = learn(&[attempt(tried)]).unwrap();
        assert_eq!(learnt.draft.net, None, "{tried}");
        let whys: Vec<&str> = learnt.notes.iter().map(|note| note.why.as_str()).collect();
        assert_eq!(whys, [why], "{tried}");
    }
}

proptest! {
    /// For any attempts, learning ends with a policy that allows what it was learned from, and never opens what is closed.
    #[test]
    fn what_is_learnt_always_allows_what_it_was_learnt_from(
        tried in prop::collection::vec(
            (
                prop_oneof![Just("https"), Just("http")],
                "(a\\.example\\.org|b\\.example\\.co\\.uk|localhost|10\\.0\\.0\\.1|1\\.1\\.1\\.1|[a-z.:*%]{0,12})",
                any::<u16>(),
                prop::option::of(prop_oneof![Just("GET"), Just("HEAD"), Just("POST"), Just("TRACE")]),
                prop::option::of("/[a-c]{0,2}(/[a-z0-9*~%.]{0,3}){0,3}"),
            ),
            0..40,
        )
    ) {
        let attempts: Vec<ObservedAttempt> = tried
            .into_iter()
            .map(|(scheme, host, port, method, path)| ObservedAttempt {
                tried: AttemptedAction::Host {
                    scheme: scheme.to_owned(),
                    host,
                    port,
                    method: method.map(str::to_owned),
                    path,
                    address: None,
                },
                refused: None,
            })
            .collect();
        let learnt = learn(&attempts).unwrap();
        let policy = learnt.draft.under(&Ceiling::unlimited()).unwrap();
        for host in ["localhost", "10.0.0.1", "169.254.169.254", "api.openai.com"] {
            let request = HostRequest { host: host.parse().unwrap(), scheme: Scheme::Https, port: 443, method: None, path: None };
            prop_assert_eq!(policy.decide_host(&request).effect(), RuleEffect::Deny);
        }
    }
}

/// The rules that are learned from calls with these arguments.
#[track_caller]
fn check_calls(calls: &[(&str, &str)], expected: &str) {
    let attempt = |(name, arguments): &(&str, &str)| ObservedAttempt {
        tried: AttemptedAction::Tool {
            name: (*name).to_owned(),
            arguments: (!arguments.is_empty()).then(|| serde_json::from_str(arguments).unwrap()),
            hidden: BTreeSet::new(),
        },
        refused: None,
    };
    let attempts: Vec<ObservedAttempt> = calls.iter().map(attempt).collect();
    let learnt = learn(&attempts).unwrap();
    let rules = learnt.draft.tools.map(|tools| tools.rules).unwrap_or_default();
    let lines: Vec<String> = rules.iter().map(|rule| serde_json::to_string(rule).unwrap()).collect();
    assert_eq!(lines.join("\n"), expected);
}

#[test]
fn the_arguments_of_calls_are_conditions() {
    check_calls(
        &[("mail.send", r#"{"to":"a@b.example","copy":true,"n":3}"#)],
        r#"{"allow":"mail.send","where":{"copy":{"equals":true},"n":{"equals":3},"to":{"equals":"a@b.example"}}}"#,
    );
    check_calls(
        &[
            ("a.b", r#"{"n":1,"m":1}"#),
            ("a.b", r#"{"n":2}"#),
            ("a.b", r#"{"n":1,"m":null}"#),
        ],
        r#"{"allow":"a.b","where":{"n":{"one_of":[1,2]}}}"#,
    );
    check_calls(
        &[
            ("files.read", r#"{"path":"/data/a/one.csv"}"#),
            ("files.read", r#"{"path":"/data/b/two.csv"}"#),
        ],
        r#"{"allow":"files.read","where":{"path":{"under":"/data/"}}}"#,
    );
    check_calls(
        &[
            ("files.read", r#"{"path":"/one.csv"}"#),
            ("files.read", r#"{"path":"/data/two.csv"}"#),
        ],
        r#"{"allow":"files.read","where":{"path":{"one_of":["/one.csv","/data/two.csv"]}}}"#,
    );
    check_calls(
        &[
            ("web.get", r#"{"url":"https://data.example.org/a?b"}"#),
            ("web.get", r#"{"url":"https://DATA.example.org/c"}"#),
        ],
        r#"{"allow":"web.get","where":{"url":{"host":"data.example.org"}}}"#,
    );
}

#[test]
fn what_tells_nothing_is_no_condition() {
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(65));
    check_calls(&[("a.b", &long)], r#"{"allow":"a.b"}"#);
    check_calls(&[("a.b", r#"{"list":[1],"f":1.5,"o":{}}"#)], r#"{"allow":"a.b"}"#);
    check_calls(&[("a.b", r#"{"n":1}"#), ("a.b", "")], r#"{"allow":"a.b"}"#);
    let many: Vec<String> = (0..9).map(|n| format!(r#"{{"n":{n}}}"#)).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|text| ("a.b", text.as_str())).collect();
    check_calls(&many, r#"{"allow":"a.b"}"#);
    check_calls(
        &many[..8],
        r#"{"allow":"a.b","where":{"n":{"one_of":[0,1,2,3,4,5,6,7]}}}"#,
    );
}

#[test]
fn what_a_person_refused_is_not_learnt() {
    for code in [
        "approval.denied",
        "approval.timeout",
        "approval.withdrawn",
        "approval.needed",
    ] {
        let learnt = learn(&[attempt(&format!("mail.send !{code} tools.rules[0]"))]).unwrap();
        assert_eq!(learnt.draft.tools, None, "{code}");
        assert!(learnt.notes[0].why.starts_with("a person"), "{:?}", learnt.notes);
    }
}

proptest! {
    #[test]
    fn what_is_learnt_of_arguments_allows_them(calls in proptest::collection::vec(
        (prop_oneof![Just("a.x"), Just("a.y")], proptest::collection::btree_map("[a-c]", value(), 0..3)), 1..8)
    ) {
        let attempts: Vec<ObservedAttempt> = calls.into_iter().map(|(name, arguments)| ObservedAttempt {
            tried: AttemptedAction::Tool {
                name: name.to_owned(),
                arguments: Some(Value::Object(arguments.into_iter().collect())),
                hidden: BTreeSet::new(),
            },
            refused: None,
        }).collect();
        // Learning checks its own policy for each of them before it returns it.
        prop_assert!(learn(&attempts).is_ok());
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,9}".prop_map(Value::from),
        "/[a-c]{1,2}(/[a-c.]{1,2}){0,3}".prop_map(Value::from),
        "https?://[a-c.:@]{1,6}/[a-c]?".prop_map(Value::from),
        Just(Value::Null),
        Just(serde_json::json!(["/a/b", 1])),
    ]
}

#[test]
fn nothing_is_learnt_of_values_that_are_hidden() {
    let letter = |to: &str, hidden: &[&str]| ObservedAttempt {
        tried: AttemptedAction::Tool {
            name: "mail.send".to_owned(),
            arguments: Some(serde_json::json!({ "to": to, "about": "lunch" })),
            hidden: hidden.iter().map(|name| (*name).to_owned()).collect(),
        },
        refused: None,
    };
    // One hidden value does not affect the others.
    let learnt = learn(&[letter("<email:1>", &["to"]), letter("office", &[])]).unwrap();
    let rules = learnt.draft.tools.unwrap().rules;
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].when.keys().collect::<Vec<_>>(), ["about"]);
    let said: Vec<_> = learnt
        .notes
        .iter()
        .map(|note| (note.allowed, note.why.as_str()))
        .collect();
    let expected = "a condition on `to`, if there should be one: only aliases for personal data are kept of it";
    assert_eq!(said, [(true, expected)]);
}
