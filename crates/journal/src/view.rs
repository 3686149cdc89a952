//! Views: pure functions over events. They use host events only.

mod calls;
mod egress;

use jiff::Timestamp;
use serde::Serialize;

pub use egress::{EgressOutcome, EgressSummary};

use crate::{
    By, CallOutcome, Enforcement, Event, ExecutionId, FileOut, Kind, Origin, Output, PolicyRef, Principal, SessionId,
    Status, Text, Truncated, Usage,
};

/// An attempt that the policy forbids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The kind of attempt.
    pub kind: Text,
    /// What exactly was attempted, such as a path or a system call.
    pub detail: Text,
    /// The rule that forbids it.
    pub rule: Text,
}

/// Refusals of one kind that were counted instead of listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatedSummary {
    /// The kind of event, such as `call_refused`.
    pub of: Text,
    /// The tool or host concerned, or `other`.
    pub what: Text,
    /// The stable code of the refusal.
    pub code: Text,
    /// The rule that refused.
    pub rule: Text,
    /// How many refusals were counted.
    pub count: u64,
}

/// One tool call, summarised from its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    /// Counts from 1 in its execution.
    pub number: u64,
    /// The tool's full name.
    pub tool: Text,
    /// The outcome; `unknown` if the end of the call was never recorded.
    pub outcome: CallOutcome,
    /// The rule that allowed or refused it.
    pub rule: Text,
    /// The stable code of the error, if there was one.
    pub error: Option<Text>,
    /// Duration in milliseconds; 0 if the call did not end.
    pub duration_ms: u64,
    /// Size of its arguments in bytes.
    pub bytes_in: u64,
    /// Size of its result in bytes.
    pub bytes_out: u64,
}

/// One execution, summarised from its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecutionSummary {
    /// The id of the execution.
    pub execution_id: ExecutionId,
    /// The status after its last event.
    pub status: Status,
    /// Time of its `execution_started` event.
    pub started: Timestamp,
    /// Time of its end; `None` while it is in progress.
    pub ended: Option<Timestamp>,
    /// The language, or `program` for any other.
    pub language: Text,
    /// The name of the file or program, if it has one.
    pub program: Option<Text>,
    /// The program's own exit code; `None` if the program did not exit by itself.
    pub exit_code: Option<i32>,
    /// The stable code of the error, if there was one.
    pub error: Option<Text>,
    /// Resources used; all zeros until it ends.
    pub usage: Usage,
    /// Which parts of the result were truncated.
    pub truncated: Truncated,
    /// Codes of the limits it reached.
    pub limits_hit: Vec<Text>,
    /// Its attempts at something that the policy forbids.
    pub violations: Vec<Violation>,
    /// Its tool calls, by number.
    pub calls: Vec<CallSummary>,
    /// Its outgoing requests and connections, allowed or refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<EgressSummary>,
    /// Refusals that were counted instead of listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<RepeatedSummary>,
    /// Files that left the sandbox.
    pub files: Vec<FileOut>,
    /// The beginning of its output, if the policy keeps it.
    pub output: Option<Output>,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// The session can continue.
    Open,
    /// The session was closed.
    Closed,
    /// Its process died and a sweep removed its leftovers.
    Lost,
}

impl SessionState {
    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        match self {
            SessionState::Open => "open",
            SessionState::Closed => "closed",
            SessionState::Lost => "lost",
        }
    }
}

/// One session, summarised from its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionSummary {
    /// The id of the session.
    pub session_id: SessionId,
    /// The state after its last event.
    pub state: SessionState,
    /// The policy in force; `None` if the session was refused before it opened.
    pub policy: Option<PolicyRef>,
    /// The session's owner; `None` if it never opened.
    pub principal: Option<Principal>,
    /// The backend that provides its sandbox.
    pub backend: Option<Text>,
    /// How its rules are enforced.
    pub enforcement: EnforcementSummary,
    /// Time of its first host event.
    pub opened: Timestamp,
    /// Time of its `session_closed` event; `None` without one.
    pub closed: Option<Timestamp>,
    /// Reason given when it closed, as text.
    pub reason: Option<Text>,
    /// Its executions, in order.
    pub executions: Vec<ExecutionSummary>,
    /// Codes of requests that were refused before they started.
    pub refused: Vec<Text>,
    /// The principals who requested its stop.
    pub stop_requested: Vec<Principal>,
    /// Forbidden attempts outside any known execution.
    pub violations: Vec<Violation>,
}

/// How a session's rules are enforced, grouped by strength.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EnforcementSummary {
    /// Enforced by the kernel or the gateway for the sandbox as a whole.
    pub hard: Vec<Enforcement>,
    /// Enforced per process, or by a periodic check.
    pub soft: Vec<Enforcement>,
}

impl EnforcementSummary {
    /// Splits the rules into strictly and loosely enforced ones.
    pub fn of(enforcement: &[Enforcement]) -> EnforcementSummary {
        let (soft, hard) = enforcement
            .iter()
            .cloned()
            .partition(|part| matches!(part.by, By::Rlimit | By::Watch));
        EnforcementSummary { hard, soft }
    }
}

impl SessionSummary {
    /// Summarises one session from its events in order; `None` without any host event.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<SessionSummary> {
        let mut events = events.into_iter().filter(|event| event.origin == Origin::Host);
        let first = events.next()?;
        let mut summary = SessionSummary {
            session_id: first.session,
            state: SessionState::Open,
            policy: None,
            principal: None,
            backend: None,
            enforcement: EnforcementSummary::default(),
            opened: first.at,
            closed: None,
            reason: None,
            executions: Vec::new(),
            refused: Vec::new(),
            stop_requested: Vec::new(),
            violations: Vec::new(),
        };
        summary.add(first);
        events.for_each(|event| summary.add(event));
        if summary.policy.is_none() {
            summary.state = SessionState::Closed;
        }
        Some(summary)
    }

    fn add(&mut self, event: &Event) {
        match &event.kind {
            Kind::SessionOpened {
                policy,
                principal,
                backend,
                enforcement,
            } => {
                self.policy = Some(policy.clone());
                self.principal = Some(*principal);
                self.backend = Some(backend.clone());
                self.enforcement = EnforcementSummary::of(enforcement);
            }
            Kind::ExecutionStarted { language, program, .. } => {
                if let Some(id) = event.execution {
                    self.executions.push(ExecutionSummary::started(
                        id,
                        event.at,
                        language.clone(),
                        program.clone(),
                    ));
                }
            }
            Kind::Violation { what, detail, rule } => {
                let violation = Violation {
                    kind: what.clone(),
                    detail: detail.clone(),
                    rule: rule.clone(),
                };
                self.violated(event.execution, violation);
            }
            Kind::Refused { code, .. } => self.refused.push(code.clone()),
            Kind::StopRequested { by } => self.stop_requested.push(*by),
            Kind::Swept { .. } => {
                self.state = SessionState::Lost;
                self.lose(event.at);
            }
            Kind::SessionClosed { reason } => self.close(event.at, reason),
            Kind::PolicyChanged { policy, .. } => self.policy = Some(policy.clone()),
            Kind::ServerUsed { .. }
            | Kind::DataHidden { .. }
            | Kind::DataRevealed { .. }
            | Kind::AliasRevealed { .. }
            | Kind::DataCapped { .. }
            | Kind::ToolDrifted { .. }
            | Kind::WorkspaceOpened { .. }
            | Kind::WorkspaceRemoved { .. }
            | Kind::LossAccepted { .. }
            | Kind::JournalPruned { .. } => {}
            Kind::ExecutionEnded { .. }
            | Kind::LimitHit { .. }
            | Kind::FilesOut { .. }
            | Kind::Output { .. }
            | Kind::CallStarted { .. }
            | Kind::CallEnded { .. }
            | Kind::CallRefused { .. }
            | Kind::ApprovalAsked { .. }
            | Kind::ApprovalAnswered { .. }
            | Kind::ExecutionSuspended { .. }
            | Kind::ExecutionResumed { .. }
            | Kind::EgressStarted { .. }
            | Kind::EgressEnded { .. }
            | Kind::EgressRefused { .. }
            | Kind::CredentialUsed { .. }
            | Kind::CredentialMisused { .. }
            | Kind::Repeated { .. } => {
                if let Some(execution) = self.execution(event.execution) {
                    execution.add(event);
                }
            }
        }
    }

    fn violated(&mut self, id: Option<ExecutionId>, violation: Violation) {
        match self.execution(id) {
            Some(execution) => execution.violations.push(violation),
            None => self.violations.push(violation),
        }
    }

    fn close(&mut self, at: Timestamp, reason: &Text) {
        if self.state == SessionState::Open {
            self.state = SessionState::Closed;
        }
        self.closed = Some(at);
        self.reason = Some(reason.clone());
        self.lose(at);
    }

    fn execution(&mut self, id: Option<ExecutionId>) -> Option<&mut ExecutionSummary> {
        let id = id?;
        self.executions
            .iter_mut()
            .rev()
            .find(|execution| execution.execution_id == id)
    }

    /// Marks every execution that is still in progress as lost: its end was never recorded.
    fn lose(&mut self, at: Timestamp) {
        for execution in &mut self.executions {
            if execution.status.is_under_way() {
                execution.status = Status::Lost;
                execution.ended = Some(at);
            }
        }
    }
}

impl ExecutionSummary {
    fn started(id: ExecutionId, at: Timestamp, language: Text, program: Option<Text>) -> ExecutionSummary {
        ExecutionSummary {
            execution_id: id,
            status: Status::Running,
            started: at,
            ended: None,
            language,
            program,
            exit_code: None,
            error: None,
            usage: Usage::default(),
            truncated: Truncated::default(),
            limits_hit: Vec::new(),
            violations: Vec::new(),
            calls: Vec::new(),
            egress: Vec::new(),
            repeated: Vec::new(),
            files: Vec::new(),
            output: None,
        }
    }

    fn add(&mut self, event: &Event) {
        match &event.kind {
            Kind::ExecutionEnded {
                status,
                exit_code,
                error,
                usage,
                truncated,
                output,
                ..
            } => {
                self.status = *status;
                self.ended = Some(event.at);
                self.exit_code = *exit_code;
                self.error.clone_from(error);
                self.usage = *usage;
                self.truncated = *truncated;
                self.output.clone_from(output);
            }
            Kind::ExecutionSuspended { .. } => self.status = Status::WaitingApproval,
            Kind::ExecutionResumed { .. } => self.status = Status::Running,
            Kind::LimitHit { code, .. } => self.limits_hit.push(code.clone()),
            Kind::FilesOut { files } => self.files.extend_from_slice(files),
            Kind::Repeated {
                of,
                what,
                code,
                rule,
                count,
            } => self.repeated.push(RepeatedSummary {
                of: of.clone(),
                what: what.clone(),
                code: code.clone(),
                rule: rule.clone(),
                count: *count,
            }),
            Kind::CallStarted { .. }
            | Kind::CallEnded { .. }
            | Kind::CallRefused { .. }
            | Kind::ApprovalAsked { .. }
            | Kind::ApprovalAnswered { .. } => {
                calls::add(&mut self.calls, &event.kind);
            }
            Kind::EgressStarted { .. }
            | Kind::EgressEnded { .. }
            | Kind::EgressRefused { .. }
            | Kind::CredentialUsed { .. }
            | Kind::CredentialMisused { .. } => egress::add(&mut self.egress, &event.kind),
            Kind::SessionOpened { .. }
            | Kind::ExecutionStarted { .. }
            | Kind::Output { .. }
            | Kind::Violation { .. }
            | Kind::Refused { .. }
            | Kind::StopRequested { .. }
            | Kind::Swept { .. }
            | Kind::ServerUsed { .. }
            | Kind::DataHidden { .. }
            | Kind::DataRevealed { .. }
            | Kind::AliasRevealed { .. }
            | Kind::DataCapped { .. }
            | Kind::ToolDrifted { .. }
            | Kind::PolicyChanged { .. }
            | Kind::WorkspaceOpened { .. }
            | Kind::WorkspaceRemoved { .. }
            | Kind::LossAccepted { .. }
            | Kind::JournalPruned { .. }
            | Kind::SessionClosed { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
