//! The numbers of the ranking, in one place: one set for every catalog.
//!
//! They were chosen on labelled questions over several real catalogs. Around these values the ranking hardly changes: halving or
//! doubling any field's weight moves recall by less than the questions' own noise, so none is fitted to one catalog.

/// Weights of the fields, in the order of [`crate::fields::Field`]: a name says most. A server's description speaks for all of
/// its tools at once and so for none in particular.
pub(crate) const FIELD_WEIGHTS: [f32; crate::fields::FIELDS] = [2.0, 3.0, 1.0, 0.5, 0.5, 0.25];
/// How much less a word weighs in a long field; tools differ in wordiness more than in worth, so less than the usual 0.75.
pub(crate) const LENGTH: f32 = 0.4;
/// How soon more of the same word says nothing new.
pub(crate) const SATURATION: f32 = 1.2;
/// How much of the length of a tool's spelling the characters of scripts without spaces are: they stand beside their glosses, and
/// a tool must not weigh less for being described twice.
pub(crate) const WIDE: f32 = 0.35;
/// What words and spelling each add to a score.
pub(crate) const WORDS: f32 = 0.57;
pub(crate) const SPELLING: f32 = 0.43;
/// The part of a score that is the best of the question's clauses; the rest is the whole question's.
pub(crate) const CLAUSES: f32 = 0.5;
/// What a tool gets of its server's best score. More would let a good server's poor tools outrank others.
pub(crate) const SERVER: f32 = 0.3;
/// How loud a synonym is beside the word itself.
pub(crate) const SYNONYM: f32 = 0.3;
/// What is left of the score of a tool that does the opposite of what is asked.
pub(crate) const OPPOSITE: f32 = 0.6;
/// What is left of the score of a tool that writes, where a request asks to read.
pub(crate) const UNASKED_WRITE: f32 = 0.85;
/// The same where a request does not say what to do.
pub(crate) const UNSURE_WRITE: f32 = 0.93;
/// How loud the task is beside each intent.
pub(crate) const TASK: f32 = 0.4;
/// From here on two tools are alike: at this likeness most pairs do the same thing on different servers, or nearly the same on
/// one. Lower fills slots with strangers; higher splits twins.
pub(crate) const ALIKE: f32 = 0.4;
