//! The only door out. A session's pass: a tool call is checked, decided, limited, written down, then forwarded with the
//! credentials that the sandbox never sees.
//!
//! This crate does not know sandboxes, the wire or the front doors.
#![forbid(unsafe_code)]
