//! Files of one mebibyte that have no name any more, and the ways to keep them. Each function makes at most `most` of them,
//! keeps them for a while, and returns their number.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

use ringfence_jail::attack;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::hog::{HOLD_TIME, MIB};

/// Keeps them as open descriptors.
pub(super) fn open(most: usize) -> usize {
    keep_each(most, |index| unnamed(&format!("open-{index}"))).len()
}

/// Keeps them in connections that are not accepted.
pub(super) fn in_connections(most: usize) -> io::Result<usize> {
    let address = SocketAddr::from_abstract_name(format!("sent-{}", std::process::id()))?;
    let listener = UnixListener::bind_addr(&address)?;
    let sent = keep_each(most, |index| {
        let file = unnamed(&format!("sent-{index}"))?;
        send_descriptor(&UnixStream::connect_addr(&address)?, &file)
    });
    drop(listener);
    Ok(sent.len())
}

/// Keeps them in the queue of a connection that is never read.
pub(super) fn in_a_queue(most: usize) -> io::Result<usize> {
    let (writer, reader) = UnixStream::pair()?;
    writer.set_nonblocking(true)?;
    let queued = keep_each(most, |index| {
        send_descriptor(&writer, &unnamed(&format!("queued-{index}"))?)
    });
    drop(reader);
    Ok(queued.len())
}

/// Keeps them mapped, without an open descriptor.
pub(super) fn mapped(most: usize) -> usize {
    keep_each(most, |index| {
        attack::keep_mapped(unnamed(&format!("mapped-{index}"))?.as_fd(), MIB)
    })
    .len()
}

/// Runs them as programs: each only waits, and has a mebibyte after its end.
pub(super) fn running(most: usize) -> usize {
    let mut held = keep_each(most, |index| {
        let path = format!("running-{index}");
        fs::copy("/usr/bin/sleep", &path)?;
        let mut file = File::options().append(true).open(&path)?;
        file.write_all(&vec![1; MIB])?;
        drop(file);
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        let child = wait_as(&path)?;
        fs::remove_file(&path)?;
        Ok(child)
    });
    for child in &mut held {
        // A child that the kernel ended is gone already.
        let _ = child.kill();
        let _ = child.wait();
    }
    held.len()
}

#[expect(clippy::disallowed_methods, reason = "the attacker runs what it made itself")]
fn wait_as(path: &str) -> io::Result<Child> {
    let mut command = Command::new(format!("./{path}"));
    command
        .arg("60")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn()
}

/// Makes objects until one fails, and keeps them for as long as the watch needs.
fn keep_each<T>(most: usize, make: impl Fn(usize) -> io::Result<T>) -> Vec<T> {
    let held = (0..most).map_while(|index| make(index).ok()).collect();
    std::thread::sleep(HOLD_TIME * 6);
    held
}

fn unnamed(path: &str) -> io::Result<File> {
    let mut file = File::options().read(true).write(true).create_new(true).open(path)?;
    fs::remove_file(path)?;
    file.write_all(&vec![1; MIB])?;
    Ok(file)
}

fn send_descriptor(stream: &UnixStream, file: &File) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [file.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(stream, &[io::IoSlice::new(b"x")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}
