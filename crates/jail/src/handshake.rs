//! The messages between host, template and copy while a jail is made.

use crate::steps::UserIds;

/// The stage of the confinement that failed, as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ConfinementStage {
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
pub(crate) const STAGE_NAMES: &[(ConfinementStage, &str)] = &[
    (ConfinementStage::Wait, "waiting for the host"),
    (ConfinementStage::Source, "opening a place of the host"),
    (ConfinementStage::Identity, "becoming the sandbox's user"),
    (ConfinementStage::Root, "making an empty root"),
    (ConfinementStage::Build, "building the root"),
    (ConfinementStage::Enter, "entering the root"),
    (ConfinementStage::Network, "naming the sandbox"),
    (ConfinementStage::Handles, "handing places to the host"),
    (ConfinementStage::Descriptors, "closing descriptors"),
    (ConfinementStage::Limits, "setting limits"),
    (ConfinementStage::Privileges, "dropping privileges"),
    (ConfinementStage::Landlock, "Landlock"),
    (ConfinementStage::Seccomp, "filtering system calls"),
];

/// Messages from the child on the status socket, which differ in their first byte: handles, listener, failure.
pub(crate) const HANDLES_MESSAGE: u8 = b'H';
pub(crate) const LISTENER_MESSAGE: u8 = b'L';
pub(crate) const FAILURE_MESSAGE: u8 = b'F';

/// The encoded steps are sent in pieces of at most this size: the first begins with their total length, as eight bytes.
pub(crate) const PIECE_BYTES: usize = 16 << 10;
/// The largest size of encoded steps that a copy accepts.
pub(crate) const MAX_STEPS_BYTES: usize = 64 << 20;

/// The template's answers, which differ in their first byte.
pub(crate) const COPY_MADE: u8 = b'M';
pub(crate) const COPY_WITHOUT_NAMESPACES: u8 = b'N';
pub(crate) const COPY_WITHOUT_IDENTITY: u8 = b'I';

/// The template's answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TemplateAnswer {
    pub(crate) kind: u8,
    /// The number of the copy, 0 if there is none.
    pub(crate) pid: i32,
    /// The error number, 0 if there is none.
    pub(crate) error: i32,
}

impl TemplateAnswer {
    #[cfg(feature = "inside")]
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [&[self.kind][..], &self.pid.to_le_bytes(), &self.error.to_le_bytes()].concat()
    }

    #[cfg(feature = "host")]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<TemplateAnswer> {
        let (kind, rest) = bytes.split_first()?;
        let (pid, error) = rest.split_first_chunk()?;
        Some(TemplateAnswer {
            kind: *kind,
            pid: i32::from_le_bytes(*pid),
            error: i32::from_le_bytes(error.try_into().ok()?),
        })
    }
}

/// The template's request holds the identity of the copy; its sockets come with it: status, control, and the host's end of
/// control, which tells the copy to go on.
pub(crate) const REQUEST_BYTES: usize = 12;

impl UserIds {
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
    pub(crate) fn from_request(request: &[u8]) -> Option<UserIds> {
        let mut numbers = request
            .chunks_exact(4)
            .filter_map(|bytes| bytes.try_into().ok().map(u32::from_le_bytes));
        let ids = UserIds {
            inside: numbers.next()?,
            user: numbers.next()?,
            group: numbers.next()?,
        };
        (request.len() == REQUEST_BYTES).then_some(ids)
    }
}
