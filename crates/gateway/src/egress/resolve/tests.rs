//! Tests of refusals for names that cannot be resolved.

use tokio::net::UdpSocket;

use super::DnsResolver;
use crate::refusal::RequestRefusal;

/// The refusal of a name by a server that answers every query with this code and no records.
async fn refusal_after(code: u8) -> RequestRefusal {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let resolver = DnsResolver::with_name_server(socket.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut packet = [0; 512];
        loop {
            let (length, client) = socket.recv_from(&mut packet).await.unwrap();
            packet[2] |= 0x80;
            packet[3] = packet[3] & 0xf0 | code;
            socket.send_to(&packet[..length], client).await.unwrap();
        }
    });
    let host = "docs.example.net".parse().unwrap();
    let refusal = resolver.resolve(&host).await.unwrap_err();
    server.abort();
    refusal
}

#[tokio::test]
async fn a_name_that_cannot_be_resolved_is_refused_in_plain_words() {
    for (code, message, hint) in [
        (
            3,
            "`docs.example.net` has no address: there is no such host name",
            "spelling",
        ),
        (
            0,
            "`docs.example.net` has no address: the name servers know no address for it",
            "spelling",
        ),
        (
            2,
            "the address of `docs.example.net` cannot be looked up: the name servers gave no usable answer",
            "name servers of this machine",
        ),
    ] {
        let refusal = refusal_after(code).await;
        assert_eq!((refusal.code, refusal.message.as_str()), ("net.dns", message));
        assert!(refusal.hint.as_deref().unwrap().contains(hint), "{refusal:?}");
    }
}
