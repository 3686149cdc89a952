//! Any bytes, as text and as JSON: capped, searched, hidden and revealed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringfence_hygiene::fuzz::fuzz_hygiene(bytes));
