//! Redacts personal data for everyone who must not see it: keeps the aliases of a session, and applies the rules of
//! its policy.
//!
//! A tool's answer is redacted on its way into the sandbox, results on their way to a model; arguments are revealed
//! on their way to a tool. An alias is stored before anyone sees it.

mod rules;
mod skill_text;

use std::sync::Arc;

use ringfence_hygiene::{
    AliasTableError, Aliases, CustomKindError, FindingCounts, Masked, RandomnessError, SchemaHints, UnknownAlias,
};
use ringfence_journal::{CleanText, DetectionCount, RecordError, ReplayRecorder, SessionId};
use ringfence_policy::{Policy, ToolName};
use serde_json::Value;
use tokio::sync::{Mutex, OwnedMutexGuard};
use zeroize::Zeroizing;

pub(crate) use rules::Audience;
use rules::RedactionMode;
pub use rules::RedactionRules;

/// Values from this size on are redacted on a blocking thread.
const MIN_OFFLOAD_BYTES: usize = 256 * 1024;

/// Why a value cannot be redacted or revealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedactionError {
    /// A custom kind of the policy is invalid.
    #[error("`data.pii.own`: {0}")]
    Own(#[from] CustomKindError),
    /// Aliases cannot be created.
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
    /// The value contains an alias that does not exist.
    #[error(transparent)]
    Invented(#[from] UnknownAlias),
    /// A new alias could not be stored, so nobody may see it.
    #[error(transparent)]
    Unkept(#[from] RecordError),
    /// The redaction panicked on its thread.
    #[error("what personal data is in it could not be looked for")]
    Broken,
}

/// A redacted value with the counts of its findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<T> {
    /// The redacted value; `None` if all of it is withheld.
    pub shown: Option<T>,
    /// The number of findings of each kind.
    pub found: Vec<DetectionCount>,
}

/// A value to redact, with who is to see it and what is known of it.
#[derive(Debug)]
pub(crate) struct RedactionRequest {
    pub(crate) value: Value,
    pub(crate) rules: Arc<RedactionRules>,
    pub(crate) audience: Audience,
    /// What the schema says about the value.
    pub(crate) hints: Arc<SchemaHints>,
    /// The aliases whose values its sender was given.
    pub(crate) known: Vec<usize>,
}

impl RedactionRequest {
    /// A request for a value of which nothing is known.
    pub(crate) fn new(value: Value, rules: &Arc<RedactionRules>, audience: Audience) -> RedactionRequest {
        RedactionRequest {
            value,
            rules: Arc::clone(rules),
            audience,
            hints: Arc::default(),
            known: Vec::new(),
        }
    }
}

/// Redacts values for one session, and owns its aliases.
#[derive(Debug, Default)]
pub struct Redactor(Arc<Mutex<RedactorState>>);

#[derive(Debug, Default)]
struct RedactorState {
    aliases: Option<Aliases>,
    /// The rules of the last policy, with its digest.
    rules: Option<(String, Arc<RedactionRules>)>,
}

impl RedactorState {
    fn aliases(&mut self) -> Result<&mut Aliases, RandomnessError> {
        let aliases = match self.aliases.take() {
            Some(aliases) => aliases,
            None => Aliases::new()?,
        };
        Ok(self.aliases.insert(aliases))
    }

    fn redact(&mut self, request: RedactionRequest) -> Result<Redacted<Value>, RandomnessError> {
        let RedactionRequest {
            value,
            rules: sight,
            audience: side,
            hints,
            known,
        } = request;
        let (way, detector) = sight.mode_for(side);
        Ok(match way {
            RedactionMode::Open => unredacted(value),
            RedactionMode::Redact => redacted(detector.redact_json(value, &hints)),
            RedactionMode::Note => {
                let aliases = self.aliases()?.with_origin(sight.alias_origin(side));
                aliases.hide_json(detector, value.clone(), &hints);
                redacted(sight.secrets_only_mode().1.redact_json(value, &hints))
            }
            RedactionMode::Alias => {
                let aliases = self.aliases()?.with_origin(sight.alias_origin(side));
                let value = aliases.mask_json(value, &known);
                let hidden = aliases.hide_json(detector, value, &hints);
                redacted(match side {
                    Audience::Inside | Audience::InsideSkill => hidden,
                    Audience::Outside | Audience::Form => {
                        merge_counts(&hidden.counts, aliases.mask_known_json(hidden.shown))
                    }
                })
            }
            RedactionMode::Block => withhold_personal_data(detector.redact_json(value, &hints)),
        })
    }

    /// Returns the aliases that are not stored yet.
    fn unkept(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.aliases.as_ref()?.unsaved_bytes()
    }

    /// Marks the new aliases as stored, or drops them if storing failed: nobody has seen them.
    fn mark_kept(&mut self, is_kept: bool) {
        match &mut self.aliases {
            Some(aliases) if is_kept => aliases.mark_saved(),
            Some(aliases) => aliases.discard_unsaved(),
            None => {}
        }
    }
}

impl Redactor {
    /// Restores the aliases of a session, from the parts in which they were stored.
    pub fn restore<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Redactor, AliasTableError> {
        let mut parts = parts.into_iter().peekable();
        let aliases = match parts.peek() {
            Some(_) => Some(Aliases::from_parts(parts)?),
            None => None,
        };
        Ok(Redactor(Arc::new(Mutex::new(RedactorState { aliases, rules: None }))))
    }

    /// Returns the redaction rules of a policy; those of the last policy are cached.
    pub async fn rules_for(&self, policy: &Policy) -> Result<Arc<RedactionRules>, RedactionError> {
        let mut state = self.0.lock().await;
        if let Some((digest, sight)) = &state.rules
            && digest == policy.digest()
        {
            return Ok(Arc::clone(sight));
        }
        let sight = Arc::new(RedactionRules::new(policy.data_rules())?);
        state.rules = Some((policy.digest().to_owned(), Arc::clone(&sight)));
        Ok(sight)
    }

    /// Learns the values of an answer that is replayed: from now on they are known by its keys.
    pub async fn learn_value(
        &self,
        keep: (&impl ReplayRecorder, SessionId),
        sight: &Arc<RedactionRules>,
        value: Value,
    ) -> Result<(), RedactionError> {
        self.redact(keep, RedactionRequest::new(value, sight, Audience::Inside))
            .await
            .map(drop)
    }

    /// Redacts a value for a model.
    pub async fn redact_value(
        &self,
        keep: (&impl ReplayRecorder, SessionId),
        sight: &Arc<RedactionRules>,
        value: Value,
    ) -> Result<Redacted<Value>, RedactionError> {
        self.redact(keep, RedactionRequest::new(value, sight, Audience::Outside))
            .await
    }

    /// Redacts a text from `from` on for a model; the text before it is context.
    pub async fn redact_text(
        &self,
        keep: (&impl ReplayRecorder, SessionId),
        sight: &Arc<RedactionRules>,
        text: &str,
        from: usize,
    ) -> Result<Redacted<String>, RedactionError> {
        let rest = text.get(from..).unwrap_or_default();
        if rest.is_empty() || sight.mode_for(Audience::Outside).0 == RedactionMode::Open {
            return Ok(unredacted(rest.to_owned()));
        }
        let (sight, text) = (Arc::clone(sight), text.to_owned());
        let weight = text.len();
        let look = move |state: &mut RedactorState| {
            let rest = || text.get(from..).unwrap_or_default();
            let (way, detector) = sight.mode_for(Audience::Outside);
            Ok(match way {
                RedactionMode::Open => unredacted(rest().to_owned()),
                RedactionMode::Redact | RedactionMode::Note => redacted(detector.redact_from(&text, from)),
                RedactionMode::Alias => {
                    let aliases = state.aliases()?.with_origin(sight.alias_origin(Audience::Outside));
                    let hidden = aliases.hide_from(detector, &text, from);
                    redacted(merge_counts(&hidden.counts, aliases.mask_known(hidden.shown)))
                }
                RedactionMode::Block => withhold_personal_data(detector.redact_from(&text, from)),
            })
        };
        let (state, seen) = self.run_redaction(weight, look).await?;
        persist_aliases(state, keep).await?;
        Ok(seen)
    }

    /// Redacts a value for a form. Values without an alias get temporary ones that are dropped afterwards.
    pub(crate) async fn redact_for_form(
        &self,
        sight: &Arc<RedactionRules>,
        value: Value,
    ) -> Result<Value, RedactionError> {
        let weight = approximate_size(&value);
        let request = RedactionRequest::new(value, sight, Audience::Form);
        let look = move |state: &mut RedactorState| state.redact(request);
        let (mut state, seen) = self.run_redaction(weight, look).await?;
        state.mark_kept(false);
        Ok(seen.shown.unwrap_or_default())
    }

    /// Redacts a value, and stores the aliases that it gets.
    pub(crate) async fn redact(
        &self,
        keep: (&impl ReplayRecorder, SessionId),
        request: RedactionRequest,
    ) -> Result<Redacted<Value>, RedactionError> {
        if request.rules.mode_for(request.audience).0 == RedactionMode::Open {
            return Ok(unredacted(request.value));
        }
        let weight = approximate_size(&request.value);
        let look = move |state: &mut RedactorState| state.redact(request);
        let (state, seen) = self.run_redaction(weight, look).await?;
        persist_aliases(state, keep).await?;
        Ok(seen)
    }

    /// Runs a redaction, on a blocking thread if the value is large. The lock is held until the new aliases are
    /// stored or dropped.
    async fn run_redaction<T: Send + 'static>(
        &self,
        weight: usize,
        look: impl FnOnce(&mut RedactorState) -> Result<Redacted<T>, RandomnessError> + Send + 'static,
    ) -> Result<(OwnedMutexGuard<RedactorState>, Redacted<T>), RedactionError> {
        let mut state: OwnedMutexGuard<RedactorState> = Arc::clone(&self.0).lock_owned().await;
        if weight <= MIN_OFFLOAD_BYTES {
            let seen = look(&mut state)?;
            return Ok((state, seen));
        }
        let looked = tokio::task::spawn_blocking(move || {
            let seen = look(&mut state);
            (state, seen)
        });
        let (state, seen) = looked.await.map_err(|_| RedactionError::Broken)?;
        Ok((state, seen?))
    }

    /// Reveals arguments for a tool, and returns the aliases whose values were filled in. An unknown alias is an
    /// error.
    pub(crate) async fn reveal_arguments(
        &self,
        sight: &RedactionRules,
        tool: &ToolName,
        arguments: Value,
    ) -> Result<(Value, Vec<usize>), RedactionError> {
        if !sight.has_aliases() {
            return Ok((arguments, Vec::new()));
        }
        let mut state = self.0.lock().await;
        let aliases = state.aliases()?;
        let count = aliases.count_json(&arguments)?;
        if count == 0 || !sight.reveals(tool) {
            return Ok((arguments, Vec::new()));
        }
        let known = aliases.known_json(&arguments);
        Ok((aliases.reveal_json(arguments)?, known))
    }

    /// Whether keys of a value are personal data that this session knows.
    pub(crate) async fn knows_keys(&self, value: &Value) -> bool {
        let mut state = self.0.lock().await;
        state.aliases.as_mut().is_some_and(|aliases| aliases.knows_keys(value))
    }

    /// Replaces aliases by their values, for the owner of the data.
    pub async fn reveal(&self, text: &str) -> String {
        match &self.0.lock().await.aliases {
            Some(aliases) => aliases.reveal_known(text),
            None => text.to_owned(),
        }
    }

    /// Replaces aliases in a JSON value by their values.
    pub async fn reveal_value(&self, value: Value) -> Value {
        match &self.0.lock().await.aliases {
            Some(aliases) => aliases.reveal_known_json(value),
            None => value,
        }
    }

    /// Replaces aliases at once; `None` while a redaction runs.
    pub fn try_reveal(&self, text: &str) -> Option<String> {
        let state = self.0.try_lock().ok()?;
        Some(match &state.aliases {
            Some(aliases) => aliases.reveal_known(text),
            None => text.to_owned(),
        })
    }
}

/// Stores the new aliases before anyone sees them.
async fn persist_aliases(
    mut state: OwnedMutexGuard<RedactorState>,
    (recorder, session): (&impl ReplayRecorder, SessionId),
) -> Result<(), RedactionError> {
    let Some(part) = state.unkept() else { return Ok(()) };
    let kept = match recorder.store_aliases(session, part).await {
        // The aliases of a closed session have no further use.
        Err(RecordError::Closed { .. }) => Ok(()),
        kept => kept,
    };
    state.mark_kept(kept.is_ok());
    Ok(kept?)
}

fn unredacted<T>(shown: T) -> Redacted<T> {
    Redacted {
        shown: Some(shown),
        found: Vec::new(),
    }
}

/// Adds the counts of an earlier step.
fn merge_counts<T>(counts: &FindingCounts, mut hidden: Masked<T>) -> Masked<T> {
    hidden.counts.add(counts);
    hidden
}

fn redacted<T>(hidden: Masked<T>) -> Redacted<T> {
    Redacted {
        found: findings(&hidden.counts),
        shown: Some(hidden.shown),
    }
}

/// Withholds the value if any finding is personal data; secrets alone are redacted.
fn withhold_personal_data<T>(hidden: Masked<T>) -> Redacted<T> {
    if hidden.counts.iter().any(|(word, _)| word != SECRET) {
        return Redacted {
            shown: None,
            found: findings(&hidden.counts),
        };
    }
    redacted(hidden)
}

const SECRET: &str = "secret";

fn findings(counts: &FindingCounts) -> Vec<DetectionCount> {
    counts
        .iter()
        .map(|(word, count)| DetectionCount {
            what: CleanText::clean(word),
            count,
        })
        .collect()
}

/// Returns the approximate size of a value in bytes; stops counting above the threshold.
fn approximate_size(value: &Value) -> usize {
    fn add(value: &Value, sum: &mut usize) {
        if *sum > MIN_OFFLOAD_BYTES {
            return;
        }
        match value {
            Value::String(text) => *sum += text.len(),
            Value::Array(items) => items.iter().for_each(|item| add(item, sum)),
            Value::Object(members) => members.iter().for_each(|(key, member)| {
                *sum += key.len();
                add(member, sum);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        *sum += 8;
    }
    let mut sum = 0;
    add(value, &mut sum);
    sum
}

#[cfg(test)]
mod tests;
