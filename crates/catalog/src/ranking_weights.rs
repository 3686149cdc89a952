//! The weights of the ranking, one set for every catalog.
//!
//! They were chosen on labelled queries over several real catalogs. The ranking is stable around these values: halving or
//! doubling the weight of any field changes recall by less than the noise of the queries, so no weight is fitted to one catalog.

/// The weights of the fields, in the order of [`crate::fields::Field`]: a name says most. A server's description applies to all
/// of its tools, and so says little about each.
pub(crate) const FIELD_WEIGHTS: [f32; crate::fields::FIELD_COUNT] = [2.0, 3.0, 1.0, 0.5, 0.5, 0.25];
/// The strength of length normalisation. It is below the usual 0.75, because tools differ more in wordiness than in relevance.
pub(crate) const LENGTH_NORMALISATION: f32 = 0.4;
/// How soon repetitions of a word stop adding to the score.
pub(crate) const SATURATION: f32 = 1.2;
/// The share of characters from scripts without spaces in the length of a tool's spelling. They accompany their English glosses,
/// and a tool must not lose weight because it is described twice.
pub(crate) const WIDE_SCRIPT_LENGTH: f32 = 0.35;
/// The weights of words and of spelling in a score.
pub(crate) const WORD_WEIGHT: f32 = 0.57;
pub(crate) const SPELLING_WEIGHT: f32 = 0.43;
/// The share of the best clause in a score; the rest comes from the whole query.
pub(crate) const CLAUSE_WEIGHT: f32 = 0.5;
/// The share of the server's best score that each of its tools gets. A larger share would rank poor tools of a good server above
/// others.
pub(crate) const SERVER_LIFT: f32 = 0.3;
/// The weight of a synonym relative to the word itself.
pub(crate) const SYNONYM_WEIGHT: f32 = 0.3;
/// The factor for a tool that does the opposite of the request.
pub(crate) const OPPOSITE_FACTOR: f32 = 0.6;
/// The factor for a tool that writes if the query requests to read.
pub(crate) const UNASKED_WRITE_FACTOR: f32 = 0.85;
/// The factor for a tool that writes if the query does not name an action.
pub(crate) const UNSURE_WRITE_FACTOR: f32 = 0.93;
/// The weight of the task relative to each intent.
pub(crate) const TASK_WEIGHT: f32 = 0.4;
/// The likeness from which two tools are alike: most such pairs do the same on different servers, or nearly the same on one. A
/// lower value groups unrelated tools; a higher value separates equivalent ones.
pub(crate) const MIN_ALIKE_LIKENESS: f32 = 0.4;
