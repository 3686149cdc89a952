//! What goes wrong with upstream servers. Every error names the server, and no text in it holds a credential.

use std::time::{Duration, SystemTime};

use crate::credential::CredentialError;
use crate::process::LAST_WORDS;

/// Why a server cannot be used. Texts in it are cleaned of the server's secrets and cut.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServerError {
    /// No server of that name is configured.
    #[error("no server is named `{server}`{}", nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    Unknown {
        /// The name asked for.
        server: String,
        /// The nearest name there is.
        nearest: Option<String>,
    },
    /// A value of the entry cannot be had.
    #[error("server `{server}`: `{key}`: {source}")]
    Credential {
        /// The server.
        server: String,
        /// The key in its entry.
        key: String,
        /// Why.
        source: CredentialError,
    },
    /// Its program could not be started.
    #[error("server `{server}`: cannot start `{command}`: {detail}")]
    Start {
        /// The server.
        server: String,
        /// The program.
        command: String,
        /// Why.
        detail: String,
    },
    /// It was reached, but no conversation came about.
    #[error("server `{server}`: cannot connect: {detail}")]
    Connect {
        /// The server.
        server: String,
        /// Why.
        detail: String,
    },
    /// It did not answer in time.
    #[error("server `{server}`: no answer to {step} within {} ms", after.as_millis())]
    Timeout {
        /// The server.
        server: String,
        /// What was asked of it.
        step: &'static str,
        /// How long it had.
        after: Duration,
    },
    /// Its list of tools cannot be used.
    #[error("server `{server}`: cannot list its tools: {detail}")]
    List {
        /// The server.
        server: String,
        /// Why.
        detail: String,
    },
    /// It said more than is taken.
    #[error("server `{server}`: more than {limit} {what}")]
    TooMuch {
        /// The server.
        server: String,
        /// Of what.
        what: &'static str,
        /// The most that is taken.
        limit: usize,
    },
    /// It failed lately, and is left alone for a while.
    #[error("server `{server}` failed and is not tried again for {} ms: {cause}", wait(*until).as_millis())]
    BackingOff {
        /// The server.
        server: String,
        /// When it is tried again.
        until: SystemTime,
        /// What happened last.
        cause: Box<ServerError>,
    },
    /// It spoke the newer protocol before, and did not itself say that it no longer does.
    #[error(
        "server `{server}`: spoke protocol 2026-07-28 before and now does not answer in it; an older one is not used without its word: {detail}"
    )]
    Downgrade {
        /// The server.
        server: String,
        /// What happened instead.
        detail: String,
    },
    /// It wants a login.
    #[error("server `{server}` needs a login: run `ringfence servers login {server}`")]
    Login {
        /// The server.
        server: String,
    },
    /// The conversation ended.
    #[error("server `{server}`: the connection ended: {detail}")]
    Closed {
        /// The server.
        server: String,
        /// Why, as far as is known.
        detail: String,
    },
    /// Its entry names a policy, and nothing here makes sandboxes.
    #[error("server `{server}`: its policy `{policy}` needs a sandbox, and there is none here")]
    NoSandbox {
        /// The server.
        server: String,
        /// The policy.
        policy: String,
    },
}

fn wait(until: SystemTime) -> Duration {
    until.duration_since(SystemTime::now()).unwrap_or_default()
}

/// Why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The server cannot be used.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server answered with an error of the protocol.
    #[error("server `{server}` refused `{tool}`: {message} ({code})")]
    Refused {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The protocol's code.
        code: i64,
        /// The server's words.
        message: String,
    },
    /// The call took too long and was cancelled.
    #[error("server `{server}`: `{tool}` did not answer within {} ms", after.as_millis())]
    Timeout {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// How long it had.
        after: Duration,
    },
    /// The connection ended under the call: whether it took effect is unknown.
    #[error("server `{server}`: the connection ended while `{tool}` was under way, its effect is unknown: {detail}")]
    Lost {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Why, as far as is known.
        detail: String,
    },
    /// The result is larger or deeper than is taken.
    #[error("server `{server}`: the result of `{tool}` is beyond {limit} {what}")]
    TooMuch {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Of what.
        what: &'static str,
        /// The most that is taken.
        limit: usize,
    },
    /// The result is nested deeper than is read.
    #[error("server `{server}`: the result of `{tool}` is nested too deeply: {limit} levels are read")]
    TooDeep {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The most levels that are read, those of the protocol included.
        limit: usize,
    },
    /// The server answered with something that is no result.
    #[error("server `{server}`: the answer to `{tool}` is not a result: {detail}")]
    Malformed {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// What it was.
        detail: String,
    },
    /// The server wants more from the person than a call can give.
    #[error("server `{server}`: `{tool}` asks for {what}, which is not offered")]
    Wants {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// What it wants.
        what: &'static str,
    },
    /// The tool's definition changed between looking it up and calling it.
    #[error("server `{server}`: the definition of `{tool}` has changed; look at it again before calling it")]
    Changed {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
}

impl CallError {
    /// The server it is about.
    pub fn server(&self) -> &str {
        match self {
            CallError::Server(error) => error.server(),
            CallError::Refused { server, .. }
            | CallError::Timeout { server, .. }
            | CallError::Lost { server, .. }
            | CallError::TooMuch { server, .. }
            | CallError::TooDeep { server, .. }
            | CallError::Malformed { server, .. }
            | CallError::Wants { server, .. }
            | CallError::Changed { server, .. } => server,
        }
    }
}

impl ServerError {
    /// The server it is about.
    pub fn server(&self) -> &str {
        match self {
            ServerError::Unknown { server, .. }
            | ServerError::Credential { server, .. }
            | ServerError::Start { server, .. }
            | ServerError::Connect { server, .. }
            | ServerError::Timeout { server, .. }
            | ServerError::List { server, .. }
            | ServerError::TooMuch { server, .. }
            | ServerError::BackingOff { server, .. }
            | ServerError::Downgrade { server, .. }
            | ServerError::Login { server }
            | ServerError::Closed { server, .. }
            | ServerError::NoSandbox { server, .. } => server,
        }
    }
    /// The error without what the server's program wrote last, which may be about anybody: for logs.
    pub(crate) fn without_words(&self) -> String {
        let text = self.to_string();
        match text.split_once(LAST_WORDS) {
            Some((error, _)) => error.to_owned(),
            None => text,
        }
    }
}
