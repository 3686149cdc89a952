//! Elicitation: asks the person at the client for an approval. This happens only if the session's policy has `client` in
//! `approvals.by` and the client can show a form.
//!
//! Clients of the older era are asked during a call. Clients of the newer era get the question as the result of the call, and
//! repeat the call with the answer. The text of the form is written here, and quotes a program's arguments as data.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use ringfence_engine::approvals::{self, AnswerError, ApprovalState, Inquiry, Say, Shown};
use ringfence_engine::{Engine, Running, Word};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia, ExecutionId, Principal};
use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ProtocolVersion, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RequestHandle, RoleServer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::face::Face;
use super::fault::Fault;

mod text;

/// The most questions in one result of the newer era.
const AT_ONCE: usize = 8;
/// The most forms that all clients of the older era together have open.
const MOST_OPEN: usize = 1024;

/// How a client is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The client cannot show forms.
    None,
    /// The server sends an elicitation request.
    Request,
    /// The result of the call has the question.
    Result,
}

impl Way {
    fn of(context: &RequestContext<RoleServer>) -> Way {
        let client = context.client_capabilities().and_then(|client| client.elicitation);
        // A client that declares no modes supports forms.
        let shows_forms = client.is_some_and(|shows| shows.form.is_some() || shows.url.is_none());
        let is_newer = context
            .protocol_version()
            .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (shows_forms, is_newer) {
            (false, _) => Way::None,
            (true, false) => Way::Request,
            (true, true) => Way::Result,
        }
    }
}

/// Approval requests that clients of the older era have open as forms, so that no request is shown twice at the same time.
#[derive(Debug, Clone, Default)]
pub(super) struct Opened(Arc<Mutex<VecDeque<ApprovalId>>>);

impl Opened {
    fn add(&self, id: ApprovalId) -> bool {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !open.contains(&id) && open.len() < MOST_OPEN;
        if is_new {
            open.push_back(id);
        }
        is_new
    }

    fn remove(&self, id: ApprovalId) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|one| *one != id);
    }
}

/// The elicitation of one call.
#[derive(Debug)]
pub(super) struct Forms {
    way: Way,
    /// Whether the policy lets the client answer; `None` before it was looked up.
    may: Option<bool>,
    /// The approval requests that the client was asked about.
    asked: HashSet<ApprovalId>,
    open: Option<JoinHandle<()>>,
}

/// The next step of an elicitation.
#[derive(Debug)]
pub(super) enum Next {
    /// No step: the client may not be asked, or was asked everything.
    Nothing,
    /// A form is open at the client.
    Open,
    /// The call returns this result.
    Ask(Box<InputRequiredResult>),
}

impl Forms {
    /// The elicitation of a request whose client was already asked about `asked`.
    pub(super) fn new(context: &RequestContext<RoleServer>, asked: HashSet<ApprovalId>) -> Forms {
        Forms {
            way: Way::of(context),
            may: None,
            asked,
            open: None,
        }
    }

    /// Whether the client may have to be asked.
    pub(super) fn are_possible(&self) -> bool {
        self.way != Way::None && self.may != Some(false)
    }

    /// Waits for a new approval request of this execution, or for the answer to the open form.
    pub(super) async fn news(&mut self, words: &mut Receiver<Word>, execution: ExecutionId) {
        let asked = async {
            loop {
                match words.recv().await {
                    Ok(Word::Asked(of, _)) if of == execution => return,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return,
                    // The engine holds the sender, so this does not happen.
                    Err(RecvError::Closed) => return std::future::pending().await,
                }
            }
        };
        match &mut self.open {
            None => asked.await,
            // A failed form changes nothing: the approval request stays pending.
            Some(open) => drop(open.await),
        }
        self.open = None;
    }

    /// Asks the client about the pending approval requests, if it may and can be asked.
    pub(super) async fn attend(
        &mut self,
        face: &Face,
        who: Principal,
        running: &Running,
        context: &RequestContext<RoleServer>,
    ) -> Result<Next, Fault> {
        if self.open.as_ref().is_some_and(|open| !open.is_finished()) {
            return Ok(Next::Open);
        }
        self.open = None;
        let new: Vec<&Inquiry> = running
            .approvals
            .iter()
            .filter(|asked| !self.asked.contains(&asked.id))
            .take(AT_ONCE)
            .collect();
        let Some(first) = new.first() else {
            return Ok(Next::Nothing);
        };
        if !self.may(face, first.id).await? {
            return Ok(Next::Nothing);
        }
        match self.way {
            Way::None => Ok(Next::Nothing),
            Way::Request => self.request(face, who, &new, context).await,
            Way::Result => self.result(face, running.execution_id, &new).await,
        }
    }

    /// Whether the policy lets the client answer. All requests of an execution come from one policy; each answer is checked
    /// against its own request.
    async fn may(&mut self, face: &Face, id: ApprovalId) -> Result<bool, Fault> {
        if self.way == Way::None {
            return Ok(false);
        }
        if let Some(may) = self.may {
            return Ok(may);
        }
        let store = face.shared.engine.store();
        let may = approvals::takes(store, id, ApprovalVia::Client).await?;
        self.may = Some(may);
        Ok(may)
    }

    /// Opens one form; others follow after it.
    async fn request(
        &mut self,
        face: &Face,
        who: Principal,
        new: &[&Inquiry],
        context: &RequestContext<RoleServer>,
    ) -> Result<Next, Fault> {
        let engine = &face.shared.engine;
        for asked in new {
            self.asked.insert(asked.id);
            if !face.shared.opened.add(asked.id) {
                continue;
            }
            let open = Open {
                engine: Arc::clone(engine),
                opened: face.shared.opened.clone(),
                who,
                id: asked.id,
            };
            let Some(shown) = pending(engine, asked.id).await? else {
                continue;
            };
            let Some(params) = form(&shown) else { continue };
            let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
            let left = SystemTime::from(shown.expires).duration_since(SystemTime::now());
            // The form is sent within the client's own request; its answer may arrive after that has ended.
            let sent = context
                .peer
                .send_request_with_option(request, PeerRequestOptions::with_timeout(left.unwrap_or_default()))
                .await;
            match sent {
                Ok(handle) => {
                    self.open = Some(tokio::spawn(open.hear(handle, face.gone.clone())));
                    return Ok(Next::Open);
                }
                Err(error) => {
                    tracing::debug!(%error, "a client could not be asked; the question stays where it is");
                    self.way = Way::None;
                    return Ok(Next::Nothing);
                }
            }
        }
        Ok(Next::Nothing)
    }

    /// Makes the result with the questions.
    async fn result(&mut self, face: &Face, execution_id: ExecutionId, new: &[&Inquiry]) -> Result<Next, Fault> {
        let requests = requests(&face.shared.engine, new).await?;
        self.asked.extend(new.iter().map(|asked| asked.id));
        if requests.is_empty() {
            return Ok(Next::Nothing);
        }
        let state = State {
            execution_id,
            asked: self.asked.iter().copied().collect(),
        };
        let state = serde_json::to_string(&state).ok();
        Ok(Next::Ask(Box::new(InputRequiredResult::new(Some(requests), state))))
    }
}

/// A form that a client of the older era has open.
struct Open {
    engine: Arc<Engine>,
    opened: Opened,
    who: Principal,
    id: ApprovalId,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.opened.remove(self.id);
    }
}

impl Open {
    /// Waits for the answer, until the request is settled elsewhere.
    async fn hear(self, mut handle: RequestHandle<RoleServer>, gone: CancellationToken) {
        let mut words = self.engine.questions();
        let settled = async {
            loop {
                match words.recv().await {
                    Ok(Word::Settled(_, id, _)) if id == self.id => return,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        let left = handle.options.timeout.unwrap_or_default();
        let answered = tokio::select! {
            answered = &mut handle.rx => answered,
            () = settled => return withdraw(&handle, "it was answered elsewhere").await,
            () = tokio::time::sleep(left) => return withdraw(&handle, "nobody answered in time").await,
            () = gone.cancelled() => return,
        };
        let Ok(Ok(ClientResult::ElicitResult(answer))) = answered else {
            tracing::debug!(question = %self.id, "a client did not answer a form; the question stays where it is");
            return;
        };
        let action = serde_json::to_value(&answer.action).unwrap_or_default();
        let answer = json!({ "action": action, "content": answer.content });
        if let Some(decision) = Decision::of(&answer) {
            say(&self.engine, self.who, self.id, decision).await;
        }
    }
}

/// Cancels an open form.
async fn withdraw(handle: &RequestHandle<RoleServer>, reason: &str) {
    let told = CancelledNotificationParam::new(Some(handle.id.clone()), Some(reason.to_owned()));
    // A disconnected client gets no notification.
    let _told = handle.peer.notify_cancelled(told).await;
}

/// The state that the client carries between two calls. It is checked again, and grants no permission.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    execution_id: ExecutionId,
    asked: Vec<ApprovalId>,
}

/// A repeated call, with the approval requests that the client was asked about.
#[derive(Debug)]
pub(super) struct Repeated {
    pub(super) execution: ExecutionId,
    pub(super) asked: HashSet<ApprovalId>,
}

/// Parses the state of a repeated call; `None` for a new call.
pub(super) fn repeated(state: Option<&str>) -> Result<Option<Repeated>, Fault> {
    let Some(state) = state else { return Ok(None) };
    let state: State = serde_json::from_str(state).map_err(|_| {
        let hint = "send what the result before had as `requestState`, as it was";
        Fault::new("arguments.invalid", "`requestState` is not what was given", hint)
    })?;
    Ok(Some(Repeated {
        execution: state.execution_id,
        asked: state.asked.into_iter().collect(),
    }))
}

/// Submits the answers of a client of the newer era, to requests of its own execution only.
pub(super) async fn take(
    engine: &Arc<Engine>,
    who: Principal,
    execution: ExecutionId,
    answers: &InputResponses,
) -> Result<(), Fault> {
    for (key, answer) in answers {
        let (Ok(id), Some(decision)) = (key.parse(), Decision::of(answer)) else {
            continue;
        };
        if let Some(shown) = pending(engine, id).await?
            && (shown.execution_id, shown.principal) == (execution, who)
        {
            say(engine, who, id, decision).await;
        }
    }
    Ok(())
}

/// The questions of a task that its client may answer.
pub(super) async fn of_task(
    engine: &Arc<Engine>,
    running: &Running,
    context: &RequestContext<RoleServer>,
) -> Result<InputRequests, Fault> {
    let Some(first) = running.approvals.first().filter(|_| Way::of(context) == Way::Result) else {
        return Ok(InputRequests::new());
    };
    if !approvals::takes(engine.store(), first.id, ApprovalVia::Client).await? {
        return Ok(InputRequests::new());
    }
    let asked: Vec<&Inquiry> = running.approvals.iter().take(AT_ONCE).collect();
    requests(engine, &asked).await
}

async fn requests(engine: &Engine, asked: &[&Inquiry]) -> Result<InputRequests, Fault> {
    let mut requests = InputRequests::new();
    for asked in asked {
        let form = pending(engine, asked.id).await?.as_ref().and_then(form);
        if let Some(form) = form {
            let request = InputRequest::Elicitation(ElicitRequest::new(form));
            requests.insert(asked.id.to_string(), request);
        }
    }
    Ok(requests)
}

/// An approval request that is still pending.
async fn pending(engine: &Engine, id: ApprovalId) -> Result<Option<Shown>, Fault> {
    let shown = approvals::show(engine.store(), id).await.map_err(AnswerError::Read)?;
    Ok(shown.filter(|shown| shown.state == ApprovalState::Pending))
}

/// The decision of the person at the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Approve(ApprovalScope),
    Deny,
}

impl Decision {
    const NAMES: [&str; 3] = ["approve_once", "approve_for_session", "deny"];

    /// The decision in an answer; `None` for a cancelled or unknown one.
    fn of(answer: &Value) -> Option<Decision> {
        match answer["action"].as_str()? {
            "decline" => Some(Decision::Deny),
            "accept" => match answer["content"]["decision"].as_str()? {
                "approve_once" => Some(Decision::Approve(ApprovalScope::Once)),
                "approve_for_session" => Some(Decision::Approve(ApprovalScope::Session)),
                "deny" => Some(Decision::Deny),
                _ => None,
            },
            _ => None,
        }
    }
}

async fn say(engine: &Engine, who: Principal, id: ApprovalId, decision: Decision) {
    let (approve, scope) = match decision {
        Decision::Approve(scope) => (true, scope),
        Decision::Deny => (false, ApprovalScope::Once),
    };
    let say = Say {
        approve,
        scope,
        shown: None,
        by: who,
        via: ApprovalVia::Client,
        note: None,
    };
    if let Err(error) = approvals::answer(engine.store(), id, say).await {
        // The request was settled elsewhere or has expired; the run shows the decision that applies.
        tracing::info!(question = %id, code = error.code(), %error, "a client's answer does not count");
    }
}

/// The form of an approval request, with a single field.
fn form(shown: &Shown) -> Option<ElicitRequestParams> {
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "for this call, for this tool until the session ends, or not at all",
                "enum": Decision::NAMES,
            },
        },
        "required": ["decision"],
    });
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: text::message(shown),
        requested_schema: serde_json::from_value(schema).ok()?,
    })
}

impl From<AnswerError> for Fault {
    fn from(error: AnswerError) -> Fault {
        Fault {
            code: error.code().to_owned(),
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
            rule: None,
        }
    }
}

#[cfg(test)]
mod tests;
