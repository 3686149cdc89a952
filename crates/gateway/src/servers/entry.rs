//! Parses one server entry, and reports all problems in it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use url::{Host, Url};

use super::{Auth, Document, Interface, Notice, OAuthClient, Place, Problem, Program, Remote, Source};
use crate::credential::Written;

/// The keys that determine the kind of an entry.
const KINDS: [&str; 3] = ["command", "url", "openapi"];
/// Keys of other clients that have no effect here and can be ignored safely.
const IGNORED: [&str; 6] = [
    "alwaysAllow",
    "alwaysLoad",
    "autoApprove",
    "description",
    "timeout",
    "trust",
];
const ARGUMENTS: usize = 1_000;
const VALUES: usize = 200;

pub(super) struct Reader<'a> {
    name: &'a str,
    base: &'a Path,
    pub(super) problems: Vec<Problem>,
    pub(super) notices: Vec<Notice>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(name: &'a str, base: &'a Path) -> Reader<'a> {
        Reader {
            name,
            base,
            problems: Vec::new(),
            notices: Vec::new(),
        }
    }

    pub(super) fn wrong(&mut self, message: impl Into<String>) {
        self.problems.push(Problem {
            server: Some(self.name.to_owned()),
            message: message.into(),
        });
    }

    /// Parses the entry; `None` if it is invalid or disabled.
    pub(super) fn read(&mut self, entry: &Value) -> Option<Source> {
        let Value::Object(keys) = entry else {
            self.wrong("an entry must be an object");
            return None;
        };
        if let Some(disabled) = keys.get("disabled") {
            match disabled.as_bool() {
                Some(true) => return None,
                Some(false) => {}
                None => self.wrong("`disabled` must be true or false"),
            }
        }
        let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| keys.contains_key(*kind)).collect();
        let kind = match kinds.as_slice() {
            [kind] => *kind,
            [] => {
                let near = keys
                    .keys()
                    .find_map(|key| nearest(key, &KINDS).map(|known| (key, known)));
                let hint = near.map(|(key, known)| format!("; is `{key}` meant as `{known}`?"));
                let hint = hint.unwrap_or_default();
                self.wrong(format!("needs one of `command`, `url` or `openapi`{hint}"));
                return None;
            }
            many => {
                self.wrong(format!("`{}` exclude each other", many.join("` and `")));
                return None;
            }
        };
        self.transport(keys, kind);
        let known: &[&str] = match kind {
            "command" => &["command", "args", "env", "cwd", "policy", "type", "disabled"],
            "url" => &["url", "headers", "auth", "oauth", "type", "disabled"],
            _ => &["openapi", "headers", "type", "disabled"],
        };
        self.unknown(keys, known);
        let source = match kind {
            "command" => self.program(keys),
            "url" => self.remote(keys),
            _ => self.interface(keys),
        };
        source.filter(|_| self.problems.is_empty())
    }

    fn unknown(&mut self, keys: &Map<String, Value>, known: &[&str]) {
        for key in keys.keys().filter(|key| !known.contains(&key.as_str())) {
            if IGNORED.contains(&key.as_str()) {
                self.notices.push(Notice::Ignored {
                    server: self.name.to_owned(),
                    key: key.clone(),
                });
                continue;
            }
            let hint = nearest(key, known).map(|near| format!("; did you mean `{near}`?"));
            let short: String = key.chars().take(80).collect();
            self.wrong(format!("unknown key `{short}`{}", hint.unwrap_or_default()));
        }
    }

    /// Checks that `type`, as other clients write it, matches the kind of the entry.
    fn transport(&mut self, keys: &Map<String, Value>, kind: &str) {
        let Some(written) = keys.get("type") else { return };
        let fits = match written.as_str() {
            Some("stdio" | "local") => kind == "command",
            Some("http" | "streamable-http" | "streamableHttp" | "remote") => kind == "url",
            Some("openapi") => kind == "openapi",
            Some("sse") => {
                self.wrong(
                    "`type: sse` is the transport of 2024; give the server's streamable HTTP `url` with `type: http`",
                );
                return;
            }
            _ => {
                self.wrong("`type` must be `stdio` or `http`");
                return;
            }
        };
        if !fits {
            self.wrong(format!("`type` does not go with `{kind}`"));
        }
    }

    fn program(&mut self, keys: &Map<String, Value>) -> Option<Source> {
        let command = self.text(keys, "command")?;
        if command.is_empty() {
            self.wrong("`command` is empty");
        }
        let args = match keys.get("args") {
            None => Vec::new(),
            Some(Value::Array(args)) if args.len() <= ARGUMENTS && args.iter().all(Value::is_string) => {
                args.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(_) => {
                self.wrong("`args` must be a list of texts");
                Vec::new()
            }
        };
        let env = self.values(keys, "env");
        for name in env.keys().filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let message = format!("`env`: `{}` cannot be a variable's name", name.escape_debug());
            self.problems.push(Problem {
                server: Some(self.name.to_owned()),
                message,
            });
        }
        let place = match self.optional(keys, "policy").as_deref() {
            None | Some("host") => Place::Host,
            Some("") => {
                self.wrong("`policy` is empty: name one, or write `host`");
                Place::Host
            }
            Some(policy) => Place::Sandbox(policy.to_owned()),
        };
        let cwd = self.optional(keys, "cwd").map(|cwd| self.base.join(cwd));
        if cwd.is_some() && place != Place::Host {
            self.wrong(
                "`cwd` does not go with `policy`: its sandbox begins in `/workspace`, and its mounts say what is there",
            );
        }
        Some(Source::Program(Program {
            command,
            args,
            env,
            cwd,
            place,
        }))
    }

    fn remote(&mut self, keys: &Map<String, Value>) -> Option<Source> {
        let text = self.text(keys, "url")?;
        let url = self.url("url", &text)?;
        let headers = self.headers(keys);
        let auth = match self.optional(keys, "auth").as_deref() {
            None => Auth::Headers,
            Some("oauth") => Auth::OAuth,
            Some(_) => {
                self.wrong("`auth` must be `oauth`");
                Auth::Headers
            }
        };
        if auth == Auth::OAuth && headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            self.wrong("`auth: oauth` and a header `Authorization` exclude each other");
        }
        let client = self.client(keys, auth);
        Some(Source::Remote(Remote {
            url,
            headers,
            auth,
            client,
        }))
    }

    /// Parses the client for the server's authorization server.
    fn client(&mut self, keys: &Map<String, Value>, auth: Auth) -> OAuthClient {
        let client = match keys.get("oauth") {
            None => return OAuthClient::default(),
            Some(Value::Object(client)) if auth == Auth::OAuth => client,
            Some(_) => {
                self.wrong("`oauth` must be names with their values, beside `auth: oauth`");
                return OAuthClient::default();
            }
        };
        self.unknown(client, &["client_id", "client_secret", "client_metadata"]);
        let id = self.optional(client, "client_id");
        let secret = self.optional(client, "client_secret");
        let document = self.optional(client, "client_metadata");
        if secret.is_some() && id.is_none() {
            self.wrong("`oauth.client_secret` needs `oauth.client_id`");
        }
        OAuthClient {
            id,
            secret: secret.map(|secret| Written::parse(&secret, self.base)),
            document: document.and_then(|document| self.url("oauth.client_metadata", &document)),
        }
    }

    fn interface(&mut self, keys: &Map<String, Value>) -> Option<Source> {
        let text = self.text(keys, "openapi")?;
        let document = if text.starts_with("http://") || text.starts_with("https://") {
            Document::Url(self.url("openapi", &text)?)
        } else if text.is_empty() {
            self.wrong("`openapi` is empty");
            return None;
        } else {
            Document::File(self.base.join(text))
        };
        let headers = self.headers(keys);
        Some(Source::Interface(Interface { document, headers }))
    }

    /// Parses a URL that may carry credentials: https, or plain http to this machine.
    fn url(&mut self, key: &str, text: &str) -> Option<Url> {
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => {
                self.wrong(format!("`{key}` is not a URL: {error}"));
                return None;
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            self.wrong(format!("`{key}` has a user or password in it; use `headers`"));
            return None;
        }
        if !safe(&url) {
            self.wrong(format!("`{key}` must be https (http only to a loopback address)"));
            return None;
        }
        Some(url)
    }

    fn headers(&mut self, keys: &Map<String, Value>) -> BTreeMap<String, Written> {
        let headers = self.values(keys, "headers");
        for name in headers.keys() {
            let reserved = ["accept", "content-length", "content-type", "host", "last-event-id"];
            let lower = name.to_ascii_lowercase();
            if http::HeaderName::try_from(name.as_str()).is_err() {
                self.problems.push(Problem {
                    server: Some(self.name.to_owned()),
                    message: format!("`headers`: `{}` cannot be a header's name", name.escape_debug()),
                });
            } else if reserved.contains(&lower.as_str()) || lower.starts_with("mcp-") {
                self.problems.push(Problem {
                    server: Some(self.name.to_owned()),
                    message: format!("`headers`: `{name}` is the protocol's own"),
                });
            }
        }
        headers
    }

    fn values(&mut self, keys: &Map<String, Value>, key: &str) -> BTreeMap<String, Written> {
        let Some(written) = keys.get(key) else {
            return BTreeMap::new();
        };
        let Value::Object(written) = written else {
            self.wrong(format!("`{key}` must be names with their values"));
            return BTreeMap::new();
        };
        if written.len() > VALUES {
            self.wrong(format!("`{key}` has more than {VALUES} values"));
            return BTreeMap::new();
        }
        let mut values = BTreeMap::new();
        for (name, value) in written {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(truth) => truth.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    self.wrong(format!("`{key}.{name}` must be a text"));
                    continue;
                }
            };
            if text.contains('\0') {
                self.wrong(format!("`{key}.{name}` has a zero byte"));
                continue;
            }
            values.insert(name.clone(), Written::parse(&text, self.base));
        }
        values
    }

    fn text(&mut self, keys: &Map<String, Value>, key: &str) -> Option<String> {
        match keys.get(key) {
            Some(Value::String(text)) if !text.contains('\0') => Some(text.clone()),
            _ => {
                self.wrong(format!("`{key}` must be a text"));
                None
            }
        }
    }

    fn optional(&mut self, keys: &Map<String, Value>, key: &str) -> Option<String> {
        keys.contains_key(key).then(|| self.text(keys, key)).flatten()
    }
}

/// Whether a credential may be sent to this URL.
pub(crate) fn safe(url: &Url) -> bool {
    match (url.scheme(), url.host()) {
        ("https", Some(_)) => true,
        ("http", Some(Host::Ipv4(address))) => address.is_loopback(),
        ("http", Some(Host::Ipv6(address))) => address.is_loopback(),
        ("http", Some(Host::Domain(name))) => name == "localhost",
        _ => false,
    }
}

/// Returns the known word that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let close = |near: &&str| strsim::damerau_levenshtein(word, near) <= (near.len() / 3).max(1);
    known
        .iter()
        .copied()
        .filter(close)
        .min_by_key(|near| strsim::damerau_levenshtein(word, near))
}
