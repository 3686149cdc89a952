//! Elicitation: asks the person at the client for an approval. This happens only if the session's policy has `client` in
//! `approvals.by` and the client can show a form.
//!
//! Clients of the older era are asked during a call. Clients of the newer era get the question as the result of the call, and
//! repeat the call with the answer. The text of the form is written here, and quotes a program's arguments as data.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use ringfence_engine::approvals::{self, AnswerError, AnswerSubmission, ApprovalState, ApprovalView, PendingApproval};
use ringfence_engine::{ApprovalEvent, Engine, RunningExecution};
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

use super::fault::McpFault;
use super::handler::McpHandler;

mod form_text;

/// The most questions in one result of the newer era.
const MAX_QUESTIONS_PER_RESULT: usize = 8;
/// The most forms that all clients of the older era together have open.
const MAX_OPEN_FORMS: usize = 1024;

/// How a client is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElicitationMode {
    /// The client cannot show forms.
    None,
    /// The server sends an elicitation request.
    Request,
    /// The result of the call has the question.
    Result,
}

impl ElicitationMode {
    fn from_context(context: &RequestContext<RoleServer>) -> ElicitationMode {
        let client = context.client_capabilities().and_then(|client| client.elicitation);
        // A client that declares no modes supports forms.
        let shows_forms = client.is_some_and(|shows| shows.form.is_some() || shows.url.is_none());
        let is_newer = context
            .protocol_version()
            .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (shows_forms, is_newer) {
            (false, _) => ElicitationMode::None,
            (true, false) => ElicitationMode::Request,
            (true, true) => ElicitationMode::Result,
        }
    }
}

/// Approval requests that clients of the older era have open as forms, so that no request is shown twice at the same time.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenForms(Arc<Mutex<VecDeque<ApprovalId>>>);

impl OpenForms {
    fn add(&self, id: ApprovalId) -> bool {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !open.contains(&id) && open.len() < MAX_OPEN_FORMS;
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
pub(super) struct CallElicitation {
    mode: ElicitationMode,
    /// Whether the policy lets the client answer; `None` before it was looked up.
    is_allowed: Option<bool>,
    /// The approval requests that the client was asked about.
    asked: HashSet<ApprovalId>,
    open: Option<JoinHandle<()>>,
}

/// The next step of an elicitation.
#[derive(Debug)]
pub(super) enum ElicitationStep {
    /// No step: the client may not be asked, or was asked everything.
    Nothing,
    /// A form is open at the client.
    Open,
    /// The call returns this result.
    Ask(Box<InputRequiredResult>),
}

impl CallElicitation {
    /// The elicitation of a request whose client was already asked about `asked`.
    pub(super) fn new(context: &RequestContext<RoleServer>, asked: HashSet<ApprovalId>) -> CallElicitation {
        CallElicitation {
            mode: ElicitationMode::from_context(context),
            is_allowed: None,
            asked,
            open: None,
        }
    }

    /// Whether the client may have to be asked.
    pub(super) fn is_possible(&self) -> bool {
        self.mode != ElicitationMode::None && self.is_allowed != Some(false)
    }

    /// Waits for a new approval request of this execution, or for the answer to the open form.
    pub(super) async fn wait_for_question(&mut self, words: &mut Receiver<ApprovalEvent>, execution: ExecutionId) {
        let asked = async {
            loop {
                match words.recv().await {
                    Ok(ApprovalEvent::Asked(of, _)) if of == execution => return,
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
    pub(super) async fn ask_client(
        &mut self,
        face: &McpHandler,
        who: Principal,
        running: &RunningExecution,
        context: &RequestContext<RoleServer>,
    ) -> Result<ElicitationStep, McpFault> {
        if self.open.as_ref().is_some_and(|open| !open.is_finished()) {
            return Ok(ElicitationStep::Open);
        }
        self.open = None;
        let new: Vec<&PendingApproval> = running
            .approvals
            .iter()
            .filter(|asked| !self.asked.contains(&asked.id))
            .take(MAX_QUESTIONS_PER_RESULT)
            .collect();
        let Some(first) = new.first() else {
            return Ok(ElicitationStep::Nothing);
        };
        if !self.client_may_answer(face, first.id).await? {
            return Ok(ElicitationStep::Nothing);
        }
        match self.mode {
            ElicitationMode::None => Ok(ElicitationStep::Nothing),
            ElicitationMode::Request => self.send_form(face, who, &new, context).await,
            ElicitationMode::Result => self.questions_as_result(face, running.execution_id, &new).await,
        }
    }

    /// Whether the policy lets the client answer. All requests of an execution come from one policy; each answer is checked
    /// against its own request.
    async fn client_may_answer(&mut self, face: &McpHandler, id: ApprovalId) -> Result<bool, McpFault> {
        if self.mode == ElicitationMode::None {
            return Ok(false);
        }
        if let Some(may) = self.is_allowed {
            return Ok(may);
        }
        let store = face.shared.engine.store();
        let may = approvals::accepts_via(store, id, ApprovalVia::Client).await?;
        self.is_allowed = Some(may);
        Ok(may)
    }

    /// Opens one form; others follow after it.
    async fn send_form(
        &mut self,
        face: &McpHandler,
        who: Principal,
        new: &[&PendingApproval],
        context: &RequestContext<RoleServer>,
    ) -> Result<ElicitationStep, McpFault> {
        let engine = &face.shared.engine;
        for asked in new {
            self.asked.insert(asked.id);
            if !face.shared.open_forms.add(asked.id) {
                continue;
            }
            let open = OpenForm {
                engine: Arc::clone(engine),
                open_forms: face.shared.open_forms.clone(),
                who,
                id: asked.id,
            };
            let Some(shown) = pending_approval(engine, asked.id).await? else {
                continue;
            };
            let Some(params) = elicit_params(&shown) else { continue };
            let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
            let left = SystemTime::from(shown.expires).duration_since(SystemTime::now());
            // The form is sent within the client's own request; its answer may arrive after that has ended.
            let sent = context
                .peer
                .send_request_with_option(request, PeerRequestOptions::with_timeout(left.unwrap_or_default()))
                .await;
            match sent {
                Ok(handle) => {
                    self.open = Some(tokio::spawn(open.wait_for_answer(handle, face.gone.clone())));
                    return Ok(ElicitationStep::Open);
                }
                Err(error) => {
                    tracing::debug!(%error, "a client could not be asked; the question stays where it is");
                    self.mode = ElicitationMode::None;
                    return Ok(ElicitationStep::Nothing);
                }
            }
        }
        Ok(ElicitationStep::Nothing)
    }

    /// Makes the result with the questions.
    async fn questions_as_result(
        &mut self,
        face: &McpHandler,
        execution_id: ExecutionId,
        new: &[&PendingApproval],
    ) -> Result<ElicitationStep, McpFault> {
        let requests = input_requests(&face.shared.engine, new).await?;
        self.asked.extend(new.iter().map(|asked| asked.id));
        if requests.is_empty() {
            return Ok(ElicitationStep::Nothing);
        }
        let state = RepeatState {
            execution_id,
            asked: self.asked.iter().copied().collect(),
        };
        let state = serde_json::to_string(&state).ok();
        Ok(ElicitationStep::Ask(Box::new(InputRequiredResult::new(
            Some(requests),
            state,
        ))))
    }
}

/// A form that a client of the older era has open.
struct OpenForm {
    engine: Arc<Engine>,
    open_forms: OpenForms,
    who: Principal,
    id: ApprovalId,
}

impl Drop for OpenForm {
    fn drop(&mut self) {
        self.open_forms.remove(self.id);
    }
}

impl OpenForm {
    /// Waits for the answer, until the request is settled elsewhere.
    async fn wait_for_answer(self, mut handle: RequestHandle<RoleServer>, gone: CancellationToken) {
        let mut words = self.engine.approvals().events();
        let settled = async {
            loop {
                match words.recv().await {
                    Ok(ApprovalEvent::Settled(_, id, _)) if id == self.id => return,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        let left = handle.options.timeout.unwrap_or_default();
        let answered = tokio::select! {
            answered = &mut handle.rx => answered,
            () = settled => return cancel_form(&handle, "it was answered elsewhere").await,
            () = tokio::time::sleep(left) => return cancel_form(&handle, "nobody answered in time").await,
            () = gone.cancelled() => return,
        };
        let Ok(Ok(ClientResult::ElicitResult(answer))) = answered else {
            tracing::debug!(question = %self.id, "a client did not answer a form; the question stays where it is");
            return;
        };
        let action = serde_json::to_value(&answer.action).unwrap_or_default();
        let answer = json!({ "action": action, "content": answer.content });
        if let Some(decision) = PersonDecision::from_answer(&answer) {
            submit_decision(&self.engine, self.who, self.id, decision).await;
        }
    }
}

/// Cancels an open form.
async fn cancel_form(handle: &RequestHandle<RoleServer>, reason: &str) {
    let told = CancelledNotificationParam::new(Some(handle.id.clone()), Some(reason.to_owned()));
    // A disconnected client gets no notification.
    let _told = handle.peer.notify_cancelled(told).await;
}

/// The state that the client carries between two calls. It is checked again, and grants no permission.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepeatState {
    execution_id: ExecutionId,
    asked: Vec<ApprovalId>,
}

/// A repeated call, with the approval requests that the client was asked about.
#[derive(Debug)]
pub(super) struct RepeatedCall {
    pub(super) execution: ExecutionId,
    pub(super) asked: HashSet<ApprovalId>,
}

/// Parses the state of a repeated call; `None` for a new call.
pub(super) fn parse_repeated_call(state: Option<&str>) -> Result<Option<RepeatedCall>, McpFault> {
    let Some(state) = state else { return Ok(None) };
    let state: RepeatState = serde_json::from_str(state).map_err(|_| {
        let hint = "send what the result before had as `requestState`, as it was";
        McpFault::new("arguments.invalid", "`requestState` is not what was given", hint)
    })?;
    Ok(Some(RepeatedCall {
        execution: state.execution_id,
        asked: state.asked.into_iter().collect(),
    }))
}

/// Submits the answers of a client of the newer era, to requests of its own execution only.
pub(super) async fn accept_answers(
    engine: &Arc<Engine>,
    who: Principal,
    execution: ExecutionId,
    answers: &InputResponses,
) -> Result<(), McpFault> {
    for (key, answer) in answers {
        let (Ok(id), Some(decision)) = (key.parse(), PersonDecision::from_answer(answer)) else {
            continue;
        };
        if let Some(shown) = pending_approval(engine, id).await?
            && (shown.execution_id, shown.principal) == (execution, who)
        {
            submit_decision(engine, who, id, decision).await;
        }
    }
    Ok(())
}

/// The questions of a task that its client may answer.
pub(super) async fn task_questions(
    engine: &Arc<Engine>,
    running: &RunningExecution,
    context: &RequestContext<RoleServer>,
) -> Result<InputRequests, McpFault> {
    let Some(first) = running
        .approvals
        .first()
        .filter(|_| ElicitationMode::from_context(context) == ElicitationMode::Result)
    else {
        return Ok(InputRequests::new());
    };
    if !approvals::accepts_via(engine.store(), first.id, ApprovalVia::Client).await? {
        return Ok(InputRequests::new());
    }
    let asked: Vec<&PendingApproval> = running.approvals.iter().take(MAX_QUESTIONS_PER_RESULT).collect();
    input_requests(engine, &asked).await
}

async fn input_requests(engine: &Engine, asked: &[&PendingApproval]) -> Result<InputRequests, McpFault> {
    let mut requests = InputRequests::new();
    for asked in asked {
        let form = pending_approval(engine, asked.id)
            .await?
            .as_ref()
            .and_then(elicit_params);
        if let Some(form) = form {
            let request = InputRequest::Elicitation(ElicitRequest::new(form));
            requests.insert(asked.id.to_string(), request);
        }
    }
    Ok(requests)
}

/// An approval request that is still pending.
async fn pending_approval(engine: &Engine, id: ApprovalId) -> Result<Option<ApprovalView>, McpFault> {
    let shown = approvals::find_approval(engine.store(), id)
        .await
        .map_err(AnswerError::Read)?;
    Ok(shown.filter(|shown| shown.state == ApprovalState::Pending))
}

/// The decision of the person at the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PersonDecision {
    Approve(ApprovalScope),
    Deny,
}

impl PersonDecision {
    const NAMES: [&str; 3] = ["approve_once", "approve_for_session", "deny"];

    /// The decision in an answer; `None` for a cancelled or unknown one.
    fn from_answer(answer: &Value) -> Option<PersonDecision> {
        match answer["action"].as_str()? {
            "decline" => Some(PersonDecision::Deny),
            "accept" => match answer["content"]["decision"].as_str()? {
                "approve_once" => Some(PersonDecision::Approve(ApprovalScope::Once)),
                "approve_for_session" => Some(PersonDecision::Approve(ApprovalScope::Session)),
                "deny" => Some(PersonDecision::Deny),
                _ => None,
            },
            _ => None,
        }
    }
}

async fn submit_decision(engine: &Engine, who: Principal, id: ApprovalId, decision: PersonDecision) {
    let (approve, scope) = match decision {
        PersonDecision::Approve(scope) => (true, scope),
        PersonDecision::Deny => (false, ApprovalScope::Once),
    };
    let say = AnswerSubmission {
        approve,
        scope,
        shown: None,
        by: who,
        via: ApprovalVia::Client,
        note: None,
    };
    if let Err(error) = approvals::answer_approval(engine.store(), id, say).await {
        // The request was settled elsewhere or has expired; the run shows the decision that applies.
        tracing::info!(question = %id, code = error.code(), %error, "a client's answer does not count");
    }
}

/// The form of an approval request, with a single field.
fn elicit_params(shown: &ApprovalView) -> Option<ElicitRequestParams> {
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "for this call, for this tool until the session ends, or not at all",
                "enum": PersonDecision::NAMES,
            },
        },
        "required": ["decision"],
    });
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: form_text::form_message(shown),
        requested_schema: serde_json::from_value(schema).ok()?,
    })
}

impl From<AnswerError> for McpFault {
    fn from(error: AnswerError) -> McpFault {
        McpFault {
            code: error.code().to_owned(),
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
            rule: None,
        }
    }
}

#[cfg(test)]
mod tests;
