//! A resolver that knows the names of its world and logs each query.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::InternetError;
use super::traffic_log::{DnsQuery, TrafficLog};
use super::world::{DnsReply, FakeWorld, RESOLVER};

const DNS_PORT: u16 = 53;
const RECORD_A: u16 = 1;
const RECORD_CNAME: u16 = 5;
const RECORD_AAAA: u16 = 28;
const SERVER_FAILED: u8 = 2;
const NO_SUCH_NAME: u8 = 3;
/// The longest chain of aliases that is followed.
const MAX_ALIASES: usize = 8;

pub(super) fn serve_dns(world: &Arc<FakeWorld>, ledger: &Arc<TrafficLog>) -> Result<(), InternetError> {
    let listen = |source| InternetError::Listen { port: DNS_PORT, source };
    let at = SocketAddr::from((RESOLVER, DNS_PORT));
    let udp = std::net::UdpSocket::bind(at).map_err(listen)?;
    let tcp = std::net::TcpListener::bind(at).map_err(listen)?;
    udp.set_nonblocking(true).map_err(listen)?;
    tcp.set_nonblocking(true).map_err(listen)?;
    let (udp, tcp) = (
        UdpSocket::from_std(udp).map_err(listen)?,
        TcpListener::from_std(tcp).map_err(listen)?,
    );
    let (world, ledger) = (Arc::clone(world), Arc::clone(ledger));
    let shared = (Arc::clone(&world), Arc::clone(&ledger));
    tokio::spawn(async move {
        let mut message = [0; 4096];
        while let Ok((count, from)) = udp.recv_from(&mut message).await {
            if let Some(answer) = message
                .get(..count)
                .and_then(|asked| answer_query(asked, &world, &ledger))
            {
                // A client that does not wait for an answer gets none.
                let _ = udp.send_to(&answer, from).await;
            }
        }
    });
    tokio::spawn(async move {
        while let Ok((stream, _)) = tcp.accept().await {
            tokio::spawn(serve_stream(stream, Arc::clone(&shared.0), Arc::clone(&shared.1)));
        }
    });
    Ok(())
}

/// Serves messages on a stream, each preceded by its length.
async fn serve_stream(mut stream: TcpStream, world: Arc<FakeWorld>, ledger: Arc<TrafficLog>) {
    while let Ok(length) = stream.read_u16().await {
        let mut message = vec![0; usize::from(length)];
        if stream.read_exact(&mut message).await.is_err() {
            return;
        }
        let Some(answer) = answer_query(&message, &world, &ledger) else {
            continue;
        };
        let Ok(length) = u16::try_from(answer.len()) else {
            return;
        };
        if stream.write_u16(length).await.is_err() || stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A question: the name, the kind of record, and the bytes that encoded it.
struct DnsQuestion<'a> {
    name: String,
    kind: u16,
    bytes: &'a [u8],
}

fn parse_question(message: &[u8]) -> Option<DnsQuestion<'_>> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = message.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?);
    let bytes = message.get(12..at + 4)?;
    let name = labels.join(".");
    Some(DnsQuestion { name, kind, bytes })
}

fn answer_query(message: &[u8], world: &FakeWorld, ledger: &TrafficLog) -> Option<Vec<u8>> {
    let asked = parse_question(message)?;
    ledger.add_query(DnsQuery {
        name: asked.name.clone(),
        kind: asked.kind,
    });
    let mut records = Vec::new();
    let mut code = 0;
    let mut name = asked.name.clone();
    for _ in 0..MAX_ALIASES {
        match world.next_reply(&name, asked.kind == RECORD_AAAA) {
            None => code = NO_SUCH_NAME,
            Some(DnsReply::Fails) => code = SERVER_FAILED,
            Some(DnsReply::Silent) => return None,
            Some(DnsReply::At(addresses)) => {
                let fitting = addresses.iter().filter_map(|address| record_data(*address, asked.kind));
                records.extend(fitting.map(|data| encode_record(&name, asked.kind, &data)));
            }
            Some(DnsReply::Alias(other)) => {
                records.push(encode_record(&name, RECORD_CNAME, &encode_name(&other)));
                name = other;
                continue;
            }
        }
        break;
    }
    let count = u16::try_from(records.len()).ok()?;
    let mut answer = message.get(..2)?.to_vec();
    answer.extend([0x85, 0x80 | code, 0, 1]);
    answer.extend(count.to_be_bytes());
    answer.extend([0; 4]);
    answer.extend(asked.bytes);
    answer.extend(records.concat());
    Some(answer)
}

fn record_data(address: IpAddr, kind: u16) -> Option<Vec<u8>> {
    match (address, kind) {
        (IpAddr::V4(address), RECORD_A) => Some(address.octets().to_vec()),
        (IpAddr::V6(address), RECORD_AAAA) => Some(address.octets().to_vec()),
        _ => None,
    }
}

fn encode_record(name: &str, kind: u16, data: &[u8]) -> Vec<u8> {
    const INTERNET: u16 = 1;
    let mut bytes = encode_name(name);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(INTERNET.to_be_bytes());
    // A lifetime of zero: the reply may differ the next time.
    bytes.extend([0; 4]);
    bytes.extend(u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn encode_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
