use std::path::Path;

use serde_json::json;

use super::*;

fn given(server: &serde_json::Value, uses: &serde_json::Value) -> Result<Servers, String> {
    let here = Path::new("/nowhere");
    let servers = Servers::from_section(&json!({ "s": server }), here).unwrap();
    let credentials = json!([{ "name": "KEY", "from": "env:KEY", "for": uses }]);
    let credentials = Credentials::from_section(&credentials, here).unwrap();
    servers
        .with_credentials(&credentials)
        .map_err(|error| error.to_string())
}

fn headers(servers: &Servers) -> String {
    match &servers.get("s").unwrap().source {
        ServerKind::Program(program) => format!("{:?}", program.env),
        ServerKind::Remote(remote) => format!("{:?}", remote.headers),
        ServerKind::Interface(interface) => format!("{:?}", interface.headers),
    }
}

#[test]
fn a_server_gets_its_credential_where_it_takes_one() {
    let all = json!([{ "tool": "s.*" }]);
    let remote = json!({ "url": "https://mcp.example.org/mcp" });
    let program = json!({ "command": "server" });
    let named = json!([{ "tool": "s.*", "header": "X-Api-Key" }]);
    let found = |server: &serde_json::Value, uses: &serde_json::Value| headers(&given(server, uses).unwrap());
    assert_eq!(found(&remote, &all), r#"{"authorization": Bearer env:KEY}"#);
    assert_eq!(found(&remote, &named), r#"{"x-api-key": env:KEY}"#);
    assert_eq!(found(&program, &all), r#"{"KEY": env:KEY}"#);
}

#[test]
fn what_a_server_has_already_is_not_replaced() {
    let all = json!([{ "tool": "s.*" }]);
    let check = |server: &serde_json::Value, uses: &serde_json::Value, expected: &str| {
        assert_eq!(given(server, uses).unwrap_err(), expected);
    };
    check(
        &json!({ "url": "https://x.example.org", "headers": { "Authorization": "a" } }),
        &all,
        "server `s`: credential `KEY`: the server has a header `authorization` already",
    );
    check(
        &json!({ "url": "https://x.example.org", "auth": "oauth" }),
        &all,
        "server `s`: credential `KEY`: `auth: oauth` fills `Authorization` already; name another `header`",
    );
    check(
        &json!({ "command": "x" }),
        &json!([{ "tool": "other.*" }]),
        "credential `KEY` is for the tools of server `other`, which is not configured",
    );
}
