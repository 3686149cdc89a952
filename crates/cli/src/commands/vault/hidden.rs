//! A secret that is typed at a terminal and not shown there.

use std::io;
use std::os::fd::AsFd as _;

use rustix::termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A line, and more behind it: something of several lines was pasted.
    SeveralLines,
    /// Ctrl-C.
    Cancelled,
}

/// The terminal as it was, put back at the end. What nobody read is dropped: it must not reach the shell.
struct HiddenTerminal(Termios);

impl HiddenTerminal {
    /// Keys come one by one and unshown, also Ctrl-C: a signal would leave the terminal as it is now. A line has no longest length.
    fn start() -> io::Result<HiddenTerminal> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        hidden.input_modes.insert(InputModes::ICRNL);
        hidden.special_codes[SpecialCodeIndex::VMIN] = 1;
        hidden.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(HiddenTerminal(before))
    }
}

impl Drop for HiddenTerminal {
    fn drop(&mut self) {
        // A terminal that is gone shows nothing any more.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Reads a line from the terminal on standard input; `ask` is called once nothing is shown any more.
pub(super) fn read_line(max: usize, ask: impl FnOnce()) -> io::Result<Typed> {
    const CTRL_C: u8 = 3;
    const CTRL_D: u8 = 4;
    const CTRL_U: u8 = 21;
    const BACKSPACE: u8 = 8;
    const DELETE: u8 = 127;
    let _hidden = HiddenTerminal::start()?;
    ask();
    let mut line = Vec::new();
    let mut key = [0];
    loop {
        // Unbuffered: what is behind the line must be seen as such.
        let count = rustix::io::read(io::stdin(), &mut key)?;
        match key {
            [CTRL_C] => return Ok(Typed::Cancelled),
            _ if count == 0 => return Ok(Typed::Line(line)),
            [b'\n' | CTRL_D] => break,
            [CTRL_U] => line.clear(),
            [BACKSPACE | DELETE] => erase_char(&mut line),
            [byte] if line.len() < max => line.push(byte),
            _ => {}
        }
    }
    let is_more = rustix::io::ioctl_fionread(io::stdin().as_fd())? > 0;
    Ok(if is_more {
        Typed::SeveralLines
    } else {
        Typed::Line(line)
    })
}

/// Takes the last character away, all bytes of it.
fn erase_char(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
}
