//! A first process that only answers, for the tests of this crate.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitCode;

use ringfence_jail::template::{Template, TemplateEvent};
use ringfence_jail::{inside, socket};

fn main() -> ExitCode {
    // Errors cannot be reported: the host sees that the socket closes.
    match enter_jail().and_then(|control| control.map_or(Ok(()), |control| answer(&control))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn enter_jail() -> io::Result<Option<OwnedFd>> {
    let template = Template::start()?;
    loop {
        match template.serve_next()? {
            TemplateEvent::Template => {}
            TemplateEvent::Closed => return Ok(None),
            TemplateEvent::FirstProcess(control) => return Ok(Some(control)),
        }
    }
}

fn answer(control: &OwnedFd) -> io::Result<()> {
    let mut packet = [0; 64];
    loop {
        let (length, _) = socket::receive(control.as_fd(), &mut packet)?;
        let answer = match packet.get(..length) {
            Some(b"descriptors") => descriptors(control),
            Some(b"environment") => format!("{:?}", std::env::vars_os().collect::<Vec<_>>()),
            _ => return Ok(()),
        };
        socket::send(control.as_fd(), answer.as_bytes(), &[])?;
    }
}

/// The descriptors that are open, tested one by one: no process can inspect a first process, not even itself.
fn descriptors(control: &OwnedFd) -> String {
    let mut open = Vec::new();
    for number in 0..256 {
        if number == control.as_raw_fd() {
            open.push(number);
        } else if let Ok(found) = inside::adopt_descriptor(number) {
            open.push(number);
            std::mem::forget(found);
        }
    }
    format!("{open:?}")
}
