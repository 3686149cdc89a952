//! Attacks a sandbox from inside and says what held.
//!
//! A catalogue of probes, each tried as an ordinary program would try it: in a sandbox made from the policy under test,
//! with secrets of the host lying where it must not reach. This crate alone links the attempts of `jail`. It does not
//! know sessions, journals or who asks: what is written down is attacked as a user of the whole program could.
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
