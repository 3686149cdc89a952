//! Sessions: those that end with their run, and those that stay open for more runs.
//!
//! A session belongs to a principal and does not exist for others. An open session has a sandbox of its own, made at its first run, in
//! which one execution runs at a time; it ends on request, when it is idle for too long, or with its sandbox.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ringfence_gateway::{Egress, Past, Screen};
use ringfence_journal::{Enforcement, ExecutionId, NoEntropy, PolicyRef, Principal, SessionId, Text};
use ringfence_policy::Policy;
use ringfence_sandbox::{Admission, Sandbox, Spec};
use serde_json::Value;

use crate::refusal::Refusal;
use crate::request::Input;
use crate::rules::Rules;
use crate::shown::Through;
use crate::workspace::Kept;

/// Sessions that one principal may have open.
const MOST_OPEN: usize = 16;
const LONGEST_NAME: usize = 64;

/// The context of one execution: what it knows of its session.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) execution: ExecutionId,
    pub(crate) principal: Principal,
    pub(crate) policy: Arc<Policy>,
    pub(crate) policy_ref: PolicyRef,
    pub(crate) enforcement: Vec<Enforcement>,
    /// The folder for the scratch places on disk.
    pub(crate) folders: PathBuf,
    pub(crate) past: Arc<Past>,
    /// The redactor of the session, with its aliases.
    pub(crate) screen: Arc<Screen>,
    pub(crate) way_out: WayOut,
    /// The rules that can change while it runs; none where nobody can change them.
    pub(crate) rules: Option<Arc<Rules>>,
    /// The policy draft of the request, and the session's rules that it was made under.
    pub(crate) draft: Option<Value>,
    pub(crate) base: Arc<Policy>,
    /// The name that its principal gives the session, where it stays open.
    pub(crate) name: Option<String>,
    /// The workspace that outlives its process.
    pub(crate) kept: Option<Kept>,
    /// The execution that called this one as a skill, and how deep that makes it.
    pub(crate) parent: Option<ExecutionId>,
    pub(crate) depth: usize,
}

/// The egress of a session, made at its first use.
pub(crate) type WayOut = Arc<OnceLock<Egress>>;

impl Session {
    pub(crate) fn new(
        (id, execution): (SessionId, ExecutionId),
        principal: Principal,
        policy: Arc<Policy>,
        folders: PathBuf,
    ) -> Session {
        Session {
            id,
            execution,
            principal,
            policy_ref: policy_ref(&policy),
            base: Arc::clone(&policy),
            policy,
            enforcement: Vec::new(),
            folders,
            past: Arc::default(),
            screen: Arc::default(),
            way_out: Arc::default(),
            rules: None,
            draft: None,
            name: None,
            kept: None,
            parent: None,
            depth: 0,
        }
    }

    /// The context that clients read its output and files through.
    pub(crate) fn through(&self) -> Through {
        Through {
            screen: Arc::clone(&self.screen),
            policy: Arc::clone(&self.policy),
            rules: self.rules.as_ref().map(Arc::downgrade).unwrap_or_default(),
            draft: self.draft.clone(),
            session: self.id,
        }
    }

    /// The current policy, for code that has no pass.
    pub(crate) fn policy_now(&self) -> Arc<Policy> {
        match &self.rules {
            Some(rules) => rules.policy_of(self.draft.as_ref()),
            None => Arc::clone(&self.policy),
        }
    }

    /// The context of a skill execution that this one calls.
    pub(crate) fn called(&self, execution: ExecutionId) -> Session {
        Session {
            execution,
            parent: Some(self.execution),
            depth: self.depth + 1,
            kept: None,
            ..self.clone()
        }
    }

    /// The same execution in a session of its own, because the intended one cannot take it.
    pub(crate) fn elsewhere(self) -> Result<Session, NoEntropy> {
        Ok(Session {
            id: SessionId::generate()?,
            kept: None,
            ..self
        })
    }
}

pub(crate) fn policy_ref(policy: &Policy) -> PolicyRef {
    PolicyRef {
        name: Text::clean(policy.name()),
        digest: Text::clean(policy.digest()),
    }
}

/// A session that stays open.
pub(crate) struct Open {
    pub(crate) id: SessionId,
    pub(crate) principal: Principal,
    pub(crate) name: Option<String>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) spec: Arc<Spec>,
    pub(crate) folders: PathBuf,
    pub(crate) enforcement: Vec<Enforcement>,
    pub(crate) past: Arc<Past>,
    pub(crate) screen: Arc<Screen>,
    pub(crate) way_out: WayOut,
    /// The workspace that outlives its process.
    pub(crate) kept: Option<Kept>,
    /// The sandbox slot; the execution that holds the lock runs.
    pub(crate) place: tokio::sync::Mutex<Place>,
    /// The share of the machine's memory that the idle sandbox holds.
    at_rest: Mutex<Option<Admission<Principal>>>,
    /// The execution that last had the turn.
    turn: Mutex<Option<ExecutionId>>,
    used: Mutex<Instant>,
}

/// The sandbox of an open session.
pub(crate) enum Place {
    /// Nothing has run, and no event is recorded.
    New,
    /// The session is open without a sandbox.
    Bare,
    /// The session is open without a sandbox, and these are its files.
    Packed(Vec<Input>),
    /// The session is open with a sandbox.
    Stands(Box<Sandbox>),
    /// The session is closed for good.
    Gone,
}

impl Open {
    fn new(who: Principal, name: Option<String>, opening: Opening, past: Past) -> Open {
        Open {
            id: opening.id,
            principal: who,
            name,
            rules: opening.rules,
            spec: opening.spec,
            folders: opening.folders,
            enforcement: opening.enforcement,
            past: Arc::new(past),
            screen: opening.screen,
            way_out: Arc::default(),
            kept: opening.kept,
            place: tokio::sync::Mutex::new(opening.place),
            at_rest: Mutex::default(),
            turn: Mutex::default(),
            used: Mutex::new(Instant::now()),
        }
    }

    /// The context of an execution in it, under its policy (`base`) or a narrower one.
    pub(crate) fn session(&self, execution: ExecutionId, policy: Arc<Policy>, base: Arc<Policy>) -> Session {
        Session {
            enforcement: self.enforcement.clone(),
            past: Arc::clone(&self.past),
            screen: Arc::clone(&self.screen),
            way_out: Arc::clone(&self.way_out),
            rules: Some(Arc::clone(&self.rules)),
            base,
            name: self.name.clone(),
            kept: self.kept.clone(),
            ..Session::new((self.id, execution), self.principal, policy, self.folders.clone())
        }
    }

    /// Sets the memory that its sandbox holds while nothing runs in it.
    pub(crate) fn rest(&self, at_rest: Option<Admission<Principal>>) {
        *lock(&self.at_rest) = at_rest;
    }

    /// Sets the execution that has the turn.
    pub(crate) fn has_turn(&self, execution: ExecutionId) {
        *lock(&self.turn) = Some(execution);
    }

    pub(crate) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    fn idle(&self) -> Duration {
        lock(&self.used).elapsed()
    }
}

/// The parts that a new open session is made of.
pub(crate) struct Opening {
    pub(crate) id: SessionId,
    pub(crate) rules: Arc<Rules>,
    pub(crate) spec: Arc<Spec>,
    pub(crate) folders: PathBuf,
    pub(crate) enforcement: Vec<Enforcement>,
    pub(crate) screen: Arc<Screen>,
    pub(crate) kept: Option<Kept>,
    pub(crate) place: Place,
}

/// The open sessions of this process.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionId, Arc<Open>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a request refers to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Called {
    /// The id that Ringfence gave it.
    Id(SessionId),
    /// The name that its principal gave it.
    Name(String),
}

impl Called {
    pub(crate) fn parse(text: &str) -> Result<Called, Refusal> {
        if let Ok(id) = text.parse() {
            return Ok(Called::Id(id));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > LONGEST_NAME || !text.bytes().all(plain) {
            return Err(Refusal {
                code: "session.name",
                message: "a session is called by its id, or by a name of letters, digits, `.`, `_` and `-`".to_owned(),
                rule: "sessions".to_owned(),
                hint: Some("choose a short name such as `work`, or leave `session_id` out".to_owned()),
            });
        }
        Ok(Called::Name(text.to_owned()))
    }
}

impl Sessions {
    /// Finds a session of `who`; sessions of other principals are not found.
    pub(crate) fn find(&self, who: Principal, called: &Called) -> Option<Arc<Open>> {
        let open = lock(&self.0);
        let mine = |one: &&Arc<Open>| one.principal == who;
        match called {
            Called::Id(id) => open.get(id).filter(mine).cloned(),
            Called::Name(name) => open
                .values()
                .find(|one| mine(one) && one.name.as_ref() == Some(name))
                .cloned(),
        }
    }

    /// Adds a session under this name, or returns the one that was added meanwhile.
    pub(crate) fn add(
        &self,
        who: Principal,
        name: Option<&str>,
        opening: Opening,
        past: Past,
    ) -> Result<Arc<Open>, Refusal> {
        let mut open = lock(&self.0);
        let mut mine = open.values().filter(|one| one.principal == who);
        let called = |one: &&Arc<Open>| name.is_some() && one.name.as_deref() == name;
        if let Some(there) = mine.clone().find(called) {
            return Ok(Arc::clone(there));
        }
        if mine.nth(MOST_OPEN - 1).is_some() {
            return Err(Refusal {
                code: "limit.sessions",
                message: format!("{MOST_OPEN} sessions are open already"),
                rule: "sessions".to_owned(),
                hint: Some("go on in one of them, or leave `session_id` out".to_owned()),
            });
        }
        let new = Arc::new(Open::new(who, name.map(str::to_owned), opening, past));
        open.insert(new.id, Arc::clone(&new));
        Ok(new)
    }

    /// Adds a resumed session. A name that another session took meanwhile stays with that one.
    pub(crate) fn take_over(&self, who: Principal, name: Option<&str>, opening: Opening, past: Past) -> Arc<Open> {
        let mut open = lock(&self.0);
        let is_taken = open
            .values()
            .any(|one| one.principal == who && one.name.as_deref() == name);
        let name = name.filter(|_| !is_taken).map(str::to_owned);
        let new = Arc::new(Open::new(who, name, opening, past));
        open.insert(new.id, Arc::clone(&new));
        new
    }

    /// The execution that last had the turn in a session.
    pub(crate) fn turn_in(&self, id: SessionId) -> Option<ExecutionId> {
        *lock(&lock(&self.0).get(&id)?.turn)
    }

    /// Removes a session: nothing new starts in it.
    pub(crate) fn take(&self, id: SessionId) -> Option<Arc<Open>> {
        lock(&self.0).remove(&id)
    }

    /// The sessions without activity for this long; one with a running execution is not idle.
    pub(crate) fn idle(&self, at_least: Duration) -> Vec<SessionId> {
        let quiet = |one: &&Arc<Open>| one.idle() >= at_least && one.place.try_lock().is_ok();
        lock(&self.0).values().filter(quiet).map(|one| one.id).collect()
    }

    pub(crate) fn all(&self) -> Vec<SessionId> {
        lock(&self.0).keys().copied().collect()
    }
}
