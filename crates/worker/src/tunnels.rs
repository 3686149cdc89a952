//! The program's way to the network: connections to a port of the sandbox's loopback, relayed to the host byte for byte.
//!
//! This module neither reads what a program sends nor knows what it may reach: the host does both.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use ringfence_jail::inside::{self, Interest, Readiness};
use ringfence_wire::{FromChild, Inbound, MAX_TUNNELS, Outbound, TunnelError, TunnelEvent, TunnelId, TunnelReceivers};

/// The most bytes of one connection that are read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// A connection is read only when at least this much can be sent on: small frames would cost more than they carry.
const MIN_READ_BYTES: usize = 16 * 1024;

/// How often one connection is read before the others have their turn.
const MAX_READS_PER_TURN: usize = 4;

/// How many connections are accepted before the open ones have their turn.
const MAX_ACCEPTS_PER_TURN: usize = 16;

/// The port, and the connections that programs have made to it.
#[derive(Debug)]
pub(crate) struct TunnelListener {
    listener: TcpListener,
    open: BTreeMap<TunnelId, TunnelConnection>,
    /// Tunnels whose connections are gone but whose numbers are still in use.
    closing: Vec<TunnelId>,
    /// No descriptor was left for another connection: none is accepted until one is closed.
    exhausted: bool,
    buffer: Vec<u8>,
}

/// A connection that the program made.
#[derive(Debug)]
struct TunnelConnection {
    socket: TcpStream,
    /// Bytes for the program that its socket had no capacity for; those from index `given` on are unwritten.
    waiting: Vec<u8>,
    given: usize,
    /// The program has ended its direction.
    program_ended: bool,
    /// The host has ended its direction.
    host_ended: bool,
    /// The host has closed the tunnel: the connection ends once the waiting bytes are written.
    host_closed: bool,
}

/// Whether a connection is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TunnelLife {
    /// Bytes may still travel in one of the directions.
    Open,
    /// Both sides have ended it, and everything is written.
    Ended,
    /// The connection failed or was reset.
    Broken,
}

impl TunnelListener {
    /// Listens on `port`. Programs inherit neither the port nor its connections.
    pub(crate) fn listen(port: u16) -> io::Result<TunnelListener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        Ok(TunnelListener {
            listener,
            open: BTreeMap::new(),
            closing: Vec::new(),
            exhausted: false,
            buffer: vec![0; CHUNK_BYTES],
        })
    }

    /// Adds the port, then every connection in the order of its number, to the poll list.
    pub(crate) fn add_interests<'a>(
        &'a self,
        inbound: &Inbound,
        outbound: &Outbound,
        list: &mut Vec<Option<(BorrowedFd<'a>, Interest)>>,
    ) {
        let closing = self.closing.iter().filter(|one| in_use(**one, inbound, outbound));
        let takes = !self.exhausted && self.open.len() + closing.count() < MAX_TUNNELS;
        list.push(takes.then(|| (self.listener.as_fd(), Interest::Read)));
        list.extend(self.open.iter().map(|(tunnel, connection)| {
            let reads = !connection.program_ended && outbound.tunnels().available_capacity(*tunnel) >= MIN_READ_BYTES;
            let writes = !connection.waiting.is_empty();
            let interest = match (reads, writes) {
                (true, true) => Interest::ReadAndWrite,
                (true, false) => Interest::Read,
                (false, true) => Interest::Write,
                // An error or the end of such a connection can wait until one of the directions is active again.
                (false, false) => return None,
            };
            Some((connection.socket.as_fd(), interest))
        }));
    }

    /// Serves what is ready, in the order of [`add_interests`](Self::waits).
    pub(crate) fn serve_ready(&mut self, ready: &[Readiness], inbound: &mut Inbound, outbound: &mut Outbound) {
        let Some((port, connections)) = ready.split_first() else {
            return;
        };
        let mut over = Vec::new();
        for ((tunnel, connection), ready) in self.open.iter_mut().zip(connections) {
            let mut life = TunnelLife::Open;
            if ready.write && !connection.waiting.is_empty() {
                life = connection.write_waiting(*tunnel, inbound.tunnels_mut(), outbound);
            }
            if ready.read && life == TunnelLife::Open {
                life = connection.send_program_bytes(*tunnel, &mut self.buffer, outbound);
            }
            if life != TunnelLife::Open {
                over.push((*tunnel, life));
            }
        }
        for (tunnel, life) in over {
            self.remove(tunnel, life, outbound);
        }
        self.closing.retain(|one| in_use(*one, inbound, outbound));
        if port.read {
            self.accept(inbound, outbound);
        }
    }

    /// Handles a frame of a tunnel from the host. Returns how many bytes are consumed.
    pub(crate) fn handle_event(
        &mut self,
        tunnel: TunnelId,
        carried: TunnelEvent<'_>,
        outbound: &mut Outbound,
    ) -> Result<usize, TunnelError> {
        if let TunnelEvent::Credit(grant) = carried {
            outbound.tunnels_mut().add_credit(tunnel, grant)?;
            return Ok(0);
        }
        if carried == TunnelEvent::Close {
            outbound.tunnels_mut().reset(tunnel);
        }
        let Some(connection) = self.open.get_mut(&tunnel) else {
            // The frame was in flight when the program's connection went away.
            return Ok(0);
        };
        let (gone, life) = match carried {
            TunnelEvent::Data(bytes) => connection.write(bytes),
            TunnelEvent::End => {
                connection.host_ended = true;
                (0, connection.pass_on_end())
            }
            TunnelEvent::Close if connection.host_ended => {
                connection.host_closed = true;
                (0, connection.pass_on_end())
            }
            TunnelEvent::Close | TunnelEvent::Credit(_) => {
                // If this fails the program sees an ordinary end instead of a reset.
                let _ = inside::reset_when_closed(connection.socket.as_fd());
                (0, TunnelLife::Broken)
            }
        };
        if life != TunnelLife::Open {
            self.remove(tunnel, life, outbound);
        }
        Ok(gone)
    }

    /// Reads the program's final output, once the program is over, as far as the peer's credit allows.
    pub(crate) fn drain_final_output(&mut self, inbound: &mut Inbound, outbound: &mut Outbound) {
        self.accept(inbound, outbound);
        for (tunnel, connection) in &mut self.open {
            while !connection.program_ended && outbound.tunnels().allowance(*tunnel) > 0 {
                let room = outbound.tunnels().allowance(*tunnel).min(CHUNK_BYTES);
                match connection.socket.read(self.buffer.get_mut(..room).unwrap_or_default()) {
                    Ok(0) => {
                        connection.program_ended = true;
                        outbound.tunnels_mut().end_stream(*tunnel);
                    }
                    Ok(count) => {
                        let bytes = self.buffer.get(..count).unwrap_or_default();
                        outbound.tunnels_mut().queue_data(*tunnel, bytes);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// The tunnels that may still have queued frames.
    pub(crate) fn unfinished_tunnels(&self) -> impl Iterator<Item = TunnelId> {
        self.open.keys().chain(&self.closing).copied()
    }

    fn accept(&mut self, inbound: &mut Inbound, outbound: &mut Outbound) {
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            let free = |one: &TunnelId| !self.open.contains_key(one) && !in_use(*one, inbound, outbound);
            let Some(tunnel) = TunnelId::all().find(free) else {
                return;
            };
            if !outbound.can_queue_message() {
                return;
            }
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if is_transient(&error) => continue,
                Err(error) => {
                    self.exhausted = error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            };
            // Programs wait for small writes, so these go without Nagle's delay.
            if socket.set_nonblocking(true).is_err() || socket.set_nodelay(true).is_err() {
                continue;
            }
            let told = inbound.open_tunnel(tunnel).and_then(|()| outbound.open_tunnel(tunnel));
            if told.is_err() || outbound.queue_message(&FromChild::Open { tunnel }).is_err() {
                return;
            }
            self.open.insert(tunnel, TunnelConnection::new(socket));
        }
    }

    fn remove(&mut self, tunnel: TunnelId, life: TunnelLife, outbound: &mut Outbound) {
        if self.open.remove(&tunnel).is_none() {
            return;
        }
        match life {
            TunnelLife::Broken => outbound.tunnels_mut().reset(tunnel),
            TunnelLife::Ended | TunnelLife::Open => outbound.tunnels_mut().close(tunnel),
        }
        self.closing.push(tunnel);
        self.exhausted = false;
    }
}

impl TunnelConnection {
    fn new(socket: TcpStream) -> TunnelConnection {
        TunnelConnection {
            socket,
            waiting: Vec::new(),
            given: 0,
            program_ended: false,
            host_ended: false,
            host_closed: false,
        }
    }

    /// Writes the host's bytes to the program as far as its socket has capacity, and keeps the rest. Returns how many were written.
    fn write(&mut self, bytes: &[u8]) -> (usize, TunnelLife) {
        let mut written = 0;
        while self.waiting.is_empty() && written < bytes.len() {
            match self.socket.write(bytes.get(written..).unwrap_or_default()) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return (0, TunnelLife::Broken),
            }
        }
        self.waiting.extend_from_slice(bytes.get(written..).unwrap_or_default());
        (written, TunnelLife::Open)
    }

    /// Writes waiting bytes to the program as far as its socket has capacity.
    fn write_waiting(
        &mut self,
        tunnel: TunnelId,
        arriving: &mut TunnelReceivers,
        outbound: &mut Outbound,
    ) -> TunnelLife {
        match self.socket.write(self.waiting.get(self.given..).unwrap_or_default()) {
            Ok(count) => {
                self.given += count;
                if let Some(grant) = arriving.mark_consumed(tunnel, count) {
                    outbound.tunnels_mut().queue_grant(tunnel, grant);
                }
            }
            Err(error) if is_transient(&error) || error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return TunnelLife::Broken,
        }
        if self.given == self.waiting.len() {
            self.waiting = Vec::new();
            self.given = 0;
        }
        self.pass_on_end()
    }

    /// Sends the program's bytes on to the host.
    fn send_program_bytes(&mut self, tunnel: TunnelId, buffer: &mut [u8], outbound: &mut Outbound) -> TunnelLife {
        for _ in 0..MAX_READS_PER_TURN {
            let room = outbound.tunnels().available_capacity(tunnel).min(CHUNK_BYTES);
            if self.program_ended || room < MIN_READ_BYTES {
                return TunnelLife::Open;
            }
            match self.socket.read(buffer.get_mut(..room).unwrap_or_default()) {
                Ok(0) => {
                    self.program_ended = true;
                    outbound.tunnels_mut().end_stream(tunnel);
                    return self.pass_on_end();
                }
                Ok(count) => {
                    outbound
                        .tunnels_mut()
                        .queue_data(tunnel, buffer.get(..count).unwrap_or_default());
                    if count < room {
                        return TunnelLife::Open;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return TunnelLife::Open,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return TunnelLife::Broken,
            }
        }
        TunnelLife::Open
    }

    /// Passes the host's end on to the program, once everything is written.
    fn pass_on_end(&mut self) -> TunnelLife {
        if !self.host_ended || !self.waiting.is_empty() {
            return TunnelLife::Open;
        }
        if self.host_closed || self.program_ended {
            return TunnelLife::Ended;
        }
        match self.socket.shutdown(Shutdown::Write) {
            Ok(()) => TunnelLife::Open,
            Err(_) => TunnelLife::Broken,
        }
    }
}

/// Whether one of the sides has not yet closed the tunnel.
fn in_use(tunnel: TunnelId, inbound: &Inbound, outbound: &Outbound) -> bool {
    inbound.tunnels().is_open(tunnel) || outbound.tunnels().is_open(tunnel)
}

/// Whether an error concerns only this connection or this attempt.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
