//! What stands between personal data and whoever must not see it: a session's aliases, and what its policy hides.
//!
//! A tool's answer passes on its way into the sandbox, arguments on their way to a tool, results on their way to a model. An alias is
//! kept before anybody sees it.

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

/// From so many bytes on, looking takes longer than the way to another thread.
const HEAVY: usize = 256 * 1024;

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScreenError {
    /// A kind of the operator's own cannot be looked for.
    #[error("`data.pii.own`: {0}")]
    Own(#[from] OwnError),
    /// Aliases cannot be made.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// An alias that was never given.
    #[error(transparent)]
    Invented(#[from] Invented),
    /// An alias could not be kept, so nobody sees it.
    #[error(transparent)]
    Unkept(#[from] RecordError),
    /// Whoever looked broke off.
    #[error("what personal data is in it could not be looked for")]
    Broken,
}

/// What may be seen of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<T> {
    /// What is left of it; nothing where all of it is held back.
    pub shown: Option<T>,
    /// How much of each kind was found.
    pub found: Vec<Found>,
}

/// The aliases of one session.
#[derive(Debug, Default)]
pub struct Screen(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    aliases: Option<Aliases>,
    /// What the last policy hides, by its digest.
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

    /// What came since anything was kept last.
    fn unkept(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.aliases.as_ref()?.unkept()
    }

    /// Whether that is kept now: if not, nobody sees it.
    fn settle(&mut self, is_kept: bool) {
        match &mut self.aliases {
            Some(aliases) if is_kept => aliases.all_kept(),
            Some(aliases) => aliases.forget_unkept(),
            None => {}
        }
    }
}

impl Screen {
    /// The aliases that a session had, from the parts in which they were kept.
    pub fn restore<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Screen, ReadError> {
        let mut parts = parts.into_iter().peekable();
        let aliases = match parts.peek() {
            Some(_) => Some(Aliases::from_parts(parts)?),
            None => None,
        };
        Ok(Screen(Arc::new(Mutex::new(State { aliases, sight: None }))))
    }

    /// What a policy hides, made ready once.
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

    /// A tool's answer, as the program inside may see it.
    pub(crate) async fn take_in(
        &self,
        keep: (&impl KeepingRecorder, SessionId),
        sight: &Arc<Sight>,
        value: Value,
        (hints, known): (Arc<Hints>, Vec<usize>),
    ) -> Result<Seen<Value>, ScreenError> {
        self.pass(keep, (sight, Side::Inside), value, (hints, known)).await
    }

    /// An answer that a program had before and has again: what its keys tell is known from now on.
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

    /// A value, as a model may see it.
    pub async fn show(
        &self,
        keep: (&impl KeepingRecorder, SessionId),
        sight: &Arc<Sight>,
        value: Value,
    ) -> Result<Seen<Value>, ScreenError> {
        self.pass(keep, (sight, Side::Outside), value, (Arc::default(), Vec::new()))
            .await
    }

    /// A text from `from` on, as a model may see it; what comes before tells what it is.
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

    /// A value, as a form may show it. What was not known before gets stand-ins that stand for nothing afterwards.
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

    /// Looks, elsewhere if that takes long. Nobody else looks until the aliases that came of it are settled.
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

    /// Arguments as a tool gets them, and which aliases became their values. One that was never given is an error.
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

    /// Whether keys of a value are personal data of this session.
    pub(crate) async fn knows_keys(&self, value: &Value) -> bool {
        let mut state = self.0.lock().await;
        state.aliases.as_mut().is_some_and(|aliases| aliases.knows_keys(value))
    }

    /// The owner's own view: values in place of their aliases.
    pub async fn reveal(&self, text: &str) -> String {
        match &self.0.lock().await.aliases {
            Some(aliases) => aliases.reveal_known(text),
            None => text.to_owned(),
        }
    }

    /// The same for a JSON value.
    pub async fn reveal_value(&self, value: Value) -> Value {
        match &self.0.lock().await.aliases {
            Some(aliases) => aliases.reveal_known_json(value),
            None => value,
        }
    }

    /// The same for what comes at once; nothing where somebody else looks just now.
    pub fn try_reveal(&self, text: &str) -> Option<String> {
        let state = self.0.try_lock().ok()?;
        Some(match &state.aliases {
            Some(aliases) => aliases.reveal_known(text),
            None => text.to_owned(),
        })
    }
}

/// Keeps the aliases that came of looking before anybody sees them.
async fn kept(
    mut state: OwnedMutexGuard<State>,
    (recorder, session): (&impl KeepingRecorder, SessionId),
) -> Result<(), ScreenError> {
    let Some(part) = state.unkept() else { return Ok(()) };
    let kept = match recorder.keep_aliases(session, part).await {
        // An alias of a session that is over stands for nothing any more.
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

/// What was hidden in two steps, counted together.
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

/// Nothing, if any of what was found is personal data; secrets alone are no reason to hold something back.
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

/// About how many bytes a value has, as far as that matters.
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
