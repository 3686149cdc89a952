//! The program's way to the network: connections to a port of the sandbox's loopback, relayed to the host byte for byte.
//!
//! This module neither reads what a program sends nor knows what it may reach: the host does both.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use ringfence_jail::inside::{self, Interest, Readiness};
use ringfence_wire::{Arriving, Carried, FromChild, Inbound, Outbound, TUNNELS_MAX, TunnelError, TunnelId};

/// The most bytes of one connection that are read at a time.
const CHUNK: usize = 64 * 1024;

/// A connection is read only when at least this much can be sent on: small frames would cost more than they carry.
const WORTHWHILE: usize = 16 * 1024;

/// How often one connection is read before the others have their turn.
const READS: usize = 4;

/// How many connections are accepted before the open ones have their turn.
const ACCEPTS: usize = 16;

/// The port, and the connections that programs have made to it.
#[derive(Debug)]
pub(crate) struct Tunnels {
    listener: TcpListener,
    open: BTreeMap<TunnelId, Connection>,
    /// Tunnels whose connections are gone but whose numbers are still in use.
    closing: Vec<TunnelId>,
    /// No descriptor was left for another connection: none is accepted until one is closed.
    exhausted: bool,
    buffer: Vec<u8>,
}

/// A connection that the program made.
#[derive(Debug)]
struct Connection {
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
enum Life {
    /// Bytes may still travel in one of the directions.
    Goes,
    /// Both sides have ended it, and everything is written.
    Over,
    /// The connection failed or was reset.
    Broken,
}

impl Tunnels {
    /// Listens on `port`. Programs inherit neither the port nor its connections.
    pub(crate) fn listen(port: u16) -> io::Result<Tunnels> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        Ok(Tunnels {
            listener,
            open: BTreeMap::new(),
            closing: Vec::new(),
            exhausted: false,
            buffer: vec![0; CHUNK],
        })
    }

    /// Adds the port, then every connection in the order of its number, to the poll list.
    pub(crate) fn waits<'a>(
        &'a self,
        inbound: &Inbound,
        outbound: &Outbound,
        list: &mut Vec<Option<(BorrowedFd<'a>, Interest)>>,
    ) {
        let closing = self.closing.iter().filter(|one| in_use(**one, inbound, outbound));
        let takes = !self.exhausted && self.open.len() + closing.count() < TUNNELS_MAX;
        list.push(takes.then(|| (self.listener.as_fd(), Interest::Read)));
        list.extend(self.open.iter().map(|(tunnel, connection)| {
            let reads = !connection.program_ended && outbound.tunnels().room(*tunnel) >= WORTHWHILE;
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

    /// Serves what is ready, in the order of [`waits`](Self::waits).
    pub(crate) fn turn(&mut self, ready: &[Readiness], inbound: &mut Inbound, outbound: &mut Outbound) {
        let Some((port, connections)) = ready.split_first() else {
            return;
        };
        let mut over = Vec::new();
        for ((tunnel, connection), ready) in self.open.iter_mut().zip(connections) {
            let mut life = Life::Goes;
            if ready.write && !connection.waiting.is_empty() {
                life = connection.give(*tunnel, inbound.tunnels_mut(), outbound);
            }
            if ready.read && life == Life::Goes {
                life = connection.take(*tunnel, &mut self.buffer, outbound);
            }
            if life != Life::Goes {
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
    pub(crate) fn hear(
        &mut self,
        tunnel: TunnelId,
        carried: Carried<'_>,
        outbound: &mut Outbound,
    ) -> Result<usize, TunnelError> {
        if let Carried::Credit(grant) = carried {
            outbound.tunnels_mut().credit(tunnel, grant)?;
            return Ok(0);
        }
        if carried == Carried::Close {
            outbound.tunnels_mut().reset(tunnel);
        }
        let Some(connection) = self.open.get_mut(&tunnel) else {
            // The frame was in flight when the program's connection went away.
            return Ok(0);
        };
        let (gone, life) = match carried {
            Carried::Data(bytes) => connection.write(bytes),
            Carried::End => {
                connection.host_ended = true;
                (0, connection.settle())
            }
            Carried::Close if connection.host_ended => {
                connection.host_closed = true;
                (0, connection.settle())
            }
            Carried::Close | Carried::Credit(_) => {
                // If this fails the program sees an ordinary end instead of a reset.
                let _ = inside::reset_when_closed(connection.socket.as_fd());
                (0, Life::Broken)
            }
        };
        if life != Life::Goes {
            self.remove(tunnel, life, outbound);
        }
        Ok(gone)
    }

    /// Reads the program's final output, once the program is over, as far as the peer's credit allows.
    pub(crate) fn take_last_words(&mut self, inbound: &mut Inbound, outbound: &mut Outbound) {
        self.accept(inbound, outbound);
        for (tunnel, connection) in &mut self.open {
            while !connection.program_ended && outbound.tunnels().allowance(*tunnel) > 0 {
                let room = outbound.tunnels().allowance(*tunnel).min(CHUNK);
                match connection.socket.read(self.buffer.get_mut(..room).unwrap_or_default()) {
                    Ok(0) => {
                        connection.program_ended = true;
                        outbound.tunnels_mut().end(*tunnel);
                    }
                    Ok(count) => {
                        let bytes = self.buffer.get(..count).unwrap_or_default();
                        outbound.tunnels_mut().data(*tunnel, bytes);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// The tunnels that may still have queued frames.
    pub(crate) fn left(&self) -> impl Iterator<Item = TunnelId> {
        self.open.keys().chain(&self.closing).copied()
    }

    fn accept(&mut self, inbound: &mut Inbound, outbound: &mut Outbound) {
        for _ in 0..ACCEPTS {
            let free = |one: &TunnelId| !self.open.contains_key(one) && !in_use(*one, inbound, outbound);
            let Some(tunnel) = TunnelId::all().find(free) else {
                return;
            };
            if !outbound.takes_control() {
                return;
            }
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if is_passing(&error) => continue,
                Err(error) => {
                    self.exhausted = error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            };
            // Programs wait for small writes, so these go without Nagle's delay.
            if socket.set_nonblocking(true).is_err() || socket.set_nodelay(true).is_err() {
                continue;
            }
            let told = inbound.open(tunnel).and_then(|()| outbound.open(tunnel));
            if told.is_err() || outbound.control(&FromChild::Open { tunnel }).is_err() {
                return;
            }
            self.open.insert(tunnel, Connection::new(socket));
        }
    }

    fn remove(&mut self, tunnel: TunnelId, life: Life, outbound: &mut Outbound) {
        if self.open.remove(&tunnel).is_none() {
            return;
        }
        match life {
            Life::Broken => outbound.tunnels_mut().reset(tunnel),
            Life::Over | Life::Goes => outbound.tunnels_mut().close(tunnel),
        }
        self.closing.push(tunnel);
        self.exhausted = false;
    }
}

impl Connection {
    fn new(socket: TcpStream) -> Connection {
        Connection {
            socket,
            waiting: Vec::new(),
            given: 0,
            program_ended: false,
            host_ended: false,
            host_closed: false,
        }
    }

    /// Writes the host's bytes to the program as far as its socket has capacity, and keeps the rest. Returns how many were written.
    fn write(&mut self, bytes: &[u8]) -> (usize, Life) {
        let mut written = 0;
        while self.waiting.is_empty() && written < bytes.len() {
            match self.socket.write(bytes.get(written..).unwrap_or_default()) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return (0, Life::Broken),
            }
        }
        self.waiting.extend_from_slice(bytes.get(written..).unwrap_or_default());
        (written, Life::Goes)
    }

    /// Writes waiting bytes to the program as far as its socket has capacity.
    fn give(&mut self, tunnel: TunnelId, arriving: &mut Arriving, outbound: &mut Outbound) -> Life {
        match self.socket.write(self.waiting.get(self.given..).unwrap_or_default()) {
            Ok(count) => {
                self.given += count;
                if let Some(grant) = arriving.consumed(tunnel, count) {
                    outbound.tunnels_mut().grant(tunnel, grant);
                }
            }
            Err(error) if is_passing(&error) || error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Life::Broken,
        }
        if self.given == self.waiting.len() {
            self.waiting = Vec::new();
            self.given = 0;
        }
        self.settle()
    }

    /// Sends the program's bytes on to the host.
    fn take(&mut self, tunnel: TunnelId, buffer: &mut [u8], outbound: &mut Outbound) -> Life {
        for _ in 0..READS {
            let room = outbound.tunnels().room(tunnel).min(CHUNK);
            if self.program_ended || room < WORTHWHILE {
                return Life::Goes;
            }
            match self.socket.read(buffer.get_mut(..room).unwrap_or_default()) {
                Ok(0) => {
                    self.program_ended = true;
                    outbound.tunnels_mut().end(tunnel);
                    return self.settle();
                }
                Ok(count) => {
                    outbound
                        .tunnels_mut()
                        .data(tunnel, buffer.get(..count).unwrap_or_default());
                    if count < room {
                        return Life::Goes;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Life::Goes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Life::Broken,
            }
        }
        Life::Goes
    }

    /// Passes the host's end on to the program, once everything is written.
    fn settle(&mut self) -> Life {
        if !self.host_ended || !self.waiting.is_empty() {
            return Life::Goes;
        }
        if self.host_closed || self.program_ended {
            return Life::Over;
        }
        match self.socket.shutdown(Shutdown::Write) {
            Ok(()) => Life::Goes,
            Err(_) => Life::Broken,
        }
    }
}

/// Whether one of the sides has not yet closed the tunnel.
fn in_use(tunnel: TunnelId, inbound: &Inbound, outbound: &Outbound) -> bool {
    inbound.tunnels().is_open(tunnel) || outbound.tunnels().is_open(tunnel)
}

/// Whether an error concerns only this connection or this attempt.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
