//! Dials hosts: only addresses that were checked, in their order.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::refuse;
use crate::refusal::RequestRefusal;

/// Most time for dialling, all addresses together.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Most time for one address while others are left.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// Connects to the first of `addresses` that answers.
pub(super) async fn dial(host: &str, addresses: &[IpAddr], port: u16) -> Result<(TcpStream, IpAddr), RequestRefusal> {
    let end = Instant::now() + DIAL_TIMEOUT;
    let mut last = "it has no address".to_owned();
    for (index, address) in addresses.iter().enumerate() {
        let now = Instant::now();
        let until = if index + 1 == addresses.len() {
            end
        } else {
            end.min(now + ATTEMPT_TIMEOUT)
        };
        match timeout_at(until, connect(SocketAddr::new(*address, port))).await {
            Ok(Ok(stream)) => return Ok((stream, *address)),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => "no answer in time".clone_into(&mut last),
        }
        if Instant::now() >= end {
            break;
        }
    }
    Err(refuse::unreachable(host, &last))
}

async fn connect(place: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(place).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
