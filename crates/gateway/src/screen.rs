//! Redacts personal data for everyone who must not see it: keeps the aliases of a session, and applies the rules of
//! its policy.
//!
//! A tool's answer is redacted on its way into the sandbox, results on their way to a model; arguments are revealed
//! on their way to a tool. An alias is stored before anyone sees it.

mod said;
mod sight;

use std::sync::Arc;

use ringfence_hygiene::{Aliases, Counts, Hidden, Hints, Invented, NoRandomness, OwnError, ReadError};
use ringfence_journal::{Found, KeepingRecorder, RecordError, SessionId, Text};
use ringfence_policy::{Policy, ToolName};
use serde_json::Value;
use tokio::sync::{Mutex, OwnedMutexGuard};
use zeroize::Zeroizing;

pub use sight::Sight;
use sight::{Side, Way};

/// Values from this size on are redacted on a blocking thread.
const HEAVY: usize = 256 * 1024;

/// Why a value cannot be redacted or revealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScreenError {
    /// A custom kind of the policy is invalid.
    #[error("`data.pii.own`: {0}")]
    Own(#[from] OwnError),
    /// Aliases cannot be created.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// The value contains an alias that does not exist.
    #[error(transparent)]
    Invented(#[from] Invented),
    /// A new alias could not be stored, so nobody may see it.
    #[error(transparent)]
    Unkept(#[from] RecordError),
    /// The redaction panicked on its thread.
    #[error("what personal data is in it could not be looked for")]
    Broken,
}

/// A redacted value with the counts of its findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<T> {
    /// The redacted value; `None` if all of it is withheld.
    pub shown: Option<T>,
    /// The number of findings of each kind.
    pub found: Vec<Found>,
}

/// Redacts values for one session, and owns its aliases.
#[derive(Debug, Default)]
pub struct Screen(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    aliases: Option<Aliases>,
    /// The rules of the last policy, with its digest.
    sight: Option<(String, Arc<Sight>)>,
}

impl State {
    fn aliases(&mut self) -> Result<&mut Aliases, NoRandomness> {
        let aliases = match self.aliases.take() {
            Some(aliases) => aliases,
            None => Aliases::new()?,
        };
        Ok(self.aliases.insert(aliases))
    }

    fn pass(
        &mut self,
        (sight, side): (&Sight, Side),
        value: Value,
        (hints, known): (Arc<Hints>, Vec<usize>),
    ) -> Result<Seen<Value>, NoRandomness> {
        let (way, detector) = sight.way(side);
        Ok(match way {
            Way::Open => whole(value),
            Way::Redact => seen(detector.redact_json(value, &hints)),
            Way::Note => {
                self.aliases()?.hide_json(detector, value.clone(), &hints);
                seen(sight.only_secrets().1.redact_json(value, &hints))
            }
            Way::Alias => {
                let aliases = self.aliases()?;
                let value = aliases.mask_json(value, &known);
                let hidden = aliases.hide_json(detector, value, &hints);
                seen(match side {
                    Side::Inside => hidden,
                    Side::Outside | Side::Form => and(&hidden.counts, aliases.mask_known_json(hidden.shown)),
                })
            }
            Way::Block => held(detector.redact_json(value, &hints)),
        })
    }

    /// Returns the aliases that are not stored yet.
    fn unkept(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.aliases.as_ref()?.unkept()
    }

    /// Marks the new aliases as stored, or drops them if storing failed: nobody has seen them.
    fn settle(&mut self, is_kept: bool) {
        match &mut self.aliases {
            Some(aliases) if is_kept => aliases.all_kept(),
            Some(aliases) => aliases.forget_unkept(),
            None => {}
        }
    }
}

impl Screen {
    /// Restores the aliases of a session, from the parts in which they were stored.
    pub fn restore<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Screen, ReadError> {
        let mut parts = parts.into_iter().peekable();
        let aliases = match parts.peek() {
            Some(_) => Some(Aliases::from_parts(parts)?),
            None => None,
        };
        Ok(Screen(Arc::new(Mutex::new(State { aliases, sight: None }))))
    }

    /// Returns the redaction rules of a policy; those of the last policy are cached.
    pub async fn sight(&self, policy: &Policy) -> Result<Arc<Sight>, ScreenError> {
        let mut state = self.0.lock().await;
        if let Some((digest, sight)) = &state.sight
            && digest == policy.digest()
        {
            return Ok(Arc::clone(sight));
        }
        let sight = Arc::new(Sight::new(policy.data_rules())?);
        state.sight = Some((policy.digest().to_owned(), Arc::clone(&sight)));
        Ok(sight)
    }

    /// Redacts a tool's answer for the program in the sandbox.
    pub(crate) async fn take_in(
        &self,
        keep: (&impl KeepingRecorder, SessionId),
        sight: &Arc<Sight>,
        value: Value,
        (hints, known): (Arc<Hints>, Vec<usize>),
    ) -> Result<Seen<Value>, ScreenError> {
        self.pass(keep, (sight, Side::Inside), value, (hints, known)).await
    }

    /// Learns the values of an answer that is replayed: from now on they are known by its keys.
    pub async fn learn(
        &self,
        keep: (&impl KeepingRecorder, SessionId),
        sight: &Arc<Sight>,
        value: Value,
    ) -> Result<(), ScreenError> {
        self.take_in(keep, sight, value, (Arc::default(), Vec::new()))
            .await
            .map(drop)
    }

    /// Redacts a value for a model.
    pub async fn show(
        &self,
        keep: (&impl KeepingRecorder, SessionId),
        sight: &Arc<Sight>,
        value: Value,
    ) -> Result<Seen<Value>, ScreenError> {
        self.pass(keep, (sight, Side::Outside), value, (Arc::default(), Vec::new()))
            .await
    }

    /// Redacts a text from `from` on for a model; the text before it is context.
    pub async fn show_text(
        &self,
        keep: (&impl KeepingRecorder, SessionId),
        sight: &Arc<Sight>,
        text: &str,
        from: usize,
    ) -> Result<Seen<String>, ScreenError> {
        let rest = text.get(from..).unwrap_or_default();
        if rest.is_empty() || sight.way(Side::Outside).0 == Way::Open {
            return Ok(whole(rest.to_owned()));
        }
        let (sight, text) = (Arc::clone(sight), text.to_owned());
        let weight = text.len();
        let look = move |state: &mut State| {
            let rest = || text.get(from..).unwrap_or_default();
            let (way, detector) = sight.way(Side::Outside);
            Ok(match way {
                Way::Open => whole(rest().to_owned()),
                Way::Redact | Way::Note => seen(detector.redact_from(&text, from)),
                Way::Alias => {
                    let aliases = state.aliases()?;
                    let hidden = aliases.hide_from(detector, &text, from);
                    seen(and(&hidden.counts, aliases.mask_known(hidden.shown)))
                }
                Way::Block => held(detector.redact_from(&text, from)),
            })
        };
        let (state, seen) = self.look(weight, look).await?;
        kept(state, keep).await?;
        Ok(seen)
    }

    /// Redacts a value for a form. Values without an alias get temporary ones that are dropped afterwards.
    pub(crate) async fn show_in_form(&self, sight: &Arc<Sight>, value: Value) -> Result<Value, ScreenError> {
        let (weight, sight) = (weight(&value), Arc::clone(sight));
        let unknown = (Arc::default(), Vec::new());
        let look = move |state: &mut State| state.pass((&sight, Side::Form), value, unknown);
        let (mut state, seen) = self.look(weight, look).await?;
        state.settle(false);
        Ok(seen.shown.unwrap_or_default())
    }

    async fn pass(
        &self,
        keep: (&impl KeepingRecorder, SessionId),
        (sight, side): (&Arc<Sight>, Side),
        value: Value,
        told: (Arc<Hints>, Vec<usize>),
    ) -> Result<Seen<Value>, ScreenError> {
        if sight.way(side).0 == Way::Open {
            return Ok(whole(value));
        }
        let (weight, sight) = (weight(&value), Arc::clone(sight));
        let look = move |state: &mut State| state.pass((&sight, side), value, told);
        let (state, seen) = self.look(weight, look).await?;
        kept(state, keep).await?;
        Ok(seen)
    }

    /// Runs a redaction, on a blocking thread if the value is large. The lock is held until the new aliases are
    /// stored or dropped.
    async fn look<T: Send + 'static>(
        &self,
        weight: usize,
        look: impl FnOnce(&mut State) -> Result<Seen<T>, NoRandomness> + Send + 'static,
    ) -> Result<(OwnedMutexGuard<State>, Seen<T>), ScreenError> {
        let mut state: OwnedMutexGuard<State> = Arc::clone(&self.0).lock_owned().await;
        if weight <= HEAVY {
            let seen = look(&mut state)?;
            return Ok((state, seen));
        }
        let looked = tokio::task::spawn_blocking(move || {
            let seen = look(&mut state);
            (state, seen)
        });
        let (state, seen) = looked.await.map_err(|_| ScreenError::Broken)?;
        Ok((state, seen?))
    }

    /// Reveals arguments for a tool, and returns the aliases whose values were filled in. An unknown alias is an
    /// error.
    pub(crate) async fn send_out(
        &self,
        sight: &Sight,
        tool: &ToolName,
        arguments: Value,
    ) -> Result<(Value, Vec<usize>), ScreenError> {
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
async fn kept(
    mut state: OwnedMutexGuard<State>,
    (recorder, session): (&impl KeepingRecorder, SessionId),
) -> Result<(), ScreenError> {
    let Some(part) = state.unkept() else { return Ok(()) };
    let kept = match recorder.keep_aliases(session, part).await {
        // The aliases of a closed session have no further use.
        Err(RecordError::Closed { .. }) => Ok(()),
        kept => kept,
    };
    state.settle(kept.is_ok());
    Ok(kept?)
}

fn whole<T>(shown: T) -> Seen<T> {
    Seen {
        shown: Some(shown),
        found: Vec::new(),
    }
}

/// Adds the counts of an earlier step.
fn and<T>(counts: &Counts, mut hidden: Hidden<T>) -> Hidden<T> {
    hidden.counts.add(counts);
    hidden
}

fn seen<T>(hidden: Hidden<T>) -> Seen<T> {
    Seen {
        found: found(&hidden.counts),
        shown: Some(hidden.shown),
    }
}

/// Withholds the value if any finding is personal data; secrets alone are redacted.
fn held<T>(hidden: Hidden<T>) -> Seen<T> {
    if hidden.counts.iter().any(|(word, _)| word != SECRET) {
        return Seen {
            shown: None,
            found: found(&hidden.counts),
        };
    }
    seen(hidden)
}

const SECRET: &str = "secret";

fn found(counts: &Counts) -> Vec<Found> {
    counts
        .iter()
        .map(|(word, count)| Found {
            what: Text::clean(word),
            count,
        })
        .collect()
}

/// Returns the approximate size of a value in bytes; stops counting above the threshold.
fn weight(value: &Value) -> usize {
    fn add(value: &Value, sum: &mut usize) {
        if *sum > HEAVY {
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
