//! Escape probes and doubles for tests.
#![forbid(unsafe_code)]
