//! Confines a Linux child exactly as its [`Plan`] says, or fails.
//!
//! Namespaces, mounts, seccomp, Landlock, control groups, limits, reaping. All `unsafe` code of the workspace is here, in
//! `sys`. This crate knows nothing of policies, sessions or async: it takes a plan and returns a [`Jailed`] child.
//!
//! The feature `host` plans jails, has them made and follows them; `inside` is the template that they are copies of, the
//! code that confines a copy, and what the worker needs inside; `attack` holds the attempts that the escape probes make.

#[cfg(feature = "attack")]
pub mod attack;
mod landlock;
pub mod seccomp;
mod sys;

#[cfg(feature = "host")]
pub mod cgroup;
#[cfg(feature = "inside")]
mod child;
#[cfg(feature = "host")]
mod compile;
#[cfg(any(feature = "host", feature = "inside"))]
mod identity;
#[cfg(feature = "inside")]
pub mod inside;
#[cfg(feature = "host")]
mod jailed;
#[cfg(feature = "host")]
mod launch;
#[cfg(any(feature = "host", feature = "inside"))]
mod parcel;
#[cfg(feature = "host")]
mod plan;
#[cfg(feature = "host")]
mod program;
#[cfg(feature = "inside")]
mod root;
#[cfg(feature = "host")]
mod sockets;
#[cfg(any(feature = "host", feature = "inside"))]
mod steps;
#[cfg(feature = "inside")]
pub mod template;
#[cfg(any(feature = "host", feature = "inside"))]
mod told;

pub use landlock::Use;
pub use sys::socket;

#[cfg(feature = "host")]
pub use jailed::{Jailed, Space, SyscallListener, as_file_user, space};
#[cfg(feature = "host")]
pub use launch::{LaunchError, Launcher};
#[cfg(feature = "host")]
pub use plan::{Access, Ids, Limits, Place, Plan, Programs};
#[cfg(feature = "host")]
pub use program::Program;
#[cfg(feature = "host")]
pub use sockets::SocketBytes;
#[cfg(feature = "host")]
pub use sys::{fence::Stopped, process::Ending};
