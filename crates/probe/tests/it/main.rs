//! The escape suite: every probe on this machine, and for each a control that must succeed without the fence.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod suite;
