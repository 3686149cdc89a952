//! Tests of the parts that other tests depend on.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]
#![expect(clippy::disallowed_methods, reason = "tests start programs")]
#![expect(clippy::print_stdout, reason = "what was found is what a reader of the log wants")]

mod corpora;
mod internet;
mod kinds;
