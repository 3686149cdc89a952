use ringfence_policy::HttpMethod;
use serde_json::json;

use super::*;

fn read(entry: &Value) -> Result<Credentials, String> {
    Credentials::from_section(&json!([entry]), Path::new("/here")).map_err(|error| error.to_string())
}

#[test]
fn a_credential_says_for_whom_it_is() {
    let all = read(&json!({
        "name": "GITHUB_TOKEN",
        "from": "env:GH",
        "for": [
            { "tool": "github.*" },
            { "host": "api.github.com", "methods": ["GET"], "paths": ["/repos/**"] },
            { "host": "*.example.org", "header": "X-Key" },
        ],
    }))
    .unwrap();
    let one = all.iter().next().unwrap();
    assert_eq!(one.servers[0].server, "github");
    assert_eq!(one.hosts[0].header, AUTHORIZATION);
    assert_eq!(one.hosts[1].header.as_str(), "x-key");
    let request = |method, path: &str| HostRequest {
        host: "api.github.com".parse().unwrap(),
        scheme: Scheme::Https,
        port: 443,
        method: Some(method),
        path: Some(path.parse().unwrap()),
    };
    assert!(one.hosts[0].matches(&request(HttpMethod::Get, "/repos/a")));
    assert!(!one.hosts[0].matches(&request(HttpMethod::Post, "/repos/a")));
    assert!(!one.hosts[0].matches(&request(HttpMethod::Get, "/user")));
}

#[track_caller]
fn check(entry: &Value, expected: &str) {
    assert_eq!(read(entry).unwrap_err(), format!("`credentials[0]`: {expected}"));
}

#[test]
fn what_is_wrong_is_said_without_the_secret() {
    let host = json!([{ "host": "api.example.org" }]);
    check(
        &json!({ "name": "K", "from": "hunter2hunter2", "for": host }),
        "`from` is `env:NAME`, `file:PATH`, `keyring:NAME` or `vault:NAME`, never the secret itself",
    );
    check(
        &json!({ "name": "a-b", "from": "env:K", "for": host }),
        "`name` is letters, digits and `_`, as a variable is called",
    );
    check(
        &json!({ "name": "HTTPS_PROXY", "from": "env:K", "for": host }),
        "`HTTPS_PROXY` means something else in a sandbox",
    );
    check(
        &json!({ "name": "K", "from": "env:K", "for": [{ "host": "a.example.org", "scheme": "http" }] }),
        "`for[0]`: a credential never goes over plain http",
    );
    check(
        &json!({ "name": "K", "from": "env:K", "for": [{ "tool": "github.create_*" }] }),
        "`for[0]`: a server gets a credential as a whole: write `tool: \"SERVER.*\"`",
    );
    check(
        &json!({ "name": "K", "from": "env:K", "name2": [], "for": host }),
        "unknown key `name2`; did you mean `name`?",
    );
    check(
        &json!({ "name": "K", "from": "env:K" }),
        "`for` is a list of `{ tool }` or `{ host, methods, paths, header }`",
    );
}

#[test]
fn a_name_is_there_once() {
    let one = json!({ "name": "K", "from": "env:K", "for": [{ "host": "a.example.org" }] });
    let error = Credentials::from_section(&json!([one, one]), Path::new("/")).unwrap_err();
    assert_eq!(error.to_string(), "`credentials[1]`: `K` is there twice");
}
