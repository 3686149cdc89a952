//! The receiving halves of tunnels, which accept nothing on an unopened tunnel, after an end, or beyond credit.

use crate::frame::{Header, Kind};
use crate::stream::WINDOW;
use crate::tunnel::{TUNNELS_MAX, TunnelError, TunnelId};

/// The receiving halves of all tunnels. This takes no memory until the first tunnel is opened.
#[derive(Debug, Default)]
pub struct Arriving {
    slots: Vec<Option<Slot>>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Bytes that the peer may still send.
    credit: u32,
    /// Bytes consumed since the last grant.
    consumed: u32,
    ended: bool,
}

impl Arriving {
    /// Whether the tunnel is open and the peer has not closed it.
    pub fn is_open(&self, tunnel: TunnelId) -> bool {
        self.slot(tunnel).is_some()
    }

    /// Marks bytes of a tunnel as consumed. Returns what to grant the peer, once half a window is free.
    pub fn consumed(&mut self, tunnel: TunnelId, bytes: usize) -> Option<u32> {
        let slot = self.slots.get_mut(tunnel.index())?.as_mut()?;
        let held = WINDOW - slot.credit - slot.consumed;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        debug_assert!(bytes <= held, "consumed more than came");
        slot.consumed += bytes.min(held);
        if slot.ended || slot.consumed < WINDOW / 2 {
            return None;
        }
        let grant = std::mem::take(&mut slot.consumed);
        slot.credit += grant;
        Some(grant)
    }

    pub(crate) fn open(&mut self, tunnel: TunnelId) -> Result<(), TunnelError> {
        if self.slots.is_empty() {
            self.slots.resize(TUNNELS_MAX, None);
        }
        match self.slots.get_mut(tunnel.index()) {
            Some(slot @ None) => {
                *slot = Some(Slot {
                    credit: WINDOW,
                    consumed: 0,
                    ended: false,
                });
                Ok(())
            }
            Some(Some(_)) | None => Err(TunnelError::InUse { tunnel }),
        }
    }

    /// Checks a frame by its header alone.
    pub(crate) fn check(&self, tunnel: TunnelId, header: Header) -> Result<(), TunnelError> {
        let slot = self.slot(tunnel).ok_or(TunnelError::NotOpen { tunnel })?;
        match header.kind() {
            Kind::Data | Kind::End if slot.ended => Err(TunnelError::AfterEnd { tunnel }),
            Kind::Data => match header.length().checked_sub(slot.credit as usize + 1) {
                Some(excess) => Err(TunnelError::BeyondCredit {
                    tunnel,
                    excess: excess + 1,
                }),
                None => Ok(()),
            },
            Kind::Control | Kind::End | Kind::Credit | Kind::Close => Ok(()),
        }
    }

    /// Counts a whole frame that [`check`](Self::check) accepted.
    pub(crate) fn book(&mut self, tunnel: TunnelId, header: Header) {
        let Some(place) = self.slots.get_mut(tunnel.index()) else {
            return;
        };
        match (header.kind(), place.as_mut()) {
            (Kind::Data, Some(slot)) => {
                let bytes = u32::try_from(header.length()).unwrap_or(u32::MAX);
                slot.credit = slot.credit.saturating_sub(bytes);
            }
            (Kind::End, Some(slot)) => slot.ended = true,
            (Kind::Close, _) => *place = None,
            (Kind::Data | Kind::End | Kind::Control | Kind::Credit, _) => {}
        }
    }

    fn slot(&self, tunnel: TunnelId) -> Option<&Slot> {
        self.slots.get(tunnel.index())?.as_ref()
    }
}
