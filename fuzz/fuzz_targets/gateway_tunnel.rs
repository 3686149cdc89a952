//! The first bytes in a tunnel.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringfence_gateway::fuzz::fuzz_tunnel(bytes));
