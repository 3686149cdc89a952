//! Kernel memory that belongs to no process. Each function fills objects of one kind, keeps them as long as this process
//! lives, and returns how many bytes the kernel holds for them.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use ringfence_jail::attack;
use rustix::event::epoll;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, netlink, send, socket_with, sockopt};

/// How many objects one process makes: fewer than the descriptors that a policy usually allows.
const MAX_OBJECTS: usize = 120;
static BLOCK: [u8; 60_000] = [1; 60_000];

/// Unix socket pairs that are filled in both directions.
pub(super) fn unix_queues() -> usize {
    keep_each(|| {
        let (one, other) = UnixStream::pair()?;
        let mut bytes = 0;
        for mut end in [&one, &other] {
            end.set_nonblocking(true)?;
            while let Ok(count) = end.write(&BLOCK) {
                bytes += count;
            }
        }
        Ok(((one, other), bytes))
    })
}

/// Routing sockets with answers that are never read.
pub(super) fn netlink_queues() -> usize {
    /// A request for every interface: 20 bytes long, `RTM_GETLINK`, `NLM_F_REQUEST | NLM_F_DUMP`.
    const LIST_INTERFACES: [u8; 20] = [20, 0, 0, 0, 18, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const MAX_REQUESTS: usize = 100;
    keep_each(|| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
        for _ in 0..MAX_REQUESTS {
            if send(&socket, &LIST_INTERFACES, SendFlags::empty()).is_err() {
                break;
            }
        }
        let bytes = sockopt::socket_recv_buffer_size(&socket)?;
        Ok((socket, bytes))
    })
}

/// Datagram sockets with large receive buffers, which it fills. The kernel reports what arrived: datagrams that do not fit
/// are dropped silently.
pub(super) fn udp_queues() -> usize {
    const WANTED_BUFFER: usize = 8 << 20;
    let Ok(sender) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) else {
        return 0;
    };
    let mut ports = HashSet::new();
    keep_each(|| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        sockopt::set_socket_recv_buffer_size(&socket, WANTED_BUFFER)?;
        let address = socket.local_addr()?;
        for _ in 0..=sockopt::socket_recv_buffer_size(&socket)? / BLOCK.len() {
            sender.send_to(&BLOCK, address)?;
        }
        ports.insert(address.port());
        Ok((socket, 0))
    });
    udp_queued(&ports)
}

/// Errors that are never read: each datagram without a receiver comes back to its sender.
pub(super) fn error_queues() -> usize {
    const MAX_ERRORS: usize = 600;
    let Ok(nobody) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr()) else {
        return 0;
    };
    let mut ports = HashSet::new();
    keep_each(|| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        attack::keep_errors(socket.as_fd())?;
        for _ in 0..MAX_ERRORS {
            // The previous datagram's error is returned here, and stays in the queue.
            let _ = socket.send_to(&BLOCK[..1000], nobody);
        }
        ports.insert(socket.local_addr()?.port());
        Ok((socket, 0))
    });
    udp_queued(&ports)
}

/// Datagrams that are assembled and never sent.
pub(super) fn held_datagrams() -> usize {
    const MAX_SOCKETS: usize = 200;
    const NOWHERE: u16 = 9;
    keep_up_to(MAX_SOCKETS, || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect((Ipv4Addr::LOCALHOST, NOWHERE))?;
        let bytes = send(&socket, &BLOCK, SendFlags::MORE)?;
        Ok((socket, bytes))
    })
}

/// Connections that are not accepted and whose makers are gone.
pub(super) fn unaccepted_connections() -> usize {
    /// The least that the kernel keeps for a connection.
    const CONNECTION_BYTES: usize = 2 << 10;
    const MAX_WAITING: usize = 100;
    keep_each(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let made = (0..MAX_WAITING).take_while(|_| TcpStream::connect(address).is_ok());
        let bytes = made.count() * CONNECTION_BYTES;
        Ok((listener, bytes))
    })
}

/// Bytes that wait in the sockets of these ports.
fn udp_queued(ports: &HashSet<u16>) -> usize {
    let table = fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let queued = table.lines().filter_map(udp_queue);
    queued
        .filter(|(port, _)| ports.contains(port))
        .map(|(_, bytes)| bytes)
        .sum()
}

/// The local port and the number of unread bytes in one line of the kernel's table.
fn udp_queue(line: &str) -> Option<(u16, usize)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let (_, received) = fields.get(4)?.split_once(':')?;
    Some((
        u16::from_str_radix(port, 16).ok()?,
        usize::from_str_radix(received, 16).ok()?,
    ))
}

/// Connections on which one end writes and the other never reads.
pub(super) fn tcp_buffers() -> usize {
    let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) else {
        return 0;
    };
    keep_each(|| {
        let mut writer = TcpStream::connect(listener.local_addr()?)?;
        let (reader, _) = listener.accept()?;
        writer.set_nonblocking(true)?;
        let mut bytes = 0;
        while let Ok(count) = writer.write(&BLOCK) {
            bytes += count;
        }
        Ok(((writer, reader), bytes))
    })
}

/// Pipes, each as large as the kernel lets it be.
pub(super) fn pipes() -> usize {
    const WANTED_BYTES: usize = 1 << 20;
    keep_each(|| {
        let (reader, mut writer) = io::pipe()?;
        // Where the kernel refuses a larger pipe, one of the default size is filled.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, WANTED_BYTES);
        rustix::io::ioctl_fionbio(&writer, true)?;
        let mut bytes = 0;
        while let Ok(count) = writer.write(&[1; 4096]) {
            bytes += count;
        }
        Ok(((reader, writer), bytes))
    })
}

/// Event queues that each watch the same pipes.
pub(super) fn event_queues() -> usize {
    /// The least that one watched descriptor costs the kernel.
    const ENTRY_BYTES: usize = 128;
    let watched: Vec<io::PipeReader> = (0..MAX_OBJECTS / 2)
        .map_while(|_| io::pipe().ok())
        .map(|(reader, _)| reader)
        .collect();
    let bytes = keep_each(|| {
        let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let add = |descriptor| epoll::add(&queue, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        let entries = watched.iter().take_while(|descriptor| add(*descriptor).is_ok()).count();
        Ok((queue, entries * ENTRY_BYTES))
    });
    std::mem::forget(watched);
    bytes
}

/// Page tables for memory that was only read.
pub(super) fn page_tables() -> usize {
    const TABLE_BYTES: usize = 4096;
    const MAX_TABLES: usize = 8192;
    attack::scatter_page_tables(MAX_TABLES).unwrap_or(0) * TABLE_BYTES
}

/// Record locks, in many files: the kernel looks through those of one file for each new one.
pub(super) fn record_locks() -> usize {
    const LOCK_BYTES: usize = 192;
    const MAX_LOCKS: u32 = 500;
    let mut number = 0;
    keep_each(|| {
        number += 1;
        let file = fs::File::create(format!("locks-{}-{number}", std::process::id()))?;
        let locks = attack::lock_bytes(file.as_fd(), MAX_LOCKS);
        Ok((file, usize::try_from(locks).unwrap_or(0) * LOCK_BYTES))
    })
}

/// Makes objects until one is refused, and keeps them. Returns the sum of their bytes.
fn keep_each<T>(make: impl FnMut() -> io::Result<(T, usize)>) -> usize {
    keep_up_to(MAX_OBJECTS, make)
}

/// As `keep_each`, for another number of objects.
fn keep_up_to<T>(count: usize, mut make: impl FnMut() -> io::Result<(T, usize)>) -> usize {
    let mut bytes = 0;
    for _ in 0..count {
        let Ok((object, size)) = make() else { break };
        std::mem::forget(object);
        bytes += size;
    }
    bytes
}
