//! What a client requests to run: checked under the operator's ceiling, or refused with the name of each key that exceeds it.

use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{CleanText, ClientClaims};
use ringfence_policy::{Ceiling, Draft, DraftRejection, ParseError, Policy, RelPath};
use ringfence_sandbox::{BudgetOverrides, RunProgram};
use serde_json::{Value, json};

use crate::refusal::RunRefusal;
use crate::sessions::open_session::OpenSession;

/// What applies to requests that come through a front door.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// The policy of a request without a draft of its own.
    pub policy: Arc<Policy>,
    /// The most that a request may ask for.
    pub ceiling: Ceiling,
    /// How long an unused session stays open, and how long results are kept.
    pub idle: Duration,
    /// The number of sandboxes that are kept ready.
    pub warm: usize,
    /// The operator's overrides of the machine's budget.
    pub budget: BudgetOverrides,
}

/// A client's request to run a program.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The program to run, with its source where it has one.
    pub program: RunProgram,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The standard input of the program; none leaves it empty.
    pub stdin: Option<Vec<u8>>,
    /// Files that are copied into the workspace first.
    pub files: Vec<(RelPath, Vec<u8>)>,
    /// The session to run in: its id, or a name of the caller's own that opens one; none: one that ends with the run.
    pub session: Option<String>,
    /// A policy draft over the policy that applies without it.
    pub draft: Option<Value>,
    /// How long the program may run; none where the policy decides alone.
    pub timeout: Option<Duration>,
    /// The client's own identifiers for this request.
    pub trace: Option<ClientTrace>,
}

/// What a client says of itself and its request: unverified, to correlate its records with ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTrace {
    /// The name that the client gives itself.
    pub client: Option<String>,
    /// The client's number of the call.
    pub call: Option<String>,
    /// The W3C `traceparent` header that the client sent.
    pub traceparent: Option<String>,
}

impl ClientTrace {
    pub(crate) fn to_client(&self) -> ClientClaims {
        let clean = |text: &Option<String>| text.as_deref().map(CleanText::clean);
        ClientClaims {
            name: clean(&self.client),
            call: clean(&self.call),
            traceparent: clean(&self.traceparent),
        }
    }
}

/// The session that a request runs in.
pub(crate) enum Assignment {
    /// A session that ends with the run.
    OwnSession,
    /// An open session, with its rules as they were when the request came.
    OpenSession(Arc<OpenSession>, Arc<Policy>),
}

/// Assigns an open session to a request, under the session's rules.
pub(crate) fn assign_open_session(
    open: Arc<OpenSession>,
    front: &ServeConfig,
    ask: &RunRequest,
) -> Result<(Arc<Policy>, Assignment), RunRefusal> {
    let (base, ceiling) = open.rules.policy_and_ceiling(&front.ceiling);
    // The session already has its time limit; more than the ceiling allows is refused all the same.
    timed_policy(&ceiling, &base, ask)?;
    let policy = request_policy(&ceiling, &base, ask.draft.as_ref())?;
    check_fixed_sections(&base, &policy)?;
    open.touch();
    Ok((policy, Assignment::OpenSession(open, base)))
}

/// The policy that a request asks for, with its `timeout`: a timeout above the base policy's time counts as a request for as much, unless
/// the draft has a time of its own.
pub(crate) fn timed_policy(ceiling: &Ceiling, base: &Arc<Policy>, ask: &RunRequest) -> Result<Arc<Policy>, RunRefusal> {
    // Before anything is copied.
    check_draft_size(ask.draft.as_ref())?;
    let more = ask.timeout.filter(|timeout| *timeout > base.limits().wall);
    let mut draft = ask.draft.clone().unwrap_or_else(|| json!({}));
    let proc = draft
        .as_object_mut()
        .map(|keys| keys.entry("proc").or_insert_with(|| json!({})));
    let own = request_policy(ceiling, base, ask.draft.as_ref())?;
    if let (Some(timeout), Some(Value::Object(proc))) = (more, proc)
        && !proc.contains_key("wall_timeout")
    {
        proc.insert("wall_timeout".to_owned(), format!("{}ms", timeout.as_millis()).into());
        let timed = base
            .to_draft()
            .layer(&request_draft(&draft)?)
            .with_name("sandbox_policy");
        // The draft alone is allowed, so only the timeout can be too much.
        return timed.under(ceiling).map(Arc::new).map_err(timeout_refusal);
    }
    Ok(own)
}

/// The refusal of a timeout that exceeds the ceiling or the bounds.
fn timeout_refusal(mut error: DraftRejection) -> RunRefusal {
    let (code, rule) = (error.code(), error.rule());
    for excess in &mut error.keys {
        "timeout".clone_into(&mut excess.key);
    }
    for bound in &mut error.bounds {
        "timeout".clone_into(&mut bound.key);
    }
    let (keys, bounds) = (error.keys.first(), error.bounds.first());
    let why = keys.map(ToString::to_string).or(bounds.map(ToString::to_string));
    RunRefusal {
        code,
        message: why.unwrap_or_else(|| error.to_string()),
        rule,
        hint: Some("give a shorter `timeout`, or none: then the policy's own time counts".to_owned()),
    }
}

/// Bytes of a request's draft at most: the draft is kept as long as the run, for every client that waits.
const MAX_DRAFT_BYTES: usize = 64 << 10;

/// Counts the bytes that are written to it.
#[derive(Default)]
struct ByteCount(usize);

impl std::io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Refuses a draft that is too long, the variables of a request's `env` included.
fn check_draft_size(draft: Option<&Value>) -> Result<(), RunRefusal> {
    let mut count = ByteCount::default();
    if let Some(draft) = draft
        && serde_json::to_writer(&mut count, draft).is_err()
    {
        // A parsed value always has a text; one without is too long for any bound.
        count.0 = usize::MAX;
    }
    if count.0 <= MAX_DRAFT_BYTES {
        return Ok(());
    }
    let is_env = draft.is_some_and(|draft| draft.as_object().is_some_and(|keys| keys.keys().eq(["env"])));
    let (what, hint) = if is_env {
        ("env", "give fewer or shorter variables, or bring the data in as a file")
    } else {
        (
            "sandbox_policy",
            "name what the run needs beyond the policy in force, with fewer or wider patterns",
        )
    };
    Err(RunRefusal {
        code: "policy.size",
        message: format!("`{what}` has {} bytes, the most is {MAX_DRAFT_BYTES}", count.0),
        rule: what.to_owned(),
        hint: Some(hint.to_owned()),
    })
}

/// The policy of a draft over the base policy, under the ceiling.
pub(crate) fn request_policy(
    ceiling: &Ceiling,
    base: &Arc<Policy>,
    draft: Option<&Value>,
) -> Result<Arc<Policy>, RunRefusal> {
    let Some(draft) = draft else {
        return Ok(Arc::clone(base));
    };
    check_draft_size(Some(draft))?;
    let named = base
        .to_draft()
        .layer(&request_draft(draft)?)
        .with_name("sandbox_policy");
    let policy = named.under(ceiling).map_err(|error| ceiling_refusal(&error))?;
    Ok(Arc::new(policy))
}

/// Parses the draft of a request, with its host folders resolved.
fn request_draft(draft: &Value) -> Result<Draft, RunRefusal> {
    let draft = Draft::parse(&draft.to_string(), "sandbox_policy");
    resolve_folders(draft.map_err(|error| draft_refusal("`sandbox_policy`", error))?)
}

/// The refusal of a draft that does not parse.
pub(crate) fn draft_refusal(what: &str, error: ParseError) -> RunRefusal {
    RunRefusal {
        code: "policy.parse",
        message: format!("{what}: {}", error.message),
        rule: "sandbox_policy".to_owned(),
        hint: error.hint,
    }
}

/// The refusal of a draft that asks for more than the operator allows.
pub(crate) fn ceiling_refusal(error: &DraftRejection) -> RunRefusal {
    RunRefusal {
        code: error.code(),
        message: error.to_string(),
        rule: error.rule(),
        hint: Some(error.hint().to_owned()),
    }
}

/// Resolves a draft's host folders: a link must not lead out of what the ceiling shows.
fn resolve_folders(mut draft: Draft) -> Result<Draft, RunRefusal> {
    for mount in draft.fs.iter_mut().flat_map(|fs| &mut fs.mounts) {
        let Some(from) = mount.from.as_mut() else { continue };
        let refused = |why: String| RunRefusal {
            code: "policy.mount",
            message: format!("`{}` cannot be shown: {why}", from.display()),
            rule: format!("fs.mounts[{}].from", mount.path),
            hint: Some("name a folder that exists, by its whole path".to_owned()),
        };
        if !from.is_absolute() {
            return Err(refused("it is not a whole path".to_owned()));
        }
        *from = std::fs::canonicalize(&*from).map_err(|error| refused(error.to_string()))?;
    }
    Ok(draft)
}

/// Refuses a request that changes what the sandbox of an open session is made of.
pub(crate) fn check_fixed_sections(open: &Policy, asked: &Policy) -> Result<(), RunRefusal> {
    let parts = [
        ("fs", open.fs() == asked.fs()),
        ("proc", open.limits() == asked.limits()),
        ("env", open.env() == asked.env()),
        (
            "net.enabled",
            open.net().enabled == Some(true) || asked.net().enabled != Some(true),
        ),
    ];
    let other: Vec<&str> = parts.iter().filter(|(_, same)| !same).map(|(key, _)| *key).collect();
    if other.is_empty() {
        return Ok(());
    }
    Err(RunRefusal {
        code: "session.fixed",
        message: format!("`{}` of an open session cannot change", other.join("`, `")),
        rule: other.join(", "),
        hint: Some("leave these keys out, or run in another session".to_owned()),
    })
}

#[cfg(test)]
mod tests;
