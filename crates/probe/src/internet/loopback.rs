//! Brings loopback up and makes every address a local one, with three messages to the kernel.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::InternetError;

/// Loopback is the first link of every network namespace.
const LOOPBACK: u32 = 1;
const NEW_LINK: u16 = 16;
const NEW_ROUTE: u16 = 24;
const REQUEST_AND_ACK: u16 = 0x1 | 0x4;
const CREATE: u16 = 0x400;
const INTERFACE_UP: u32 = 1;
const FAMILY_4: u8 = 2;
const FAMILY_6: u8 = 10;
const EXISTS: i32 = 17;
/// The length of a message's header.
const MESSAGE_HEADER_BYTES: usize = 16;

/// Makes this process the owner of all addresses.
pub(super) fn own_all_addresses() -> Result<(), InternetError> {
    send_request(NEW_LINK, 0, &link_up_message()).map_err(|source| InternetError::Link {
        step: "bring up loopback",
        source,
    })?;
    send_request(NEW_ROUTE, CREATE, &local_route_message(FAMILY_4)).map_err(|source| InternetError::Link {
        step: "own every IPv4 address",
        source,
    })?;
    // A machine without IPv6 has no such addresses: attempts that need one report it themselves.
    let _ = send_request(NEW_ROUTE, CREATE, &local_route_message(FAMILY_6));
    Ok(())
}

fn link_up_message() -> Vec<u8> {
    let mut body = vec![0; 4];
    for number in [LOOPBACK, INTERFACE_UP, INTERFACE_UP] {
        body.extend(number.to_ne_bytes());
    }
    body
}

fn local_route_message(family: u8) -> Vec<u8> {
    const TABLE_LOCAL: u8 = 255;
    const BY_BOOT: u8 = 3;
    const SCOPE_HOST: u8 = 254;
    const LOCAL: u8 = 2;
    const OUT: u16 = 4;
    let mut body = vec![family, 0, 0, 0, TABLE_LOCAL, BY_BOOT, SCOPE_HOST, LOCAL, 0, 0, 0, 0];
    body.extend(8_u16.to_ne_bytes());
    body.extend(OUT.to_ne_bytes());
    body.extend(LOOPBACK.to_ne_bytes());
    body
}

fn send_request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    // Protocol zero is the one for links and routes.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::connect(&socket, &kernel)?;
    let length = u32::try_from(MESSAGE_HEADER_BYTES + body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend((REQUEST_AND_ACK | flags).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0; 1024];
    let (count, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let error = answer
        .get(..count)
        .and_then(|answer| answer.get(MESSAGE_HEADER_BYTES..MESSAGE_HEADER_BYTES + 4))
        .and_then(|four| four.try_into().ok())
        .map(i32::from_ne_bytes)
        .ok_or(io::ErrorKind::InvalidData)?;
    match -error {
        0 | EXISTS => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}
