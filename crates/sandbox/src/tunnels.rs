//! Moves bytes and events between an execution's pipe and the tunnels that were handed out: what the program opens, sends
//! and ends, and what the holder of a tunnel writes, reads and drops.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ringfence_wire::{Carried, Inbound, Leaving, Outbound, ProtocolError, TunnelError, TunnelId};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::tunnel::{Board, Line, Tunnel};

/// The open tunnels of one execution.
#[derive(Debug)]
pub(crate) struct Tunnels {
    board: Arc<Board>,
    /// Channels that may still have something to send.
    lines: BTreeMap<TunnelId, Arc<Line>>,
    /// Channels with bytes that do not fit into the pipe.
    stalled: Vec<Arc<Line>>,
    offered: mpsc::Sender<Tunnel>,
    /// Tunnels that the handler has no capacity for yet.
    waiting: VecDeque<Tunnel>,
}

/// The state of a channel after it was served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Everything that was there is on its way.
    Done,
    /// Some bytes wait for capacity in the pipe.
    Stalled,
    /// The tunnel was dropped, and everything was sent.
    Over,
}

impl Tunnels {
    pub(crate) fn new(offered: mpsc::Sender<Tunnel>) -> Tunnels {
        Tunnels {
            board: Arc::default(),
            lines: BTreeMap::new(),
            stalled: Vec::new(),
            offered,
            waiting: VecDeque::new(),
        }
    }

    /// Opens the tunnel of a connection that the program made.
    pub(crate) fn open(
        &mut self,
        tunnel: TunnelId,
        inbound: &mut Inbound,
        outbound: &mut Outbound,
    ) -> Result<(), ProtocolError> {
        inbound.open(tunnel)?;
        outbound.open(tunnel)?;
        let line = Line::new(tunnel, &self.board);
        if let Some(before) = self.lines.insert(tunnel, Arc::clone(&line)) {
            before.finish();
        }
        self.waiting.push_back(Tunnel::new(line));
        Ok(())
    }

    /// Handles an event of a tunnel that came from the program.
    pub(crate) fn hear(
        &mut self,
        tunnel: TunnelId,
        carried: Carried<'_>,
        leaving: &mut Leaving,
    ) -> Result<(), TunnelError> {
        // An event of a tunnel that was dropped here may still be in transit.
        let line = self.lines.get(&tunnel);
        match carried {
            Carried::Data(bytes) => {
                if let Some(line) = line {
                    line.arrive(bytes);
                }
            }
            Carried::End => {
                if let Some(line) = line {
                    line.end();
                }
            }
            Carried::Credit(grant) => leaving.credit(tunnel, grant)?,
            // The number stays in use while the tunnel is held: so there are never more tunnels than numbers.
            Carried::Close => match line {
                Some(line) => line.close(),
                None => leaving.reset(tunnel),
            },
        }
        Ok(())
    }

    /// Moves what the holders of tunnels have done since the last time.
    pub(crate) fn serve(&mut self, inbound: &mut Inbound, outbound: &mut Outbound) {
        self.hand_over();
        let mut lines = std::mem::take(&mut self.stalled);
        lines.extend(self.board.take());
        for line in lines {
            let current = self.lines.get(&line.tunnel);
            if !current.is_some_and(|known| Arc::ptr_eq(known, &line)) {
                continue;
            }
            match look(&line, inbound, outbound) {
                Look::Done => {}
                Look::Stalled => self.stalled.push(line),
                Look::Over => {
                    line.finish();
                    self.lines.remove(&line.tunnel);
                }
            }
        }
    }

    /// Waits until there is something to [`serve`](Self::serve). The future can be dropped at any time without loss.
    pub(crate) async fn stirs(&self) {
        tokio::select! {
            () = self.board.stirs() => {}
            _ = self.offered.reserve(), if !self.waiting.is_empty() => {}
        }
    }

    fn hand_over(&mut self) {
        while let Some(tunnel) = self.waiting.pop_front() {
            match self.offered.try_send(tunnel) {
                Ok(()) => {}
                Err(TrySendError::Full(tunnel)) => {
                    self.waiting.push_front(tunnel);
                    return;
                }
                // The handler is gone: dropping the tunnel is a reset for the program.
                Err(TrySendError::Closed(tunnel)) => drop(tunnel),
            }
        }
    }
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        for line in self.lines.values() {
            line.finish();
        }
        // The pending channels hold the notifier, which holds them.
        drop(self.board.take());
    }
}

fn look(line: &Line, inbound: &mut Inbound, outbound: &mut Outbound) -> Look {
    let tunnel = line.tunnel;
    let mut lanes = line.lanes();
    lanes.settle();
    let read = std::mem::take(&mut lanes.read);
    if read > 0
        && let Some(grant) = inbound.tunnels_mut().consumed(tunnel, read)
    {
        outbound.tunnels_mut().grant(tunnel, grant);
    }
    let leaving = outbound.tunnels_mut();
    if lanes.closed {
        if !lanes.dropped {
            return Look::Done;
        }
        leaving.reset(tunnel);
        return Look::Over;
    }
    if !lanes.leaving.is_empty() && (lanes.shut || !lanes.dropped) {
        let taken = leaving.data(tunnel, &lanes.leaving);
        lanes.leaving.drain(..taken);
        if taken > 0 {
            lanes.wake_writer();
        }
        if !lanes.leaving.is_empty() {
            return Look::Stalled;
        }
    }
    if lanes.shut {
        leaving.end(tunnel);
    }
    if lanes.dropped {
        leaving.close(tunnel);
        return Look::Over;
    }
    Look::Done
}
