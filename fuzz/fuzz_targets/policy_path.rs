//! A path, a URL path or a glob in any spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringfence_policy::fuzz::fuzz_path(bytes));
