//! Views: pure functions over events. They use host events only.

mod calls;
mod egress;

use jiff::Timestamp;
use serde::Serialize;

pub use egress::{EgressOutcome, EgressSummary};

use crate::{
    CallOutcome, CleanText, EnforcedBy, Enforcement, Event, EventKind, EventOrigin, ExecutionId, ExecutionStatus,
    FileOut, OutputHead, PolicyRef, Principal, ResourceUsage, SessionId, TruncationFlags,
};

/// An attempt that the policy forbids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ViolationSummary {
    /// The kind of attempt.
    pub kind: CleanText,
    /// What exactly was attempted, such as a path or a system call.
    pub detail: CleanText,
    /// The rule that forbids it.
    pub rule: CleanText,
}

/// Refusals of one kind that were counted instead of listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatedSummary {
    /// The kind of event, such as `call_refused`.
    pub of: CleanText,
    /// The tool or host concerned, or `other`.
    pub what: CleanText,
    /// The stable code of the refusal.
    pub code: CleanText,
    /// The rule that refused.
    pub rule: CleanText,
    /// How many refusals were counted.
    pub count: u64,
}

/// One tool call, summarised from its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    /// Counts from 1 in its execution.
    pub number: u64,
    /// The tool's full name.
    pub tool: CleanText,
    /// The outcome; `unknown` if the end of the call was never recorded.
    pub outcome: CallOutcome,
    /// The rule that allowed or refused it.
    pub rule: CleanText,
    /// The stable code of the error, if there was one.
    pub error: Option<CleanText>,
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
    pub status: ExecutionStatus,
    /// Time of its `execution_started` event.
    pub started: Timestamp,
    /// Time of its end; `None` while it is in progress.
    pub ended: Option<Timestamp>,
    /// The language, or `program` for any other.
    pub language: CleanText,
    /// The name of the file or program, if it has one.
    pub program: Option<CleanText>,
    /// The program's own exit code; `None` if the program did not exit by itself.
    pub exit_code: Option<i32>,
    /// The stable code of the error, if there was one.
    pub error: Option<CleanText>,
    /// Resources used; all zeros until it ends.
    pub usage: ResourceUsage,
    /// Which parts of the result were truncated.
    pub truncated: TruncationFlags,
    /// Codes of the limits it reached.
    pub limits_hit: Vec<CleanText>,
    /// Its attempts at something that the policy forbids.
    pub violations: Vec<ViolationSummary>,
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
    pub output: Option<OutputHead>,
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
    pub backend: Option<CleanText>,
    /// How its rules are enforced.
    pub enforcement: EnforcementSummary,
    /// Time of its first host event.
    pub opened: Timestamp,
    /// Time of its `session_closed` event; `None` without one.
    pub closed: Option<Timestamp>,
    /// Reason given when it closed, as text.
    pub reason: Option<CleanText>,
    /// Its executions, in order.
    pub executions: Vec<ExecutionSummary>,
    /// Codes of requests that were refused before they started.
    pub refused: Vec<CleanText>,
    /// The principals who requested its stop.
    pub stop_requested: Vec<Principal>,
    /// Forbidden attempts outside any known execution.
    pub violations: Vec<ViolationSummary>,
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
    pub fn from_enforcement(enforcement: &[Enforcement]) -> EnforcementSummary {
        let (soft, hard) = enforcement
            .iter()
            .cloned()
            .partition(|part| matches!(part.by, EnforcedBy::Rlimit | EnforcedBy::Watch));
        EnforcementSummary { hard, soft }
    }
}

impl SessionSummary {
    /// Summarises one session from its events in order; `None` without any host event.
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<SessionSummary> {
        let mut events = events.into_iter().filter(|event| event.origin == EventOrigin::Host);
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
        summary.apply_event(first);
        events.for_each(|event| summary.apply_event(event));
        if summary.policy.is_none() {
            summary.state = SessionState::Closed;
        }
        Some(summary)
    }

    fn apply_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::SessionOpened {
                policy,
                principal,
                backend,
                enforcement,
            } => {
                self.policy = Some(policy.clone());
                self.principal = Some(*principal);
                self.backend = Some(backend.clone());
                self.enforcement = EnforcementSummary::from_enforcement(enforcement);
            }
            EventKind::ExecutionStarted { language, program, .. } => {
                if let Some(id) = event.execution {
                    self.executions.push(ExecutionSummary::started(
                        id,
                        event.at,
                        language.clone(),
                        program.clone(),
                    ));
                }
            }
            EventKind::Violation { what, detail, rule } => {
                let violation = ViolationSummary {
                    kind: what.clone(),
                    detail: detail.clone(),
                    rule: rule.clone(),
                };
                self.add_violation(event.execution, violation);
            }
            EventKind::Refused { code, .. } => self.refused.push(code.clone()),
            EventKind::StopRequested { by } => self.stop_requested.push(*by),
            EventKind::Swept { .. } => {
                self.state = SessionState::Lost;
                self.mark_lost(event.at);
            }
            EventKind::SessionClosed { reason } => self.close(event.at, reason),
            EventKind::PolicyChanged { policy, .. } => self.policy = Some(policy.clone()),
            EventKind::ServerUsed { .. }
            | EventKind::DataHidden { .. }
            | EventKind::DataRevealed { .. }
            | EventKind::AliasRevealed { .. }
            | EventKind::DataCapped { .. }
            | EventKind::ToolDrifted { .. }
            | EventKind::WorkspaceOpened { .. }
            | EventKind::WorkspaceRemoved { .. }
            | EventKind::LossAccepted { .. }
            | EventKind::JournalPruned { .. } => {}
            EventKind::ExecutionEnded { .. }
            | EventKind::LimitHit { .. }
            | EventKind::FilesOut { .. }
            | EventKind::Output { .. }
            | EventKind::CallStarted { .. }
            | EventKind::CallEnded { .. }
            | EventKind::CallRefused { .. }
            | EventKind::ApprovalAsked { .. }
            | EventKind::ApprovalAnswered { .. }
            | EventKind::ExecutionSuspended { .. }
            | EventKind::ExecutionResumed { .. }
            | EventKind::EgressStarted { .. }
            | EventKind::EgressEnded { .. }
            | EventKind::EgressRefused { .. }
            | EventKind::CredentialUsed { .. }
            | EventKind::CredentialMisused { .. }
            | EventKind::Repeated { .. } => {
                if let Some(execution) = self.execution_mut(event.execution) {
                    execution.apply_event(event);
                }
            }
        }
    }

    fn add_violation(&mut self, id: Option<ExecutionId>, violation: ViolationSummary) {
        match self.execution_mut(id) {
            Some(execution) => execution.violations.push(violation),
            None => self.violations.push(violation),
        }
    }

    fn close(&mut self, at: Timestamp, reason: &CleanText) {
        if self.state == SessionState::Open {
            self.state = SessionState::Closed;
        }
        self.closed = Some(at);
        self.reason = Some(reason.clone());
        self.mark_lost(at);
    }

    fn execution_mut(&mut self, id: Option<ExecutionId>) -> Option<&mut ExecutionSummary> {
        let id = id?;
        self.executions
            .iter_mut()
            .rev()
            .find(|execution| execution.execution_id == id)
    }

    /// Marks every execution that is still in progress as lost: its end was never recorded.
    fn mark_lost(&mut self, at: Timestamp) {
        for execution in &mut self.executions {
            if execution.status.is_under_way() {
                execution.status = ExecutionStatus::Lost;
                execution.ended = Some(at);
            }
        }
    }
}

impl ExecutionSummary {
    fn started(id: ExecutionId, at: Timestamp, language: CleanText, program: Option<CleanText>) -> ExecutionSummary {
        ExecutionSummary {
            execution_id: id,
            status: ExecutionStatus::Running,
            started: at,
            ended: None,
            language,
            program,
            exit_code: None,
            error: None,
            usage: ResourceUsage::default(),
            truncated: TruncationFlags::default(),
            limits_hit: Vec::new(),
            violations: Vec::new(),
            calls: Vec::new(),
            egress: Vec::new(),
            repeated: Vec::new(),
            files: Vec::new(),
            output: None,
        }
    }

    fn apply_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ExecutionEnded {
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
            EventKind::ExecutionSuspended { .. } => self.status = ExecutionStatus::WaitingApproval,
            EventKind::ExecutionResumed { .. } => self.status = ExecutionStatus::Running,
            EventKind::LimitHit { code, .. } => self.limits_hit.push(code.clone()),
            EventKind::FilesOut { files } => self.files.extend_from_slice(files),
            EventKind::Repeated {
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
            EventKind::CallStarted { .. }
            | EventKind::CallEnded { .. }
            | EventKind::CallRefused { .. }
            | EventKind::ApprovalAsked { .. }
            | EventKind::ApprovalAnswered { .. } => {
                calls::apply_event(&mut self.calls, &event.kind);
            }
            EventKind::EgressStarted { .. }
            | EventKind::EgressEnded { .. }
            | EventKind::EgressRefused { .. }
            | EventKind::CredentialUsed { .. }
            | EventKind::CredentialMisused { .. } => egress::apply_event(&mut self.egress, &event.kind),
            EventKind::SessionOpened { .. }
            | EventKind::ExecutionStarted { .. }
            | EventKind::Output { .. }
            | EventKind::Violation { .. }
            | EventKind::Refused { .. }
            | EventKind::StopRequested { .. }
            | EventKind::Swept { .. }
            | EventKind::ServerUsed { .. }
            | EventKind::DataHidden { .. }
            | EventKind::DataRevealed { .. }
            | EventKind::AliasRevealed { .. }
            | EventKind::DataCapped { .. }
            | EventKind::ToolDrifted { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::WorkspaceOpened { .. }
            | EventKind::WorkspaceRemoved { .. }
            | EventKind::LossAccepted { .. }
            | EventKind::JournalPruned { .. }
            | EventKind::SessionClosed { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
