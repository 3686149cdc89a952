//! The sandbox as its users see it: real workers, real programs, on this machine.
//!
//! What is below `jail` is about jails. Everything else is what every backend's sandboxes do: it runs with the backend that the
//! variable `RINGFENCE_TEST_BACKEND` names, and with the usual one where it names none.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod again;
mod calls;
mod files;
mod harness;
mod jail;
mod languages;
mod limits;
mod lives;
