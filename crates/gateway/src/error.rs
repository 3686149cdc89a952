//! Errors of upstream servers. Every error names the server, and no text in it contains a credential.

use std::time::{Duration, SystemTime};

use crate::connection::process::STDERR_HEADING;
use crate::credential::CredentialError;

/// Why a server cannot be used. Its texts are scrubbed of the server's secrets and truncated.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServerError {
    /// No server of that name is configured.
    #[error("no server is named `{server}`{}", nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    Unknown {
        /// The name that was asked for.
        server: String,
        /// The most similar configured name, if one is near.
        nearest: Option<String>,
    },
    /// A value of the entry cannot be resolved.
    #[error("server `{server}`: `{key}`: {source}")]
    Credential {
        /// Configured name of the server.
        server: String,
        /// The key in the server's entry.
        key: String,
        /// Why the value cannot be resolved.
        source: CredentialError,
    },
    /// Its program cannot be started.
    #[error("server `{server}`: cannot start `{command}`: {detail}")]
    Start {
        /// Configured name of the server.
        server: String,
        /// The program as the entry names it.
        command: String,
        /// The error from starting it.
        detail: String,
    },
    /// The server was reached, but the protocol did not open.
    #[error("server `{server}`: cannot connect: {detail}")]
    Connect {
        /// Configured name of the server.
        server: String,
        /// The error of the transport, in plain words.
        detail: String,
    },
    /// It did not answer in time.
    #[error("server `{server}`: no answer to {step} within {} ms", after.as_millis())]
    Timeout {
        /// Configured name of the server.
        server: String,
        /// The step that got no answer.
        step: &'static str,
        /// The time limit of the step.
        after: Duration,
    },
    /// Its list of tools cannot be used.
    #[error("server `{server}`: cannot list its tools: {detail}")]
    List {
        /// Configured name of the server.
        server: String,
        /// The reason that the list is refused.
        detail: String,
    },
    /// The server sent more than is accepted.
    #[error("server `{server}`: more than {limit} {what}")]
    TooMuch {
        /// Configured name of the server.
        server: String,
        /// The unit of `limit`, such as tools or pages.
        what: &'static str,
        /// The most that is accepted.
        limit: usize,
    },
    /// It failed lately and is not retried for a while.
    #[error("server `{server}` failed and is not tried again for {} ms: {cause}", wait(*until).as_millis())]
    BackingOff {
        /// Configured name of the server.
        server: String,
        /// The time of the next attempt.
        until: SystemTime,
        /// The error of the last attempt.
        cause: Box<ServerError>,
    },
    /// It spoke the newer protocol before, and did not say itself that it no longer does.
    #[error(
        "server `{server}`: spoke protocol 2026-07-28 before and now does not answer in it; an older one is not used without its word: {detail}"
    )]
    Downgrade {
        /// Configured name of the server.
        server: String,
        /// What the server did instead.
        detail: String,
    },
    /// The server requires a login.
    #[error("server `{server}` needs a login: run `ringfence servers login {server}`")]
    Login {
        /// Configured name of the server.
        server: String,
    },
    /// The connection to the server ended.
    #[error("server `{server}`: the connection ended: {detail}")]
    Closed {
        /// Configured name of the server.
        server: String,
        /// The reason, as far as it is known.
        detail: String,
    },
    /// Its entry names a policy, but this process cannot create sandboxes.
    #[error("server `{server}`: its policy `{policy}` needs a sandbox, and there is none here")]
    NoSandbox {
        /// Configured name of the server.
        server: String,
        /// The policy that its entry names.
        policy: String,
    },
}

fn wait(until: SystemTime) -> Duration {
    until.duration_since(SystemTime::now()).unwrap_or_default()
}

/// Why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UpstreamCallError {
    /// The server cannot be used.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server answered with a protocol error.
    #[error("server `{server}` refused `{tool}`: {message} ({code})")]
    Refused {
        /// Configured name of the server.
        server: String,
        /// The tool's name at its server.
        tool: String,
        /// The error code of the protocol.
        code: i64,
        /// The error message of the server.
        message: String,
    },
    /// The call took too long and was cancelled.
    #[error("server `{server}`: `{tool}` did not answer within {} ms", after.as_millis())]
    Timeout {
        /// Configured name of the server.
        server: String,
        /// The tool's name at its server.
        tool: String,
        /// The time limit of the call.
        after: Duration,
    },
    /// The connection ended during the call: whether it took effect is unknown.
    #[error("server `{server}`: the connection ended while `{tool}` was under way, its effect is unknown: {detail}")]
    Lost {
        /// Configured name of the server.
        server: String,
        /// The tool's name at its server.
        tool: String,
        /// The reason, as far as it is known.
        detail: String,
    },
    /// The result is larger than is accepted.
    #[error("server `{server}`: the result of `{tool}` is beyond {limit} {what}")]
    TooMuch {
        /// Configured name of the server.
        server: String,
        /// The tool's name at its server.
        tool: String,
        /// The unit of `limit`, such as bytes.
        what: &'static str,
        /// The most that is accepted.
        limit: usize,
    },
    /// The result is nested too deeply.
    #[error("server `{server}`: the result of `{tool}` is nested too deeply: {limit} levels are read")]
    TooDeep {
        /// Configured name of the server.
        server: String,
        /// The tool's name at its server.
        tool: String,
        /// The most levels that are accepted, those of the protocol included.
        limit: usize,
    },
    /// The server's answer is not a result.
    #[error("server `{server}`: the answer to `{tool}` is not a result: {detail}")]
    Malformed {
        /// Configured name of the server.
        server: String,
        /// The tool's name at its server.
        tool: String,
        /// What is wrong with the answer.
        detail: String,
    },
    /// The server asks the user for more than a call offers.
    #[error("server `{server}`: `{tool}` asks for {what}, which is not offered")]
    Wants {
        /// Configured name of the server.
        server: String,
        /// The tool's name at its server.
        tool: String,
        /// The feature that the server asks for.
        what: &'static str,
    },
    /// The tool's definition changed between lookup and call.
    #[error("server `{server}`: the definition of `{tool}` has changed; look at it again before calling it")]
    Changed {
        /// Configured name of the server.
        server: String,
        /// The tool's name at its server.
        tool: String,
    },
}

impl UpstreamCallError {
    /// Returns the name of the server that the error is about.
    pub fn server(&self) -> &str {
        match self {
            UpstreamCallError::Server(error) => error.server(),
            UpstreamCallError::Refused { server, .. }
            | UpstreamCallError::Timeout { server, .. }
            | UpstreamCallError::Lost { server, .. }
            | UpstreamCallError::TooMuch { server, .. }
            | UpstreamCallError::TooDeep { server, .. }
            | UpstreamCallError::Malformed { server, .. }
            | UpstreamCallError::Wants { server, .. }
            | UpstreamCallError::Changed { server, .. } => server,
        }
    }
}

impl ServerError {
    /// Returns the name of the server that the error is about.
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
    /// Formats the error for logs, without the last output of the server's program, which may contain personal data.
    pub(crate) fn without_stderr(&self) -> String {
        let text = self.to_string();
        match text.split_once(STDERR_HEADING) {
            Some((error, _)) => error.to_owned(),
            None => text,
        }
    }
}
