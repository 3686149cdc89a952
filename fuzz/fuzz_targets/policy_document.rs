//! A policy document of any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringfence_policy::fuzz::fuzz_policy(bytes));
