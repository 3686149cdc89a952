//! One end of a relayed stream, fed with anything.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringfence_wire::fuzz::fuzz_relay(bytes));
