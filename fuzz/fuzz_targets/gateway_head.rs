//! Requests of a program to the proxy, however they are cut up.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringfence_gateway::fuzz::fuzz_head(bytes));
