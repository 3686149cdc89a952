//! Checks the house rules, generates checked-in files, runs the suites.
fn main() {}
