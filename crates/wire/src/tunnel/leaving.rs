//! The sending halves of tunnels. Tunnels take turns, none exceeds its grants, and a reset drops what is queued.

use std::collections::VecDeque;

use crate::frame::Kind;
use crate::sending::{self, Sending, State, Turn};
use crate::tunnel::{TUNNELS_MAX, TunnelError, TunnelId};

/// The sending halves of all tunnels. This takes no memory until the first tunnel is opened.
#[derive(Debug, Default)]
pub struct Leaving {
    slots: Vec<Option<Slot>>,
    /// The tunnels that would use a turn, each once.
    ready: VecDeque<TunnelId>,
    /// The tunnels with a queued grant.
    owing: Vec<TunnelId>,
    /// What the peer may still grant to each tunnel whose close was sent: the grants that were in flight then.
    late: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    sending: Sending,
    /// The queued grant for the peer.
    owed: u32,
    close: Close,
    /// What the peer may still grant after a close without an end.
    late: u32,
    /// Whether the tunnel is in the list of those with a turn.
    listed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    NotYet,
    /// The close follows the end, once everything queued is sent.
    AfterEnd,
    Now,
}

impl Slot {
    fn ready(&self) -> bool {
        self.is_last() || self.sending.ready()
    }

    /// Drops the queued bytes, and notes how much of the sent bytes the peer may still grant.
    fn drop_all(&mut self) {
        if self.close != Close::Now {
            self.late = self.sending.ungranted();
        }
        self.sending = Sending::new(State::NotOurs);
        self.close = Close::Now;
    }

    /// What the peer may still grant after the close is sent.
    fn late(&self) -> u32 {
        match self.close {
            Close::Now => self.late,
            Close::NotYet | Close::AfterEnd => self.sending.ungranted(),
        }
    }

    /// Whether the close is all that is left to send.
    fn is_last(&self) -> bool {
        match self.close {
            Close::Now => true,
            Close::AfterEnd => self.sending.state == State::Ended,
            Close::NotYet => false,
        }
    }
}

impl Leaving {
    /// Queues as many bytes as there is capacity for, and returns how many: none once the tunnel is ended or closed.
    pub fn data(&mut self, tunnel: TunnelId, bytes: &[u8]) -> usize {
        let Some(slot) = self.living(tunnel) else { return 0 };
        if slot.sending.state != State::Open {
            return 0;
        }
        let count = slot.sending.push(bytes);
        self.list(tunnel);
        count
    }

    /// How many bytes [`data`](Self::data) would queue now.
    pub fn room(&self, tunnel: TunnelId) -> usize {
        match self.slot(tunnel) {
            Some(slot) if slot.close == Close::NotYet => slot.sending.room(),
            Some(_) | None => 0,
        }
    }

    /// How many more bytes can be queued that need no new credit from the peer.
    pub fn allowance(&self, tunnel: TunnelId) -> usize {
        self.slot(tunnel)
            .map_or(0, |slot| slot.sending.allowance())
            .min(self.room(tunnel))
    }

    /// Ends this side's direction. The queued bytes go first.
    pub fn end(&mut self, tunnel: TunnelId) {
        if let Some(slot) = self.living(tunnel)
            && slot.sending.state == State::Open
        {
            slot.sending.state = State::Ending;
            self.list(tunnel);
        }
    }

    /// Closes the tunnel. If this side has ended it, the queued bytes go first; if not, they are dropped, and the peer
    /// sees a reset.
    pub fn close(&mut self, tunnel: TunnelId) {
        let Some(slot) = self.living(tunnel) else { return };
        match slot.sending.state {
            State::Ending | State::Ended => slot.close = Close::AfterEnd,
            State::NotOurs | State::Open => slot.drop_all(),
        }
        self.forgive(tunnel);
        self.list(tunnel);
    }

    /// Closes the tunnel at once: the queued bytes are dropped, even if this side has ended it.
    pub fn reset(&mut self, tunnel: TunnelId) {
        let Some(Some(slot)) = self.slots.get_mut(tunnel.index()) else {
            return;
        };
        slot.drop_all();
        self.forgive(tunnel);
        self.list(tunnel);
    }

    /// Adds a grant of the peer, received as [`Carried::Credit`](crate::Carried::Credit). On a tunnel that this side
    /// has closed it has no use, but is still counted: a peer cannot grant more than was sent.
    pub fn credit(&mut self, tunnel: TunnelId, grant: u32) -> Result<(), TunnelError> {
        let bad = TunnelError::BadGrant { tunnel, grant };
        let late = match self.slots.get_mut(tunnel.index()) {
            Some(Some(slot)) if slot.close == Close::Now => &mut slot.late,
            Some(Some(slot)) => {
                if !slot.sending.add_credit(grant) {
                    return Err(bad);
                }
                self.list(tunnel);
                return Ok(());
            }
            Some(None) | None => self.late.get_mut(tunnel.index()).ok_or(bad)?,
        };
        *late = late.checked_sub(grant).ok_or(bad)?;
        Ok(())
    }

    /// Queues a grant for the peer, returned by [`Arriving::consumed`](crate::Arriving::consumed).
    pub fn grant(&mut self, tunnel: TunnelId, grant: u32) {
        let Some(slot) = self.living(tunnel) else { return };
        let waits = slot.owed > 0;
        slot.owed = slot.owed.saturating_add(grant);
        if !waits {
            self.owing.push(tunnel);
        }
    }

    /// Whether the tunnel is open and this side has not sent the close.
    pub fn is_open(&self, tunnel: TunnelId) -> bool {
        self.slot(tunnel).is_some()
    }

    pub(crate) fn open(&mut self, tunnel: TunnelId) -> Result<(), TunnelError> {
        if self.slots.is_empty() {
            self.slots.resize_with(TUNNELS_MAX, || None);
            self.late.resize(TUNNELS_MAX, 0);
        }
        match self.slots.get_mut(tunnel.index()) {
            Some(slot @ None) => {
                *slot = Some(Slot {
                    sending: Sending::new(State::Open),
                    owed: 0,
                    close: Close::NotYet,
                    late: 0,
                    listed: false,
                });
                Ok(())
            }
            Some(Some(_)) | None => Err(TunnelError::InUse { tunnel }),
        }
    }

    pub(crate) fn pending(&self) -> bool {
        !self.ready.is_empty() || !self.owing.is_empty()
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.slots.iter().flatten().all(|slot| slot.sending.is_flushed())
    }

    /// Adds the queued grants to the batch.
    pub(crate) fn add_grants(&mut self, flight: &mut Vec<u8>) {
        for tunnel in self.owing.drain(..) {
            if let Some(Some(slot)) = self.slots.get_mut(tunnel.index()) {
                let grant = std::mem::take(&mut slot.owed);
                if grant > 0 {
                    sending::add_grant(tunnel.id(), grant, flight);
                }
            }
        }
    }

    /// Sends the next frame of the tunnel whose turn it is, and returns that tunnel.
    pub(crate) fn take_turn(&mut self, flight: &mut Vec<u8>) -> (Turn, Option<TunnelId>) {
        let Some(tunnel) = self.ready.pop_front() else {
            return (Turn::Passed, None);
        };
        let Some(Some(slot)) = self.slots.get_mut(tunnel.index()) else {
            return (Turn::Passed, None);
        };
        if slot.is_last() {
            if !sending::add_empty(tunnel.id(), Kind::Close, flight) {
                self.ready.push_front(tunnel);
                return (Turn::Waits, None);
            }
            let late = slot.late();
            if let Some(place) = self.late.get_mut(tunnel.index()) {
                *place = late;
            }
            if let Some(place) = self.slots.get_mut(tunnel.index()) {
                *place = None;
            }
            return (Turn::Added, None);
        }
        slot.listed = false;
        let turn = slot.sending.take_turn(tunnel.id(), flight);
        match turn {
            // The frame did not fit, so it is still the tunnel's turn.
            Turn::Waits => {
                slot.listed = true;
                self.ready.push_front(tunnel);
            }
            // The tunnel gets its next turn when its block returns.
            Turn::Lent(_) => {}
            Turn::Passed | Turn::Added => self.list(tunnel),
        }
        (turn, Some(tunnel))
    }

    /// Returns a block that was written up to `stop`: the bytes after `stop` are next, unless the tunnel is reset.
    pub(crate) fn give_back(&mut self, tunnel: TunnelId, bytes: Vec<u8>, stop: usize) {
        if stop < bytes.len()
            && let Some(Some(slot)) = self.slots.get_mut(tunnel.index())
            && slot.close != Close::Now
        {
            slot.sending.give_back(bytes, stop);
        }
        self.list(tunnel);
    }

    /// Lists the tunnel if it would use a turn and is not listed yet.
    fn list(&mut self, tunnel: TunnelId) {
        if let Some(Some(slot)) = self.slots.get_mut(tunnel.index())
            && !slot.listed
            && slot.ready()
        {
            slot.listed = true;
            self.ready.push_back(tunnel);
        }
    }

    /// Drops the queued grant of a tunnel that is being closed.
    fn forgive(&mut self, tunnel: TunnelId) {
        if let Some(Some(slot)) = self.slots.get_mut(tunnel.index())
            && std::mem::take(&mut slot.owed) > 0
        {
            self.owing.retain(|one| *one != tunnel);
        }
    }

    fn slot(&self, tunnel: TunnelId) -> Option<&Slot> {
        self.slots.get(tunnel.index())?.as_ref()
    }

    /// The tunnel's slot, or `None` if it is closed or being closed.
    fn living(&mut self, tunnel: TunnelId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(tunnel.index())?.as_mut()?;
        (slot.close == Close::NotYet).then_some(slot)
    }
}
