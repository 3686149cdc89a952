//! Tunnels: connections of the program to the outside, which the child opens while a program runs.
//!
//! A tunnel is one stream number with both directions. Each side ends its own direction with an end frame and finishes
//! with the tunnel by a close frame. After the close nothing of that tunnel comes from that side, neither bytes nor
//! credit. A close without an end before it is a reset. The number is free again when both sides have closed it.

use serde::{Deserialize, Serialize};

use crate::codec::InvalidMessage;

mod receivers;
mod senders;

pub use receivers::TunnelReceivers;
pub use senders::TunnelSenders;

/// The most tunnels that are open at one time.
pub const MAX_TUNNELS: usize = 256;

/// The stream number of the first tunnel.
const FIRST_STREAM: u16 = 64;

/// [`MAX_TUNNELS`] in the type of a stream number.
const TUNNEL_COUNT: u16 = 256;

/// A tunnel's number, which is also its stream number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TunnelId(u16);

impl TunnelId {
    /// The tunnel with this stream number, or `None` if the number is not a tunnel's.
    pub fn from_id(id: u16) -> Option<Self> {
        (FIRST_STREAM..FIRST_STREAM + TUNNEL_COUNT)
            .contains(&id)
            .then_some(Self(id))
    }

    /// The stream number in a frame header.
    pub const fn id(self) -> u16 {
        self.0
    }

    /// All tunnels in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (FIRST_STREAM..FIRST_STREAM + TUNNEL_COUNT).map(Self)
    }

    /// The tunnel's index in a table of all tunnels, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0.saturating_sub(FIRST_STREAM))
    }

    pub(crate) fn check(self) -> Result<(), InvalidMessage> {
        match Self::from_id(self.0) {
            Some(_) => Ok(()),
            None => Err(InvalidMessage::Tunnel { number: self.0 }),
        }
    }
}

impl std::fmt::Display for TunnelId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tunnel {}", self.0)
    }
}

/// The content of a tunnel's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelEvent<'a> {
    /// Bytes, at least one; call [`TunnelReceivers::mark_consumed`] once they are processed.
    Data(&'a [u8]),
    /// The peer sends no more bytes.
    End,
    /// The peer grants this many more bytes; pass them to [`TunnelSenders::add_credit`].
    Credit(u32),
    /// The peer has finished with this tunnel: it sends and accepts nothing more.
    Close,
}

/// Why a frame of a tunnel is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunnelError {
    /// The tunnel was never opened, or is closed.
    #[error("{tunnel} is not open")]
    NotOpen {
        /// The tunnel in the frame.
        tunnel: TunnelId,
    },
    /// The tunnel is opened again before both sides have closed it.
    #[error("{tunnel} is still in use")]
    InUse {
        /// The tunnel to open.
        tunnel: TunnelId,
    },
    /// The peer sends bytes or a second end after the tunnel's end.
    #[error("{tunnel} goes on after its end")]
    AfterEnd {
        /// The tunnel that has ended.
        tunnel: TunnelId,
    },
    /// The peer sends more bytes than it was granted.
    #[error("{tunnel} is {excess} bytes over its credit")]
    BeyondCredit {
        /// The tunnel without enough credit.
        tunnel: TunnelId,
        /// How many bytes exceed the credit.
        excess: usize,
    },
    /// The peer grants 0 bytes, or more than it consumed.
    #[error("a grant of {grant} bytes for {tunnel} makes no sense")]
    BadGrant {
        /// The tunnel that the grant is for.
        tunnel: TunnelId,
        /// The number of bytes granted.
        grant: u32,
    },
}

#[cfg(test)]
mod tests;
