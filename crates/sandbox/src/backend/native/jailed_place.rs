//! A jail as its limits see it: its first process, and its writable places with the host's handles on them.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use ringfence_jail::JailedProcess;

use super::filesystem_space;
use crate::spec::{Spec, WritableKind, WritablePlace};

/// A jail and what it was made from.
#[derive(Debug)]
pub(super) struct JailedPlace {
    pub(super) spec: Arc<Spec>,
    pub(super) jailed: JailedProcess,
}

impl JailedPlace {
    /// The process number of its first process, as seen from the host.
    pub(super) fn pid(&self) -> i32 {
        self.jailed.pid()
    }

    /// The writable places with their handles.
    pub(super) fn places(&self) -> impl Iterator<Item = (&WritablePlace, BorrowedFd<'_>)> {
        let handles = self.jailed.handles().iter().map(|handle| handle.as_fd());
        self.spec.writable.iter().zip(handles)
    }

    /// Bytes of files in memory.
    pub(super) fn tmpfs_bytes(&self) -> u64 {
        let places = self.places().filter(|(place, _)| place.kind == WritableKind::Memory);
        let spaces = places.filter_map(|(_, handle)| filesystem_space(&handle).ok());
        spaces.map(|space| space.bytes.saturating_sub(space.bytes_free)).sum()
    }

    /// Bytes that its files in memory may be counted with: a place that cannot be measured counts as full.
    pub(super) fn held_memory(&self) -> u64 {
        let places = self.places().filter(|(place, _)| place.kind == WritableKind::Memory);
        places
            .map(|(place, handle)| {
                filesystem_space(&handle).map_or(place.quota, |space| space.bytes.saturating_sub(space.bytes_free))
            })
            .fold(0, u64::saturating_add)
    }
}
