//! Names in prose.
use crate::finding::Finding;
use crate::kind::Kinds;

pub(crate) fn find(_text: &str, _kinds: Kinds, _out: &mut Vec<Finding>) {}
