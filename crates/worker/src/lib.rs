//! The program inside the sandbox: runs one job, speaks only `wire`.
//!
//! [`init`] is the first process; `child` the process of one execution, which is a [`js`] engine, the speaker of a
//! [`python`] process, or the watcher of a program. It does not know the host, policies or credentials.
#![forbid(unsafe_code)]

mod bridge;
mod calls;
mod child;
mod code;
mod emit;
pub mod init;
mod interpreter;
pub mod js;
mod network;
mod pipe;
mod program;
pub mod python;
mod relay;
mod tunnels;
mod wipe;
mod zygote;
