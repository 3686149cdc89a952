//! The program inside the sandbox: it runs one job and speaks only the `wire` protocol.
//!
//! [`init`] is the sandbox's first process; `child` is the process of one execution, which hosts a [`js`] engine,
//! speaks for a [`python`] process, or watches a program. The worker knows nothing of the host, of policies or of credentials.
#![forbid(unsafe_code)]

mod bridge;
mod calls;
mod child;
mod code;
mod descendants;
mod emit;
pub mod init;
mod interpreter;
pub mod js;
mod link;
mod network;
mod pipe;
pub mod places;
mod program;
pub mod python;
mod relay;
mod tunnels;
mod wipe;
mod zygote;
