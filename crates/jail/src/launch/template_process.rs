//! The template process as the host sees it: started in advance, asked for copies, replaced after some.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::{LAUNCH_TIMEOUT, LauncherError};
use crate::handshake::{COPY_MADE, COPY_WITHOUT_IDENTITY, COPY_WITHOUT_NAMESPACES, TemplateAnswer};
use crate::identity::{self, IdMapWriter, IdMapping};
use crate::plan::UserIds;
use crate::program::SealedProgram;
use crate::sys::process::{self, CloneParent, CloneSide};
use crate::sys::{
    fd,
    socket::{self, PairKind},
};

/// Copies share their template's address layout, so a template is replaced after this many copies.
const MAX_COPIES: u32 = 64;

/// The number of the socket in the template.
const SOCKET_FD: RawFd = 3;
/// Numbers from here on are unused by the launcher, so descriptors can be parked there before they are put in place.
const FIRST_PARKED_FD: RawFd = 64;

/// A running template. Dropping it ends it; its copies live on.
#[derive(Debug)]
pub(super) struct TemplateProcess {
    socket: OwnedFd,
    handle: OwnedFd,
    copies: u32,
}

/// A copy that waits for its steps.
#[derive(Debug)]
pub(super) struct TemplateCopy {
    pub(super) pid: i32,
    pub(super) handle: OwnedFd,
}

/// Why a template made no copy.
#[derive(Debug)]
pub(super) enum CopyError {
    /// The template is gone or answered with invalid data: another one may succeed.
    Template(io::Error),
    /// The kernel refused to make the copy.
    Refused(LauncherError),
}

impl TemplateProcess {
    /// Starts the template; it becomes ready by itself.
    ///
    /// An ordinary user's template lives in a user namespace of its own, in which it keeps its user number. The kernel lets
    /// the owner of that namespace inspect the processes in it: so the host can count the memory of copies, and no other
    /// process can.
    pub(super) fn start(program: &SealedProgram) -> Result<TemplateProcess, LauncherError> {
        let (socket, theirs) = socket::pair(PairKind::Packet).map_err(LauncherError::Sockets)?;
        socket::set_timeout(socket.as_fd(), LAUNCH_TIMEOUT).map_err(LauncherError::Sockets)?;
        let null = fd::open_at(None, c"/dev/null", libc::O_RDWR, 0).map_err(LauncherError::Template)?;
        let writer = IdMapWriter::current();
        let namespaces = match writer {
            IdMapWriter::Root => 0,
            IdMapWriter::Ordinary => libc::CLONE_NEWUSER,
        };
        // No signal handler of the host runs in the child before it executes another program.
        process::block_signals(true).map_err(LauncherError::Template)?;
        let cloned = process::clone_into(namespaces, CloneParent::Maker);
        if let Ok(CloneSide::Child) = cloned {
            become_template(socket, theirs.as_fd(), null.as_fd(), program.as_fd());
        }
        process::block_signals(false).map_err(LauncherError::Template)?;
        let CloneSide::Parent { pid, handle } = cloned.map_err(LauncherError::Namespaces)? else {
            return Err(LauncherError::Vanished);
        };
        // From here on an error drops `template`, which ends it.
        let template = TemplateProcess {
            socket,
            handle,
            copies: 0,
        };
        if writer == IdMapWriter::Ordinary {
            let (user, group) = process::effective_ids();
            let same = |number| IdMapping {
                inside: number,
                outside: number,
            };
            identity::write_id_maps(pid, same(user), same(group), writer)
                .map_err(|source| LauncherError::Identity { user, source })?;
        }
        socket::send(template.socket.as_fd(), b"g", &[]).map_err(LauncherError::Template)?;
        Ok(template)
    }

    /// Whether the template has made so many copies that it should be replaced.
    pub(super) fn is_used_up(&self) -> bool {
        self.copies >= MAX_COPIES
    }

    /// Requests a copy with the identity `ids` and the sockets `ends`: status, control, and the host's end of control.
    pub(super) fn request_copy(&mut self, ids: UserIds, ends: [BorrowedFd<'_>; 3]) -> Result<(), CopyError> {
        self.copies += 1;
        let numbers = ends.map(|end| end.as_raw_fd());
        socket::send(self.socket.as_fd(), &ids.to_request(), &numbers)
            .map(drop)
            .map_err(CopyError::Template)
    }

    /// Receives the copy that was requested.
    pub(super) fn receive_copy(&self, ids: UserIds) -> Result<TemplateCopy, CopyError> {
        let mut answer = [0; 16];
        let (length, mut handles) = socket::receive(self.socket.as_fd(), &mut answer).map_err(CopyError::Template)?;
        let Some(TemplateAnswer { kind, pid, error }) = answer.get(..length).and_then(TemplateAnswer::from_bytes)
        else {
            return Err(CopyError::Template(io::ErrorKind::UnexpectedEof.into()));
        };
        let source = io::Error::from_raw_os_error(error);
        match (kind, handles.pop()) {
            (COPY_MADE, Some(handle)) => Ok(TemplateCopy { pid, handle }),
            (COPY_WITHOUT_IDENTITY, Some(handle)) => {
                kill_and_reap(&handle);
                let user = ids.user;
                Err(CopyError::Refused(LauncherError::Identity { user, source }))
            }
            (COPY_WITHOUT_NAMESPACES, None) => Err(CopyError::Refused(LauncherError::Namespaces(source))),
            _ => Err(CopyError::Template(io::ErrorKind::InvalidData.into())),
        }
    }
}

impl Drop for TemplateProcess {
    fn drop(&mut self) {
        kill_and_reap(&self.handle);
    }
}

/// Kills and reaps one process.
fn kill_and_reap(handle: &OwnedFd) {
    // An error means that the process has ended or was reaped already: then it is gone as well.
    let _ = process::signal_handle(handle.as_fd(), libc::SIGKILL);
    let _ = process::wait_handle(handle.as_fd());
}

/// What runs between the fork of the host and the start of the template: signal-safe calls only.
fn become_template(hosts: OwnedFd, socket: BorrowedFd<'_>, null: BorrowedFd<'_>, program: BorrowedFd<'_>) -> ! {
    // On any failure the host sees that the socket closes.
    let _ = try_become_template(hosts, socket, null, program);
    process::exit_now(1)
}

fn try_become_template(
    hosts: OwnedFd,
    socket: BorrowedFd<'_>,
    null: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
) -> io::Result<()> {
    // The thread that started the template lives as long as the host.
    process::set_process_option(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)?;
    // If the host ended before that, the socket is at its end once this copy of the host's end is closed.
    drop(hosts);
    // The host first writes the id maps of this process.
    if socket::receive_bytes(socket, &mut [0u8; 1])? != 1 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let park = |one: BorrowedFd<'_>| fd::dup_above(one.as_raw_fd(), FIRST_PARKED_FD);
    let (socket, null, parked) = (park(socket)?, park(null)?, park(program)?);
    for (from, to) in [(null, 0), (null, 1), (null, 2), (socket, SOCKET_FD)] {
        fd::dup_onto(from, to, 0)?;
    }
    let program = fd::adopt_descriptor(parked)?;
    let argv = [c"ringfence-worker".as_ptr(), std::ptr::null()];
    let envp = [std::ptr::null()];
    Err(process::exec_program(program.as_fd(), &argv, &envp))
}
