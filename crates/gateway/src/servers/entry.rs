//! Parses one server entry, and reports all problems in it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use url::{Host, Url};

use super::{
    OAuthClient, OpenApiDocument, OpenApiInterface, RemoteAuth, RemoteServer, ServerKind, ServerNotice, ServerProblem,
    StdioPlacement, StdioServer,
};
use crate::credential::CredentialSource;

/// The keys that determine the kind of an entry.
const KIND_KEYS: [&str; 3] = ["command", "url", "openapi"];
/// Keys of other clients that have no effect here and can be ignored safely.
const IGNORED_KEYS: [&str; 6] = [
    "alwaysAllow",
    "alwaysLoad",
    "autoApprove",
    "description",
    "timeout",
    "trust",
];
const MAX_ARGUMENT_COUNT: usize = 1_000;
const MAX_VALUE_COUNT: usize = 200;

pub(super) struct EntryParser<'a> {
    name: &'a str,
    base: &'a Path,
    pub(super) problems: Vec<ServerProblem>,
    pub(super) notices: Vec<ServerNotice>,
}

impl<'a> EntryParser<'a> {
    pub(super) fn new(name: &'a str, base: &'a Path) -> EntryParser<'a> {
        EntryParser {
            name,
            base,
            problems: Vec::new(),
            notices: Vec::new(),
        }
    }

    pub(super) fn report_problem(&mut self, message: impl Into<String>) {
        self.problems.push(ServerProblem {
            server: Some(self.name.to_owned()),
            message: message.into(),
        });
    }

    /// Parses the entry; `None` if it is invalid or disabled.
    pub(super) fn parse_entry(&mut self, entry: &Value) -> Option<ServerKind> {
        let Value::Object(keys) = entry else {
            self.report_problem("an entry must be an object");
            return None;
        };
        if let Some(disabled) = keys.get("disabled") {
            match disabled.as_bool() {
                Some(true) => return None,
                Some(false) => {}
                None => self.report_problem("`disabled` must be true or false"),
            }
        }
        let kinds: Vec<&str> = KIND_KEYS.into_iter().filter(|kind| keys.contains_key(*kind)).collect();
        let kind = match kinds.as_slice() {
            [kind] => *kind,
            [] => {
                let near = keys
                    .keys()
                    .find_map(|key| nearest_known(key, &KIND_KEYS).map(|known| (key, known)));
                let hint = near.map(|(key, known)| format!("; is `{key}` meant as `{known}`?"));
                let hint = hint.unwrap_or_default();
                self.report_problem(format!("needs one of `command`, `url` or `openapi`{hint}"));
                return None;
            }
            many => {
                self.report_problem(format!("`{}` exclude each other", many.join("` and `")));
                return None;
            }
        };
        self.check_transport(keys, kind);
        let known: &[&str] = match kind {
            "command" => &["command", "args", "env", "cwd", "policy", "type", "disabled"],
            "url" => &["url", "headers", "auth", "oauth", "type", "disabled"],
            _ => &["openapi", "headers", "type", "disabled"],
        };
        self.report_unknown_keys(keys, known);
        let source = match kind {
            "command" => self.parse_program(keys),
            "url" => self.parse_remote(keys),
            _ => self.parse_interface(keys),
        };
        source.filter(|_| self.problems.is_empty())
    }

    fn report_unknown_keys(&mut self, keys: &Map<String, Value>, known: &[&str]) {
        for key in keys.keys().filter(|key| !known.contains(&key.as_str())) {
            if IGNORED_KEYS.contains(&key.as_str()) {
                self.notices.push(ServerNotice::Ignored {
                    server: self.name.to_owned(),
                    key: key.clone(),
                });
                continue;
            }
            let hint = nearest_known(key, known).map(|near| format!("; did you mean `{near}`?"));
            let short: String = key.chars().take(80).collect();
            self.report_problem(format!("unknown key `{short}`{}", hint.unwrap_or_default()));
        }
    }

    /// Checks that `type`, as other clients write it, matches the kind of the entry.
    fn check_transport(&mut self, keys: &Map<String, Value>, kind: &str) {
        let Some(written) = keys.get("type") else { return };
        let fits = match written.as_str() {
            Some("stdio" | "local") => kind == "command",
            Some("http" | "streamable-http" | "streamableHttp" | "remote") => kind == "url",
            Some("openapi") => kind == "openapi",
            Some("sse") => {
                self.report_problem(
                    "`type: sse` is the transport of 2024; give the server's streamable HTTP `url` with `type: http`",
                );
                return;
            }
            _ => {
                self.report_problem("`type` must be `stdio` or `http`");
                return;
            }
        };
        if !fits {
            self.report_problem(format!("`type` does not go with `{kind}`"));
        }
    }

    fn parse_program(&mut self, keys: &Map<String, Value>) -> Option<ServerKind> {
        let command = self.required_text(keys, "command")?;
        if command.is_empty() {
            self.report_problem("`command` is empty");
        }
        let args = match keys.get("args") {
            None => Vec::new(),
            Some(Value::Array(args)) if args.len() <= MAX_ARGUMENT_COUNT && args.iter().all(Value::is_string) => {
                args.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(_) => {
                self.report_problem("`args` must be a list of texts");
                Vec::new()
            }
        };
        let env = self.parse_values(keys, "env");
        for name in env.keys().filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let message = format!("`env`: `{}` cannot be a variable's name", name.escape_debug());
            self.problems.push(ServerProblem {
                server: Some(self.name.to_owned()),
                message,
            });
        }
        let place = match self.optional_text(keys, "policy").as_deref() {
            None | Some("host") => StdioPlacement::Host,
            Some("") => {
                self.report_problem("`policy` is empty: name one, or write `host`");
                StdioPlacement::Host
            }
            Some(policy) => StdioPlacement::Sandbox(policy.to_owned()),
        };
        let cwd = self.optional_text(keys, "cwd").map(|cwd| self.base.join(cwd));
        if cwd.is_some() && place != StdioPlacement::Host {
            self.report_problem(
                "`cwd` does not go with `policy`: its sandbox begins in `/workspace`, and its mounts say what is there",
            );
        }
        Some(ServerKind::Program(StdioServer {
            command,
            args,
            env,
            cwd,
            place,
        }))
    }

    fn parse_remote(&mut self, keys: &Map<String, Value>) -> Option<ServerKind> {
        let text = self.required_text(keys, "url")?;
        let url = self.parse_url("url", &text)?;
        let headers = self.parse_headers(keys);
        let auth = match self.optional_text(keys, "auth").as_deref() {
            None => RemoteAuth::Headers,
            Some("oauth") => RemoteAuth::OAuth,
            Some(_) => {
                self.report_problem("`auth` must be `oauth`");
                RemoteAuth::Headers
            }
        };
        if auth == RemoteAuth::OAuth && headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            self.report_problem("`auth: oauth` and a header `Authorization` exclude each other");
        }
        let client = self.parse_oauth_client(keys, auth);
        Some(ServerKind::Remote(RemoteServer {
            url,
            headers,
            auth,
            client,
        }))
    }

    /// Parses the client for the server's authorization server.
    fn parse_oauth_client(&mut self, keys: &Map<String, Value>, auth: RemoteAuth) -> OAuthClient {
        let client = match keys.get("oauth") {
            None => return OAuthClient::default(),
            Some(Value::Object(client)) if auth == RemoteAuth::OAuth => client,
            Some(_) => {
                self.report_problem("`oauth` must be names with their values, beside `auth: oauth`");
                return OAuthClient::default();
            }
        };
        self.report_unknown_keys(client, &["client_id", "client_secret", "client_metadata"]);
        let id = self.optional_text(client, "client_id");
        let secret = self.optional_text(client, "client_secret");
        let document = self.optional_text(client, "client_metadata");
        if secret.is_some() && id.is_none() {
            self.report_problem("`oauth.client_secret` needs `oauth.client_id`");
        }
        OAuthClient {
            id,
            secret: secret.map(|secret| CredentialSource::parse(&secret, self.base)),
            document: document.and_then(|document| self.parse_url("oauth.client_metadata", &document)),
        }
    }

    fn parse_interface(&mut self, keys: &Map<String, Value>) -> Option<ServerKind> {
        let text = self.required_text(keys, "openapi")?;
        let document = if text.starts_with("http://") || text.starts_with("https://") {
            OpenApiDocument::Url(self.parse_url("openapi", &text)?)
        } else if text.is_empty() {
            self.report_problem("`openapi` is empty");
            return None;
        } else {
            OpenApiDocument::File(self.base.join(text))
        };
        let headers = self.parse_headers(keys);
        Some(ServerKind::Interface(OpenApiInterface { document, headers }))
    }

    /// Parses a URL that may carry credentials: https, or plain http to this machine.
    fn parse_url(&mut self, key: &str, text: &str) -> Option<Url> {
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => {
                self.report_problem(format!("`{key}` is not a URL: {error}"));
                return None;
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            self.report_problem(format!("`{key}` has a user or password in it; use `headers`"));
            return None;
        }
        if !is_safe_for_credentials(&url) {
            self.report_problem(format!("`{key}` must be https (http only to a loopback address)"));
            return None;
        }
        Some(url)
    }

    fn parse_headers(&mut self, keys: &Map<String, Value>) -> BTreeMap<String, CredentialSource> {
        let headers = self.parse_values(keys, "headers");
        for name in headers.keys() {
            let reserved = ["accept", "content-length", "content-type", "host", "last-event-id"];
            let lower = name.to_ascii_lowercase();
            if http::HeaderName::try_from(name.as_str()).is_err() {
                self.problems.push(ServerProblem {
                    server: Some(self.name.to_owned()),
                    message: format!("`headers`: `{}` cannot be a header's name", name.escape_debug()),
                });
            } else if reserved.contains(&lower.as_str()) || lower.starts_with("mcp-") {
                self.problems.push(ServerProblem {
                    server: Some(self.name.to_owned()),
                    message: format!("`headers`: `{name}` is the protocol's own"),
                });
            }
        }
        headers
    }

    fn parse_values(&mut self, keys: &Map<String, Value>, key: &str) -> BTreeMap<String, CredentialSource> {
        let Some(written) = keys.get(key) else {
            return BTreeMap::new();
        };
        let Value::Object(written) = written else {
            self.report_problem(format!("`{key}` must be names with their values"));
            return BTreeMap::new();
        };
        if written.len() > MAX_VALUE_COUNT {
            self.report_problem(format!("`{key}` has more than {MAX_VALUE_COUNT} values"));
            return BTreeMap::new();
        }
        let mut values = BTreeMap::new();
        for (name, value) in written {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(truth) => truth.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    self.report_problem(format!("`{key}.{name}` must be a text"));
                    continue;
                }
            };
            if text.contains('\0') {
                self.report_problem(format!("`{key}.{name}` has a zero byte"));
                continue;
            }
            values.insert(name.clone(), CredentialSource::parse(&text, self.base));
        }
        values
    }

    fn required_text(&mut self, keys: &Map<String, Value>, key: &str) -> Option<String> {
        match keys.get(key) {
            Some(Value::String(text)) if !text.contains('\0') => Some(text.clone()),
            _ => {
                self.report_problem(format!("`{key}` must be a text"));
                None
            }
        }
    }

    fn optional_text(&mut self, keys: &Map<String, Value>, key: &str) -> Option<String> {
        keys.contains_key(key).then(|| self.required_text(keys, key)).flatten()
    }
}

/// Whether a credential may be sent to this URL.
pub(crate) fn is_safe_for_credentials(url: &Url) -> bool {
    match (url.scheme(), url.host()) {
        ("https", Some(_)) => true,
        ("http", Some(Host::Ipv4(address))) => address.is_loopback(),
        ("http", Some(Host::Ipv6(address))) => address.is_loopback(),
        ("http", Some(Host::Domain(name))) => name == "localhost",
        _ => false,
    }
}

/// Returns the known word that was probably meant.
pub(crate) fn nearest_known<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let close = |near: &&str| strsim::damerau_levenshtein(word, near) <= (near.len() / 3).max(1);
    known
        .iter()
        .copied()
        .filter(close)
        .min_by_key(|near| strsim::damerau_levenshtein(word, near))
}
