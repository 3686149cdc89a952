//! Sends requests with curl: many in one process, with each response in its own file.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// A request that curl sends.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path with its query, percent-encoded.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
    /// The response never ends, so curl stops reading after a moment.
    pub(super) is_stream: bool,
}

/// A response that curl received.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    /// The exit code of the transfer: 0 is success, 28 a timeout.
    pub(super) exit: u16,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

/// Sends all requests one after another, over as few connections as the server allows.
#[expect(clippy::disallowed_methods, reason = "curl is the client that is tried")]
pub(super) fn send(address: SocketAddr, requests: &[Request]) -> Vec<Response> {
    let folder = tempfile::tempdir().unwrap();
    let mut config = String::new();
    for (number, request) in requests.iter().enumerate() {
        one(&mut config, folder.path(), address, (number, request));
    }
    let file = folder.path().join("config");
    fs::write(&file, config).unwrap();
    let mut curl = Command::new("curl");
    curl.args(["--disable", "--config"])
        .arg(file)
        .env_clear()
        .env("PATH", "/usr/bin:/usr/local/bin");
    let output = curl
        .output()
        .unwrap_or_else(|error| panic!("curl is installed by the suite: {error}"));
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines.len(),
        requests.len(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let read = |(number, line): (usize, &&str)| {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default();
        Response {
            status: word().parse().unwrap(),
            exit: word().parse().unwrap(),
            content_type: word().to_owned(),
            body: fs::read(folder.path().join(format!("{number}.out"))).unwrap_or_default(),
        }
    };
    lines.iter().enumerate().map(read).collect()
}

fn one(config: &mut String, folder: &Path, address: SocketAddr, (number, request): (usize, &Request)) {
    let mut line = |name: &str, value: &str| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        writeln!(config, "{name} = \"{value}\"").unwrap();
    };
    line("url", &format!("http://{address}{}", request.path));
    line("request", &request.method);
    for (name, value) in &request.headers {
        line("header", &format!("{name}: {value}"));
    }
    // The default content type of curl is not part of the test.
    if !request.headers.iter().any(|(name, _)| name == "Content-Type") {
        line("header", "Content-Type:");
    }
    if let Some(body) = &request.body {
        let file = folder.join(format!("{number}.in"));
        fs::write(&file, body).unwrap();
        line("data-binary", &format!("@{}", file.display()));
    }
    line("output", &folder.join(format!("{number}.out")).to_string_lossy());
    line("write-out", "%{http_code} %{exitcode} %{content_type}\\n");
    line("max-time", if request.is_stream { "0.3" } else { "60" });
    config.push_str("silent\ngloboff\npath-as-is\nnoproxy = \"*\"\nnext\n");
}
