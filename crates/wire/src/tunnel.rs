//! Tunnels: connections of the program to the outside, opened by the child while a program runs.
//!
//! A tunnel is a stream in both directions under one number. Each side ends its own direction with an end frame, and says
//! the last thing about a tunnel with a close frame, after which nothing of that tunnel comes from it: no bytes, no credit. A
//! close without an end before it is a reset. A number is free again when both sides have closed it.

use serde::{Deserialize, Serialize};

use crate::codec::Unfit;

mod arriving;
mod leaving;

pub use arriving::Arriving;
pub use leaving::Leaving;

/// The most tunnels at one time.
pub const TUNNELS_MAX: usize = 256;

/// The number of the first tunnel's stream.
const FIRST: u16 = 64;

/// [`TUNNELS_MAX`] as a number of streams.
const COUNT: u16 = 256;

/// A tunnel's number, which is that of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TunnelId(u16);

impl TunnelId {
    /// The tunnel whose stream has this number, if there can be one.
    pub fn from_id(id: u16) -> Option<Self> {
        (FIRST..FIRST + COUNT).contains(&id).then_some(Self(id))
    }

    /// The number in a header.
    pub const fn id(self) -> u16 {
        self.0
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (FIRST..FIRST + COUNT).map(Self)
    }

    /// Its place in a table of all tunnels, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0.saturating_sub(FIRST))
    }

    pub(crate) fn check(self) -> Result<(), Unfit> {
        match Self::from_id(self.0) {
            Some(_) => Ok(()),
            None => Err(Unfit::Tunnel { number: self.0 }),
        }
    }
}

impl std::fmt::Display for TunnelId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tunnel {}", self.0)
    }
}

/// What a frame of a tunnel brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried<'a> {
    /// Bytes, at least one; say [`Arriving::consumed`] when they are gone.
    Data(&'a [u8]),
    /// No more bytes will come.
    End,
    /// The peer has room again: for [`Leaving::credit`].
    Credit(u32),
    /// The peer says no more of this tunnel, and takes no more.
    Close,
}

/// What a peer did wrong with a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunnelError {
    /// Nobody opened it, or it was closed.
    #[error("{tunnel} is not open")]
    NotOpen {
        /// Which.
        tunnel: TunnelId,
    },
    /// It was opened before both sides had closed it.
    #[error("{tunnel} is still in use")]
    InUse {
        /// Which.
        tunnel: TunnelId,
    },
    /// Bytes or a second end after its end.
    #[error("{tunnel} goes on after its end")]
    AfterEnd {
        /// Which.
        tunnel: TunnelId,
    },
    /// More bytes than were granted.
    #[error("{tunnel} is {excess} bytes over its credit")]
    BeyondCredit {
        /// Which.
        tunnel: TunnelId,
        /// How many too many.
        excess: usize,
    },
    /// A grant of nothing, or of more than was ever consumed.
    #[error("a grant of {grant} bytes for {tunnel} makes no sense")]
    BadGrant {
        /// Which.
        tunnel: TunnelId,
        /// The grant.
        grant: u32,
    },
}

#[cfg(test)]
mod tests;
