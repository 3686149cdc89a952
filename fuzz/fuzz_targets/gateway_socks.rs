//! A greeting and a request of SOCKS5.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringfence_gateway::fuzz::fuzz_socks(bytes));
