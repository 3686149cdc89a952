//! The use cases: sessions, run code.
#![forbid(unsafe_code)]
