//! Authorizes calls: all checks of a call before it is recorded and sent.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ringfence_catalog::Tool;
use ringfence_journal::{ApprovalId, ApprovalScope, AskReason, Hash, KeepingRecorder, Kind, Text};
use ringfence_policy::{Decision, Hints, Policy, Verdict};
use serde_json::{Map, Value};

use super::count::Counted;
use super::past::{State, metered};
use super::rate::Full;
use super::{Leaving, Pass, Stopped};
use crate::desk::{Petition, Ruling};
use crate::gateway::Found;
use crate::refusal::Refusal;
use crate::tape::{Asking, What};
use crate::tree::TreePermit;

/// The rule that requires approval before a call in flight at a crash is repeated.
pub(super) const UNKNOWN: &str = "tools.unknown";
const DRIFT: &str = "tools.drift";
/// Most bytes of arguments that a person is shown.
const MOST_SHOWN: usize = 256 * 1024;

/// The approval progress of one call.
#[derive(Debug)]
pub(super) struct Standing {
    /// The call was in flight when its process died.
    pub(super) unknown: bool,
    /// An approval request that was made for the call before.
    pub(super) question: Option<ApprovalId>,
    /// Digests that a person has approved.
    yes: Vec<Hash>,
    /// The tool's definition has changed, and that is recorded.
    drifted: bool,
    /// The server's hints about the tool, once the tool is found.
    pub(super) hints: Option<Hints>,
}

impl Standing {
    pub(super) fn new() -> Standing {
        Standing {
            hints: None,
            unknown: false,
            question: None,
            yes: Vec::new(),
            drifted: false,
        }
    }

    pub(super) fn asked(question: ApprovalId) -> Standing {
        Standing {
            question: Some(question),
            ..Standing::new()
        }
    }

    pub(super) fn unknown(question: Option<ApprovalId>) -> Standing {
        Standing {
            unknown: true,
            question,
            ..Standing::new()
        }
    }
}

/// A call that passed all checks and is ready to be recorded and sent.
#[derive(Debug)]
pub(super) struct Cleared {
    pub(super) tool: Found,
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
pub(super) enum Halt {
    Refused(Refusal),
    Stopped(Stopped),
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Halt {
        Halt::Refused(refusal)
    }
}

impl From<Stopped> for Halt {
    fn from(stopped: Stopped) -> Halt {
        Halt::Stopped(stopped)
    }
}

/// The inputs of the checks of one call.
struct Matter<'a> {
    policy: &'a Policy,
    tool: &'a Tool,
    /// Whether the tool is built in.
    own: bool,
    arguments: &'a Value,
    /// Whether aliases in the arguments were replaced by their values.
    is_revealed: bool,
    asking: &'a Asking<'a>,
}

impl Matter<'_> {
    /// Returns the digest of all that the person sees; the answer is bound to it.
    fn shown(&self, rule: &str) -> Hash {
        let digest = self.tool.digest.to_string();
        let parts = [
            self.tool.name.as_str(),
            &digest,
            self.asking.body,
            rule,
            self.policy.digest(),
        ];
        let mut bytes = Vec::with_capacity(256 + self.asking.body.len());
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        Hash::of(&bytes)
    }

    /// Returns what a session grant applies to. A built-in tool has no pin, so its grant holds for one definition
    /// only.
    fn grantee(&self) -> String {
        let name = self.tool.name.as_str();
        if self.own {
            format!("{name} {}", self.tool.digest)
        } else {
            name.to_owned()
        }
    }

    fn is_approved(&self, rule: &str, standing: &Standing) -> bool {
        !standing.yes.is_empty() && standing.yes.contains(&self.shown(rule))
    }
}

/// The outcome of one round of checks.
enum Next {
    /// A person must approve the call.
    Ask(AskReason, String),
    /// All checks passed, and the call is counted.
    Go { rule: String, new_server: bool },
}

impl<R: KeepingRecorder + Clone + 'static> Pass<R> {
    /// Checks a call until nothing blocks it. After each answer of a person all checks run again: the policy, the
    /// tool or its definition may have changed.
    pub(super) async fn clear(&self, asking: &Asking<'_>, standing: &mut Standing) -> Result<Cleared, Halt> {
        let What::Tool { server, tool } = asking.what else {
            return Err(Refusal::new("tool.unknown", "there is no such tool").into());
        };
        loop {
            let policy = self.policy();
            let tool = match self.own.as_ref().filter(|own| own.is_called(server)) {
                Some(own) => Found::own_tool(own.find(tool, &policy).await?),
                None => self.gateway.tool(&policy, server, tool).await?,
            };
            // A standing rule applies until it is withdrawn.
            if !policy.standing().rules().is_empty() && self.took_standing(&policy) {
                continue;
            }
            standing.hints = Some(tool.hints());
            let memory = self.trees.reserve(asking.body).await.map_err(|error| {
                Refusal::new("tool.arguments", format!("the arguments are too large: {error}"))
                    .hint("send them in parts, or as a text")
            })?;
            let arguments: Value = serde_json::from_str(asking.body)
                .map_err(|error| Refusal::new("tool.arguments", format!("the arguments are not JSON: {error}")))?;
            // The arguments that are checked are the arguments that are sent.
            let (arguments, revealed) = self.revealed(&policy, &tool, arguments).await?;
            self.fits(&tool, &arguments, asking, !revealed.is_empty())?;
            let matter = Matter {
                policy: &policy,
                own: tool.own().is_some(),
                tool: &tool,
                arguments: &arguments,
                is_revealed: !revealed.is_empty(),
                asking,
            };
            match self.next(&matter, standing).await? {
                // Checked again, with the standing rules that were added since.
                Next::Ask(AskReason::Rule, _) if self.took_standing(&policy) => {}
                // Boxed, because otherwise every call's future would include its size.
                Next::Ask(why, rule) => Box::pin(self.ask(&matter, why, rule, standing)).await?,
                Next::Go { rule, new_server } => {
                    let Value::Object(arguments) = arguments else {
                        return Err(Refusal::new("tool.arguments", "the arguments are not an object")
                            .by("inputSchema")
                            .into());
                    };
                    return Ok(Cleared {
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
    fn took_standing(&self, judged: &Arc<Policy>) -> bool {
        let rules = self.desk.standing();
        if rules == *judged.standing() {
            return false;
        }
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        // A policy that was replaced in the meantime is not put back; the next round checks it.
        if Arc::ptr_eq(&policy, judged) {
            *policy = Arc::new(judged.with_standing(rules));
        }
        true
    }

    async fn next(&self, matter: &Matter<'_>, standing: &mut Standing) -> Result<Next, Halt> {
        if standing.unknown && !matter.is_approved(UNKNOWN, standing) {
            return Ok(Next::Ask(AskReason::Unknown, UNKNOWN.to_owned()));
        }
        if !matter.arguments.is_object() {
            return Err(Refusal::new("tool.arguments", "the arguments are not an object")
                .by("inputSchema")
                .into());
        }
        if let Err(rule) = decide(matter, &self.past.state(), standing)? {
            return Ok(Next::Ask(AskReason::Rule, rule));
        }
        if !self.is_pinned(matter, standing).await? {
            return Ok(Next::Ask(AskReason::Drift, DRIFT.to_owned()));
        }
        Ok(self.count(matter, standing)?)
    }

    /// Checks a tool against its pin, or applies the policy's drift rule. Returns false if a person must decide.
    async fn is_pinned(&self, matter: &Matter<'_>, standing: &mut Standing) -> Result<bool, Halt> {
        let tool = matter.tool;
        if matter.own {
            // Built-in tools have versions of their own.
            return Ok(true);
        }
        let Some(since) = self.gateway.drifted(tool)? else {
            return Ok(true);
        };
        if !std::mem::replace(&mut standing.drifted, true) {
            let drifted = Kind::ToolDrifted {
                tool: Text::clean(tool.name.as_str()),
                found: Text::clean(&tool.digest.to_string()),
                since,
            };
            Box::pin(self.record(drifted)).await?;
        }
        match matter.policy.tools().drift.unwrap_or(Verdict::Ask) {
            Verdict::Deny => Err(Refusal::drifted(tool.name.as_str()).hint("use another tool").into()),
            Verdict::Ask if !matter.is_approved(DRIFT, standing) => Ok(false),
            Verdict::Allow | Verdict::Ask => {
                self.gateway.accept(tool)?;
                Ok(true)
            }
        }
    }

    /// Checks the rules, the number of calls and the rates in one step: of two concurrent calls, the second sees the
    /// first.
    fn count(&self, matter: &Matter<'_>, standing: &Standing) -> Result<Next, Refusal> {
        let (policy, name) = (matter.policy, matter.tool.name.as_str());
        let mut state = self.past.state();
        let rule = match decide(matter, &state, standing)? {
            Ok(rule) => rule,
            Err(rule) => return Ok(Next::Ask(AskReason::Rule, rule)),
        };
        let tool = matter.tool;
        let rates = policy.rates(&tool.name, tool.hints(), matter.arguments, &state.history);
        let (own, shared) = metered(policy, &tool.name, rates);
        self.past
            .count(&mut state, &own, &shared)
            .map_err(|full| too_often(name, &full))?;
        state.history.record(matter.tool.name.clone());
        Ok(Next::Go {
            rule,
            new_server: !matter.own && state.is_new(matter.tool.server()),
        })
    }

    /// Requests approval for a call, and stores a positive answer.
    async fn ask(
        &self,
        matter: &Matter<'_>,
        why: AskReason,
        rule: String,
        standing: &mut Standing,
    ) -> Result<(), Halt> {
        let (tool, shown) = (matter.tool.name.as_str(), matter.shown(&rule));
        if matter.asking.body.len() > MOST_SHOWN {
            return Err(Refusal::too_long_to_show(tool, &rule).into());
        }
        if self.desk.is_closed() {
            return Err(Refusal::nobody_to_ask(tool, why, &rule).into());
        }
        let id = ApprovalId::generate()
            .map_err(|error| Refusal::new("approval.unasked", format!("nobody can be asked: {error}")).by(&rule))?;
        let asking = Asking {
            name: Some(tool),
            hints: Some(matter.tool.hints()),
            ..*matter.asking
        };
        let masked = self.masked(matter.policy, asking.body, matter.is_revealed).await?;
        // Earlier answers come first: the entries of the request contain the trace that follows them.
        self.say_refusals();
        self.ends.write_all().await.map_err(Stopped::Unrecorded)?;
        let petition = Petition {
            id,
            known: standing.question.take(),
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
            why,
            timeout: patience(matter.policy),
            shown,
            entries: self.tape.asked(&asking, id),
        };
        let _at_the_desk = self.waits.add(Counted::AtTheDesk);
        let ruling = tokio::select! {
            biased;
            ruling = self.desk.ask(petition) => ruling.map_err(Stopped::Unrecorded)?,
            left = self.left() => match left {
                Leaving::Cancelled => Ruling::Withdrawn,
                Leaving::Released => return Err(Stopped::Released.into()),
            },
            () = self.ended_by_itself(), if matter.own => Ruling::Withdrawn,
        };
        match ruling {
            Ruling::Approved { scope } => {
                if why == AskReason::Rule && scope == ApprovalScope::Session {
                    self.past.grant(&matter.grantee(), &rule, matter.policy.digest());
                }
                standing.yes.push(shown);
                Ok(())
            }
            Ruling::Denied { note } => Err(Refusal::denied_by_a_person(tool, why, &rule, note.as_deref()).into()),
            Ruling::Expired => Err(Refusal::unanswered(tool, &rule).into()),
            Ruling::Withdrawn => Err(Refusal::withdrawn(tool, &rule).into()),
        }
    }
}

/// Returns the rule that allows the call; `Err` has the rule that requires approval first.
fn decide(matter: &Matter<'_>, state: &State, standing: &Standing) -> Result<Result<String, String>, Refusal> {
    let name = matter.tool.name.as_str();
    match matter
        .policy
        .tool(name, matter.tool.hints(), matter.arguments, &state.history)
    {
        Decision::Allow(rule) => Ok(Ok(rule.as_str().to_owned())),
        Decision::Ask(rule) => {
            let rule = rule.as_str().to_owned();
            let granted = state.is_granted(&matter.grantee(), &rule, matter.policy.digest());
            // A person who approves repeating a call that was in flight also approves it under its own rule: the run
            // may wait elsewhere in the meantime, and only the last request of a call is found again.
            let again = standing.unknown && matter.is_approved(UNKNOWN, standing);
            let yes = granted || again || matter.is_approved(&rule, standing);
            Ok(if yes { Ok(rule) } else { Err(rule) })
        }
        Decision::Deny(rule) => Err(Refusal::denied(name, &rule)),
    }
}

/// Returns how long a person has to answer, by the policy in force.
fn patience(policy: &Policy) -> Option<Duration> {
    let approvals = policy.approvals()?;
    approvals.timeout.map(ringfence_policy::Period::get)
}

fn too_often(tool: &str, full: &Full) -> Refusal {
    let message = match full.rule.as_str().rsplit_once("tools.limits.") {
        None => format!("`{tool}` may be called {} at most", full.rate),
        Some((_, "tenant")) => format!("all your sessions together may make {} calls at most", full.rate),
        Some((_, "session")) => format!("a session may make {} calls at most", full.rate),
        Some((_, "server")) => format!("the server of `{tool}` may be called {} at most", full.rate),
        Some(_) => format!("a tool, here `{tool}`, may be called {} at most", full.rate),
    };
    Refusal::new("limit.rate", message)
        .by(full.rule.as_str())
        .hint(format!("wait {:.1} s and call again", full.wait.as_secs_f64()))
        .retry_after(full.wait)
}
