//! Redacts the arguments and the answers of calls for those who must not see personal data.

use std::sync::Arc;

use ringfence_catalog::Tool;
use ringfence_hygiene::SchemaHints;
use ringfence_journal::{CallOutcome, DetectionCount, Event, EventKind, ReplayRecorder};
use ringfence_policy::Policy;
use serde_json::Value;

use super::authorize::AuthorizeError;
use super::end_event_batcher::EventWithEntries;
use super::{Pass, PassError};
use crate::call_log::ActiveCall;
use crate::redactor::{Audience, Redacted, RedactionError, RedactionRequest};
use crate::refusal::{CallErrorBody, RequestRefusal};

/// The policy key that decides about personal data.
const PII_MODE_RULE: &str = "data.pii.mode";

impl<R: ReplayRecorder + Clone + 'static> Pass<R> {
    /// Returns the arguments as the tool gets them, and the aliases whose values were filled in.
    pub(super) async fn reveal_arguments(
        &self,
        policy: &Policy,
        tool: &Tool,
        arguments: Value,
    ) -> Result<(Value, Vec<usize>), AuthorizeError> {
        let sight = self.redactor.rules_for(policy).await.map_err(redaction_error)?;
        let revealed = self.redactor.reveal_arguments(&sight, &tool.name, arguments).await;
        Ok(revealed.map_err(|error| match error {
            RedactionError::Invented(invented) => RequestRefusal::new("data.alias", invented.to_string())
                .by_rule(PII_MODE_RULE)
                .with_hint("use aliases as they were shown in this session; none can be made up"),
            error @ (RedactionError::Own(_)
            | RedactionError::Randomness(_)
            | RedactionError::Unkept(_)
            | RedactionError::Broken) => redaction_refusal(&error),
        })?)
    }

    /// Returns the arguments as an approval form may show them; `None` if they are shown as they are sent.
    pub(super) async fn mask_arguments(
        &self,
        policy: &Policy,
        body: &str,
        is_revealed: bool,
    ) -> Result<Option<String>, AuthorizeError> {
        let sight = self.redactor.rules_for(policy).await.map_err(redaction_error)?;
        let value: Value = serde_json::from_str(body)
            .map_err(|error| RequestRefusal::new("tool.arguments", format!("the arguments are not JSON: {error}")))?;
        let shown = self
            .redactor
            .redact_for_form(&sight, value.clone())
            .await
            .map_err(redaction_error)?;
        Ok((is_revealed || shown != value).then(|| shown.to_string()))
    }

    /// Checks arguments against the tool's schema. The error does not reveal values that the program must not see.
    pub(super) fn check_arguments(
        &self,
        tool: &Tool,
        arguments: &Value,
        asking: &ActiveCall<'_>,
        is_revealed: bool,
    ) -> Result<(), RequestRefusal> {
        let Err(refusal) = self.gateway.check_arguments(tool, arguments) else {
            return Ok(());
        };
        if !is_revealed {
            return Err(refusal);
        }
        let masked = serde_json::from_str(asking.body).unwrap_or(Value::Null);
        self.gateway.check_arguments(tool, &masked)?;
        let message = format!(
            "`{}`: with the values of its aliases the arguments are not what it takes",
            tool.name
        );
        Err(RequestRefusal::new("tool.arguments", message).by_rule("inputSchema"))
    }

    /// Queues the event for aliases whose values were filled in.
    pub(super) fn queue_revealed(&self, number: u32, revealed: &[usize]) {
        if !revealed.is_empty() {
            let (number, count) = (u64::from(number), revealed.len() as u64);
            self.queue_event(EventKind::DataRevealed { number, count });
        }
    }

    /// Redacts a refusal with foreign text: a server's last output, or the comment of a person who saw the values.
    pub(super) async fn redact_refusal(&self, refusal: RequestRefusal) -> Result<RequestRefusal, PassError> {
        if !refusal.has_foreign_text() {
            return Ok(refusal);
        }
        let sight = match self.redactor.rules_for(&self.policy()).await {
            Ok(sight) => sight,
            Err(error) => return Ok(redaction_refusal(&error)),
        };
        let words = Value::String(refusal.message.clone());
        let keep = (&self.recorder, self.session);
        let seen = self
            .redactor
            .redact(keep, RedactionRequest::new(words, &sight, Audience::Inside))
            .await;
        let message = match seen {
            Ok(Redacted {
                shown: Some(Value::String(message)),
                ..
            }) => message,
            Ok(_) => "what was said to it is held back: it has personal data".to_owned(),
            Err(RedactionError::Unkept(error)) => return Err(PassError::Unrecorded(error)),
            Err(error) => return Ok(redaction_refusal(&error)),
        };
        Ok(refusal.with_message(message))
    }

    /// Returns a tool's answer as the program may see it.
    pub(super) async fn redact_answer(
        &self,
        number: u32,
        tool: &Tool,
        revealed: Vec<usize>,
        answered: Result<Value, (CallOutcome, RequestRefusal)>,
    ) -> Result<Result<String, (CallOutcome, CallErrorBody)>, PassError> {
        let sight = match self.redactor.rules_for(&self.policy()).await {
            Ok(sight) => sight,
            Err(error) => return Ok(Err((CallOutcome::Broken, redaction_refusal(&error).into()))),
        };
        let keep = (&self.recorder, self.session);
        let audience = if tool.name.is_skill() {
            Audience::InsideSkill
        } else {
            Audience::Inside
        };
        let request = |said: Value, hints: Arc<SchemaHints>| RedactionRequest {
            hints,
            known: revealed,
            ..RedactionRequest::new(said, &sight, audience)
        };
        let (answered, seen) = match answered {
            Ok(value) => {
                let schema = tool.definition.output.as_ref();
                let hints = match self.gateway.data_hints(tool) {
                    Ok(hints) => hints,
                    Err(refusal) => return Ok(Err((CallOutcome::Broken, refusal.into()))),
                };
                // Result types are observed only for tools without an output schema.
                let learns = schema.is_none()
                    && !tool.name.is_skill()
                    && self.gateway.still_learns(tool)
                    && !sight.has_personal_keys(&value);
                let seen = self.redactor.redact(keep, request(value, hints)).await;
                if let Ok(Redacted { shown: Some(shown), .. }) = &seen
                    && learns
                    && !self.redactor.knows_keys(shown).await
                {
                    self.gateway.learn_result_type(tool, shown);
                }
                (Ok(()), seen)
            }
            Err((outcome, refusal)) => {
                let said = Value::String(refusal.message.clone());
                let seen = self.redactor.redact(keep, request(said, Arc::default())).await;
                (Err((outcome, refusal)), seen)
            }
        };
        let Redacted { shown, found } = match seen {
            Ok(seen) => seen,
            Err(RedactionError::Unkept(error)) => return Err(PassError::Unrecorded(error)),
            Err(error) => return Ok(Err((CallOutcome::Broken, redaction_refusal(&error).into()))),
        };
        if !found.is_empty() {
            self.queue_event(EventKind::DataHidden {
                number: Some(u64::from(number)),
                found: found.clone(),
                blocked: shown.is_none(),
            });
        }
        Ok(match (answered, shown) {
            (Ok(()), Some(value)) => Ok(value.to_string()),
            (Ok(()), None) => Err((CallOutcome::Ok, blocked_refusal(tool.name.as_str(), &found).into())),
            (Err((outcome, refusal)), Some(Value::String(message))) => {
                Err((outcome, refusal.with_message(message).into()))
            }
            (Err((outcome, _)), _) => Err((outcome, blocked_refusal(tool.name.as_str(), &found).into())),
        })
    }

    /// Queues an event that is written with the next record.
    fn queue_event(&self, kind: EventKind) {
        let event = Event::from_host(self.session, Some(self.execution), kind);
        self.ends.add(EventWithEntries(event, Vec::new()));
    }
}

fn redaction_error(error: RedactionError) -> AuthorizeError {
    match error {
        RedactionError::Unkept(error) => AuthorizeError::Stopped(PassError::Unrecorded(error)),
        error @ (RedactionError::Own(_)
        | RedactionError::Randomness(_)
        | RedactionError::Invented(_)
        | RedactionError::Broken) => AuthorizeError::Refused(redaction_refusal(&error)),
    }
}

/// Refuses an answer that could not be redacted.
fn redaction_refusal(error: &RedactionError) -> RequestRefusal {
    RequestRefusal::new("data.unseen", format!("nothing can be shown: {error}"))
        .by_rule("data.pii")
        .with_hint("the operator has to look at `data.pii` of the policy")
}

/// Refuses an answer because of the personal data in it.
fn blocked_refusal(tool: &str, found: &[DetectionCount]) -> RequestRefusal {
    let kinds: Vec<String> = found.iter().map(|one| format!("{} {}", one.count, one.what)).collect();
    RequestRefusal::new(
        "data.blocked",
        format!(
            "the answer of `{tool}` is held back: it has personal data ({})",
            kinds.join(", ")
        ),
    )
    .by_rule(PII_MODE_RULE)
    .with_hint("ask for fields without personal data; the call itself was made")
}
