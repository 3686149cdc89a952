//! The settings from flags, files and the environment. No other file reads the environment.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::fault::CliFault;
use crate::print::Printer;

pub(crate) mod config;
pub(crate) mod named_files;
pub(crate) mod policy_layers;
pub(crate) mod servers;
pub(crate) mod trust;

/// The settings that come from environment variables.
#[derive(Debug, Clone)]
pub(crate) struct CliSettings {
    /// The data folder; `None` if no variable determines one.
    home: Option<PathBuf>,
    /// Whether `RINGFENCE_HOME` determines `home`.
    pub(crate) home_is_named: bool,
    /// The configuration folder of the user; `None` if no variable determines one.
    pub(crate) config_folder: Option<PathBuf>,
    /// The log filter in `RINGFENCE_LOG`.
    pub(crate) log: Option<String>,
    /// The log format, from `RINGFENCE_LOG_FORMAT`.
    pub(crate) log_format: LogFormat,
    /// Whether colour is off: `NO_COLOR` is set, or `TERM` is `dumb`.
    pub(crate) plain: bool,
    /// The endpoint for traces in the standard OpenTelemetry variables.
    pub(crate) otlp: Option<String>,
    /// The `PATH` in which a shell looks for programs.
    search_path: Option<OsString>,
}

/// The format of log lines on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text lines for a person.
    Text,
    /// One JSON object per line.
    Json,
}

impl CliSettings {
    /// Reads the environment; an empty variable counts as unset.
    pub(crate) fn from_environment() -> CliSettings {
        let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        // The XDG base directory specification requires relative paths to be ignored.
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
        CliSettings {
            home_is_named: named.is_some(),
            home: named.or_else(|| below("XDG_DATA_HOME", ".local/share")),
            config_folder: below("XDG_CONFIG_HOME", ".config"),
            log: text("RINGFENCE_LOG"),
            log_format: if json { LogFormat::Json } else { LogFormat::Text },
            otlp: text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| text("OTEL_EXPORTER_OTLP_ENDPOINT")),
            search_path: given("PATH"),
            plain: given("NO_COLOR").is_some() || text("TERM").is_some_and(|term| term == "dumb"),
        }
    }

    /// The absolute path of the data folder; fails if none is set or if others can access it.
    pub(crate) fn home(&self) -> Result<PathBuf, CliFault> {
        let Some(home) = &self.home else {
            return Err(CliFault::internal(
                "store.folder",
                "there is no data folder: neither `RINGFENCE_HOME` nor `HOME` is set",
            )
            .with_hint("set `RINGFENCE_HOME` to a folder of your own"));
        };
        let home = absolute_path(home)?;
        let open = std::fs::metadata(&home)
            .ok()
            .filter(|data| data.is_dir() && data.mode() & 0o077 != 0);
        match open.map(|data| data.mode() & 0o777) {
            None => Ok(home),
            Some(mode) => Err(ringfence_store::OpenStoreError::Exposed { path: home, mode }.into()),
        }
    }

    /// The command that runs this program in a shell: its name if `PATH` finds it, else its path.
    pub(crate) fn own_command(&self) -> String {
        const NAME: &str = "ringfence";
        let Ok(own) = env::current_exe() else {
            return NAME.to_owned();
        };
        let is_own = |folder: PathBuf| folder.join(NAME).canonicalize().is_ok_and(|found| found == own);
        if self
            .search_path
            .as_ref()
            .is_some_and(|path| env::split_paths(path).any(is_own))
        {
            return NAME.to_owned();
        }
        let here = env::current_dir().unwrap_or_default();
        own.strip_prefix(here).unwrap_or(&own).display().to_string()
    }

    /// Removes the access of others to the data folder and prints a notice. If that fails, opening the folder reports it.
    pub(crate) fn close_home(&self, printer: &Printer) {
        let Some(Ok(home)) = self.home.as_deref().map(absolute_path) else {
            return;
        };
        if let Ok(Some(mode)) = ringfence_store::restrict_permissions(&home) {
            let home = home.display();
            printer.notice(&format!(
                "others could read the data folder `{home}` (mode {mode:o}): it is closed to them now (mode 700)"
            ));
        }
    }

    /// The data folder if it contains a journal; commands that only read must not create one.
    pub(crate) fn journal_home(&self) -> Result<PathBuf, CliFault> {
        let home = self.home()?;
        match home.join("ringfence.db").symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // If a signed journal existed here, it is gone, and the command reports that.
                ringfence_store::check_journal_gone(&home)?;
                let message = format!("there is no journal in `{}` yet", home.display());
                Err(CliFault::internal("store.none", message)
                    .with_hint("the first `ringfence run` or `ringfence exec` writes one")
                    .with_exit(crate::fault::EXIT_CHECK_FAILED))
            }
            // Opening the journal reports other errors better.
            _ => Ok(home),
        }
    }
}

/// An environment variable that an entry of the operator refers to; `None` if it is unset or not UTF-8.
pub(crate) fn environment_variable(name: &str) -> Option<String> {
    env::var_os(name).and_then(|value| value.into_string().ok())
}

/// Makes a path absolute, so that it stays valid if the working folder changes.
pub(crate) fn absolute_path(path: &Path) -> Result<PathBuf, CliFault> {
    std::path::absolute(path).map_err(|error| {
        let message = format!(
            "cannot tell where `{}` is: {}",
            path.display(),
            crate::fault::io_error_text(&error)
        );
        CliFault::internal("start.folder", message).with_hint("run it from a folder that exists")
    })
}
