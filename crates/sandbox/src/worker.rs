//! The worker program, embedded: one file to install, nothing to find at run time.

/// The static program that becomes the first process of every sandbox.
pub(crate) const WORKER_PROGRAM: &[u8] = include_bytes!(env!("RINGFENCE_WORKER"));
