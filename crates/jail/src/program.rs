//! The program that becomes the first process of a jail: in sealed memory, started from its descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::fd;

/// A static program that needs no file in the jail.
#[derive(Debug)]
pub struct SealedProgram(OwnedFd);

impl SealedProgram {
    /// Copies `bytes` into a sealed anonymous file.
    pub fn new(bytes: &[u8]) -> io::Result<SealedProgram> {
        fd::sealed_program(c"ringfence-worker", bytes).map(SealedProgram)
    }
}

impl AsFd for SealedProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
