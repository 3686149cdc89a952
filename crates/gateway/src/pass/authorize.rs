//! Authorizes calls: all checks of a call before it is recorded and sent.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ringfence_catalog::Tool;
use ringfence_journal::{ApprovalId, ApprovalScope, AskReason, CleanText, ContentHash, EventKind, ReplayRecorder};
use ringfence_policy::{Decision, Policy, RuleEffect, ToolHints};
use serde_json::{Map, Value};

use super::rate::RateExhausted;
use super::session_history::{HistoryState, metered_rates};
use super::waiting::WaitKind;
use super::{CallerExit, Pass, PassError};
use crate::approval_port::{ApprovalOutcome, ApprovalRequest};
use crate::call_log::{ActiveCall, CallKind};
use crate::gateway::ResolvedTool;
use crate::json_tree::TreePermit;
use crate::refusal::RequestRefusal;

/// The rule that requires approval before a call in flight at a crash is repeated.
pub(super) const UNKNOWN_RULE: &str = "tools.unknown";
const DRIFT_RULE: &str = "tools.drift";
/// Most bytes of arguments that a person is shown.
const MAX_SHOWN_BYTES: usize = 256 * 1024;

/// The approval progress of one call.
#[derive(Debug)]
pub(super) struct ApprovalProgress {
    /// The call was in flight when its process died.
    pub(super) is_effect_unknown: bool,
    /// An approval request that was made for the call before.
    pub(super) question: Option<ApprovalId>,
    /// Digests that a person has approved.
    approved: Vec<ContentHash>,
    /// The tool's definition has changed, and that is recorded.
    drifted: bool,
    /// The server's hints about the tool, once the tool is found.
    pub(super) hints: Option<ToolHints>,
}

impl ApprovalProgress {
    pub(super) fn new() -> ApprovalProgress {
        ApprovalProgress {
            hints: None,
            is_effect_unknown: false,
            question: None,
            approved: Vec::new(),
            drifted: false,
        }
    }

    pub(super) fn with_question(question: ApprovalId) -> ApprovalProgress {
        ApprovalProgress {
            question: Some(question),
            ..ApprovalProgress::new()
        }
    }

    pub(super) fn with_unknown_effect(question: Option<ApprovalId>) -> ApprovalProgress {
        ApprovalProgress {
            is_effect_unknown: true,
            question,
            ..ApprovalProgress::new()
        }
    }
}

/// A call that passed all checks and is ready to be recorded and sent.
#[derive(Debug)]
pub(super) struct AuthorizedCall {
    pub(super) tool: ResolvedTool,
    pub(super) arguments: Map<String, Value>,
    /// The reserved memory of the arguments.
    pub(super) memory: TreePermit,
    pub(super) rule: String,
    /// The session has not used this server before.
    pub(super) new_server: bool,
    /// Aliases whose values were filled in.
    pub(super) revealed: Vec<usize>,
}

/// Why a call is not sent.
#[derive(Debug)]
pub(super) enum AuthorizeError {
    Refused(RequestRefusal),
    Stopped(PassError),
}

impl From<RequestRefusal> for AuthorizeError {
    fn from(refusal: RequestRefusal) -> AuthorizeError {
        AuthorizeError::Refused(refusal)
    }
}

impl From<PassError> for AuthorizeError {
    fn from(stopped: PassError) -> AuthorizeError {
        AuthorizeError::Stopped(stopped)
    }
}

/// The inputs of the checks of one call.
struct CallCheck<'a> {
    policy: &'a Policy,
    tool: &'a Tool,
    /// Whether the tool is built in.
    is_builtin: bool,
    arguments: &'a Value,
    /// Whether aliases in the arguments were replaced by their values.
    is_revealed: bool,
    call: &'a ActiveCall<'a>,
}

impl CallCheck<'_> {
    /// Returns the digest of all that the person sees; the answer is bound to it.
    fn shown_digest(&self, rule: &str) -> ContentHash {
        let digest = self.tool.digest.to_string();
        let parts = [
            self.tool.name.as_str(),
            &digest,
            self.call.body,
            rule,
            self.policy.digest(),
        ];
        let mut bytes = Vec::with_capacity(256 + self.call.body.len());
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        ContentHash::digest(&bytes)
    }

    /// Returns what a session grant applies to. A built-in tool has no pin, so its grant holds for one definition
    /// only.
    fn grantee(&self) -> String {
        let name = self.tool.name.as_str();
        if self.is_builtin {
            format!("{name} {}", self.tool.digest)
        } else {
            name.to_owned()
        }
    }

    fn is_approved(&self, rule: &str, standing: &ApprovalProgress) -> bool {
        !standing.approved.is_empty() && standing.approved.contains(&self.shown_digest(rule))
    }
}

/// The outcome of one round of checks.
enum CheckOutcome {
    /// A person must approve the call.
    Ask(AskReason, String),
    /// All checks passed, and the call is counted.
    Proceed { rule: String, new_server: bool },
}

impl<R: ReplayRecorder + Clone + 'static> Pass<R> {
    /// Checks a call until nothing blocks it. After each answer of a person all checks run again: the policy, the
    /// tool or its definition may have changed.
    pub(super) async fn authorize(
        &self,
        asking: &ActiveCall<'_>,
        standing: &mut ApprovalProgress,
    ) -> Result<AuthorizedCall, AuthorizeError> {
        let CallKind::Tool { server, tool } = asking.kind else {
            return Err(RequestRefusal::new("tool.unknown", "there is no such tool").into());
        };
        loop {
            let policy = self.policy();
            let tool = match self.builtin.as_ref().filter(|own| own.has_name(server)) {
                Some(own) => ResolvedTool::from_builtin(own.find_tool(tool, &policy).await?),
                None => self.gateway.find_tool(&policy, server, tool).await?,
            };
            // A standing rule applies until it is withdrawn.
            if !policy.standing_rules().rules().is_empty() && self.adopt_standing_rules(&policy) {
                continue;
            }
            standing.hints = Some(tool.hints());
            let memory = self.trees.reserve(asking.body).await.map_err(|error| {
                RequestRefusal::new("tool.arguments", format!("the arguments are too large: {error}"))
                    .with_hint("send them in parts, or as a text")
            })?;
            let arguments: Value = serde_json::from_str(asking.body).map_err(|error| {
                RequestRefusal::new("tool.arguments", format!("the arguments are not JSON: {error}"))
            })?;
            // The arguments that are checked are the arguments that are sent.
            let (arguments, revealed) = self.reveal_arguments(&policy, &tool, arguments).await?;
            self.check_arguments(&tool, &arguments, asking, !revealed.is_empty())?;
            let matter = CallCheck {
                policy: &policy,
                is_builtin: tool.builtin().is_some(),
                tool: &tool,
                arguments: &arguments,
                is_revealed: !revealed.is_empty(),
                call: asking,
            };
            match self.check_call(&matter, standing).await? {
                // Checked again, with the standing rules that were added since.
                CheckOutcome::Ask(AskReason::Rule, _) if self.adopt_standing_rules(&policy) => {}
                // Boxed, because otherwise every call's future would include its size.
                CheckOutcome::Ask(why, rule) => Box::pin(self.request_approval(&matter, why, rule, standing)).await?,
                CheckOutcome::Proceed { rule, new_server } => {
                    let Value::Object(arguments) = arguments else {
                        return Err(RequestRefusal::new("tool.arguments", "the arguments are not an object")
                            .by_rule("inputSchema")
                            .into());
                    };
                    return Ok(AuthorizedCall {
                        tool,
                        arguments,
                        memory,
                        rule,
                        new_server,
                        revealed,
                    });
                }
            }
        }
    }

    /// Adopts the current standing rules. Returns whether they differ from those of this policy.
    fn adopt_standing_rules(&self, judged: &Arc<Policy>) -> bool {
        let rules = self.approvals.standing_rules();
        if rules == *judged.standing_rules() {
            return false;
        }
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        // A policy that was replaced in the meantime is not put back; the next round checks it.
        if Arc::ptr_eq(&policy, judged) {
            *policy = Arc::new(judged.with_standing_rules(rules));
        }
        true
    }

    async fn check_call(
        &self,
        matter: &CallCheck<'_>,
        standing: &mut ApprovalProgress,
    ) -> Result<CheckOutcome, AuthorizeError> {
        if standing.is_effect_unknown && !matter.is_approved(UNKNOWN_RULE, standing) {
            return Ok(CheckOutcome::Ask(AskReason::Unknown, UNKNOWN_RULE.to_owned()));
        }
        if !matter.arguments.is_object() {
            return Err(RequestRefusal::new("tool.arguments", "the arguments are not an object")
                .by_rule("inputSchema")
                .into());
        }
        if let Err(rule) = decide_by_rules(matter, &self.history.state(), standing)? {
            return Ok(CheckOutcome::Ask(AskReason::Rule, rule));
        }
        if !self.is_pinned(matter, standing).await? {
            return Ok(CheckOutcome::Ask(AskReason::Drift, DRIFT_RULE.to_owned()));
        }
        Ok(self.count_call(matter, standing)?)
    }

    /// Checks a tool against its pin, or applies the policy's drift rule. Returns false if a person must decide.
    async fn is_pinned(&self, matter: &CallCheck<'_>, standing: &mut ApprovalProgress) -> Result<bool, AuthorizeError> {
        let tool = matter.tool;
        if matter.is_builtin {
            // Built-in tools have versions of their own.
            return Ok(true);
        }
        let Some(since) = self.gateway.drifted_since(tool)? else {
            return Ok(true);
        };
        if !std::mem::replace(&mut standing.drifted, true) {
            let drifted = EventKind::ToolDrifted {
                tool: CleanText::clean(tool.name.as_str()),
                found: CleanText::clean(&tool.digest.to_string()),
                since,
            };
            Box::pin(self.record(drifted)).await?;
        }
        match matter.policy.tools().drift.unwrap_or(RuleEffect::Ask) {
            RuleEffect::Deny => Err(RequestRefusal::drifted(tool.name.as_str())
                .with_hint("use another tool")
                .into()),
            RuleEffect::Ask if !matter.is_approved(DRIFT_RULE, standing) => Ok(false),
            RuleEffect::Allow | RuleEffect::Ask => {
                self.gateway.accept_definition(tool)?;
                Ok(true)
            }
        }
    }

    /// Checks the rules, the number of calls and the rates in one step: of two concurrent calls, the second sees the
    /// first.
    fn count_call(&self, matter: &CallCheck<'_>, standing: &ApprovalProgress) -> Result<CheckOutcome, RequestRefusal> {
        let (policy, name) = (matter.policy, matter.tool.name.as_str());
        let mut state = self.history.state();
        let rule = match decide_by_rules(matter, &state, standing)? {
            Ok(rule) => rule,
            Err(rule) => return Ok(CheckOutcome::Ask(AskReason::Rule, rule)),
        };
        let tool = matter.tool;
        let rates = policy.rates(&tool.name, tool.hints(), matter.arguments, &state.history);
        let (own, shared) = metered_rates(policy, &tool.name, rates);
        self.history
            .count_call(&mut state, &own, &shared)
            .map_err(|full| rate_refusal(name, &full))?;
        state.history.record(matter.tool.name.clone());
        Ok(CheckOutcome::Proceed {
            rule,
            new_server: !matter.is_builtin && state.is_first_use(matter.tool.server()),
        })
    }

    /// Requests approval for a call, and stores a positive answer.
    async fn request_approval(
        &self,
        matter: &CallCheck<'_>,
        why: AskReason,
        rule: String,
        standing: &mut ApprovalProgress,
    ) -> Result<(), AuthorizeError> {
        let (tool, shown) = (matter.tool.name.as_str(), matter.shown_digest(&rule));
        if matter.call.body.len() > MAX_SHOWN_BYTES {
            return Err(RequestRefusal::too_long_to_show(tool, &rule).into());
        }
        if self.approvals.is_closed() {
            return Err(RequestRefusal::no_approver(tool, why, &rule).into());
        }
        let id = ApprovalId::generate().map_err(|error| {
            RequestRefusal::new("approval.unasked", format!("nobody can be asked: {error}")).by_rule(&rule)
        })?;
        let asking = ActiveCall {
            name: Some(tool),
            hints: Some(matter.tool.hints()),
            ..*matter.call
        };
        let masked = self
            .mask_arguments(matter.policy, asking.body, matter.is_revealed)
            .await?;
        // Earlier answers come first: the entries of the request contain the trace that follows them.
        self.queue_refusal_counts();
        self.ends.flush_all().await.map_err(PassError::Unrecorded)?;
        let petition = ApprovalRequest {
            id,
            previous: standing.question.take(),
            number: asking.number,
            server: matter.tool.server().to_owned(),
            tool: tool.to_owned(),
            arguments: if matter.is_revealed {
                matter.arguments.to_string()
            } else {
                asking.body.to_owned()
            },
            masked,
            rule: rule.clone(),
            policy: matter.policy.digest().to_owned(),
            hints: matter.tool.hints(),
            grantee: matter.grantee(),
            reason: why,
            timeout: approval_timeout(matter.policy),
            shown_digest: shown,
            entries: self.call_log.approval_entries(&asking, id),
        };
        let _at_the_desk = self.waiting.add(WaitKind::Approval);
        let ruling = tokio::select! {
            biased;
            ruling = self.approvals.request_approval(petition) => ruling.map_err(PassError::Unrecorded)?,
            left = self.wait_for_exit() => match left {
                CallerExit::Cancelled => ApprovalOutcome::Withdrawn,
                CallerExit::Released => return Err(PassError::Released.into()),
            },
            () = self.wait_until_finished(), if matter.is_builtin => ApprovalOutcome::Withdrawn,
        };
        match ruling {
            ApprovalOutcome::Approved { scope } => {
                if why == AskReason::Rule && scope == ApprovalScope::Session {
                    self.history.grant(&matter.grantee(), &rule, matter.policy.digest());
                }
                standing.approved.push(shown);
                Ok(())
            }
            ApprovalOutcome::Denied { note } => {
                Err(RequestRefusal::denied_by_person(tool, why, &rule, note.as_deref()).into())
            }
            ApprovalOutcome::Expired => Err(RequestRefusal::approval_expired(tool, &rule).into()),
            ApprovalOutcome::Withdrawn => Err(RequestRefusal::approval_withdrawn(tool, &rule).into()),
        }
    }
}

/// Returns the rule that allows the call; `Err` has the rule that requires approval first.
fn decide_by_rules(
    matter: &CallCheck<'_>,
    state: &HistoryState,
    standing: &ApprovalProgress,
) -> Result<Result<String, String>, RequestRefusal> {
    let name = matter.tool.name.as_str();
    match matter
        .policy
        .decide_tool(name, matter.tool.hints(), matter.arguments, &state.history)
    {
        Decision::Allow(rule) => Ok(Ok(rule.as_str().to_owned())),
        Decision::Ask(rule) => {
            let rule = rule.as_str().to_owned();
            let granted = state.is_granted(&matter.grantee(), &rule, matter.policy.digest());
            // A person who approves repeating a call that was in flight also approves it under its own rule: the run
            // may wait elsewhere in the meantime, and only the last request of a call is found again.
            let again = standing.is_effect_unknown && matter.is_approved(UNKNOWN_RULE, standing);
            let yes = granted || again || matter.is_approved(&rule, standing);
            Ok(if yes { Ok(rule) } else { Err(rule) })
        }
        Decision::Deny(rule) => Err(RequestRefusal::denied(name, &rule)),
    }
}

/// Returns how long a person has to answer, by the policy in force.
fn approval_timeout(policy: &Policy) -> Option<Duration> {
    let approvals = policy.approvals()?;
    approvals.timeout.map(ringfence_policy::Period::get)
}

fn rate_refusal(tool: &str, full: &RateExhausted) -> RequestRefusal {
    let message = match full.rule.as_str().rsplit_once("tools.limits.") {
        None => format!("`{tool}` may be called {} at most", full.rate),
        Some((_, "tenant")) => format!("all your sessions together may make {} calls at most", full.rate),
        Some((_, "session")) => format!("a session may make {} calls at most", full.rate),
        Some((_, "server")) => format!("the server of `{tool}` may be called {} at most", full.rate),
        Some(_) => format!("a tool, here `{tool}`, may be called {} at most", full.rate),
    };
    RequestRefusal::new("limit.rate", message)
        .by_rule(full.rule.as_str())
        .with_hint(format!("wait {:.1} s and call again", full.wait.as_secs_f64()))
        .with_retry_after(full.wait)
}
