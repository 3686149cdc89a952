//! `ringfence.yaml`, the operator's configuration: which file applies, and its contents.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ringfence_engine::{AuditSinkConfig, CheckerTools};
use ringfence_gateway::{Credentials, ServerKind, Servers, StdioPlacement};
use ringfence_policy::{Draft, MAX_DOCUMENT_BYTES};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{MessageFormatter as _, Spanned, UserMessageFormatter};

mod server_settings;
mod sinks;

pub(crate) use server_settings::{AccessSettings, ServerSettings};

use super::named_files::NamedFiles;
use super::policy_layers;
use super::trust::{self, TrustState};
use super::{CliSettings, absolute_path};
use crate::fault::{CliFault, io_error_text};
use crate::print::Printer;

/// The name of the configuration file in every folder.
pub(crate) const CONFIG_FILE: &str = "ringfence.yaml";
/// Every key, and whether this version supports it.
const CONFIG_KEYS: [(&str, bool); 12] = [
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
    pub(crate) sinks: Vec<AuditSinkConfig>,
    /// The tool servers under `servers`.
    pub(crate) servers: Servers,
    /// The credentials for outgoing requests.
    pub(crate) credentials: Credentials,
    /// The type checkers under `runtimes`; those that are unset are searched in the data folder.
    pub(crate) checkers: CheckerTools,
    /// The files that it names, as they were read.
    pub(crate) files: NamedFiles,
    /// The settings of `serve`: `listen`, `auth`, `sessions` and `telemetry`.
    pub(crate) doors: ServerSettings,
}

impl Config {
    /// Loads the file of `--config`, else the one of the current folder if it is trusted, else the user's own, else
    /// nothing.
    pub(crate) fn find(flag: Option<&Path>, settings: &CliSettings, printer: &Printer) -> Result<Config, CliFault> {
        if let Some(path) = flag {
            return Config::read(path);
        }
        let here = Path::new(CONFIG_FILE);
        if here.symlink_metadata().is_ok() {
            match trust::trust_state(here, settings)? {
                TrustState::Yes(config) => return Ok(*config),
                TrustState::Never => printer.notice(&format!(
                    "`./{CONFIG_FILE}` is ignored: it was found, not chosen; accept it with `ringfence trust .`, or use `--config`"
                )),
                TrustState::Changed => printer.notice(&format!(
                    "`./{CONFIG_FILE}` is ignored: it changed since it was trusted; look at it, then `ringfence trust .`"
                )),
                TrustState::FileChanged(name) => printer.notice(&format!(
                    "`./{CONFIG_FILE}` is ignored: `{name}`, which it names, changed since it was trusted; look at it, then `ringfence trust .`"
                )),
                TrustState::Unreadable(why) => printer.notice(&format!("`./{CONFIG_FILE}` is ignored: {why}")),
            }
        }
        match settings.config_folder.as_ref().map(|folder| folder.join(CONFIG_FILE)) {
            Some(path) if path.symlink_metadata().is_ok() => Config::read(&path),
            _ => Ok(Config::default()),
        }
    }

    fn read(path: &Path) -> Result<Config, CliFault> {
        let text = read_text(path, "config.read")
            .map_err(|fault| fault.with_hint("name a `ringfence.yaml` that you can read"))?;
        Config::from_text(&text, path)
    }

    fn from_text(text: &str, path: &Path) -> Result<Config, CliFault> {
        let folder = absolute_path(path)?.parent().map(Path::to_owned).unwrap_or_default();
        let source = ConfigSource {
            path,
            folder: &folder,
            files: &NamedFiles::default(),
        };
        Config::from_source(text, &source)
    }

    fn from_source(text: &str, source: &ConfigSource<'_>) -> Result<Config, CliFault> {
        let mut config = parse_config(text, source)?;
        config.path = Some(source.path.to_owned());
        config.files = source.files.clone();
        Ok(config)
    }

    /// Reads the file with all that it names, once: nothing of it is read again later. `files` has every file that was read, also
    /// where this fails.
    pub(crate) fn with_named_files(source: &ConfigSource<'_>, text: &str) -> Result<Config, CliFault> {
        let mut config = Config::from_source(text, source)?;
        for server in config.servers.iter() {
            if let ServerKind::Program(program) = &server.source
                && let StdioPlacement::Sandbox(policy) = &program.place
                && Draft::preset(policy).is_none()
            {
                source.files.read_text(&source.resolve(policy), "policy.read")?;
            }
        }
        config
            .servers
            .read_documents(|path, content| source.files.note(path, content));
        Ok(config)
    }
}

/// Reads a document of at most the size that a policy may have.
pub(crate) fn read_text(path: &Path, code: &'static str) -> Result<String, CliFault> {
    use std::io::Read as _;
    let failed = |why: String| CliFault::internal(code, format!("cannot read `{}`: {why}", path.display()));
    let io = |error: std::io::Error| failed(io_error_text(&error));
    let file = std::fs::File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_dir() {
        return Err(failed("it is a folder".to_owned()));
    }
    let most = MAX_DOCUMENT_BYTES as u64;
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

/// Where the text of a configuration comes from.
pub(crate) struct ConfigSource<'a> {
    /// The file, as messages name it.
    pub(crate) path: &'a Path,
    /// Its folder, for relative paths.
    pub(crate) folder: &'a Path,
    /// The files that it names and that were read.
    pub(crate) files: &'a NamedFiles,
}

impl ConfigSource<'_> {
    fn fault(&self, line: u64, message: &str) -> CliFault {
        let path = self.path.display();
        let place = if line == 0 {
            path.to_string()
        } else {
            format!("{path}:{line}")
        };
        CliFault::internal("config.parse", format!("{place}: {message}"))
    }

    fn resolve(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }
}

/// The top-level entries of the file, each with its line number.
struct ConfigEntries(Vec<(String, u64, Value)>);

impl<'de> Deserialize<'de> for ConfigEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConfigEntries, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = ConfigEntries;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys with values")
            }
            fn visit_unit<E>(self) -> Result<ConfigEntries, E> {
                Ok(ConfigEntries(Vec::new()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ConfigEntries, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Spanned<String>, Value>()? {
                    entries.push((key.value, key.referenced.line(), value));
                }
                Ok(ConfigEntries(entries))
            }
        }
        deserializer.deserialize_any(EntriesVisitor)
    }
}

fn parse_config(text: &str, source: &ConfigSource<'_>) -> Result<Config, CliFault> {
    let top: ConfigEntries = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(0, |at| at.line());
        source.fault(line, &UserMessageFormatter.format_message(&error))
    })?;
    let mut config = Config::default();
    for (key, line, value) in top.0 {
        check_known(&key, &CONFIG_KEYS.map(|(name, _)| name), "")
            .map_err(|(message, hint)| unknown_key(source, line, &message, hint))?;
        if CONFIG_KEYS.contains(&(key.as_str(), false)) {
            if !is_empty(&value) {
                let fault = source.fault(line, &format!("`{key}` is not built yet"));
                return Err(fault
                    .with_rule(key)
                    .with_hint("leave the key out until this version has it"));
            }
            continue;
        }
        let part = ConfigKey {
            source,
            line,
            key: &key,
        };
        match key.as_str() {
            "policy" => config.policy = part.draft(value)?,
            "ceiling" => config.ceiling = part.draft(value)?,
            "servers" | "credentials" | "auth" | "listen" | "sessions" | "telemetry" if is_empty(&value) => {}
            "auth" | "listen" | "sessions" | "telemetry" => config.doors.read_key(&part, value)?,
            "servers" => {
                config.servers = Servers::from_section(&value, source.folder)
                    .map_err(|error| super::servers::servers_fault(&source.path.display().to_string(), &error))?;
            }
            "credentials" => {
                config.credentials = Credentials::from_section(&value, source.folder).map_err(|error| {
                    let hint =
                        "each is `{ name, from, for: [{ tool: \"SERVER.*\" }, { host, methods, paths, header }] }`";
                    part.fault(&error.to_string()).with_hint(hint)
                })?;
            }
            "runtimes" => {
                let mut given = part.fields(value, &["python", "tsc", "ty"])?;
                let mut path = |name: &str| given.remove(name).map(|path| part.path(name, &path)).transpose();
                config.python = path("python")?;
                config.checkers = CheckerTools {
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

fn unknown_key(source: &ConfigSource<'_>, line: u64, message: &str, hint: Option<String>) -> CliFault {
    CliFault {
        hint,
        ..source.fault(line, message)
    }
}

/// Checks that `key` is one of `names`; the error is a message and a hint.
fn check_known(key: &str, names: &[&str], above: &str) -> Result<(), (String, Option<String>)> {
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
struct ConfigKey<'a> {
    source: &'a ConfigSource<'a>,
    line: u64,
    key: &'a str,
}

impl ConfigKey<'_> {
    fn fault(&self, message: &str) -> CliFault {
        self.source.fault(self.line, message)
    }

    /// Parses a policy: the name of a preset, a path, or an inline policy.
    fn draft(&self, value: Value) -> Result<Option<Draft>, CliFault> {
        let name = format!("{}: {}", self.source.path.display(), self.key);
        let draft = match value {
            Value::Null => return Ok(None),
            Value::String(named) => {
                let preset = Draft::preset(&named).map(Ok);
                let draft = preset.unwrap_or_else(|| {
                    policy_layers::named_file_draft(&self.source.resolve(&named), self.source.files)
                });
                return draft.map(Some);
            }
            Value::Object(_) => Draft::parse(&value.to_string(), &name).map_err(|error| {
                // The line numbers in the reserialized copy do not match the file.
                let fault = CliFault::internal("config.parse", format!("{name}: {}", error.message));
                CliFault {
                    hint: error.hint,
                    ..fault
                }
            })?,
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return Err(self.fault(&format!("`{}` must be a preset, a path or a policy", self.key)));
            }
        };
        Ok(Some(policy_layers::relative_to(draft, self.source.folder)))
    }

    fn fields(&self, value: Value, names: &[&str]) -> Result<BTreeMap<String, Value>, CliFault> {
        let map = match value {
            Value::Null => return Ok(BTreeMap::new()),
            Value::Object(map) => map,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(self.fault(&format!("`{}` must have keys: {}", self.key, names.join(", "))));
            }
        };
        for key in map.keys() {
            check_known(key, names, &format!("{}.", self.key))
                .map_err(|(message, hint)| unknown_key(self.source, self.line, &message, hint))?;
        }
        Ok(map.into_iter().filter(|(_, value)| !value.is_null()).collect())
    }

    fn path(&self, name: &str, value: &Value) -> Result<PathBuf, CliFault> {
        match value.as_str() {
            Some(path) if !path.is_empty() => Ok(self.source.resolve(path)),
            _ => Err(self.fault(&format!("`{}.{name}` must be a path", self.key))),
        }
    }
}

#[cfg(test)]
mod tests;
