//! Redacts the arguments and the answers of calls for those who must not see personal data.

use std::sync::Arc;

use ringfence_catalog::Tool;
use ringfence_journal::{CallOutcome, Event, Found, KeepingRecorder, Kind};
use ringfence_policy::Policy;
use serde_json::Value;

use super::clear::Halt;
use super::ends::Kept;
use super::{Pass, Stopped};
use crate::refusal::{Refusal, Told};
use crate::screen::{ScreenError, Seen};
use crate::tape::Asking;

/// The policy key that decides about personal data.
const MODE: &str = "data.pii.mode";

impl<R: KeepingRecorder + Clone + 'static> Pass<R> {
    /// Returns the arguments as the tool gets them, and the aliases whose values were filled in.
    pub(super) async fn revealed(
        &self,
        policy: &Policy,
        tool: &Tool,
        arguments: Value,
    ) -> Result<(Value, Vec<usize>), Halt> {
        let sight = self.screen.sight(policy).await.map_err(unseen)?;
        let revealed = self.screen.send_out(&sight, &tool.name, arguments).await;
        Ok(revealed.map_err(|error| match error {
            ScreenError::Invented(invented) => Refusal::new("data.alias", invented.to_string())
                .by(MODE)
                .hint("use aliases as they were shown in this session; none can be made up"),
            error @ (ScreenError::Own(_)
            | ScreenError::Randomness(_)
            | ScreenError::Unkept(_)
            | ScreenError::Broken) => cannot_look(&error),
        })?)
    }

    /// Returns the arguments as an approval form may show them; `None` if they are shown as they are sent.
    pub(super) async fn masked(&self, policy: &Policy, body: &str, is_revealed: bool) -> Result<Option<String>, Halt> {
        let sight = self.screen.sight(policy).await.map_err(unseen)?;
        let value: Value = serde_json::from_str(body)
            .map_err(|error| Refusal::new("tool.arguments", format!("the arguments are not JSON: {error}")))?;
        let shown = self.screen.show_in_form(&sight, value.clone()).await.map_err(unseen)?;
        Ok((is_revealed || shown != value).then(|| shown.to_string()))
    }

    /// Checks arguments against the tool's schema. The error does not reveal values that the program must not see.
    pub(super) fn fits(
        &self,
        tool: &Tool,
        arguments: &Value,
        asking: &Asking<'_>,
        is_revealed: bool,
    ) -> Result<(), Refusal> {
        let Err(refusal) = self.gateway.check(tool, arguments) else {
            return Ok(());
        };
        if !is_revealed {
            return Err(refusal);
        }
        let masked = serde_json::from_str(asking.body).unwrap_or(Value::Null);
        self.gateway.check(tool, &masked)?;
        let message = format!(
            "`{}`: with the values of its aliases the arguments are not what it takes",
            tool.name
        );
        Err(Refusal::new("tool.arguments", message).by("inputSchema"))
    }

    /// Queues the event for aliases whose values were filled in.
    pub(super) fn note_revealed(&self, number: u32, revealed: &[usize]) {
        if !revealed.is_empty() {
            let (number, count) = (u64::from(number), revealed.len() as u64);
            self.note(Kind::DataRevealed { number, count });
        }
    }

    /// Redacts a refusal with foreign text: a server's last output, or the comment of a person who saw the values.
    pub(super) async fn said(&self, refusal: Refusal) -> Result<Refusal, Stopped> {
        if !refusal.is_in_words_of_others() {
            return Ok(refusal);
        }
        let sight = match self.screen.sight(&self.policy()).await {
            Ok(sight) => sight,
            Err(error) => return Ok(cannot_look(&error)),
        };
        let words = Value::String(refusal.message.clone());
        let keep = (&self.recorder, self.session);
        let seen = self
            .screen
            .take_in(keep, &sight, words, (Arc::default(), Vec::new()))
            .await;
        let message = match seen {
            Ok(Seen {
                shown: Some(Value::String(message)),
                ..
            }) => message,
            Ok(_) => "what was said to it is held back: it has personal data".to_owned(),
            Err(ScreenError::Unkept(error)) => return Err(Stopped::Unrecorded(error)),
            Err(error) => return Ok(cannot_look(&error)),
        };
        Ok(refusal.saying(message))
    }

    /// Returns a tool's answer as the program may see it.
    pub(super) async fn screened(
        &self,
        number: u32,
        (tool, revealed): (&Tool, Vec<usize>),
        answered: Result<Value, (CallOutcome, Refusal)>,
    ) -> Result<Result<String, (CallOutcome, Told)>, Stopped> {
        let sight = match self.screen.sight(&self.policy()).await {
            Ok(sight) => sight,
            Err(error) => return Ok(Err((CallOutcome::Broken, cannot_look(&error).into()))),
        };
        let keep = (&self.recorder, self.session);
        let (answered, seen) = match answered {
            Ok(value) => {
                let schema = tool.definition.output.as_ref();
                let hints = match self.gateway.hints(tool) {
                    Ok(hints) => hints,
                    Err(refusal) => return Ok(Err((CallOutcome::Broken, refusal.into()))),
                };
                // Result types are observed only for tools without an output schema.
                let learns = schema.is_none()
                    && !tool.name.is_skill()
                    && self.gateway.still_learns(tool)
                    && !sight.tells_in_keys(&value);
                let seen = self.screen.take_in(keep, &sight, value, (hints, revealed)).await;
                if let Ok(Seen { shown: Some(shown), .. }) = &seen
                    && learns
                    && !self.screen.knows_keys(shown).await
                {
                    self.gateway.learn(tool, shown);
                }
                (Ok(()), seen)
            }
            Err((outcome, refusal)) => {
                let said = Value::String(refusal.message.clone());
                let seen = self
                    .screen
                    .take_in(keep, &sight, said, (Arc::default(), revealed))
                    .await;
                (Err((outcome, refusal)), seen)
            }
        };
        let Seen { shown, found } = match seen {
            Ok(seen) => seen,
            Err(ScreenError::Unkept(error)) => return Err(Stopped::Unrecorded(error)),
            Err(error) => return Ok(Err((CallOutcome::Broken, cannot_look(&error).into()))),
        };
        if !found.is_empty() {
            self.note(Kind::DataHidden {
                number: Some(u64::from(number)),
                found: found.clone(),
                blocked: shown.is_none(),
            });
        }
        Ok(match (answered, shown) {
            (Ok(()), Some(value)) => Ok(value.to_string()),
            (Ok(()), None) => Err((CallOutcome::Ok, blocked(tool.name.as_str(), &found).into())),
            (Err((outcome, refusal)), Some(Value::String(message))) => Err((outcome, refusal.saying(message).into())),
            (Err((outcome, _)), _) => Err((outcome, blocked(tool.name.as_str(), &found).into())),
        })
    }

    /// Queues an event that is written with the next record.
    fn note(&self, kind: Kind) {
        let event = Event::host(self.session, Some(self.execution), kind);
        self.ends.add(Kept(event, Vec::new()));
    }
}

fn unseen(error: ScreenError) -> Halt {
    match error {
        ScreenError::Unkept(error) => Halt::Stopped(Stopped::Unrecorded(error)),
        error @ (ScreenError::Own(_) | ScreenError::Randomness(_) | ScreenError::Invented(_) | ScreenError::Broken) => {
            Halt::Refused(cannot_look(&error))
        }
    }
}

/// Refuses an answer that could not be redacted.
fn cannot_look(error: &ScreenError) -> Refusal {
    Refusal::new("data.unseen", format!("nothing can be shown: {error}"))
        .by("data.pii")
        .hint("the operator has to look at `data.pii` of the policy")
}

/// Refuses an answer because of the personal data in it.
fn blocked(tool: &str, found: &[Found]) -> Refusal {
    let kinds: Vec<String> = found.iter().map(|one| format!("{} {}", one.count, one.what)).collect();
    Refusal::new(
        "data.blocked",
        format!(
            "the answer of `{tool}` is held back: it has personal data ({})",
            kinds.join(", ")
        ),
    )
    .by(MODE)
    .hint("ask for fields without personal data; the call itself was made")
}
