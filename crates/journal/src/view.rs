//! Views: pure functions over events. Verdicts rest on host events only.

mod calls;
mod egress;

use jiff::Timestamp;
use serde::Serialize;

pub use egress::{EgressOutcome, EgressSummary};

use crate::{
    By, CallOutcome, Enforcement, Event, ExecutionId, FileOut, Kind, Origin, Output, PolicyRef, Principal, SessionId,
    Status, Text, Truncated, Usage,
};

/// Something that was tried and is forbidden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// What kind of thing was tried.
    pub kind: Text,
    /// What exactly.
    pub detail: Text,
    /// The rule that forbids it.
    pub rule: Text,
}

/// So many more refusals of one kind, which were counted and not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatedSummary {
    /// The kind of event, such as `call_refused`.
    pub of: Text,
    /// The tool or the host.
    pub what: Text,
    /// The stable code of the refusal.
    pub code: Text,
    /// The rule that refused.
    pub rule: Text,
    /// How many more.
    pub count: u64,
}

/// One tool call, as its events tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    /// Counts from 1 in its execution.
    pub number: u64,
    /// The tool.
    pub tool: Text,
    /// How it went; a call that was never seen to end is `unknown`.
    pub outcome: CallOutcome,
    /// The rule that let it, or refused it.
    pub rule: Text,
    /// The stable code of what went wrong.
    pub error: Option<Text>,
    /// How long it took.
    pub duration_ms: u64,
    /// Bytes of its arguments.
    pub bytes_in: u64,
    /// Bytes of its result.
    pub bytes_out: u64,
}

/// One execution, as its events tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecutionSummary {
    /// Its id.
    pub execution_id: ExecutionId,
    /// Where it stands.
    pub status: Status,
    /// When it started.
    pub started: Timestamp,
    /// When it ended, if it did.
    pub ended: Option<Timestamp>,
    /// The language, or `program`.
    pub language: Text,
    /// The file or program.
    pub program: Option<Text>,
    /// The program's own exit code.
    pub exit_code: Option<i32>,
    /// The stable code of what went wrong.
    pub error: Option<Text>,
    /// What it used.
    pub usage: Usage,
    /// What was cut.
    pub truncated: Truncated,
    /// Codes of the limits it reached.
    pub limits_hit: Vec<Text>,
    /// What it tried and may not.
    pub violations: Vec<Violation>,
    /// Its tool calls, by number.
    pub calls: Vec<CallSummary>,
    /// What left for the network, or was not let.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<EgressSummary>,
    /// What happened more often than it is listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<RepeatedSummary>,
    /// Files that left.
    pub files: Vec<FileOut>,
    /// The beginning of what it printed.
    pub output: Option<Output>,
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It can go on.
    Open,
    /// It is over.
    Closed,
    /// Its process died, and what it left was swept.
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

/// One session, as its events tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionSummary {
    /// Its id.
    pub session_id: SessionId,
    /// Where it stands.
    pub state: SessionState,
    /// The policy it opened under; absent if it was refused before it opened.
    pub policy: Option<PolicyRef>,
    /// Who owns it.
    pub principal: Option<Principal>,
    /// What its sandbox is made of.
    pub backend: Option<Text>,
    /// What holds its rules.
    pub enforcement: EnforcementSummary,
    /// When it began.
    pub opened: Timestamp,
    /// When it ended.
    pub closed: Option<Timestamp>,
    /// Why it ended.
    pub reason: Option<Text>,
    /// Its executions, in order.
    pub executions: Vec<ExecutionSummary>,
    /// Codes of what was refused before it started.
    pub refused: Vec<Text>,
    /// Who asked for it to be stopped.
    pub stop_requested: Vec<Principal>,
    /// What was tried outside any known execution.
    pub violations: Vec<Violation>,
}

/// What holds a session's rules, by how hard it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EnforcementSummary {
    /// Held by the kernel or the gateway for the sandbox as a whole.
    pub hard: Vec<Enforcement>,
    /// Held per process, or by looking now and then.
    pub soft: Vec<Enforcement>,
}

impl EnforcementSummary {
    /// Parts what holds hard from what does not.
    pub fn of(enforcement: &[Enforcement]) -> EnforcementSummary {
        let (soft, hard) = enforcement
            .iter()
            .cloned()
            .partition(|part| matches!(part.by, By::Rlimit | By::Watch));
        EnforcementSummary { hard, soft }
    }
}

impl SessionSummary {
    /// The summary of one session from its events in order; `None` without any host event.
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

    /// Whatever is still under way when its session ends was never seen to end.
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
