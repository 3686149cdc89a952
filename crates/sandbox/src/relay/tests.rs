//! The host's relay against a worker's end of the stream that the tests play.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::thread;

use ringfence_jail::socket;
use ringfence_wire::{
    BoundedText, ChildLimits, JobLanguage, PrepareCommand, Relay, WorkerCommand, WorkerReport, encode_frame,
};

use super::spawn_relay;
use crate::control::{ControlChannel, ControlError};

fn prepare(number: u32) -> WorkerCommand {
    WorkerCommand::Prepare(PrepareCommand {
        number,
        language: JobLanguage::TypeScript,
        limits: ChildLimits {
            address_space: None,
            private_memory: None,
            cpu_seconds: 1,
        },
        interpreter: BoundedText::truncated(""),
        network: false,
    })
}

/// Plays the worker: answers each of `orders` orders, and sends back what comes on the pipe.
fn play_worker(mut stream: UnixStream, orders: u32) {
    let (mut relay, mut buffer) = (Relay::new(), [0; 4096]);
    let mut answered = 0;
    while answered < orders || relay.has_pending() || !relay.is_pipe_over() {
        while relay.has_pending() {
            stream.write_all(relay.chunk()).unwrap();
            let count = relay.chunk().len();
            relay.advance(count);
        }
        let count = stream.read(&mut buffer).unwrap();
        if count == 0 {
            return;
        }
        relay.push(&buffer[..count]);
        while relay.next_packet().unwrap().is_some() {
            answered += 1;
            relay.open_pipe(answered).unwrap();
            let mut report = Vec::new();
            encode_frame(&WorkerReport::Prepared { number: answered }, &mut report).unwrap();
            if answered == 1 {
                let mut ready = Vec::new();
                let version = ringfence_wire::PROTOCOL_VERSION;
                encode_frame(&WorkerReport::Ready { version }, &mut ready).unwrap();
                relay.queue_packet(&ready).unwrap();
            }
            relay.queue_packet(&report).unwrap();
        }
        let echo = relay.pipe_bytes().to_vec();
        relay.mark_written(echo.len());
        relay.queue_pipe(&echo);
    }
}

#[tokio::test]
async fn an_order_brings_its_pipe_and_the_next_one_replaces_it() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let worker = thread::spawn(move || play_worker(theirs, 2));
    ours.set_nonblocking(true).unwrap();
    let socket = spawn_relay(tokio::net::UnixStream::from_std(ours).unwrap()).unwrap();
    let mut control = ControlChannel::new(socket.as_fd()).unwrap();
    drop(socket);
    for number in [1, 2] {
        let (pipe, end) = UnixStream::pair().unwrap();
        control.send_order(&prepare(number), &[end.as_fd()]).await.unwrap();
        drop(end);
        assert_eq!(control.next_report().await.unwrap(), WorkerReport::Prepared { number });
        let echoed = tokio::task::spawn_blocking(move || {
            let mut pipe = pipe;
            pipe.write_all(b"there and back").unwrap();
            let mut echoed = [0; 14];
            pipe.read_exact(&mut echoed).unwrap();
            echoed
        });
        assert_eq!(&echoed.await.unwrap(), b"there and back");
    }
    drop(control);
    // The relay ends on this thread.
    let worker = tokio::task::spawn_blocking(move || worker.join().unwrap());
    worker.await.unwrap();
}

#[tokio::test]
async fn a_stream_that_breaks_the_rules_is_a_sandbox_that_is_gone() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let socket = spawn_relay(tokio::net::UnixStream::from_std(ours).unwrap()).unwrap();
    let mut control = ControlChannel::new(socket.as_fd()).unwrap();
    drop(socket);
    theirs.write_all(&[9; 64]).unwrap();
    let answer = control.next_report().await;
    assert!(matches!(answer, Err(ControlError::Gone)), "{answer:?}");
}

#[tokio::test]
async fn an_order_with_a_pipe_for_nothing_ends_the_relay() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let socket = spawn_relay(tokio::net::UnixStream::from_std(ours).unwrap()).unwrap();
    let (_pipe, end) = UnixStream::pair().unwrap();
    socket::send(socket.as_fd(), b"nonsense", &[end.as_raw_fd()]).unwrap();
    let closed = tokio::task::spawn_blocking(move || socket::receive(socket.as_fd(), &mut [0; 8]).unwrap().0);
    assert_eq!(closed.await.unwrap(), 0);
}
