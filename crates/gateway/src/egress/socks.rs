//! SOCKS5 (RFC 1928): without login, CONNECT only, names preferred. The requested host is checked like any other.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::refuse::Denial;

/// The version byte that begins every message.
pub(super) const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
/// Rejects all authentication methods: refuses a client before its request.
pub(super) const NO_ACCEPTABLE_METHOD: [u8; 2] = [VERSION, NO_METHOD];

/// The reply code of a SOCKS5 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SocksReply {
    Granted = 0,
    Failed = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    NoCommand = 7,
    NoAddressType = 8,
}

/// The request of a client, parsed but not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SocksRequest {
    pub(super) host: Vec<u8>,
    pub(super) port: u16,
}

/// Why there is no valid request.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocksError {
    #[error("the connection broke off")]
    Io(#[from] io::Error),
    #[error("this is not SOCKS5")]
    Version(u8),
    #[error("a login is wanted, and there is none")]
    Method,
    #[error("only CONNECT is offered")]
    Command(u8),
    #[error("an unknown kind of address")]
    AddressType(u8),
}

impl SocksError {
    /// Returns the reply that is still due, if any.
    pub(super) fn reply(&self) -> Option<Vec<u8>> {
        match self {
            SocksError::Io(_) | SocksError::Version(_) => None,
            SocksError::Method => Some(NO_ACCEPTABLE_METHOD.to_vec()),
            SocksError::Command(_) => Some(encode_reply(SocksReply::NoCommand)),
            SocksError::AddressType(_) => Some(encode_reply(SocksReply::NoAddressType)),
        }
    }
}

/// Reads greeting and request, up to where the reply is due.
pub(super) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<SocksRequest, SocksError> {
    let version = stream.read_u8().await?;
    if version != VERSION {
        return Err(SocksError::Version(version));
    }
    let mut methods = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&NO_LOGIN) {
        return Err(SocksError::Method);
    }
    stream.write_all(&[VERSION, NO_LOGIN]).await?;
    stream.flush().await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, command, _reserved, kind] = head;
    if version != VERSION {
        return Err(SocksError::Version(version));
    }
    let host = match kind {
        1 => Ipv4Addr::from_bits(stream.read_u32().await?).to_string().into_bytes(),
        3 => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            name
        }
        4 => Ipv6Addr::from_bits(stream.read_u128().await?).to_string().into_bytes(),
        kind => return Err(SocksError::AddressType(kind)),
    };
    let port = stream.read_u16().await?;
    if command != CONNECT {
        return Err(SocksError::Command(command));
    }
    Ok(SocksRequest { host, port })
}

/// Encodes a reply; the bound address is always zero.
pub(super) fn encode_reply(reply: SocksReply) -> Vec<u8> {
    vec![VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Encodes a refusal as a reply.
pub(super) fn encode_refusal(denial: &Denial) -> Vec<u8> {
    encode_reply(match denial.refusal.code {
        "net.dns" | "net.unreachable" => SocksReply::HostUnreachable,
        "net.protocol" => SocksReply::Failed,
        _ => SocksReply::NotAllowed,
    })
}

#[cfg(test)]
mod tests;
