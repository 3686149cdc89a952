//! The rules of a running session, and how they change. What the sandbox is made of is fixed; what the program may do can be narrowed or
//! widened, under the ceiling. Each change has a generation, and is answered when it applies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use ringfence_gateway::{Egress, Pass};
use ringfence_journal::{Event, EventKind, PolicyRef, RecordError, Recorder as _, SessionId};
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_store::Store;
use serde_json::Value;

use crate::engine::lock;
use crate::error::OperationError;
use crate::refusal::RunRefusal;
use crate::report::ErrorReport;
use crate::runs::request::{ServeConfig, ceiling_refusal, draft_refusal, request_policy};
use crate::sandboxes::supported_capabilities;
use crate::sessions::Sessions;
use crate::sessions::context::{ExecutionContext, policy_ref};
use crate::sessions::open_session::OpenSession;

/// The policy keys that a change may contain.
const CHANGEABLE_KEYS: [&str; 4] = ["net", "tools", "data", "approvals"];

/// The rules of one session.
#[derive(Debug)]
pub(crate) struct SessionRules {
    session: SessionId,
    /// The index that lists these rules until they are dropped.
    index: SessionRulesIndex,
    state: Mutex<RulesState>,
    /// Whether the sandbox has a network.
    networked: bool,
    /// Held while the rules change, so that changes are made one after another.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct RulesState {
    generation: u64,
    policy: Arc<Policy>,
    /// The running execution, and those that it called.
    live: Vec<(u64, LiveExecution)>,
    next_id: u64,
}

/// A running execution, with the parts that hold its rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveExecution {
    pub(crate) pass: Option<Arc<Pass<Arc<Store>>>>,
    pub(crate) egress: Option<Arc<Egress>>,
    /// The policy draft of the request.
    pub(crate) draft: Option<Value>,
}

/// The rules of the sessions in this process, for as long as they are in use.
pub(crate) type SessionRulesIndex = Arc<Mutex<HashMap<SessionId, Weak<SessionRules>>>>;

/// Rules that apply now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveRules {
    /// Counts from 1, the rules that the session was opened with.
    pub generation: u64,
    /// The name and digest of the policy.
    pub policy: PolicyRef,
}

/// Why rules were not changed.
#[derive(Debug)]
pub enum RulesChangeError {
    /// This process has no such session.
    Unknown,
    /// The new rules are not allowed.
    Refused(ErrorReport),
    /// The change could not be recorded, so nothing changed.
    Record(OperationError),
}

impl SessionRules {
    fn new(session: SessionId, policy: Arc<Policy>, generation: u64, index: SessionRulesIndex) -> SessionRules {
        SessionRules {
            session,
            index,
            networked: policy.net().enabled == Some(true),
            state: Mutex::new(RulesState {
                generation,
                policy,
                live: Vec::new(),
                next_id: 0,
            }),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// The policy of requests without a draft.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&lock(&self.state).policy)
    }

    /// The policy of a request with this draft. The draft was allowed under other rules; where it no longer is, the session's policy
    /// applies.
    pub(crate) fn policy_with_draft(&self, draft: Option<&Value>) -> Arc<Policy> {
        let base = self.policy();
        request_policy(&Ceiling::from_policy(&base), &base, draft).unwrap_or(base)
    }

    /// The policy, and the most that a request may ask for: after a change, the operator's rules are the limit.
    pub(crate) fn policy_and_ceiling(&self, ceiling: &Ceiling) -> (Arc<Policy>, Ceiling) {
        let now = lock(&self.state);
        let most = if now.generation > 1 {
            Ceiling::from_policy(&now.policy)
        } else {
            ceiling.clone()
        };
        (Arc::clone(&now.policy), most)
    }

    /// Registers an execution; its rules apply until the registration is dropped.
    pub(crate) fn register(self: &Arc<Self>, live: LiveExecution) -> RulesRegistration {
        let mut now = lock(&self.state);
        now.next_id += 1;
        let number = now.next_id;
        now.live.push((number, live));
        RulesRegistration(Arc::clone(self), number)
    }
}

impl Drop for SessionRules {
    fn drop(&mut self) {
        lock(&self.index).remove(&self.session);
    }
}

/// The registration of an execution under a session's rules.
pub(crate) struct RulesRegistration(Arc<SessionRules>, u64);

impl Drop for RulesRegistration {
    fn drop(&mut self) {
        lock(&self.0.state).live.retain(|(number, _)| *number != self.1);
    }
}

impl Sessions {
    /// Registers the rules of a session under its id.
    pub(crate) fn register_rules(&self, session: SessionId, policy: Arc<Policy>, generation: u64) -> Arc<SessionRules> {
        let rules = Arc::new(SessionRules::new(session, policy, generation, Arc::clone(&self.rules)));
        lock(&self.rules).insert(session, Arc::downgrade(&rules));
        rules
    }

    /// Applies other rules to a session that runs here. The given sections replace the session's.
    pub async fn change_rules(&self, session: SessionId, draft: &Value) -> Result<ActiveRules, RulesChangeError> {
        let rules = lock(&self.rules).get(&session).and_then(Weak::upgrade);
        let rules = rules.ok_or(RulesChangeError::Unknown)?;
        let _turn = rules.changing.lock().await;
        let (policy, generation) = {
            let now = lock(&rules.state);
            let policy = changed_policy(self.config.serve.as_ref(), &now.policy, draft, rules.networked)
                .map_err(refused_change)?;
            (Arc::new(policy), now.generation + 1)
        };
        let named = policy_ref(&policy);
        let kind = EventKind::PolicyChanged {
            generation,
            policy: named.clone(),
        };
        let unwritten = |error: RecordError| RulesChangeError::Record(error.into());
        let json = policy.to_json().to_string();
        self.records
            .store
            .keep_policy(session, named.clone(), json)
            .await
            .map_err(unwritten)?;
        let event = Event::from_host(session, None, kind);
        self.records.store.record(event).await.map_err(unwritten)?;
        // Executions that begin after this see the new generation.
        let live = {
            let mut now = lock(&rules.state);
            (now.generation, now.policy) = (generation, Arc::clone(&policy));
            now.live.clone()
        };
        for (_, live) in live {
            apply_rules(&live, &policy, generation).await;
        }
        Ok(ActiveRules {
            generation,
            policy: named,
        })
    }

    /// Replaces the rules of a reopened session, in which nothing runs yet.
    pub(crate) async fn replace_rules(&self, open: &OpenSession, policy: Arc<Policy>) -> Result<(), OperationError> {
        let rules = &open.rules;
        let _turn = rules.changing.lock().await;
        let generation = {
            let now = lock(&rules.state);
            if now.policy.digest() == policy.digest() {
                return Ok(());
            }
            now.generation + 1
        };
        let named = policy_ref(&policy);
        let json = policy.to_json().to_string();
        self.records.store.keep_policy(open.id, named.clone(), json).await?;
        let kind = EventKind::PolicyChanged {
            generation,
            policy: named,
        };
        self.records.record_session_event(open.id, kind).await?;
        let mut now = lock(&rules.state);
        (now.generation, now.policy) = (generation, policy);
        Ok(())
    }

    /// Registers an execution under its session's rules, which may have changed while it waited.
    pub(crate) async fn register_execution(
        &self,
        session: &ExecutionContext,
        held: LiveExecution,
    ) -> Option<RulesRegistration> {
        let rules = session.rules.as_ref()?;
        let _turn = rules.changing.lock().await;
        let begun = rules.register(held.clone());
        let (now, generation) = {
            let now = lock(&rules.state);
            (Arc::clone(&now.policy), now.generation)
        };
        // The rules may have changed while nothing ran.
        session.history.set_generation(generation);
        if !Arc::ptr_eq(&now, &session.base) {
            apply_rules(&held, &now, generation).await;
        }
        Some(begun)
    }
}

async fn apply_rules(live: &LiveExecution, policy: &Arc<Policy>, generation: u64) {
    // A draft that asks for more than the new rules allow falls back to the rules.
    let own = request_policy(&Ceiling::from_policy(policy), policy, live.draft.as_ref());
    let policy = own.unwrap_or_else(|_| Arc::clone(policy));
    if let Some(pass) = &live.pass {
        pass.set_policy(Arc::clone(&policy));
        pass.set_generation(generation);
    }
    if let Some(egress) = &live.egress {
        egress.change_policy(policy).await;
    }
}

/// The session's policy with other sections in it.
fn changed_policy(
    front: Option<&ServeConfig>,
    policy: &Policy,
    draft: &Value,
    networked: bool,
) -> Result<Policy, RunRefusal> {
    let fixed = draft.as_object().into_iter().flat_map(serde_json::Map::keys);
    let fixed: Vec<&str> = fixed
        .map(String::as_str)
        .filter(|key| !CHANGEABLE_KEYS.contains(key) && *key != "version")
        .collect();
    if !fixed.is_empty() {
        return Err(RunRefusal {
            code: "session.fixed",
            message: format!("`{}` of an open session cannot change", fixed.join("`, `")),
            rule: fixed.join(", "),
            hint: Some(format!("change `{}` only", CHANGEABLE_KEYS.join("`, `"))),
        });
    }
    let draft = Draft::parse(&draft.to_string(), "change").map_err(|error| draft_refusal("the change", error))?;
    let complete = Draft::builtin().layer(&draft);
    let mut full = policy.to_draft();
    if draft.net.is_some() {
        full.net = complete.net;
    }
    if draft.tools.is_some() {
        full.tools = complete.tools;
    }
    if draft.data.is_some() {
        full.data = complete.data;
    }
    if draft.approvals.is_some() {
        full.approvals = complete.approvals;
    }
    let front = front.ok_or_else(no_serve_config)?;
    let new = full.under(&front.ceiling).map_err(|error| ceiling_refusal(&error))?;
    if new.net().enabled == Some(true) && !networked {
        return Err(RunRefusal {
            code: "session.fixed",
            message: "a session that was opened without a network has no way to it".to_owned(),
            rule: "net.enabled".to_owned(),
            hint: Some("run in another session".to_owned()),
        });
    }
    match new.unsupported(&supported_capabilities()).first() {
        Some(unbuilt) => Err(RunRefusal {
            code: "policy.unbuilt",
            message: format!("`{}` {}", unbuilt.key, unbuilt.why),
            rule: unbuilt.key.clone(),
            hint: Some(unbuilt.hint.clone()),
        }),
        None => Ok(new),
    }
}

fn no_serve_config() -> RunRefusal {
    RunRefusal {
        code: "server.closing",
        message: "rules change only where there is a front door".to_owned(),
        rule: "sessions".to_owned(),
        hint: None,
    }
}

fn refused_change(refusal: RunRefusal) -> RulesChangeError {
    RulesChangeError::Refused(refusal.into())
}
