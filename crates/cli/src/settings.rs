//! Flags, files and environment, folded. The only place that reads the environment.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::fault::Fault;

pub(crate) mod config;
pub(crate) mod rules;
pub(crate) mod servers;
pub(crate) mod trust;

/// What the environment says.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Where data lives, if anything says so.
    home: Option<PathBuf>,
    /// Whether `home` is what `RINGFENCE_HOME` says.
    pub(crate) home_is_named: bool,
    /// The user's configuration folder, if there is one.
    pub(crate) config_folder: Option<PathBuf>,
    /// A filter for logs.
    pub(crate) log: Option<String>,
    /// How logs look.
    pub(crate) log_format: LogFormat,
    /// No colour.
    pub(crate) plain: bool,
    /// Where traces go, as other programs of this machine are told.
    pub(crate) otlp: Option<String>,
}

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// Lines of JSON.
    Json,
}

impl Settings {
    /// Reads the environment. An empty variable is as good as none.
    pub(crate) fn read() -> Settings {
        let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        // The base directory specification wants relative paths ignored.
        let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
        let user_home = given("HOME").and_then(absolute);
        let below = |variable: &str, usual: &str| {
            let base = given(variable)
                .and_then(absolute)
                .or_else(|| user_home.as_ref().map(|home| home.join(usual)));
            base.map(|base| base.join("ringfence"))
        };
        let named = given("RINGFENCE_HOME").map(PathBuf::from);
        let text = |name: &str| given(name).map(|value| value.to_string_lossy().into_owned());
        let json = text("RINGFENCE_LOG_FORMAT").is_some_and(|format| format.eq_ignore_ascii_case("json"));
        Settings {
            home_is_named: named.is_some(),
            home: named.or_else(|| below("XDG_DATA_HOME", ".local/share")),
            config_folder: below("XDG_CONFIG_HOME", ".config"),
            log: text("RINGFENCE_LOG"),
            log_format: if json { LogFormat::Json } else { LogFormat::Text },
            otlp: text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| text("OTEL_EXPORTER_OTLP_ENDPOINT")),
            plain: given("NO_COLOR").is_some() || text("TERM").is_some_and(|term| term == "dumb"),
        }
    }

    /// The data folder.
    pub(crate) fn home(&self) -> Result<PathBuf, Fault> {
        let Some(home) = &self.home else {
            return Err(Fault::ours(
                "store.folder",
                "there is no data folder: neither `RINGFENCE_HOME` nor `HOME` is set",
            )
            .hint("set `RINGFENCE_HOME` to a folder of your own"));
        };
        absolute(home)
    }

    /// The data folder, if there is a journal in it: what only looks must not make one.
    pub(crate) fn journal_home(&self) -> Result<PathBuf, Fault> {
        let home = self.home()?;
        match home.join("ringfence.db").symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Where one was signed before, it is gone, and nothing begins anew without a word.
                ringfence_store::check_journal_gone(&home)?;
                let message = format!("there is no journal in `{}` yet", home.display());
                Err(Fault::ours("store.none", message)
                    .hint("`ringfence demo` writes a first one")
                    .exit(crate::fault::NOT_HELD))
            }
            // Whatever else is wrong with it, opening says better.
            _ => Ok(home),
        }
    }
}

/// A variable of the environment, for references that the operator wrote.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var_os(name).and_then(|value| value.into_string().ok())
}

/// A path that stays the same when the folder is left.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Fault> {
    std::path::absolute(path).map_err(|error| {
        let message = format!(
            "cannot tell where `{}` is: {}",
            path.display(),
            crate::fault::reason(&error)
        );
        Fault::ours("start.folder", message).hint("run it from a folder that exists")
    })
}
