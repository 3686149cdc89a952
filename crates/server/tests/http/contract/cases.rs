//! Requests generated from the document: valid ones, and all kinds of invalid ones.

use serde_json::{Map, Value, json};

use super::curl::Request;
use super::schema::{allowed, forbidden, required, resolve};

/// A path and a method of the document.
#[derive(Debug)]
pub(super) struct Operation<'a> {
    document: &'a Value,
    pub(super) path: &'a str,
    pub(super) method: &'a str,
    pub(super) described: &'a Value,
    parameters: Vec<&'a Value>,
    body: Option<&'a Value>,
}

/// All operations of the document.
pub(super) fn operations(document: &Value) -> Vec<Operation<'_>> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters");
        for (method, described) in methods {
            let lists = [item.get("parameters"), described.get("parameters")];
            let parameters = lists.into_iter().flatten().flat_map(|list| list.as_array().unwrap());
            let body = described.pointer("/requestBody/content/application~1json/schema");
            all.push(Operation {
                document,
                path,
                method,
                described,
                parameters: parameters.collect(),
                body: body.map(|schema| resolve(document, schema)),
            });
        }
    }
    all
}

/// What is wrong with a request, and the expected error code if there is only one.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) request: Request,
    pub(super) status: Option<u16>,
}

impl Operation<'_> {
    pub(super) fn is_stream(&self) -> bool {
        self.described
            .pointer("/responses/200/content/text~1event-stream")
            .is_some()
    }

    /// The request of a caller with this bearer, for the resource `id`, with `body` unchanged.
    pub(super) fn request(&self, bearer: &str, id: &str, body: Option<&Value>) -> Request {
        let mut headers = vec![("Authorization".to_owned(), bearer.to_owned())];
        if body.is_some() {
            headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
        }
        Request {
            method: self.method.to_uppercase(),
            path: self.path.replace("{id}", id).replace("{path}", "made.txt"),
            headers,
            body: body.map(|body| body.to_string().into_bytes()),
            is_stream: self.is_stream(),
        }
    }

    /// The body with only its required fields.
    pub(super) fn least(&self) -> Option<Value> {
        self.body.map(|schema| Value::Object(required(self.document, schema)))
    }

    /// Requests that the document allows: the plain one, and one for each optional parameter and property.
    pub(super) fn valid(&self, bearer: &str, id: &str, body: Option<&Value>) -> Vec<Request> {
        let plain = self.request(bearer, id, body);
        let mut all = vec![plain.clone()];
        for parameter in &self.parameters {
            let name = parameter["name"].as_str().unwrap();
            for value in allowed(self.document, &parameter["schema"]) {
                all.extend(with(&plain, parameter, name, &text(&value)));
            }
        }
        for (name, schema) in self.properties() {
            for value in allowed(self.document, schema) {
                let mut more = body.cloned().unwrap_or_else(|| json!({}));
                more[name] = value;
                all.push(self.request(bearer, id, Some(&more)));
            }
        }
        all
    }

    fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        let properties = self.body.and_then(|schema| schema.get("properties")?.as_object());
        properties.into_iter().flatten()
    }

    /// Requests with one error each.
    pub(super) fn invalid(&self, bearer: &str, id: &str, body: Option<&Value>) -> Vec<Wrong> {
        let mut all = Vec::new();
        let plain = self.request(bearer, id, body);
        let mut add = |what: String, request: Request, status: Option<u16>| all.push(Wrong { what, request, status });
        for part in ["id", "path"] {
            let place = format!("{{{part}}}");
            for bad in segments().iter().filter(|_| self.path.contains(&place)) {
                let path = self
                    .path
                    .replace(&place, bad)
                    .replace("{id}", id)
                    .replace("{path}", "made.txt");
                add(format!("{part} {bad:.40}"), Request { path, ..plain.clone() }, None);
            }
        }
        add("an unknown query".to_owned(), queried(&plain, "colour=red"), None);
        for parameter in self.parameters.iter().filter(|parameter| parameter["in"] != "path") {
            let name = parameter["name"].as_str().unwrap();
            for bad in [
                "x",
                "-1",
                "1e999",
                "%ff",
                "%00",
                "%2f",
                &"9".repeat(5_000),
                "",
                "[]",
                "NaN",
            ] {
                all_with(&mut add, &plain, parameter, name, bad);
            }
        }
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
            let known = self.document["paths"][self.path].get(method.to_lowercase()).is_some();
            let request = Request {
                method: method.to_owned(),
                is_stream: false,
                ..plain.clone()
            };
            if !known {
                add(format!("method {method}"), request, Some(405));
            }
        }
        let signed = |value: Option<&str>| {
            let mut request = plain.clone();
            request.headers.retain(|(name, _)| name != "Authorization");
            let header = value.map(|value| ("Authorization".to_owned(), value.to_owned()));
            request.headers.extend(header);
            request
        };
        add("no token".to_owned(), signed(None), Some(401));
        add("no such token".to_owned(), signed(Some("Bearer rf_x")), Some(401));
        add("no bearer".to_owned(), signed(Some("Basic eDp5")), Some(400));
        self.wrong_bodies(&mut add, &plain, body);
        all
    }

    fn wrong_bodies(&self, add: &mut impl FnMut(String, Request, Option<u16>), plain: &Request, body: Option<&Value>) {
        if self.body.is_none() {
            return;
        }
        let of = |bytes: &[u8]| Request {
            body: Some(bytes.to_vec()),
            ..plain.clone()
        };
        let deep = format!("{{\"x\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let raw: [(&str, &[u8]); 11] = [
            ("half", b"{"),
            ("list", b"[]"),
            ("text", b"\"x\""),
            ("number", b"7"),
            ("null", b"null"),
            ("deep", deep.as_bytes()),
            ("nul", b"{\"a\":\0}"),
            ("no utf-8", b"{\"code\":\"\xff\xfe\"}"),
            ("half a surrogate", br#"{"code":"\ud800"}"#),
            ("too large a number", br#"{"limit":1e99999}"#),
            ("two values", b"{}{}"),
        ];
        for (what, bytes) in raw {
            add(format!("body: {what}"), of(bytes), Some(400));
        }
        add("body: too large".to_owned(), of(&vec![b' '; 5 << 20]), Some(413));
        let whole = body.cloned().unwrap_or_else(|| json!({}));
        for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            let mut request = of(whole.to_string().as_bytes());
            request.headers.retain(|(name, _)| name != "Content-Type");
            request
                .headers
                .push(("Content-Type".to_owned(), content_type.to_owned()));
            add(format!("type {content_type}"), request, Some(415));
        }
        let with = |name: &str, value: Value| {
            let mut more = whole.clone();
            more[name] = value;
            of(more.to_string().as_bytes())
        };
        add(
            "an unknown property".to_owned(),
            with("colour", json!("red")),
            Some(400),
        );
        let needed: Map<String, Value> = self
            .body
            .map(|schema| required(self.document, schema))
            .unwrap_or_default();
        for name in needed.keys() {
            let mut less = whole.clone();
            less.as_object_mut().unwrap().remove(name);
            add(format!("no `{name}`"), of(less.to_string().as_bytes()), Some(400));
        }
        for (name, schema) in self.properties() {
            for value in forbidden(schema) {
                add(format!("`{name}` as {value}"), with(name, value.clone()), None);
            }
            for text in ["\0".to_owned(), "x".repeat(1 << 20), "\u{202e}\u{1f600}".to_owned()] {
                add(
                    format!("`{name}` as {:.20}", json!(text)),
                    with(name, json!(text)),
                    None,
                );
            }
        }
    }
}

/// Path segments that match no resource.
fn segments() -> Vec<String> {
    let mut all: Vec<String> = [
        "wrong", "%ff", "%2f", "..%2f..", "%00", "%0a", "%C3%A9", "-1", "%25", "a%20b", ".",
    ]
    .map(str::to_owned)
    .into();
    // An unused id of each kind.
    all.extend(["s", "x", "a"].map(|kind| format!("{kind}_00000000000000000000000000")));
    all.push(format!("x_{}", "9".repeat(500)));
    all.push("x".repeat(8_000));
    all
}

fn all_with(
    add: &mut impl FnMut(String, Request, Option<u16>),
    plain: &Request,
    parameter: &Value,
    name: &str,
    bad: &str,
) {
    if let Some(request) = with(plain, parameter, name, bad) {
        add(format!("{name}={bad:.20}"), request, None);
    }
}

/// The request with one more parameter.
fn with(plain: &Request, parameter: &Value, name: &str, value: &str) -> Option<Request> {
    match parameter["in"].as_str().unwrap() {
        "query" => Some(queried(plain, &format!("{name}={value}"))),
        "header" => {
            let mut request = plain.clone();
            request.headers.push((name.to_owned(), value.to_owned()));
            Some(request)
        }
        _ => None,
    }
}

fn queried(plain: &Request, query: &str) -> Request {
    Request {
        path: format!("{}?{query}", plain.path),
        ..plain.clone()
    }
}

fn text(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.replace(' ', "%20")
}
