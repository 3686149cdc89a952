//! The messages between host, template and copy while a jail is made.

use crate::steps::Ids;

/// The stage of the confinement that failed, as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    Wait = 1,
    Source,
    Identity,
    Root,
    Build,
    Enter,
    Network,
    Handles,
    Descriptors,
    Limits,
    Privileges,
    Landlock,
    Seccomp,
}

/// The stages, as phrases for people.
#[cfg(feature = "host")]
pub(crate) const STAGES: &[(Stage, &str)] = &[
    (Stage::Wait, "waiting for the host"),
    (Stage::Source, "opening a place of the host"),
    (Stage::Identity, "becoming the sandbox's user"),
    (Stage::Root, "making an empty root"),
    (Stage::Build, "building the root"),
    (Stage::Enter, "entering the root"),
    (Stage::Network, "naming the sandbox"),
    (Stage::Handles, "handing places to the host"),
    (Stage::Descriptors, "closing descriptors"),
    (Stage::Limits, "setting limits"),
    (Stage::Privileges, "dropping privileges"),
    (Stage::Landlock, "Landlock"),
    (Stage::Seccomp, "filtering system calls"),
];

/// Messages from the child on the status socket, which differ in their first byte: handles, listener, failure.
pub(crate) const TOLD_HANDLES: u8 = b'H';
pub(crate) const TOLD_LISTENER: u8 = b'L';
pub(crate) const TOLD_FAILURE: u8 = b'F';

/// The encoded steps are sent in pieces of at most this size: the first begins with their total length, as eight bytes.
pub(crate) const PIECE: usize = 16 << 10;
/// The largest size of encoded steps that a copy accepts.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// The template's answers, which differ in their first byte.
pub(crate) const MADE: u8 = b'M';
pub(crate) const NO_NAMESPACES: u8 = b'N';
pub(crate) const NO_IDENTITY: u8 = b'I';

/// The template's answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) kind: u8,
    /// The number of the copy, 0 if there is none.
    pub(crate) pid: i32,
    /// The error number, 0 if there is none.
    pub(crate) error: i32,
}

impl Answer {
    #[cfg(feature = "inside")]
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [&[self.kind][..], &self.pid.to_le_bytes(), &self.error.to_le_bytes()].concat()
    }

    #[cfg(feature = "host")]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Answer> {
        let (kind, rest) = bytes.split_first()?;
        let (pid, error) = rest.split_first_chunk()?;
        Some(Answer {
            kind: *kind,
            pid: i32::from_le_bytes(*pid),
            error: i32::from_le_bytes(error.try_into().ok()?),
        })
    }
}

/// The template's request holds the identity of the copy; its sockets come with it: status, control, and the host's end of
/// control, which tells the copy to go on.
pub(crate) const REQUEST_BYTES: usize = 12;

impl Ids {
    #[cfg(feature = "host")]
    pub(crate) fn to_request(self) -> [u8; REQUEST_BYTES] {
        let mut request = [0; REQUEST_BYTES];
        let numbers = [self.inside, self.user, self.group];
        for (room, number) in request.chunks_exact_mut(4).zip(numbers) {
            room.copy_from_slice(&number.to_le_bytes());
        }
        request
    }

    #[cfg(feature = "inside")]
    pub(crate) fn from_request(request: &[u8]) -> Option<Ids> {
        let mut numbers = request
            .chunks_exact(4)
            .filter_map(|bytes| bytes.try_into().ok().map(u32::from_le_bytes));
        let ids = Ids {
            inside: numbers.next()?,
            user: numbers.next()?,
            group: numbers.next()?,
        };
        (request.len() == REQUEST_BYTES).then_some(ids)
    }
}
