//! `ringfence.yaml`, the operator's configuration: which file applies, and its contents.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ringfence_engine::{Sink, Tools};
use ringfence_gateway::{Credentials, Servers};
use ringfence_policy::{Draft, MAX_DOCUMENT};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{MessageFormatter as _, Spanned, UserMessageFormatter};

mod doors;
mod sinks;

pub(crate) use doors::{Access, Doors};

use super::rules;
use super::trust::{self, Trusted};
use super::{Settings, absolute};
use crate::fault::{Fault, reason};
use crate::print::Printer;

/// The name of the configuration file in every folder.
pub(crate) const FILE: &str = "ringfence.yaml";
/// Every key, and whether this version supports it.
const KEYS: [(&str, bool); 12] = [
    ("servers", true),
    ("policy", true),
    ("ceiling", true),
    ("credentials", true),
    ("store", false),
    ("backends", false),
    ("runtimes", true),
    ("sessions", true),
    ("listen", true),
    ("auth", true),
    ("telemetry", true),
    ("audit", true),
];

/// The configuration of the operator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    /// The path of the file; `None` if no file applies.
    pub(crate) path: Option<PathBuf>,
    /// The default policy, where neither a flag nor the folder names one.
    pub(crate) policy: Option<Draft>,
    /// The most that a policy found in a folder may allow.
    pub(crate) ceiling: Option<Draft>,
    /// The Python interpreter to use instead of the one of the system.
    pub(crate) python: Option<PathBuf>,
    /// The audit sinks that receive records besides the journal.
    pub(crate) sinks: Vec<Sink>,
    /// The tool servers under `servers`.
    pub(crate) servers: Servers,
    /// The credentials for outgoing requests.
    pub(crate) credentials: Credentials,
    /// The type checkers under `runtimes`; those that are unset are searched in the data folder.
    pub(crate) checkers: Tools,
    /// The settings of `serve`: `listen`, `auth`, `sessions` and `telemetry`.
    pub(crate) doors: Doors,
}

impl Config {
    /// Loads the file of `--config`, else the one of the current folder if it is trusted, else the user's own, else
    /// nothing.
    pub(crate) fn find(flag: Option<&Path>, settings: &Settings, printer: &Printer) -> Result<Config, Fault> {
        if let Some(path) = flag {
            return Config::read(path);
        }
        let here = Path::new(FILE);
        if here.symlink_metadata().is_ok() {
            match trust::of(here, settings)? {
                Trusted::Yes(text) => return Config::of(&text, here),
                Trusted::Never => printer.notice(&format!(
                    "`./{FILE}` is ignored: it was found, not chosen; accept it with `ringfence trust .`, or use `--config`"
                )),
                Trusted::Changed => printer.notice(&format!(
                    "`./{FILE}` is ignored: it changed since it was trusted; look at it, then `ringfence trust .`"
                )),
                Trusted::Unreadable(why) => printer.notice(&format!("`./{FILE}` is ignored: {why}")),
            }
        }
        match settings.config_folder.as_ref().map(|folder| folder.join(FILE)) {
            Some(path) if path.symlink_metadata().is_ok() => Config::read(&path),
            _ => Ok(Config::default()),
        }
    }

    fn read(path: &Path) -> Result<Config, Fault> {
        let text =
            read_text(path, "config.read").map_err(|fault| fault.hint("name a `ringfence.yaml` that you can read"))?;
        Config::of(&text, path)
    }

    fn of(text: &str, path: &Path) -> Result<Config, Fault> {
        let folder = absolute(path)?.parent().map(Path::to_owned).unwrap_or_default();
        let mut config = parse(text, &Source { path, folder: &folder })?;
        config.path = Some(path.to_owned());
        Ok(config)
    }
}

/// Reads a document of at most the size that a policy may have.
pub(crate) fn read_text(path: &Path, code: &'static str) -> Result<String, Fault> {
    use std::io::Read as _;
    let failed = |why: String| Fault::ours(code, format!("cannot read `{}`: {why}", path.display()));
    let io = |error: std::io::Error| failed(reason(&error));
    let file = std::fs::File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_dir() {
        return Err(failed("it is a folder".to_owned()));
    }
    let most = MAX_DOCUMENT as u64;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > most {
        return Err(failed(format!("it has more than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        failed(format!(
            "it is not text: byte {} is not UTF-8",
            error.utf8_error().valid_up_to()
        ))
    })
}

struct Source<'a> {
    path: &'a Path,
    folder: &'a Path,
}

impl Source<'_> {
    fn fault(&self, line: u64, message: &str) -> Fault {
        let path = self.path.display();
        let place = if line == 0 {
            path.to_string()
        } else {
            format!("{path}:{line}")
        };
        Fault::ours("config.parse", format!("{place}: {message}"))
    }

    fn place(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }
}

/// The top-level entries of the file, each with its line number.
struct Top(Vec<(String, u64, Value)>);

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Top, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Top;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys with values")
            }
            fn visit_unit<E>(self) -> Result<Top, E> {
                Ok(Top(Vec::new()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Top, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Spanned<String>, Value>()? {
                    entries.push((key.value, key.referenced.line(), value));
                }
                Ok(Top(entries))
            }
        }
        deserializer.deserialize_any(Keys)
    }
}

fn parse(text: &str, source: &Source<'_>) -> Result<Config, Fault> {
    let top: Top = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(0, |at| at.line());
        source.fault(line, &UserMessageFormatter.format_message(&error))
    })?;
    let mut config = Config::default();
    for (key, line, value) in top.0 {
        known(&key, &KEYS.map(|(name, _)| name), "")
            .map_err(|(message, hint)| unknown(source, line, &message, hint))?;
        if KEYS.contains(&(key.as_str(), false)) {
            if !is_empty(&value) {
                let fault = source.fault(line, &format!("`{key}` is not built yet"));
                return Err(fault.rule(key).hint("leave the key out until this version has it"));
            }
            continue;
        }
        let part = Part {
            source,
            line,
            key: &key,
        };
        match key.as_str() {
            "policy" => config.policy = part.draft(value)?,
            "ceiling" => config.ceiling = part.draft(value)?,
            "servers" | "credentials" | "auth" | "listen" | "sessions" | "telemetry" if is_empty(&value) => {}
            "auth" | "listen" | "sessions" | "telemetry" => config.doors.read(&part, value)?,
            "servers" => {
                config.servers = Servers::section(&value, source.folder)
                    .map_err(|error| super::servers::unread(&source.path.display().to_string(), &error))?;
            }
            "credentials" => {
                config.credentials = Credentials::section(&value, source.folder).map_err(|error| {
                    let hint =
                        "each is `{ name, from, for: [{ tool: \"SERVER.*\" }, { host, methods, paths, header }] }`";
                    part.fault(&error.to_string()).hint(hint)
                })?;
            }
            "runtimes" => {
                let mut given = part.fields(value, &["python", "tsc", "ty"])?;
                let mut path = |name: &str| given.remove(name).map(|path| part.path(name, &path)).transpose();
                config.python = path("python")?;
                config.checkers = Tools {
                    tsc: path("tsc")?,
                    ty: path("ty")?,
                };
            }
            _ => config.sinks = part.sinks(value)?,
        }
    }
    Ok(config)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn unknown(source: &Source<'_>, line: u64, message: &str, hint: Option<String>) -> Fault {
    Fault {
        hint,
        ..source.fault(line, message)
    }
}

/// Checks that `key` is one of `names`; the error is a message and a hint.
fn known(key: &str, names: &[&str], above: &str) -> Result<(), (String, Option<String>)> {
    if names.contains(&key) {
        return Ok(());
    }
    let nearest = names
        .iter()
        .map(|name| (strsim::damerau_levenshtein(key, name), name))
        .filter(|(distance, name)| key.len() <= 64 && *distance <= name.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance);
    let hint = match nearest {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None => format!(
            "known are {}",
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    Err((format!("unknown key `{above}{key}`"), Some(hint)))
}

/// One key of the file, with its position for faults.
struct Part<'a> {
    source: &'a Source<'a>,
    line: u64,
    key: &'a str,
}

impl Part<'_> {
    fn fault(&self, message: &str) -> Fault {
        self.source.fault(self.line, message)
    }

    /// Parses a policy: the name of a preset, a path, or an inline policy.
    fn draft(&self, value: Value) -> Result<Option<Draft>, Fault> {
        let name = format!("{}: {}", self.source.path.display(), self.key);
        let draft = match value {
            Value::Null => return Ok(None),
            Value::String(named) => {
                let preset = Draft::preset(&named).map(Ok);
                let draft = preset.unwrap_or_else(|| rules::own_file(&self.source.place(&named)));
                return draft.map(Some);
            }
            Value::Object(_) => Draft::parse(&value.to_string(), &name).map_err(|error| {
                // The line numbers in the reserialized copy do not match the file.
                let fault = Fault::ours("config.parse", format!("{name}: {}", error.message));
                Fault {
                    hint: error.hint,
                    ..fault
                }
            })?,
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return Err(self.fault(&format!("`{}` must be a preset, a path or a policy", self.key)));
            }
        };
        Ok(Some(rules::relative_to(draft, self.source.folder)))
    }

    fn fields(&self, value: Value, names: &[&str]) -> Result<BTreeMap<String, Value>, Fault> {
        let map = match value {
            Value::Null => return Ok(BTreeMap::new()),
            Value::Object(map) => map,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(self.fault(&format!("`{}` must have keys: {}", self.key, names.join(", "))));
            }
        };
        for key in map.keys() {
            known(key, names, &format!("{}.", self.key))
                .map_err(|(message, hint)| unknown(self.source, self.line, &message, hint))?;
        }
        Ok(map.into_iter().filter(|(_, value)| !value.is_null()).collect())
    }

    fn path(&self, name: &str, value: &Value) -> Result<PathBuf, Fault> {
        match value.as_str() {
            Some(path) if !path.is_empty() => Ok(self.source.place(path)),
            _ => Err(self.fault(&format!("`{}.{name}` must be a path", self.key))),
        }
    }
}

#[cfg(test)]
mod tests;
