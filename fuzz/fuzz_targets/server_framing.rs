//! What a client writes on standard input, of any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringfence_server::fuzz::fuzz_framing(bytes));
