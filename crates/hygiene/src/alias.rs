//! Stand-ins.

/// The word of what only looked like an alias.
pub(crate) const LITERAL: &str = "text";
