//! The rules of a running session, and how they change. What the sandbox is made of is fixed; what the program may do can be narrowed or
//! widened, under the ceiling. Each change has a generation, and is answered when it applies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use ringfence_gateway::{Egress, Pass};
use ringfence_journal::{Event, Kind, PolicyRef, RecordError, Recorder as _, SessionId};
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_store::Store;
use serde_json::Value;

use crate::ask::{asked_policy, over_ceiling, unparsed};
use crate::engine::{Engine, lock};
use crate::error::RunError;
use crate::execution::ErrorReport;
use crate::refusal::Refusal;
use crate::session::{Open, Session, policy_ref};

/// The policy keys that a change may contain.
const CHANGEABLE: [&str; 4] = ["net", "tools", "data", "approvals"];

/// The rules of one session.
#[derive(Debug)]
pub(crate) struct Rules {
    session: SessionId,
    /// The index that lists these rules until they are dropped.
    found_in: Ruled,
    now: Mutex<Now>,
    /// Whether the sandbox has a network.
    networked: bool,
    /// Held while the rules change, so that changes are made one after another.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Now {
    generation: u64,
    policy: Arc<Policy>,
    /// The running execution, and those that it called.
    live: Vec<(u64, Held)>,
    begun: u64,
}

/// A running execution, with the parts that hold its rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    pub(crate) pass: Option<Arc<Pass<Arc<Store>>>>,
    pub(crate) egress: Option<Arc<Egress>>,
    /// The policy draft of the request.
    pub(crate) draft: Option<Value>,
}

/// The rules of the sessions in this process, for as long as they are in use.
pub(crate) type Ruled = Arc<Mutex<HashMap<SessionId, Weak<Rules>>>>;

/// Rules that apply now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Counts from 1, the rules that the session was opened with.
    pub generation: u64,
    /// The name and digest of the policy.
    pub policy: PolicyRef,
}

/// Why rules were not changed.
#[derive(Debug)]
pub enum ChangeError {
    /// This process has no such session.
    Unknown,
    /// The new rules are not allowed.
    Refused(ErrorReport),
    /// The change could not be recorded, so nothing changed.
    Record(RunError),
}

impl Rules {
    fn new(session: SessionId, policy: Arc<Policy>, generation: u64, found_in: Ruled) -> Rules {
        Rules {
            session,
            found_in,
            networked: policy.net().enabled == Some(true),
            now: Mutex::new(Now {
                generation,
                policy,
                live: Vec::new(),
                begun: 0,
            }),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// The policy of requests without a draft.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&lock(&self.now).policy)
    }

    /// The policy of a request with this draft. The draft was allowed under other rules; where it no longer is, the session's policy
    /// applies.
    pub(crate) fn policy_of(&self, draft: Option<&Value>) -> Arc<Policy> {
        let base = self.policy();
        asked_policy(&Ceiling::of(&base), &base, draft).unwrap_or(base)
    }

    /// The policy, and the most that a request may ask for: after a change, the operator's rules are the limit.
    pub(crate) fn standing(&self, ceiling: &Ceiling) -> (Arc<Policy>, Ceiling) {
        let now = lock(&self.now);
        let most = if now.generation > 1 {
            Ceiling::of(&now.policy)
        } else {
            ceiling.clone()
        };
        (Arc::clone(&now.policy), most)
    }

    /// Registers an execution; its rules apply until the registration is dropped.
    pub(crate) fn begin(self: &Arc<Self>, live: Held) -> Begun {
        let mut now = lock(&self.now);
        now.begun += 1;
        let number = now.begun;
        now.live.push((number, live));
        Begun(Arc::clone(self), number)
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        lock(&self.found_in).remove(&self.session);
    }
}

/// The registration of an execution under a session's rules.
pub(crate) struct Begun(Arc<Rules>, u64);

impl Drop for Begun {
    fn drop(&mut self) {
        lock(&self.0.now).live.retain(|(number, _)| *number != self.1);
    }
}

impl Engine {
    /// Registers the rules of a session under its id.
    pub(crate) fn ruled(&self, session: SessionId, policy: Arc<Policy>, generation: u64) -> Arc<Rules> {
        let rules = Arc::new(Rules::new(session, policy, generation, Arc::clone(&self.ruled)));
        lock(&self.ruled).insert(session, Arc::downgrade(&rules));
        rules
    }

    /// Applies other rules to a session that runs here. The given sections replace the session's.
    pub async fn change_rules(&self, session: SessionId, draft: &Value) -> Result<Changed, ChangeError> {
        let rules = lock(&self.ruled).get(&session).and_then(Weak::upgrade);
        let rules = rules.ok_or(ChangeError::Unknown)?;
        let _turn = rules.changing.lock().await;
        let (policy, generation) = {
            let now = lock(&rules.now);
            let policy = self.changed(&now.policy, draft, rules.networked).map_err(refused)?;
            (Arc::new(policy), now.generation + 1)
        };
        let named = policy_ref(&policy);
        let kind = Kind::PolicyChanged {
            generation,
            policy: named.clone(),
        };
        let unwritten = |error: RecordError| ChangeError::Record(error.into());
        let json = policy.to_json().to_string();
        self.store
            .keep_policy(session, named.clone(), json)
            .await
            .map_err(unwritten)?;
        let event = Event::host(session, None, kind);
        self.store.record(event).await.map_err(unwritten)?;
        // Executions that begin after this see the new generation.
        let live = {
            let mut now = lock(&rules.now);
            (now.generation, now.policy) = (generation, Arc::clone(&policy));
            now.live.clone()
        };
        for (_, live) in live {
            self.put_in_force(&live, &policy, generation).await;
        }
        Ok(Changed {
            generation,
            policy: named,
        })
    }

    /// Replaces the rules of a reopened session, in which nothing runs yet.
    pub(crate) async fn rule_by(&self, open: &Open, policy: Arc<Policy>) -> Result<(), RunError> {
        let rules = &open.rules;
        let _turn = rules.changing.lock().await;
        let generation = {
            let now = lock(&rules.now);
            if now.policy.digest() == policy.digest() {
                return Ok(());
            }
            now.generation + 1
        };
        let named = policy_ref(&policy);
        let json = policy.to_json().to_string();
        self.store.keep_policy(open.id, named.clone(), json).await?;
        let kind = Kind::PolicyChanged {
            generation,
            policy: named,
        };
        self.note(open.id, kind).await?;
        let mut now = lock(&rules.now);
        (now.generation, now.policy) = (generation, policy);
        Ok(())
    }

    /// Registers an execution under its session's rules, which may have changed while it waited.
    pub(crate) async fn under_rules(&self, session: &Session, held: Held) -> Option<Begun> {
        let rules = session.rules.as_ref()?;
        let _turn = rules.changing.lock().await;
        let begun = rules.begin(held.clone());
        let (now, generation) = {
            let now = lock(&rules.now);
            (Arc::clone(&now.policy), now.generation)
        };
        // The rules may have changed while nothing ran.
        session.past.ruled(generation);
        if !Arc::ptr_eq(&now, &session.base) {
            self.put_in_force(&held, &now, generation).await;
        }
        Some(begun)
    }

    async fn put_in_force(&self, live: &Held, policy: &Arc<Policy>, generation: u64) {
        // A draft that asks for more than the new rules allow falls back to the rules.
        let own = asked_policy(&Ceiling::of(policy), policy, live.draft.as_ref());
        let policy = own.unwrap_or_else(|_| Arc::clone(policy));
        if let Some(pass) = &live.pass {
            pass.change(Arc::clone(&policy));
            pass.ruled(generation);
        }
        if let Some(egress) = &live.egress {
            egress.change(policy).await;
        }
    }

    /// The session's policy with other sections in it.
    fn changed(&self, policy: &Policy, draft: &Value, networked: bool) -> Result<Policy, Refusal> {
        let fixed = draft.as_object().into_iter().flat_map(serde_json::Map::keys);
        let fixed: Vec<&str> = fixed
            .map(String::as_str)
            .filter(|key| !CHANGEABLE.contains(key) && *key != "version")
            .collect();
        if !fixed.is_empty() {
            return Err(Refusal {
                code: "session.fixed",
                message: format!("`{}` of an open session cannot change", fixed.join("`, `")),
                rule: fixed.join(", "),
                hint: Some(format!("change `{}` only", CHANGEABLE.join("`, `"))),
            });
        }
        let draft = Draft::parse(&draft.to_string(), "change").map_err(|error| unparsed("the change", error))?;
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
        let front = self.settings.front.as_ref().ok_or_else(no_front)?;
        let new = full.under(&front.ceiling).map_err(|error| over_ceiling(&error))?;
        if new.net().enabled == Some(true) && !networked {
            return Err(Refusal {
                code: "session.fixed",
                message: "a session that was opened without a network has no way to it".to_owned(),
                rule: "net.enabled".to_owned(),
                hint: Some("run in another session".to_owned()),
            });
        }
        match new.unbuilt(&Engine::built()).first() {
            Some(unbuilt) => Err(Refusal {
                code: "policy.unbuilt",
                message: format!("`{}` {}", unbuilt.key, unbuilt.why),
                rule: unbuilt.key.clone(),
                hint: Some(unbuilt.hint.clone()),
            }),
            None => Ok(new),
        }
    }
}

fn no_front() -> Refusal {
    Refusal {
        code: "server.closing",
        message: "rules change only where there is a front door".to_owned(),
        rule: "sessions".to_owned(),
        hint: None,
    }
}

fn refused(refusal: Refusal) -> ChangeError {
    ChangeError::Refused(refusal.into())
}
