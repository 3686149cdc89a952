//! What this side sends through tunnels: they take turns, none sends what was not granted, and what nobody wants any more is
//! dropped where it waits.

use std::collections::VecDeque;

use crate::frame::Kind;
use crate::sending::{self, Sending, State, Turn};
use crate::tunnel::{TUNNELS_MAX, TunnelError, TunnelId};

/// The sending halves of all tunnels. Takes no memory until the first is opened.
#[derive(Debug, Default)]
pub struct Leaving {
    slots: Vec<Option<Slot>>,
    /// Those that would use a turn, each once.
    ready: VecDeque<TunnelId>,
    /// Those with a grant that waits.
    owing: Vec<TunnelId>,
    /// What the peer may still grant to those whose close has left: grants that were under way then, and no more.
    late: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    sending: Sending,
    /// The grant for the peer that waits.
    owed: u32,
    close: Close,
    /// What the peer may still grant once it is closed without an end.
    late: u32,
    /// Whether it is among the ready.
    listed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    NotYet,
    /// When everything before is gone.
    AfterEnd,
    Now,
}

impl Slot {
    fn ready(&self) -> bool {
        self.is_last() || self.sending.ready()
    }

    /// Drops what waits, and remembers what of the rest the peer may still grant.
    fn drop_all(&mut self) {
        if self.close != Close::Now {
            self.late = self.sending.ungranted();
        }
        self.sending = Sending::new(State::NotOurs);
        self.close = Close::Now;
    }

    /// What the peer may still grant after the close.
    fn late(&self) -> u32 {
        match self.close {
            Close::Now => self.late,
            Close::NotYet | Close::AfterEnd => self.sending.ungranted(),
        }
    }

    /// Whether all there is to say is the close.
    fn is_last(&self) -> bool {
        match self.close {
            Close::Now => true,
            Close::AfterEnd => self.sending.state == State::Ended,
            Close::NotYet => false,
        }
    }
}

impl Leaving {
    /// Queues as many bytes as there is room for, and says how many: none once the tunnel is ended or closed.
    pub fn data(&mut self, tunnel: TunnelId, bytes: &[u8]) -> usize {
        let Some(slot) = self.living(tunnel) else { return 0 };
        if slot.sending.state != State::Open {
            return 0;
        }
        let count = slot.sending.push(bytes);
        self.list(tunnel);
        count
    }

    /// How many bytes [`data`](Self::data) would take now.
    pub fn room(&self, tunnel: TunnelId) -> usize {
        match self.slot(tunnel) {
            Some(slot) if slot.close == Close::NotYet => slot.sending.room(),
            Some(_) | None => 0,
        }
    }

    /// How many bytes could leave without waiting for the peer's credit.
    pub fn allowance(&self, tunnel: TunnelId) -> usize {
        self.slot(tunnel)
            .map_or(0, |slot| slot.sending.allowance())
            .min(self.room(tunnel))
    }

    /// No more bytes will come; what is queued goes first.
    pub fn end(&mut self, tunnel: TunnelId) {
        if let Some(slot) = self.living(tunnel)
            && slot.sending.state == State::Open
        {
            slot.sending.state = State::Ending;
            self.list(tunnel);
        }
    }

    /// Nothing more will be said of it. What was ended goes first; what was not is dropped, and the peer sees a reset.
    pub fn close(&mut self, tunnel: TunnelId) {
        let Some(slot) = self.living(tunnel) else { return };
        match slot.sending.state {
            State::Ending | State::Ended => slot.close = Close::AfterEnd,
            State::NotOurs | State::Open => slot.drop_all(),
        }
        self.forgive(tunnel);
        self.list(tunnel);
    }

    /// The same at once: what waits is dropped, what was ended too.
    pub fn reset(&mut self, tunnel: TunnelId) {
        let Some(Some(slot)) = self.slots.get_mut(tunnel.index()) else {
            return;
        };
        slot.drop_all();
        self.forgive(tunnel);
        self.list(tunnel);
    }

    /// The peer grants more: for what [`Carried::Credit`](crate::Carried::Credit) brought. Of no use to a tunnel that this side
    /// has closed, but counted there too: nobody grants more than was sent.
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

    /// Queues a grant for the peer: for what [`Arriving::consumed`](crate::Arriving::consumed) answered.
    pub fn grant(&mut self, tunnel: TunnelId, grant: u32) {
        let Some(slot) = self.living(tunnel) else { return };
        let waits = slot.owed > 0;
        slot.owed = slot.owed.saturating_add(grant);
        if !waits {
            self.owing.push(tunnel);
        }
    }

    /// Whether this side has not yet said its last of this tunnel.
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

    /// Adds the grants that wait.
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

    /// Sends the next frame of the tunnel whose turn it is along; answers which tunnel that was.
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
            // It had no turn yet.
            Turn::Waits => {
                slot.listed = true;
                self.ready.push_front(tunnel);
            }
            // Its next turn comes when its block is back.
            Turn::Lent(_) => {}
            Turn::Passed | Turn::Added => self.list(tunnel),
        }
        (turn, Some(tunnel))
    }

    /// The block of a tunnel has flown as far as `stop`: what is behind it is next, unless nobody wants it any more.
    pub(crate) fn give_back(&mut self, tunnel: TunnelId, bytes: Vec<u8>, stop: usize) {
        if stop < bytes.len()
            && let Some(Some(slot)) = self.slots.get_mut(tunnel.index())
            && slot.close != Close::Now
        {
            slot.sending.give_back(bytes, stop);
        }
        self.list(tunnel);
    }

    /// Puts it among the ready, if it is.
    fn list(&mut self, tunnel: TunnelId) {
        if let Some(Some(slot)) = self.slots.get_mut(tunnel.index())
            && !slot.listed
            && slot.ready()
        {
            slot.listed = true;
            self.ready.push_back(tunnel);
        }
    }

    /// A tunnel that is being closed gets no more grants.
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

    /// The tunnel, unless it is being closed.
    fn living(&mut self, tunnel: TunnelId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(tunnel.index())?.as_mut()?;
        (slot.close == Close::NotYet).then_some(slot)
    }
}
