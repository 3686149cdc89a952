//! Structured logs on standard error: warnings by default, more with `-v` or the filter in `RINGFENCE_LOG`.

use std::io::{self, IsTerminal as _};

use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::CliArgs;
use crate::settings::{CliSettings, LogFormat};

/// Starts logging. Invalid parts of the filter are reported and ignored.
pub(crate) fn start_logging(args: &CliArgs, settings: &CliSettings) {
    let level = match (args.words.quiet, args.words.verbose) {
        (true, _) => Level::ERROR,
        (false, 0) => Level::WARN,
        (false, 1) => Level::INFO,
        (false, 2) => Level::DEBUG,
        (false, _) => Level::TRACE,
    };
    let colour = io::stderr().is_terminal() && !settings.plain;
    // The commands report lost connections themselves, so the messages of the protocol library are turned off.
    let quiet = Targets::new().with_default(level).with_target("rmcp", LevelFilter::OFF);
    let is_asked = args.words.verbose > 0;
    let builder = fmt().with_writer(io::stderr).with_ansi(colour).with_target(false);
    // An environment filter is slow to build, so only runs that ask for one build it.
    let started = match (&settings.log, settings.log_format) {
        (None, LogFormat::Text) if is_asked => builder.with_max_level(level).try_init(),
        (None, LogFormat::Json) if is_asked => builder.json().with_max_level(level).try_init(),
        (None, LogFormat::Text) => builder
            .with_max_level(level)
            .finish()
            .with(quiet)
            .try_init()
            .map_err(Into::into),
        (None, LogFormat::Json) => builder
            .json()
            .with_max_level(level)
            .finish()
            .with(quiet)
            .try_init()
            .map_err(Into::into),
        (Some(filter), LogFormat::Text) => builder.with_env_filter(EnvFilter::new(filter)).try_init(),
        (Some(filter), LogFormat::Json) => builder.json().with_env_filter(EnvFilter::new(filter)).try_init(),
    };
    // No other code sets a subscriber.
    debug_assert!(started.is_ok());
}
