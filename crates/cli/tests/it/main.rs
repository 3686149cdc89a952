//! Tests of the program from outside: the real binary in a data folder of its own.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::print_stderr, reason = "a test that skips itself says so")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start the program and read how it was given"
)]

mod approvals;
mod clients;
mod data;
mod data_served;
mod durable;
mod egress;
mod files;
mod hostile;
mod journal;
mod learn;
mod limits;
mod login;
mod mcpsec;
mod messages;
mod openapi;
mod policy;
mod programs;
mod real;
mod records;
mod replays;
mod screens;
mod sdks;
mod serve;
mod serving;
mod setting;
mod sinks;
mod skill_use;
mod skills;
mod times;
mod token;
mod tools;
mod types;
mod values;
mod vault;
mod workspaces;
