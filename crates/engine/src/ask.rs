//! What a client requests to run: checked under the operator's ceiling, or refused with the name of each key that exceeds it.

use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{Client, ExecutionId, NoEntropy, Principal, SessionId, Text};
use ringfence_policy::{Ceiling, Draft, ParseError, Policy, RelPath, TooMuch};
use ringfence_sandbox::BudgetOverrides;
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::request::Program;
use crate::session::{Called, Open, Opening, Place, Session};
use crate::workspace::{Disk, Kept, NoSeat, keeps, unknown};

/// What applies to requests that come through a front door.
#[derive(Debug, Clone)]
pub struct Front {
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
pub struct Ask {
    /// The program to run, with its source where it has one.
    pub program: Program,
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
    pub trace: Option<Trace>,
}

/// What a client says of itself and its request: unverified, to correlate its records with ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The name that the client gives itself.
    pub client: Option<String>,
    /// The client's number of the call.
    pub call: Option<String>,
    /// The W3C `traceparent` header that the client sent.
    pub traceparent: Option<String>,
}

impl Trace {
    pub(crate) fn client(&self) -> Client {
        let clean = |text: &Option<String>| text.as_deref().map(Text::clean);
        Client {
            name: clean(&self.client),
            call: clean(&self.call),
            traceparent: clean(&self.traceparent),
        }
    }
}

/// The session that a request runs in.
pub(crate) enum Seat {
    /// A session that ends with the run.
    Alone,
    /// An open session, with its rules as they were when the request came.
    In(Arc<Open>, Arc<Policy>),
}

impl Engine {
    /// Assigns a session to a request and determines its policy.
    pub(crate) async fn seat(&self, front: &Front, who: Principal, ask: &Ask) -> Result<(Arc<Policy>, Seat), NoSeat> {
        let Some(called) = ask.session.as_deref().map(Called::parse).transpose()? else {
            let policy = timed_policy(&front.ceiling, &front.policy, ask)?;
            if !keeps(&policy) {
                return Ok((policy, Seat::Alone));
            }
            let open = self.open_new(who, None, &policy).await?;
            return Ok((Arc::clone(&policy), Seat::In(open, policy)));
        };
        if let Some(open) = self.sessions.find(who, &called) {
            return Ok(seat_in(open, front, ask)?);
        }
        // Of two requests for the same session, the second finds the one that the first opened.
        let _turn = self.reopening.lock().await;
        let there = match self.sessions.find(who, &called) {
            Some(open) => Some(open),
            None => self.reopen(who, &called, Some(&front.ceiling)).await?,
        };
        match (there, called) {
            (Some(open), _) => Ok(seat_in(open, front, ask)?),
            (None, Called::Id(id)) => Err(unknown(id).into()),
            (None, Called::Name(name)) => {
                let policy = timed_policy(&front.ceiling, &front.policy, ask)?;
                let open = self.open_new(who, Some(&name), &policy).await?;
                let base = open.rules.policy();
                fixed(&base, &policy)?;
                Ok((policy, Seat::In(open, base)))
            }
        }
    }

    /// Opens a new session that stays open.
    async fn open_new(&self, who: Principal, name: Option<&str>, policy: &Arc<Policy>) -> Result<Arc<Open>, NoSeat> {
        let id = SessionId::generate()?;
        let kept = self.keeping(who, id, policy, name).await?;
        let opening = self.opening(id, Arc::clone(policy), kept, false)?;
        Ok(self.sessions.add(who, name, opening, self.tenants.past(who))?)
    }

    /// The context of an execution whose session ends with it.
    pub(crate) fn alone(
        &self,
        who: Principal,
        execution: ExecutionId,
        policy: Arc<Policy>,
    ) -> Result<Session, NoEntropy> {
        let id = SessionId::generate()?;
        let rules = self.ruled(id, Arc::clone(&policy), 1);
        Ok(Session {
            rules: Some(rules),
            past: Arc::new(self.tenants.past(who)),
            ..Session::new((id, execution), who, policy, self.folders(id))
        })
    }

    pub(crate) fn opening(
        &self,
        id: SessionId,
        policy: Arc<Policy>,
        kept: Option<Kept>,
        require_hard: bool,
    ) -> Result<Opening, Refusal> {
        let folders = self.folders(id);
        let disk = Disk {
            folders: &folders,
            kept: kept.as_ref(),
        };
        let spec = self.spec(&policy, disk, require_hard)?;
        Ok(Opening {
            id,
            enforcement: self.enforcement(&spec, &policy),
            rules: self.ruled(id, policy, 1),
            spec,
            folders,
            screen: Arc::default(),
            kept,
            place: Place::New,
        })
    }
}

/// Assigns an open session to a request, under the session's rules.
fn seat_in(open: Arc<Open>, front: &Front, ask: &Ask) -> Result<(Arc<Policy>, Seat), Refusal> {
    let (base, ceiling) = open.rules.standing(&front.ceiling);
    // The session already has its time limit; more than the ceiling allows is refused all the same.
    timed_policy(&ceiling, &base, ask)?;
    let policy = asked_policy(&ceiling, &base, ask.draft.as_ref())?;
    fixed(&base, &policy)?;
    open.touch();
    Ok((policy, Seat::In(open, base)))
}

/// The policy that a request asks for, with its `timeout`: a timeout above the base policy's time counts as a request for as much, unless
/// the draft has a time of its own.
fn timed_policy(ceiling: &Ceiling, base: &Arc<Policy>, ask: &Ask) -> Result<Arc<Policy>, Refusal> {
    let more = ask.timeout.filter(|timeout| *timeout > base.limits().wall);
    let mut draft = ask.draft.clone().unwrap_or_else(|| json!({}));
    let proc = draft
        .as_object_mut()
        .map(|keys| keys.entry("proc").or_insert_with(|| json!({})));
    if let (Some(timeout), Some(Value::Object(proc))) = (more, proc) {
        let wish = || format!("{}ms", timeout.as_millis()).into();
        proc.entry("wall_timeout").or_insert_with(wish);
        return asked_policy(ceiling, base, Some(&draft));
    }
    asked_policy(ceiling, base, ask.draft.as_ref())
}

/// Bytes of a request's draft at most: the draft is kept as long as the run, for every client that waits.
const MAX_DRAFT: usize = 64 << 10;

/// The policy of a draft over the base policy, under the ceiling.
pub(crate) fn asked_policy(
    ceiling: &Ceiling,
    base: &Arc<Policy>,
    draft: Option<&Value>,
) -> Result<Arc<Policy>, Refusal> {
    let Some(draft) = draft else {
        return Ok(Arc::clone(base));
    };
    let text = draft.to_string();
    if text.len() > MAX_DRAFT {
        return Err(Refusal {
            code: "policy.size",
            message: format!("`sandbox_policy` has {} bytes, the most is {MAX_DRAFT}", text.len()),
            rule: "sandbox_policy".to_owned(),
            hint: Some("name what the run needs beyond the policy in force, with fewer or wider patterns".to_owned()),
        });
    }
    let draft = Draft::parse(&text, "sandbox_policy").map_err(|error| unparsed("`sandbox_policy`", error))?;
    let draft = real_folders(draft)?;
    let named = base.to_draft().layer(&draft).named("sandbox_policy");
    let policy = named.under(ceiling).map_err(|error| over_ceiling(&error))?;
    Ok(Arc::new(policy))
}

/// The refusal of a draft that does not parse.
pub(crate) fn unparsed(what: &str, error: ParseError) -> Refusal {
    Refusal {
        code: "policy.parse",
        message: format!("{what}: {}", error.message),
        rule: "sandbox_policy".to_owned(),
        hint: error.hint,
    }
}

/// The refusal of a draft that asks for more than the operator allows.
pub(crate) fn over_ceiling(error: &TooMuch) -> Refusal {
    Refusal {
        code: error.code(),
        message: error.to_string(),
        rule: error.rule(),
        hint: Some(error.hint().to_owned()),
    }
}

/// Resolves a draft's host folders: a link must not lead out of what the ceiling shows.
fn real_folders(mut draft: Draft) -> Result<Draft, Refusal> {
    for mount in draft.fs.iter_mut().flat_map(|fs| &mut fs.mounts) {
        let Some(from) = mount.from.as_mut() else { continue };
        let refused = |why: String| Refusal {
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
pub(crate) fn fixed(open: &Policy, asked: &Policy) -> Result<(), Refusal> {
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
    Err(Refusal {
        code: "session.fixed",
        message: format!("`{}` of an open session cannot change", other.join("`, `")),
        rule: other.join(", "),
        hint: Some("leave these keys out, or run in another session".to_owned()),
    })
}
