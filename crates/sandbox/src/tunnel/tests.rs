use std::time::Duration;

use ringfence_wire::{Inbound, InboundItem, Outbound, PipeSide, TunnelEvent};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::*;
use crate::tunnels::OpenTunnels;

/// A host with one open tunnel, whose child is the test.
struct Host {
    tunnels: OpenTunnels,
    inbound: Inbound,
    outbound: Outbound,
    child: Outbound,
    heard: Inbound,
    id: TunnelId,
}

fn host() -> (Host, ProgramTunnel) {
    let (offered, mut taken) = mpsc::channel(1);
    let mut host = Host {
        tunnels: OpenTunnels::new(offered),
        inbound: Inbound::execution(PipeSide::Host),
        outbound: Outbound::execution(PipeSide::Host),
        child: Outbound::execution(PipeSide::Child),
        heard: Inbound::execution(PipeSide::Child),
        id: TunnelId::all().next().unwrap(),
    };
    host.child.open_tunnel(host.id).unwrap();
    host.heard.open_tunnel(host.id).unwrap();
    host.tunnels
        .open(host.id, &mut host.inbound, &mut host.outbound)
        .unwrap();
    host.tunnels.serve(&mut host.inbound, &mut host.outbound);
    let tunnel = taken.try_recv().unwrap();
    (host, tunnel)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Data(usize),
    End,
    Credit(u32),
    Close,
}

impl Host {
    /// Moves what the child sent to the host.
    fn carry_up(&mut self) {
        while self.child.has_pending() {
            let chunk = self.child.chunk().to_vec();
            self.child.advance(chunk.len());
            assert_eq!(self.inbound.push(&chunk), chunk.len());
            while let Some(item) = self.inbound.next().unwrap() {
                let InboundItem::Tunnel { tunnel, carried } = item else {
                    panic!("only this tunnel: {item:?}");
                };
                self.tunnels
                    .handle_event(tunnel, carried, self.outbound.tunnels_mut())
                    .unwrap();
            }
        }
    }

    /// Moves what the host sent to the child.
    fn carry_down(&mut self) -> Vec<Heard> {
        self.tunnels.serve(&mut self.inbound, &mut self.outbound);
        let mut all = Vec::new();
        while self.outbound.has_pending() {
            let chunk = self.outbound.chunk().to_vec();
            self.outbound.advance(chunk.len());
            assert_eq!(self.heard.push(&chunk), chunk.len());
            while let Some(item) = self.heard.next().unwrap() {
                let InboundItem::Tunnel { carried, .. } = item else {
                    panic!("only this tunnel: {item:?}");
                };
                all.push(match carried {
                    TunnelEvent::Data(bytes) => Heard::Data(bytes.len()),
                    TunnelEvent::End => Heard::End,
                    TunnelEvent::Credit(grant) => Heard::Credit(grant),
                    TunnelEvent::Close => Heard::Close,
                });
            }
            self.tunnels.serve(&mut self.inbound, &mut self.outbound);
        }
        all
    }
}

#[tokio::test]
async fn bytes_and_ends_go_both_ways() {
    let (mut host, mut tunnel) = host();
    host.child.tunnels_mut().queue_data(host.id, b"question");
    host.child.tunnels_mut().end_stream(host.id);
    host.carry_up();
    let mut question = String::new();
    tunnel.read_to_string(&mut question).await.unwrap();
    assert_eq!(question, "question");
    tunnel.write_all(b"answer").await.unwrap();
    tunnel.shutdown().await.unwrap();
    assert_eq!(host.carry_down(), [Heard::Data(6), Heard::End]);
    let error = tunnel.write_all(b"more").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    drop(tunnel);
    assert_eq!(host.carry_down(), [Heard::Close]);
}

#[tokio::test]
async fn what_was_ended_before_it_was_dropped_still_arrives() {
    let (mut host, mut tunnel) = host();
    tunnel.write_all(b"last").await.unwrap();
    tunnel.shutdown().await.unwrap();
    drop(tunnel);
    assert_eq!(host.carry_down(), [Heard::Data(4), Heard::End, Heard::Close]);
}

#[tokio::test]
async fn one_that_is_dropped_is_reset() {
    let (mut host, mut tunnel) = host();
    tunnel.write_all(b"lost").await.unwrap();
    drop(tunnel);
    assert_eq!(host.carry_down(), [Heard::Close]);
    // Bytes that were already in transit are dropped and are no violation.
    host.child.tunnels_mut().queue_data(host.id, b"late");
    host.child.tunnels_mut().queue_grant(host.id, 1);
    host.child.tunnels_mut().close(host.id);
    host.carry_up();
    assert!(!host.inbound.tunnels().is_open(host.id) && !host.outbound.tunnels().is_open(host.id));
}

#[tokio::test]
async fn a_reset_of_the_program_is_an_error_after_its_bytes() {
    let (mut host, mut tunnel) = host();
    host.child.tunnels_mut().queue_data(host.id, b"half");
    host.carry_up();
    host.child.tunnels_mut().reset(host.id);
    host.carry_up();
    let mut all = Vec::new();
    let error = tunnel.read_to_end(&mut all).await.unwrap_err();
    assert_eq!(
        (all.as_slice(), error.kind()),
        (&b"half"[..], io::ErrorKind::ConnectionReset)
    );
    assert_eq!(tunnel.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(host.carry_down(), [], "its number is in use while somebody holds it");
    drop(tunnel);
    assert_eq!(host.carry_down(), [Heard::Close]);
}

#[tokio::test]
async fn the_end_of_the_execution_ends_it() {
    let (host, mut tunnel) = host();
    let waits = tokio::spawn(async move { tunnel.read_u8().await });
    tokio::task::yield_now().await;
    drop(host);
    let error = waits.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

fn bytes(heard: &[Heard]) -> usize {
    let bytes = |one: &Heard| if let Heard::Data(bytes) = one { *bytes } else { 0 };
    heard.iter().map(bytes).sum()
}

/// A program that does not read lets a window and one buffer fill up, and then its writer waits.
#[tokio::test]
async fn a_writer_waits_for_a_slow_program() {
    let (mut host, mut tunnel) = host();
    let piece = vec![0; 100_000];
    let mut written = 0;
    let mut carried = 0;
    loop {
        match tokio::time::timeout(Duration::from_millis(20), tunnel.write(&piece)).await {
            Ok(count) => written += count.unwrap(),
            Err(_) => break,
        }
        carried += bytes(&host.carry_down());
    }
    let window = STREAM_WINDOW as usize;
    assert_eq!((carried, written), (window, 2 * window + BUFFER_CAPACITY));
    let grant = host.heard.tunnels_mut().mark_consumed(host.id, window / 2).unwrap();
    host.child.tunnels_mut().queue_grant(host.id, grant);
    host.carry_up();
    assert_eq!(bytes(&host.carry_down()), window / 2);
    assert!(tunnel.write(&piece).await.unwrap() > 0);
}

/// The program may send a window ahead of its reader, not more.
#[tokio::test]
async fn a_program_waits_for_a_slow_reader() {
    let (mut host, mut tunnel) = host();
    let window = STREAM_WINDOW as usize;
    let bytes = vec![7; 4 * window];
    assert_eq!(host.child.tunnels_mut().queue_data(host.id, &bytes), window);
    host.carry_up();
    assert_eq!(host.child.tunnels_mut().queue_data(host.id, &bytes), window);
    host.carry_up();
    assert_eq!(host.carry_down(), []);
    let mut half = vec![0; window / 2];
    tunnel.read_exact(&mut half).await.unwrap();
    assert_eq!(host.carry_down(), [Heard::Credit(STREAM_WINDOW / 2)]);
}

/// A handler that takes no tunnels gets at most as many as there are numbers, whatever the program does.
#[tokio::test]
async fn tunnels_that_nobody_takes_keep_their_numbers() {
    let (offered, mut taken) = mpsc::channel(1);
    let mut tunnels = OpenTunnels::new(offered);
    let mut inbound = Inbound::execution(PipeSide::Host);
    let mut outbound = Outbound::execution(PipeSide::Host);
    for tunnel in TunnelId::all() {
        tunnels.open(tunnel, &mut inbound, &mut outbound).unwrap();
        tunnels.serve(&mut inbound, &mut outbound);
        let close = ringfence_wire::FrameHeader::new(ringfence_wire::FrameKind::Close, tunnel.id(), 0).unwrap();
        inbound.push(&close.to_bytes());
        assert!(inbound.next().unwrap().is_some());
        tunnels
            .handle_event(tunnel, TunnelEvent::Close, outbound.tunnels_mut())
            .unwrap();
    }
    tunnels.serve(&mut inbound, &mut outbound);
    assert!(!outbound.has_pending());
    for tunnel in TunnelId::all() {
        assert!(outbound.open_tunnel(tunnel).is_err());
    }
    drop(taken.try_recv().unwrap());
    tunnels.serve(&mut inbound, &mut outbound);
    assert!(outbound.has_pending(), "one number is free again");
}
