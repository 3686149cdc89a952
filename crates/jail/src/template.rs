//! The template: a process on the host, started once, whose copies become the first processes of jails.
//!
//! It has what every first process needs, such as an engine, and nothing else: no descriptor of the host but its socket, no
//! environment, no plan. Only the copy receives the description of its jail, so no copy finds another jail's plan in its
//! memory. Copies are children of the thread that started the template, and end with it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use crate::child::{self, CONTROL_FD, CopySockets};
use crate::handshake::{COPY_MADE, COPY_WITHOUT_IDENTITY, COPY_WITHOUT_NAMESPACES, REQUEST_BYTES, TemplateAnswer};
use crate::identity::{self, IdMapWriter, IdMapping};
use crate::seccomp::{Filter, Profile};
use crate::steps::UserIds;
use crate::sys::process::{self, CloneParent, CloneSide};
use crate::sys::{fd, mount, socket};

const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// This process as a template. Its socket is descriptor 3.
#[derive(Debug)]
pub struct Template {
    /// The filter is the same for every jail, so it is compiled once.
    filter: Filter,
}

/// The event that a request led to.
#[derive(Debug)]
pub enum TemplateEvent {
    /// This process is still the template.
    Template,
    /// This process is a copy, confined: the first process of a jail, with its socket to the host.
    FirstProcess(OwnedFd),
    /// The host has closed the socket.
    Closed,
}

impl Template {
    /// Makes this process a template: it keeps nothing of the host, no terminal reaches it, and no process can inspect it.
    pub fn start() -> io::Result<Template> {
        fd::close_from(CONTROL_FD.cast_unsigned() + 1)?;
        fd::set_close_on_exec(CONTROL_FD, true)?;
        process::set_process_option(libc::PR_SET_DUMPABLE, 0)?;
        process::new_session()?;
        // The kernel gives the first process of a sandbox only signals that it has a handler for. The standard library has installed
        // some that end the process, so any program inside could end it.
        process::default_signal(libc::SIGSEGV);
        process::default_signal(libc::SIGBUS);
        mount::change_folder(c"/")?;
        Ok(Template {
            filter: Filter::for_profile(Profile::Program),
        })
    }

    /// Whether the host has sent a request, now or within `patience`.
    pub fn has_request(&self, patience: Duration) -> io::Result<bool> {
        fd::is_readable(fd::borrow_number(CONTROL_FD), patience)
    }

    /// Waits for the next request and makes a copy. Returns twice: in the template, and in the copy once it is confined.
    pub fn serve_next(&self) -> io::Result<TemplateEvent> {
        let host = fd::borrow_number(CONTROL_FD);
        let mut request = [0; REQUEST_BYTES + 1];
        let (length, ends) = socket::receive(host, &mut request)?;
        if length == 0 {
            return Ok(TemplateEvent::Closed);
        }
        let nonsense = || io::Error::from(io::ErrorKind::InvalidData);
        let ids = request
            .get(..length)
            .and_then(UserIds::from_request)
            .ok_or_else(nonsense)?;
        let [status, control, hosts_control] = <[OwnedFd; 3]>::try_from(ends).map_err(|_| nonsense())?;
        let writer = IdMapWriter::current();
        if writer == IdMapWriter::Ordinary {
            // An ordinary user may only write the id maps of a process that it could inspect.
            process::set_process_option(libc::PR_SET_DUMPABLE, 1)?;
        }
        let cloned = process::clone_into(NAMESPACES, CloneParent::MakersParent);
        if let Ok(CloneSide::Child) = cloned {
            drop(hosts_control);
            let ends = CopySockets {
                status: status.into_raw_fd(),
                control: control.into_raw_fd(),
            };
            let control = child::become_first_process(ends, &self.filter);
            process::block_signals(false)?;
            return Ok(TemplateEvent::FirstProcess(control));
        }
        process::set_process_option(libc::PR_SET_DUMPABLE, 0)?;
        let made = match cloned {
            Ok(CloneSide::Parent { pid, handle }) => {
                // A copy that never receives the signal to go on ends when the host closes its sockets.
                let identity = give_identity(pid, ids, writer)
                    .and_then(|()| socket::send(hosts_control.as_fd(), b"g", &[]).map(drop));
                let kind = if identity.is_ok() {
                    COPY_MADE
                } else {
                    COPY_WITHOUT_IDENTITY
                };
                socket::send(host, &encode_answer(kind, pid, identity.err()), &[handle.as_raw_fd()])
            }
            Ok(CloneSide::Child) => return Err(nonsense()),
            Err(error) => socket::send(host, &encode_answer(COPY_WITHOUT_NAMESPACES, 0, Some(error)), &[]),
        };
        made.map(|_| TemplateEvent::Template)
    }
}

fn encode_answer(kind: u8, pid: i32, error: Option<io::Error>) -> Vec<u8> {
    let error = error.map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    TemplateAnswer { kind, pid, error }.to_bytes()
}

/// Writes the id maps of the copy. The copy waits until then; as root of the host it only opens what is shown inside.
fn give_identity(pid: i32, ids: UserIds, writer: IdMapWriter) -> io::Result<()> {
    let same = |outside| IdMapping {
        inside: ids.inside,
        outside,
    };
    identity::write_id_maps(pid, same(ids.user), same(ids.group), writer)
}
