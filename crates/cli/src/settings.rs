//! Flags, files and environment, folded. The only place that reads the environment.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::fault::Fault;
use crate::print::Printer;

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
    /// Where a shell looks for programs.
    search_path: Option<OsString>,
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
            search_path: given("PATH"),
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
        let home = absolute(home)?;
        let open = std::fs::metadata(&home)
            .ok()
            .filter(|data| data.is_dir() && data.mode() & 0o077 != 0);
        match open.map(|data| data.mode() & 0o777) {
            None => Ok(home),
            Some(mode) => Err(ringfence_store::OpenError::Exposed { path: home, mode }.into()),
        }
    }

    /// What a shell calls this program by: its name where the search path leads to it, else where it lies.
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

    /// Closes a data folder that others can read, and says so. Where that fails, opening it says why.
    pub(crate) fn close_home(&self, printer: &Printer) {
        let Some(Ok(home)) = self.home.as_deref().map(absolute) else {
            return;
        };
        if let Ok(Some(mode)) = ringfence_store::close_to_others(&home) {
            let home = home.display();
            printer.notice(&format!(
                "others could read the data folder `{home}` (mode {mode:o}): it is closed to them now (mode 700)"
            ));
        }
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
                    .hint("the first `ringfence run` or `ringfence exec` writes one")
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
