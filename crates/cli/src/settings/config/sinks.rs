//! `audit.sinks`: the destinations of records besides the journal.

use std::path::PathBuf;

use ringfence_engine::AuditSinkConfig;
use ringfence_gateway::{AuditSink, AuditSinkError, CredentialSource};
use ringfence_store::SinkConfig as Near;
use serde_json::Value;

use super::{ConfigKey, check_known, unknown_key};
use crate::fault::{CliFault, error_chain};

/// The socket of the system's log.
const SYSLOG_SOCKET: &str = "/dev/log";
const SINK_KINDS: [&str; 4] = ["file", "syslog", "webhook", "otlp"];
const SINK_SHAPES: &str =
    "a sink is `syslog`, `{ syslog: PATH }`, `{ file: PATH }`, `{ webhook: { url, secret } }` or `{ otlp: { url } }`";

impl ConfigKey<'_> {
    /// Parses all sinks of the list.
    pub(super) fn sinks(&self, value: Value) -> Result<Vec<AuditSinkConfig>, CliFault> {
        let list = match self.fields(value, &["sinks"])?.remove("sinks") {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(_) => {
                return Err(self.fault("`audit.sinks` must be a list, such as `[{ file: audit.jsonl }, syslog]`"));
            }
        };
        list.into_iter().map(|sink| self.sink(sink)).collect()
    }

    fn sink(&self, value: Value) -> Result<AuditSinkConfig, CliFault> {
        let (kind, inner) = match value {
            Value::String(kind) => (kind, Value::Null),
            Value::Object(map) if map.len() == 1 => map.into_iter().next().unwrap_or_default(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return Err(self.fault(SINK_SHAPES));
            }
        };
        match kind.as_str() {
            "syslog" | "file" => self.local_sink(&kind, inner).map(AuditSinkConfig::Local),
            "webhook" | "otlp" => self.remote_sink(&kind, inner).map(AuditSinkConfig::Remote),
            other => {
                let (_, hint) = check_known(other, &SINK_KINDS, "").err().unwrap_or_default();
                let message = format!("unknown sink `{other}`");
                Err(unknown_key(self.source, self.line, &message, hint))
            }
        }
    }

    fn local_sink(&self, kind: &str, inner: Value) -> Result<Near, CliFault> {
        let path = inner.get("path").cloned().unwrap_or(inner);
        let path = match kind {
            "syslog" if path.is_null() => PathBuf::from(SYSLOG_SOCKET),
            kind => self.path(&format!("sinks.{kind}"), &path)?,
        };
        Ok(match kind {
            "syslog" => Near::Syslog { path },
            _ => Near::File { path },
        })
    }

    fn remote_sink(&self, kind: &str, inner: Value) -> Result<AuditSink, CliFault> {
        let key = format!("audit.sinks.{kind}");
        let part = ConfigKey { key: &key, ..*self };
        let names: &[&str] = if kind == "webhook" {
            &["url", "secret", "durable"]
        } else {
            &["url", "headers"]
        };
        let mut given = part.fields(inner, names)?;
        let mut text = |name: &str| match given.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            _ => Err(part.fault(&format!("`{key}.{name}` must be a text"))),
        };
        let url = text("url")?;
        let wrong = |error: AuditSinkError| part.fault(&format!("`{key}`: {}", error_chain(&error)));
        if kind == "webhook" {
            let secret = CredentialSource::parse(&text("secret")?, self.source.folder);
            let durable = match given.remove("durable") {
                None => false,
                Some(Value::Bool(durable)) => durable,
                Some(_) => return Err(part.fault(&format!("`{key}.durable` must be true or false"))),
            };
            return AuditSink::webhook(&url, secret, durable).map_err(wrong);
        }
        let mut headers = Vec::new();
        for (name, value) in part.object_field("headers", given.remove("headers"))? {
            let Value::String(value) = value else {
                return Err(part.fault(&format!("`{key}.headers.{name}` must be a text")));
            };
            headers.push((name, CredentialSource::parse(&value, self.source.folder)));
        }
        AuditSink::otlp(&url, headers).map_err(wrong)
    }

    fn object_field(&self, name: &str, value: Option<Value>) -> Result<serde_json::Map<String, Value>, CliFault> {
        match value {
            None => Ok(serde_json::Map::new()),
            Some(Value::Object(map)) => Ok(map),
            Some(_) => Err(self.fault(&format!("`{}.{name}` must have keys with texts", self.key))),
        }
    }
}
