//! Moves bytes and events between an execution's pipe and the tunnels that were handed out: what the program opens, sends
//! and ends, and what the holder of a tunnel writes, reads and drops.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ringfence_wire::{Inbound, Outbound, ProtocolError, TunnelError, TunnelEvent, TunnelId, TunnelSenders};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::tunnel::{ProgramTunnel, TunnelChannel, TunnelNotifier};

/// The open tunnels of one execution.
#[derive(Debug)]
pub(crate) struct OpenTunnels {
    notifier: Arc<TunnelNotifier>,
    /// Channels that may still have something to send.
    channels: BTreeMap<TunnelId, Arc<TunnelChannel>>,
    /// Channels with bytes that do not fit into the pipe.
    stalled: Vec<Arc<TunnelChannel>>,
    offered: mpsc::Sender<ProgramTunnel>,
    /// Tunnels that the handler has no capacity for yet.
    waiting: VecDeque<ProgramTunnel>,
}

/// The state of a channel after it was served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TunnelProgress {
    /// Everything that was there is on its way.
    Done,
    /// Some bytes wait for capacity in the pipe.
    Stalled,
    /// The tunnel was dropped, and everything was sent.
    Over,
}

impl OpenTunnels {
    pub(crate) fn new(offered: mpsc::Sender<ProgramTunnel>) -> OpenTunnels {
        OpenTunnels {
            notifier: Arc::default(),
            channels: BTreeMap::new(),
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
        inbound.open_tunnel(tunnel)?;
        outbound.open_tunnel(tunnel)?;
        let line = TunnelChannel::new(tunnel, &self.notifier);
        if let Some(before) = self.channels.insert(tunnel, Arc::clone(&line)) {
            before.release();
        }
        self.waiting.push_back(ProgramTunnel::new(line));
        Ok(())
    }

    /// Handles an event of a tunnel that came from the program.
    pub(crate) fn handle_event(
        &mut self,
        tunnel: TunnelId,
        carried: TunnelEvent<'_>,
        leaving: &mut TunnelSenders,
    ) -> Result<(), TunnelError> {
        // An event of a tunnel that was dropped here may still be in transit.
        let line = self.channels.get(&tunnel);
        match carried {
            TunnelEvent::Data(bytes) => {
                if let Some(line) = line {
                    line.push_incoming(bytes);
                }
            }
            TunnelEvent::End => {
                if let Some(line) = line {
                    line.end_incoming();
                }
            }
            TunnelEvent::Credit(grant) => leaving.add_credit(tunnel, grant)?,
            // The number stays in use while the tunnel is held: so there are never more tunnels than numbers.
            TunnelEvent::Close => match line {
                Some(line) => line.close_by_program(),
                None => leaving.reset(tunnel),
            },
        }
        Ok(())
    }

    /// Moves what the holders of tunnels have done since the last time.
    pub(crate) fn serve(&mut self, inbound: &mut Inbound, outbound: &mut Outbound) {
        self.offer_waiting();
        let mut lines = std::mem::take(&mut self.stalled);
        lines.extend(self.notifier.take_pending());
        for line in lines {
            let current = self.channels.get(&line.tunnel);
            if !current.is_some_and(|known| Arc::ptr_eq(known, &line)) {
                continue;
            }
            match serve_channel(&line, inbound, outbound) {
                TunnelProgress::Done => {}
                TunnelProgress::Stalled => self.stalled.push(line),
                TunnelProgress::Over => {
                    line.release();
                    self.channels.remove(&line.tunnel);
                }
            }
        }
    }

    /// Waits until there is something to [`serve`](Self::serve). The future can be dropped at any time without loss.
    pub(crate) async fn wait_for_work(&self) {
        tokio::select! {
            () = self.notifier.wait_for_pending() => {}
            _ = self.offered.reserve(), if !self.waiting.is_empty() => {}
        }
    }

    fn offer_waiting(&mut self) {
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

impl Drop for OpenTunnels {
    fn drop(&mut self) {
        for line in self.channels.values() {
            line.release();
        }
        // The pending channels hold the notifier, which holds them.
        drop(self.notifier.take_pending());
    }
}

fn serve_channel(line: &TunnelChannel, inbound: &mut Inbound, outbound: &mut Outbound) -> TunnelProgress {
    let tunnel = line.tunnel;
    let mut lanes = line.lock_buffers();
    lanes.clear_pending();
    let read = std::mem::take(&mut lanes.read);
    if read > 0
        && let Some(grant) = inbound.tunnels_mut().mark_consumed(tunnel, read)
    {
        outbound.tunnels_mut().queue_grant(tunnel, grant);
    }
    let leaving = outbound.tunnels_mut();
    if lanes.closed {
        if !lanes.dropped {
            return TunnelProgress::Done;
        }
        leaving.reset(tunnel);
        return TunnelProgress::Over;
    }
    if !lanes.outgoing.is_empty() && (lanes.shut || !lanes.dropped) {
        let taken = leaving.queue_data(tunnel, &lanes.outgoing);
        lanes.outgoing.drain(..taken);
        if taken > 0 {
            lanes.wake_writer();
        }
        if !lanes.outgoing.is_empty() {
            return TunnelProgress::Stalled;
        }
    }
    if lanes.shut {
        leaving.end_stream(tunnel);
    }
    if lanes.dropped {
        leaving.close(tunnel);
        return TunnelProgress::Over;
    }
    TunnelProgress::Done
}
