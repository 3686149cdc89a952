//! Attacks a sandbox from inside and reports what held.
//!
//! It contains a catalogue of probes and tries each as an ordinary program would: in a sandbox made from the policy under
//! test, with secrets of the host where it must not reach. Only this crate links the attempts of `jail`. It does not know
//! sessions, journals or callers: it attacks what is recorded as a user of the whole program could.
#![forbid(unsafe_code)]

mod attempt;
mod catalogue;
mod egress;
pub mod internet;
mod records;
mod report;
mod runner;
mod stage;
mod targets;

pub use attempt::{ATTEMPT_ENTRY, attempt_main};
pub use catalogue::{Probe, ProbeClass, catalogue};
pub use egress::{AttackSetup, EgressProbeError, run_egress_probes};
pub use records::{RecordsError, run_records_probes};
pub use report::{ProbeFinding, ProbeOutcome, ProbeReport};
pub use runner::{ProbeError, run_sandbox_probes};
