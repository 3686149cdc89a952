//! Sessions: those that end with their run, and those that stay open for more runs.
//!
//! A session belongs to a principal and does not exist for others. An open session has a sandbox of its own, made at its first run, in
//! which one execution runs at a time; it ends on request, when it is idle for too long, or with its sandbox.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_gateway::{Redactor, SessionHistory};
use ringfence_journal::{Enforcement, ExecutionId, Principal, SessionId};
use ringfence_policy::Policy;
use ringfence_sandbox::{Admission, Sandbox, Spec};

use crate::refusal::RunRefusal;
use crate::request::InputFile;
use crate::sessions::context::{ExecutionContext, SessionEgress};
use crate::sessions::rules::SessionRules;
use crate::workspaces::RetainedWorkspace;

/// Sessions that one principal may have open.
const MAX_OPEN_SESSIONS: usize = 16;
const MAX_NAME_LENGTH: usize = 64;

/// A session that stays open.
pub(crate) struct OpenSession {
    pub(crate) id: SessionId,
    pub(crate) principal: Principal,
    pub(crate) name: Option<String>,
    pub(crate) rules: Arc<SessionRules>,
    pub(crate) spec: Arc<Spec>,
    pub(crate) folders: PathBuf,
    pub(crate) enforcement: Vec<Enforcement>,
    pub(crate) history: Arc<SessionHistory>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) egress: SessionEgress,
    /// The workspace that outlives its process.
    pub(crate) kept: Option<RetainedWorkspace>,
    /// The sandbox slot; the execution that holds the lock runs.
    pub(crate) sandbox: tokio::sync::Mutex<SandboxSlot>,
    /// The share of the machine's memory that the idle sandbox holds.
    idle_admission: Mutex<Option<Admission<Principal>>>,
    /// The execution that last had the turn.
    current_execution: Mutex<Option<ExecutionId>>,
    last_used: Mutex<Instant>,
}

/// The sandbox of an open session.
pub(crate) enum SandboxSlot {
    /// Nothing has run, and no event is recorded.
    Unopened,
    /// The session is open without a sandbox.
    Empty,
    /// The session is open without a sandbox, and these are its files.
    Suspended(Vec<InputFile>),
    /// The session is open with a sandbox.
    Ready(Box<Sandbox>),
    /// The session is closed for good.
    Closed,
}

impl OpenSession {
    fn new(who: Principal, name: Option<String>, opening: OpenSessionParts, past: SessionHistory) -> OpenSession {
        OpenSession {
            id: opening.id,
            principal: who,
            name,
            rules: opening.rules,
            spec: opening.spec,
            folders: opening.folders,
            enforcement: opening.enforcement,
            history: Arc::new(past),
            redactor: opening.redactor,
            egress: Arc::default(),
            kept: opening.kept,
            sandbox: tokio::sync::Mutex::new(opening.sandbox),
            idle_admission: Mutex::default(),
            current_execution: Mutex::default(),
            last_used: Mutex::new(Instant::now()),
        }
    }

    /// The context of an execution in it, under its policy (`base`) or a narrower one.
    pub(crate) fn execution_context(
        &self,
        execution: ExecutionId,
        policy: Arc<Policy>,
        base: Arc<Policy>,
    ) -> ExecutionContext {
        ExecutionContext {
            enforcement: self.enforcement.clone(),
            history: Arc::clone(&self.history),
            redactor: Arc::clone(&self.redactor),
            egress: Arc::clone(&self.egress),
            rules: Some(Arc::clone(&self.rules)),
            base,
            name: self.name.clone(),
            kept: self.kept.clone(),
            ..ExecutionContext::new((self.id, execution), self.principal, policy, self.folders.clone())
        }
    }

    /// Waits for the turn to run in it.
    pub(crate) async fn turn(&self) -> SessionTurn<'_> {
        SessionTurn {
            open: self,
            slot: self.sandbox.lock().await,
        }
    }

    /// Sets the memory that its sandbox holds while nothing runs in it.
    pub(crate) fn set_idle_admission(&self, at_rest: Option<Admission<Principal>>) {
        *lock(&self.idle_admission) = at_rest;
    }

    /// Sets the execution that has the turn.
    pub(crate) fn set_current_execution(&self, execution: ExecutionId) {
        *lock(&self.current_execution) = Some(execution);
    }

    pub(crate) fn touch(&self) {
        *lock(&self.last_used) = Instant::now();
    }

    fn idle_time(&self) -> Duration {
        lock(&self.last_used).elapsed()
    }
}

/// The turn of an execution in an open session: nothing else runs in it meanwhile.
pub(crate) struct SessionTurn<'a> {
    pub(crate) open: &'a OpenSession,
    pub(crate) slot: tokio::sync::MutexGuard<'a, SandboxSlot>,
}

/// The parts that a new open session is made of.
pub(crate) struct OpenSessionParts {
    pub(crate) id: SessionId,
    pub(crate) rules: Arc<SessionRules>,
    pub(crate) spec: Arc<Spec>,
    pub(crate) folders: PathBuf,
    pub(crate) enforcement: Vec<Enforcement>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) kept: Option<RetainedWorkspace>,
    pub(crate) sandbox: SandboxSlot,
}

/// The open sessions of this process.
#[derive(Default)]
pub(crate) struct OpenSessions(Mutex<HashMap<SessionId, Arc<OpenSession>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a request refers to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionRef {
    /// The id that Ringfence gave it.
    Id(SessionId),
    /// The name that its principal gave it.
    Name(String),
}

impl SessionRef {
    pub(crate) fn parse(text: &str) -> Result<SessionRef, RunRefusal> {
        if let Ok(id) = text.parse() {
            return Ok(SessionRef::Id(id));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > MAX_NAME_LENGTH || !text.bytes().all(plain) {
            return Err(RunRefusal {
                code: "session.name",
                message: "a session is called by its id, or by a name of letters, digits, `.`, `_` and `-`".to_owned(),
                rule: "sessions".to_owned(),
                hint: Some("choose a short name such as `work`, or leave `session_id` out".to_owned()),
            });
        }
        Ok(SessionRef::Name(text.to_owned()))
    }
}

impl OpenSessions {
    /// Finds a session of `who`; sessions of other principals are not found.
    pub(crate) fn find(&self, who: Principal, called: &SessionRef) -> Option<Arc<OpenSession>> {
        let open = lock(&self.0);
        let mine = |one: &&Arc<OpenSession>| one.principal == who;
        match called {
            SessionRef::Id(id) => open.get(id).filter(mine).cloned(),
            SessionRef::Name(name) => open
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
        opening: OpenSessionParts,
        past: SessionHistory,
    ) -> Result<Arc<OpenSession>, RunRefusal> {
        let mut open = lock(&self.0);
        let mut mine = open.values().filter(|one| one.principal == who);
        let called = |one: &&Arc<OpenSession>| name.is_some() && one.name.as_deref() == name;
        if let Some(there) = mine.clone().find(called) {
            return Ok(Arc::clone(there));
        }
        if mine.nth(MAX_OPEN_SESSIONS - 1).is_some() {
            return Err(RunRefusal {
                code: "limit.sessions",
                message: format!("{MAX_OPEN_SESSIONS} sessions are open already"),
                rule: "sessions".to_owned(),
                hint: Some("go on in one of them, or leave `session_id` out".to_owned()),
            });
        }
        let new = Arc::new(OpenSession::new(who, name.map(str::to_owned), opening, past));
        open.insert(new.id, Arc::clone(&new));
        Ok(new)
    }

    /// Whether `who` can have no more sessions open.
    pub(crate) fn is_full(&self, who: Principal) -> bool {
        let open = lock(&self.0);
        open.values().filter(|one| one.principal == who).count() >= MAX_OPEN_SESSIONS
    }

    /// Adds a resumed session. A name that another session took meanwhile stays with that one.
    pub(crate) fn add_resumed(
        &self,
        who: Principal,
        name: Option<&str>,
        opening: OpenSessionParts,
        past: SessionHistory,
    ) -> Arc<OpenSession> {
        let mut open = lock(&self.0);
        let is_taken = open
            .values()
            .any(|one| one.principal == who && one.name.as_deref() == name);
        let name = name.filter(|_| !is_taken).map(str::to_owned);
        let new = Arc::new(OpenSession::new(who, name, opening, past));
        open.insert(new.id, Arc::clone(&new));
        new
    }

    /// The execution that last had the turn in a session.
    pub(crate) fn current_execution(&self, id: SessionId) -> Option<ExecutionId> {
        *lock(&lock(&self.0).get(&id)?.current_execution)
    }

    /// Removes a session: nothing new starts in it.
    pub(crate) fn remove(&self, id: SessionId) -> Option<Arc<OpenSession>> {
        lock(&self.0).remove(&id)
    }

    /// The sessions without activity for this long; one with a running execution is not idle.
    pub(crate) fn idle_ids(&self, at_least: Duration) -> Vec<SessionId> {
        let quiet = |one: &&Arc<OpenSession>| one.idle_time() >= at_least && one.sandbox.try_lock().is_ok();
        lock(&self.0).values().filter(quiet).map(|one| one.id).collect()
    }

    pub(crate) fn ids(&self) -> Vec<SessionId> {
        lock(&self.0).keys().copied().collect()
    }
}
