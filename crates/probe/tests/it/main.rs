//! The escape suite: every probe on this machine, and for each a control that must succeed without the fence.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]
#![expect(clippy::disallowed_methods, reason = "controls are processes without a sandbox")]
#![expect(clippy::print_stdout, reason = "what was found is what a reader of the log wants")]

mod bare;
mod controls;
mod door;
mod naive;
mod suite;
