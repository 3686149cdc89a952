//! Attacks a sandbox from inside and reports what held.
//!
//! It contains a catalogue of probes and tries each as an ordinary program would: in a sandbox made from the policy under
//! test, with secrets of the host where it must not reach. Only this crate links the attempts of `jail`. It does not know
//! sessions, journals or callers: it attacks what is recorded as a user of the whole program could.
#![forbid(unsafe_code)]

mod attempt;
mod catalogue;
mod door;
mod drive;
pub mod internet;
mod records;
mod report;
mod stage;
mod targets;

pub use attempt::{ENTRY, attempt_main};
pub use catalogue::{Class, Probe, catalogue};
pub use door::{DoorError, Field, door};
pub use drive::{ProbeError, run};
pub use records::{RecordsError, records};
pub use report::{Finding, Outcome, Report};
