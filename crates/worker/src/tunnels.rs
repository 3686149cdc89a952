//! The way to the network: connections to a port of the sandbox's loopback, carried to the host byte for byte.
//!
//! Nothing here reads what a program says or knows what it may: whoever stands behind the pipe does.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use ringfence_jail::inside::{self, Interest, Readiness};
use ringfence_wire::{Arriving, Carried, FromChild, Inbound, Outbound, TUNNELS_MAX, TunnelError, TunnelId};

/// At most this much of one connection is read at a time.
const CHUNK: usize = 64 * 1024;

/// A connection is read when at least this much can be sent on: small frames would cost more than they carry.
const WORTHWHILE: usize = 16 * 1024;

/// So often one connection is read before the others have their turn.
const READS: usize = 4;

/// So many connections are accepted before the others have their turn.
const ACCEPTS: usize = 16;

/// The port and what came in through it.
#[derive(Debug)]
pub(crate) struct Tunnels {
    listener: TcpListener,
    open: BTreeMap<TunnelId, Connection>,
    /// Numbers that are not free yet although their connections are gone.
    closing: Vec<TunnelId>,
    /// No descriptor was left for one more connection: none is taken until one is closed.
    exhausted: bool,
    buffer: Vec<u8>,
}

/// A connection of the program.
#[derive(Debug)]
struct Connection {
    socket: TcpStream,
    /// What came for the program and its socket had no room for: `waiting[given..]`.
    waiting: Vec<u8>,
    given: usize,
    /// The program sends no more.
    program_ended: bool,
    /// The host sends no more.
    host_ended: bool,
    /// The host has said its last: what waits is given to the program, and then it is over.
    host_closed: bool,
}

/// Whether a connection is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Something may still come or go.
    Goes,
    /// Both sides ended it, and everything was given.
    Over,
    /// The program broke it off.
    Broken,
}

impl Tunnels {
    /// Listens on `port`. Programs inherit neither the port nor what comes in through it.
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

    /// What to wait for: the port, then every connection in the order of their numbers.
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
                // An error or end of such a connection can wait until somebody wants something of it.
                (false, false) => return None,
            };
            Some((connection.socket.as_fd(), interest))
        }));
    }

    /// Acts on what is ready, in the order of [`waits`](Self::waits).
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

    /// Something of a tunnel came from the host; answers how many bytes are gone for good.
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
            // What was under way when the program went away.
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
                // If this cannot be said the program sees an ordinary end, which is all that is left to tell.
                let _ = inside::reset_when_closed(connection.socket.as_fd());
                (0, Life::Broken)
            }
        };
        if life != Life::Goes {
            self.remove(tunnel, life, outbound);
        }
        Ok(gone)
    }

    /// The program is over: takes what it said last, as far as that can leave at once.
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

    /// The tunnels of which something may still wait.
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
            // What is small and late is what a program waits for.
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

    /// Gives the program what the host sent, at once as far as its socket has room; answers how much is gone.
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

    /// Gives the program what waits, as far as there is room.
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

    /// Sends on what the program says.
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

    /// When everything was given, the program is told that no more comes.
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

/// Whether one side or the other has not said its last of it.
fn in_use(tunnel: TunnelId, inbound: &Inbound, outbound: &Outbound) -> bool {
    inbound.tunnels().is_open(tunnel) || outbound.tunnels().is_open(tunnel)
}

/// Nothing of ours: that connection, or that moment, is over already.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
