use super::*;

fn parse(text: &str) -> Result<Servers, ServersError> {
    Servers::parse(text, Path::new("/base"))
}

#[track_caller]
fn check(entry: &str, expected: &str) {
    let error = parse(&format!(r#"{{"mcpServers": {{"one": {entry}}}}}"#)).unwrap_err();
    assert_eq!(error.to_string(), expected, "{entry}");
}

#[test]
fn the_three_kinds_are_read_from_json_and_yaml() {
    let servers = parse(
        r#"{"mcpServers": {
            "files": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"A": "env:B", "N": 1}, "policy": "small"},
            "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${T}"}, "alwaysLoad": true},
            "off": {"command": "x", "disabled": true}
        }}"#,
    )
    .unwrap();
    let yaml = "servers:\n  shop: { openapi: shop.yaml }\n  echo: { command: echo }\n";
    let servers = servers.merge(parse(yaml).unwrap()).unwrap();
    let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["echo", "files", "shop", "web"]);
    let ServerKind::Program(files) = &servers.get("files").unwrap().source else {
        panic!("a program")
    };
    assert_eq!(files.place, StdioPlacement::Sandbox("small".to_owned()));
    let ServerKind::Interface(shop) = &servers.get("shop").unwrap().source else {
        panic!("an interface")
    };
    assert!(matches!(&shop.document, OpenApiDocument::File(path) if path == Path::new("/base/shop.yaml")));
    let notices: Vec<_> = servers.notices().iter().map(ToString::to_string).collect();
    let expected = [
        "server `echo` runs on the host, outside of any sandbox",
        "server `web`: `alwaysLoad` has no meaning here",
    ];
    assert_eq!(notices, expected);
}

#[test]
fn what_is_wrong_names_the_server_and_the_key() {
    check("3", "server `one`: an entry must be an object");
    check(
        r#"{"comand": "x"}"#,
        "server `one`: needs one of `command`, `url` or `openapi`; is `comand` meant as `command`?",
    );
    check(
        r#"{"command": "x", "url": "https://a"}"#,
        "server `one`: `command` and `url` exclude each other",
    );
    check(
        r#"{"command": "x", "polcy": "host"}"#,
        "server `one`: unknown key `polcy`; did you mean `policy`?",
    );
    check(
        r#"{"command": "x", "args": [1]}"#,
        "server `one`: `args` must be a list of texts",
    );
    check(
        r#"{"command": "x", "policy": "small", "cwd": "there"}"#,
        "server `one`: `cwd` does not go with `policy`: its sandbox begins in `/workspace`, and its mounts say what is there",
    );
    check(
        r#"{"command": "x", "env": {"A": null}}"#,
        "server `one`: `env.A` must be a text",
    );
    check(
        r#"{"command": "x", "env": {"A=B": "1"}}"#,
        "server `one`: `env`: `A=B` cannot be a variable's name",
    );
    check(
        r#"{"url": "http://example.com"}"#,
        "server `one`: `url` must be https (http only to a loopback address)",
    );
    check(
        r#"{"url": "https://me:pw@example.com"}"#,
        "server `one`: `url` has a user or password in it; use `headers`",
    );
    check(
        r#"{"url": "https://a", "headers": {"Mcp-Session-Id": "1"}}"#,
        "server `one`: `headers`: `Mcp-Session-Id` is the protocol's own",
    );
    check(
        r#"{"url": "https://a", "auth": "basic"}"#,
        "server `one`: `auth` must be `oauth`",
    );
    check(
        r#"{"url": "https://a", "type": "stdio"}"#,
        "server `one`: `type` does not go with `url`",
    );
    check(
        r#"{"url": "https://a", "tools": []}"#,
        "server `one`: unknown key `tools`",
    );
}

#[test]
fn names_that_a_policy_cannot_write_are_refused() {
    for name in ["a.b", "a b", "", "a\\nb", "*", "a/b", &"x".repeat(81)] {
        let text = format!(r#"{{"mcpServers": {{"{name}": {{"command": "x"}}}}}}"#);
        assert!(parse(&text).is_err(), "{name}");
    }
    assert!(parse(r#"{"mcpServers": {"größe-1_x": {"command": "x"}}}"#).is_ok());
}

#[test]
fn a_name_in_both_documents_is_an_error() {
    let one = parse(r#"{"mcpServers": {"a": {"command": "x"}}}"#).unwrap();
    let error = one.clone().merge(one).unwrap_err();
    assert_eq!(
        error.to_string(),
        "server `a`: configured twice: in the configuration and in the servers file"
    );
}

#[test]
fn a_document_that_is_none_is_refused() {
    for text in [
        "",
        "[]",
        "{",
        "{}",
        "3",
        "mcpServers: 3",
        &"x".repeat(MAX_FILE_BYTES + 1),
    ] {
        assert!(parse(text).is_err(), "{}", &text[..text.len().min(20)]);
    }
}

#[test]
fn plain_http_is_for_this_machine_alone() {
    for (url, ok) in [
        ("http://127.0.0.1:80/", true),
        ("http://[::1]/", true),
        ("http://localhost/", true),
        ("http://localhost.example.com/", false),
        ("http://0.0.0.0/", false),
        ("ftp://example.com/", false),
        ("https://example.com/", true),
    ] {
        assert_eq!(entry::is_safe_for_credentials(&Url::parse(url).unwrap()), ok, "{url}");
    }
}

#[test]
fn no_server_is_called_skills() {
    let error = parse(r#"{"mcpServers": {"skills": {"command": "x"}}}"#).unwrap_err();
    let expected = "server `skills`: `skills` is where saved programs are called: give it another name";
    assert_eq!(error.to_string(), expected);
    assert!(parse(r#"{"mcpServers": {"my-skills": {"command": "x"}, "skill": {"command": "x"}}}"#).is_ok());
}
