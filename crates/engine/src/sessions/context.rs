//! What an execution knows of its session.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ringfence_gateway::{Egress, Redactor, SessionHistory};
use ringfence_journal::{CleanText, Enforcement, ExecutionId, NoEntropy, PolicyRef, Principal, SessionId};
use ringfence_policy::Policy;
use serde_json::Value;

use crate::redact::ReadContext;
use crate::sessions::rules::SessionRules;
use crate::workspaces::RetainedWorkspace;

/// The context of one execution: what it knows of its session.
#[derive(Clone)]
pub(crate) struct ExecutionContext {
    pub(crate) id: SessionId,
    pub(crate) execution: ExecutionId,
    pub(crate) principal: Principal,
    pub(crate) policy: Arc<Policy>,
    pub(crate) policy_ref: PolicyRef,
    pub(crate) enforcement: Vec<Enforcement>,
    /// The folder for the scratch places on disk.
    pub(crate) folders: PathBuf,
    pub(crate) history: Arc<SessionHistory>,
    /// The redactor of the session, with its aliases.
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) egress: SessionEgress,
    /// The rules that can change while it runs; none where nobody can change them.
    pub(crate) rules: Option<Arc<SessionRules>>,
    /// The policy draft of the request, and the session's rules that it was made under.
    pub(crate) draft: Option<Value>,
    pub(crate) base: Arc<Policy>,
    /// The name that its principal gives the session, where it stays open.
    pub(crate) name: Option<String>,
    /// The workspace that outlives its process.
    pub(crate) kept: Option<RetainedWorkspace>,
    /// The execution that called this one as a skill, and how deep that makes it.
    pub(crate) parent: Option<ExecutionId>,
    pub(crate) depth: usize,
}

/// The egress of a session, made at its first use.
pub(crate) type SessionEgress = Arc<OnceLock<Egress>>;

impl ExecutionContext {
    pub(crate) fn new(
        (id, execution): (SessionId, ExecutionId),
        principal: Principal,
        policy: Arc<Policy>,
        folders: PathBuf,
    ) -> ExecutionContext {
        ExecutionContext {
            id,
            execution,
            principal,
            policy_ref: policy_ref(&policy),
            base: Arc::clone(&policy),
            policy,
            enforcement: Vec::new(),
            folders,
            history: Arc::default(),
            redactor: Arc::default(),
            egress: Arc::default(),
            rules: None,
            draft: None,
            name: None,
            kept: None,
            parent: None,
            depth: 0,
        }
    }

    /// The context that clients read its output and files through.
    pub(crate) fn read_context(&self) -> ReadContext {
        ReadContext {
            redactor: Arc::clone(&self.redactor),
            policy: Arc::clone(&self.policy),
            rules: self.rules.as_ref().map(Arc::downgrade).unwrap_or_default(),
            draft: self.draft.clone(),
            session: self.id,
        }
    }

    /// The current policy, for code that has no pass.
    pub(crate) fn current_policy(&self) -> Arc<Policy> {
        match &self.rules {
            Some(rules) => rules.policy_with_draft(self.draft.as_ref()),
            None => Arc::clone(&self.policy),
        }
    }

    /// The context of a skill execution that this one calls.
    pub(crate) fn for_nested_call(&self, execution: ExecutionId) -> ExecutionContext {
        ExecutionContext {
            execution,
            parent: Some(self.execution),
            depth: self.depth + 1,
            kept: None,
            ..self.clone()
        }
    }

    /// The same execution in a session of its own, because the intended one cannot take it.
    pub(crate) fn into_own_session(self) -> Result<ExecutionContext, NoEntropy> {
        Ok(ExecutionContext {
            id: SessionId::generate()?,
            kept: None,
            ..self
        })
    }
}

pub(crate) fn policy_ref(policy: &Policy) -> PolicyRef {
    PolicyRef {
        name: CleanText::clean(policy.name()),
        digest: CleanText::clean(policy.digest()),
    }
}
