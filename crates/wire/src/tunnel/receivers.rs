//! The receiving halves of tunnels, which accept nothing on an unopened tunnel, after an end, or beyond credit.

use crate::frame::{FrameHeader, FrameKind};
use crate::stream::STREAM_WINDOW;
use crate::tunnel::{MAX_TUNNELS, TunnelError, TunnelId};

/// The receiving halves of all tunnels. This takes no memory until the first tunnel is opened.
#[derive(Debug, Default)]
pub struct TunnelReceivers {
    slots: Vec<Option<TunnelReceiver>>,
}

#[derive(Clone, Copy, Debug)]
struct TunnelReceiver {
    /// Bytes that the peer may still send.
    credit: u32,
    /// Bytes consumed since the last grant.
    consumed: u32,
    ended: bool,
}

impl TunnelReceivers {
    /// Whether the tunnel is open and the peer has not closed it.
    pub fn is_open(&self, tunnel: TunnelId) -> bool {
        self.slot(tunnel).is_some()
    }

    /// Marks bytes of a tunnel as consumed. Returns what to grant the peer, once half a window is free.
    pub fn mark_consumed(&mut self, tunnel: TunnelId, bytes: usize) -> Option<u32> {
        let slot = self.slots.get_mut(tunnel.index())?.as_mut()?;
        let held = STREAM_WINDOW - slot.credit - slot.consumed;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        debug_assert!(bytes <= held, "consumed more than came");
        slot.consumed += bytes.min(held);
        if slot.ended || slot.consumed < STREAM_WINDOW / 2 {
            return None;
        }
        let grant = std::mem::take(&mut slot.consumed);
        slot.credit += grant;
        Some(grant)
    }

    pub(crate) fn open(&mut self, tunnel: TunnelId) -> Result<(), TunnelError> {
        if self.slots.is_empty() {
            self.slots.resize(MAX_TUNNELS, None);
        }
        match self.slots.get_mut(tunnel.index()) {
            Some(slot @ None) => {
                *slot = Some(TunnelReceiver {
                    credit: STREAM_WINDOW,
                    consumed: 0,
                    ended: false,
                });
                Ok(())
            }
            Some(Some(_)) | None => Err(TunnelError::InUse { tunnel }),
        }
    }

    /// Checks a frame by its header alone.
    pub(crate) fn check(&self, tunnel: TunnelId, header: FrameHeader) -> Result<(), TunnelError> {
        let slot = self.slot(tunnel).ok_or(TunnelError::NotOpen { tunnel })?;
        match header.kind() {
            FrameKind::Data | FrameKind::End if slot.ended => Err(TunnelError::AfterEnd { tunnel }),
            FrameKind::Data => match header.length().checked_sub(slot.credit as usize + 1) {
                Some(excess) => Err(TunnelError::BeyondCredit {
                    tunnel,
                    excess: excess + 1,
                }),
                None => Ok(()),
            },
            FrameKind::Control | FrameKind::End | FrameKind::Credit | FrameKind::Close => Ok(()),
        }
    }

    /// Counts a whole frame that [`check`](Self::check) accepted.
    pub(crate) fn count_frame(&mut self, tunnel: TunnelId, header: FrameHeader) {
        let Some(place) = self.slots.get_mut(tunnel.index()) else {
            return;
        };
        match (header.kind(), place.as_mut()) {
            (FrameKind::Data, Some(slot)) => {
                let bytes = u32::try_from(header.length()).unwrap_or(u32::MAX);
                slot.credit = slot.credit.saturating_sub(bytes);
            }
            (FrameKind::End, Some(slot)) => slot.ended = true,
            (FrameKind::Close, _) => *place = None,
            (FrameKind::Data | FrameKind::End | FrameKind::Control | FrameKind::Credit, _) => {}
        }
    }

    fn slot(&self, tunnel: TunnelId) -> Option<&TunnelReceiver> {
        self.slots.get(tunnel.index())?.as_ref()
    }
}
