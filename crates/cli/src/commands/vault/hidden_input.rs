//! Reads a secret from a terminal without showing it.

use std::io;
use std::os::fd::AsFd as _;

use rustix::termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// The result of reading a line from the terminal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypedInput {
    /// A line without its line end.
    Line(Vec<u8>),
    /// A line with more input behind it, because several lines were pasted.
    SeveralLines,
    /// The user pressed Ctrl-C.
    Cancelled,
}

/// The original settings of the terminal, restored on drop. Unread input is discarded, so that it does not reach the
/// shell.
struct HiddenTerminal(Termios);

impl HiddenTerminal {
    /// Turns off echo, line buffering and signals: a signal would leave the terminal in this state, and a line has no
    /// maximum length.
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
        // A failure means that the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Reads a line from the terminal on standard input; calls `ask` once input is hidden.
pub(super) fn read_hidden_line(max: usize, ask: impl FnOnce()) -> io::Result<TypedInput> {
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
        // The read is unbuffered, so that input behind the line can be detected.
        let count = rustix::io::read(io::stdin(), &mut key)?;
        match key {
            [CTRL_C] => return Ok(TypedInput::Cancelled),
            _ if count == 0 => return Ok(TypedInput::Line(line)),
            [b'\n' | CTRL_D] => break,
            [CTRL_U] => line.clear(),
            [BACKSPACE | DELETE] => erase_char(&mut line),
            [byte] if line.len() < max => line.push(byte),
            _ => {}
        }
    }
    let is_more = rustix::io::ioctl_fionread(io::stdin().as_fd())? > 0;
    Ok(if is_more {
        TypedInput::SeveralLines
    } else {
        TypedInput::Line(line)
    })
}

/// Removes the last character with all its bytes.
fn erase_char(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
}
