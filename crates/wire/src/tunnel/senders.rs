//! The sending halves of tunnels. Tunnels take turns, none exceeds its grants, and a reset drops what is queued.

use std::collections::VecDeque;

use crate::frame::FrameKind;
use crate::stream_sender::{self, SendState, StreamSender, TurnOutcome};
use crate::tunnel::{MAX_TUNNELS, TunnelError, TunnelId};

/// The sending halves of all tunnels. This takes no memory until the first tunnel is opened.
#[derive(Debug, Default)]
pub struct TunnelSenders {
    slots: Vec<Option<TunnelSender>>,
    /// The tunnels that would use a turn, each once.
    ready: VecDeque<TunnelId>,
    /// The tunnels with a queued grant.
    owed_grants: Vec<TunnelId>,
    /// What the peer may still grant to each tunnel whose close was sent: the grants that were in flight then.
    late_grants: Vec<u32>,
}

#[derive(Debug)]
struct TunnelSender {
    sending: StreamSender,
    /// The queued grant for the peer.
    owed: u32,
    close: CloseState,
    /// What the peer may still grant after a close without an end.
    late: u32,
    /// Whether the tunnel is in the list of those with a turn.
    listed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseState {
    NotYet,
    /// The close follows the end, once everything queued is sent.
    AfterEnd,
    Now,
}

impl TunnelSender {
    fn has_turn(&self) -> bool {
        self.is_only_close() || self.sending.has_turn()
    }

    /// Drops the queued bytes, and notes how much of the sent bytes the peer may still grant.
    fn discard_queued(&mut self) {
        if self.close != CloseState::Now {
            self.late = self.sending.ungranted();
        }
        self.sending = StreamSender::new(SendState::NotOurs);
        self.close = CloseState::Now;
    }

    /// What the peer may still grant after the close is sent.
    fn late_grants(&self) -> u32 {
        match self.close {
            CloseState::Now => self.late,
            CloseState::NotYet | CloseState::AfterEnd => self.sending.ungranted(),
        }
    }

    /// Whether the close is all that is left to send.
    fn is_only_close(&self) -> bool {
        match self.close {
            CloseState::Now => true,
            CloseState::AfterEnd => self.sending.state == SendState::Ended,
            CloseState::NotYet => false,
        }
    }
}

impl TunnelSenders {
    /// Queues as many bytes as there is capacity for, and returns how many: none once the tunnel is ended or closed.
    pub fn queue_data(&mut self, tunnel: TunnelId, bytes: &[u8]) -> usize {
        let Some(slot) = self.open_slot(tunnel) else { return 0 };
        if slot.sending.state != SendState::Open {
            return 0;
        }
        let count = slot.sending.push(bytes);
        self.mark_ready(tunnel);
        count
    }

    /// How many bytes [`queue_data`](Self::queue_data) would queue now.
    pub fn available_capacity(&self, tunnel: TunnelId) -> usize {
        match self.slot(tunnel) {
            Some(slot) if slot.close == CloseState::NotYet => slot.sending.available_capacity(),
            Some(_) | None => 0,
        }
    }

    /// How many more bytes can be queued that need no new credit from the peer.
    pub fn allowance(&self, tunnel: TunnelId) -> usize {
        self.slot(tunnel)
            .map_or(0, |slot| slot.sending.allowance())
            .min(self.available_capacity(tunnel))
    }

    /// Ends this side's direction. The queued bytes go first.
    pub fn end_stream(&mut self, tunnel: TunnelId) {
        if let Some(slot) = self.open_slot(tunnel)
            && slot.sending.state == SendState::Open
        {
            slot.sending.state = SendState::Ending;
            self.mark_ready(tunnel);
        }
    }

    /// Closes the tunnel. If this side has ended it, the queued bytes go first; if not, they are dropped, and the peer
    /// sees a reset.
    pub fn close(&mut self, tunnel: TunnelId) {
        let Some(slot) = self.open_slot(tunnel) else { return };
        match slot.sending.state {
            // Grants go on until the close is sent: where both sides close, each may need them for what it has queued.
            SendState::Ending | SendState::Ended => slot.close = CloseState::AfterEnd,
            SendState::NotOurs | SendState::Open => {
                slot.discard_queued();
                self.drop_grants(tunnel);
            }
        }
        self.mark_ready(tunnel);
    }

    /// Closes the tunnel at once: the queued bytes are dropped, even if this side has ended it.
    pub fn reset(&mut self, tunnel: TunnelId) {
        let Some(Some(slot)) = self.slots.get_mut(tunnel.index()) else {
            return;
        };
        slot.discard_queued();
        self.drop_grants(tunnel);
        self.mark_ready(tunnel);
    }

    /// Adds a grant of the peer, received as [`TunnelEvent::Credit`](crate::TunnelEvent::Credit). On a tunnel that this side
    /// has closed it has no use, but is still counted: a peer cannot grant more than was sent.
    pub fn add_credit(&mut self, tunnel: TunnelId, grant: u32) -> Result<(), TunnelError> {
        let bad = TunnelError::BadGrant { tunnel, grant };
        let late = match self.slots.get_mut(tunnel.index()) {
            Some(Some(slot)) if slot.close == CloseState::Now => &mut slot.late,
            Some(Some(slot)) => {
                if !slot.sending.add_credit(grant) {
                    return Err(bad);
                }
                self.mark_ready(tunnel);
                return Ok(());
            }
            Some(None) | None => self.late_grants.get_mut(tunnel.index()).ok_or(bad)?,
        };
        *late = late.checked_sub(grant).ok_or(bad)?;
        Ok(())
    }

    /// Queues a grant for the peer, returned by [`TunnelReceivers::mark_consumed`](crate::TunnelReceivers::mark_consumed).
    pub fn queue_grant(&mut self, tunnel: TunnelId, grant: u32) {
        let Some(Some(slot)) = self.slots.get_mut(tunnel.index()) else {
            return;
        };
        if slot.close == CloseState::Now {
            return;
        }
        let waits = slot.owed > 0;
        slot.owed = slot.owed.saturating_add(grant);
        if !waits {
            self.owed_grants.push(tunnel);
        }
    }

    /// Whether the tunnel is open and this side has not sent the close.
    pub fn is_open(&self, tunnel: TunnelId) -> bool {
        self.slot(tunnel).is_some()
    }

    pub(crate) fn open(&mut self, tunnel: TunnelId) -> Result<(), TunnelError> {
        if self.slots.is_empty() {
            self.slots.resize_with(MAX_TUNNELS, || None);
            self.late_grants.resize(MAX_TUNNELS, 0);
        }
        match self.slots.get_mut(tunnel.index()) {
            Some(slot @ None) => {
                *slot = Some(TunnelSender {
                    sending: StreamSender::new(SendState::Open),
                    owed: 0,
                    close: CloseState::NotYet,
                    late: 0,
                    listed: false,
                });
                Ok(())
            }
            Some(Some(_)) | None => Err(TunnelError::InUse { tunnel }),
        }
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.ready.is_empty() || !self.owed_grants.is_empty()
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.slots.iter().flatten().all(|slot| slot.sending.is_flushed())
    }

    /// Adds the queued grants to the batch.
    pub(crate) fn add_grants(&mut self, flight: &mut Vec<u8>) {
        for tunnel in self.owed_grants.drain(..) {
            if let Some(Some(slot)) = self.slots.get_mut(tunnel.index()) {
                let grant = std::mem::take(&mut slot.owed);
                if grant > 0 {
                    stream_sender::add_grant(tunnel.id(), grant, flight);
                }
            }
        }
    }

    /// Sends the next frame of the tunnel whose turn it is, and returns that tunnel.
    pub(crate) fn take_turn(&mut self, flight: &mut Vec<u8>) -> (TurnOutcome, Option<TunnelId>) {
        let Some(tunnel) = self.ready.pop_front() else {
            return (TurnOutcome::Passed, None);
        };
        let Some(Some(slot)) = self.slots.get_mut(tunnel.index()) else {
            return (TurnOutcome::Passed, None);
        };
        if slot.is_only_close() {
            if !stream_sender::add_empty(tunnel.id(), FrameKind::Close, flight) {
                self.ready.push_front(tunnel);
                return (TurnOutcome::Full, None);
            }
            let late = slot.late_grants();
            if let Some(place) = self.late_grants.get_mut(tunnel.index()) {
                *place = late;
            }
            if let Some(place) = self.slots.get_mut(tunnel.index()) {
                *place = None;
            }
            return (TurnOutcome::Added, None);
        }
        slot.listed = false;
        let turn = slot.sending.take_turn(tunnel.id(), flight);
        match turn {
            // The frame did not fit, so it is still the tunnel's turn.
            TurnOutcome::Full => {
                slot.listed = true;
                self.ready.push_front(tunnel);
            }
            // The tunnel gets its next turn when its block returns.
            TurnOutcome::Block(_) => {}
            TurnOutcome::Passed | TurnOutcome::Added => self.mark_ready(tunnel),
        }
        (turn, Some(tunnel))
    }

    /// Returns a block that was written up to `stop`: the bytes after `stop` are next, unless the tunnel is reset.
    pub(crate) fn return_block(&mut self, tunnel: TunnelId, bytes: Vec<u8>, stop: usize) {
        if stop < bytes.len()
            && let Some(Some(slot)) = self.slots.get_mut(tunnel.index())
            && slot.close != CloseState::Now
        {
            slot.sending.return_block(bytes, stop);
        }
        self.mark_ready(tunnel);
    }

    /// Lists the tunnel if it would use a turn and is not listed yet.
    fn mark_ready(&mut self, tunnel: TunnelId) {
        if let Some(Some(slot)) = self.slots.get_mut(tunnel.index())
            && !slot.listed
            && slot.has_turn()
        {
            slot.listed = true;
            self.ready.push_back(tunnel);
        }
    }

    /// Drops the queued grant of a tunnel that is being closed.
    fn drop_grants(&mut self, tunnel: TunnelId) {
        if let Some(Some(slot)) = self.slots.get_mut(tunnel.index())
            && std::mem::take(&mut slot.owed) > 0
        {
            self.owed_grants.retain(|one| *one != tunnel);
        }
    }

    fn slot(&self, tunnel: TunnelId) -> Option<&TunnelSender> {
        self.slots.get(tunnel.index())?.as_ref()
    }

    /// The tunnel's slot, or `None` if it is closed or being closed.
    fn open_slot(&mut self, tunnel: TunnelId) -> Option<&mut TunnelSender> {
        let slot = self.slots.get_mut(tunnel.index())?.as_mut()?;
        (slot.close == CloseState::NotYet).then_some(slot)
    }
}
