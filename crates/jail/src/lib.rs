//! Confines a Linux child exactly as its [`Plan`] says, or fails.
//!
//! Namespaces, mounts, seccomp, Landlock, control groups, limits, reaping. All `unsafe` code of the workspace is here, in
//! `sys`. This crate knows nothing of policies, sessions or async: it takes a plan and returns a [`JailedProcess`] child.
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
mod handshake;
#[cfg(any(feature = "host", feature = "inside"))]
mod identity;
#[cfg(feature = "inside")]
pub mod inside;
#[cfg(feature = "host")]
mod jailed_process;
#[cfg(feature = "host")]
mod launch;
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
#[cfg(any(feature = "host", feature = "inside"))]
mod steps_codec;
#[cfg(feature = "inside")]
pub mod template;

pub use landlock::LandlockAccess;
pub use sys::socket;

#[cfg(feature = "host")]
pub use jailed_process::{DiskSpace, JailedProcess, ListenerEvent, SyscallListener, disk_space, run_as_file_user};
#[cfg(feature = "host")]
pub use launch::{Launcher, LauncherError};
#[cfg(feature = "host")]
pub use plan::{ExecPolicy, MountAccess, Plan, ProcessLimits, RootEntry, UserIds};
#[cfg(feature = "host")]
pub use program::SealedProgram;
#[cfg(feature = "host")]
pub use sockets::SocketMemory;
#[cfg(feature = "host")]
pub use sys::{fence::StoppedCall, process::ProcessEnd};
