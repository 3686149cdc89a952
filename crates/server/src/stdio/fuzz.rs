//! The entry point for fuzzing the stdio transport: it accepts any bytes, and a panic is a finding.

use futures::FutureExt as _;
use tokio::io::BufReader;

use super::line_reader::{BoundedLines, InputLine};
use super::message::{self, ParsedMessage};

/// Reads a client's bytes as lines and messages. The first byte selects the sizes of the pieces and the longest line.
///
/// # Panics
/// When a line is lost, changed or kept beyond its bound.
pub fn fuzz_framing(bytes: &[u8]) {
    let [cut, input @ ..] = bytes else {
        return;
    };
    let longest = 16 + usize::from(*cut) * 8;
    let mut lines = BoundedLines::new(BufReader::with_capacity(usize::from(*cut) + 1, input), longest);
    let mut rest = input;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        match read_line(&mut lines) {
            InputLine::Whole(read) => {
                assert_eq!(read, line, "a line is read as it is");
                assert!(read.len() <= longest, "a line of {} bytes was held", read.len());
                parse_any(&read);
            }
            InputLine::TooLong { head, tail } => {
                assert!(line.len() > longest, "a line of {} bytes is not too long", line.len());
                assert!(
                    line.starts_with(&head) && line.ends_with(&tail),
                    "both ends are its own"
                );
                let (error, _) = message::too_long(&head, &tail, longest);
                assert!(!error.message.is_empty(), "a refusal says why");
            }
            InputLine::End => panic!("the end came before its time"),
        }
    }
    assert_eq!(
        read_line(&mut lines),
        InputLine::End,
        "what follows the last line's end is none"
    );
}

/// Bytes in memory are always ready.
fn read_line(lines: &mut BoundedLines<BufReader<&[u8]>>) -> InputLine {
    match lines.next_line().now_or_never() {
        Some(Ok(line)) => line,
        Some(Err(error)) => panic!("bytes in memory cannot fail: {error}"),
        None => panic!("bytes in memory are always there"),
    }
}

fn parse_any(line: &[u8]) {
    match message::parse_message(line) {
        ParsedMessage::Message(message) => {
            assert!(serde_json::to_vec(&message).is_ok(), "a message can be written again");
        }
        ParsedMessage::Invalid(error, _) => assert!(!error.message.is_empty(), "a refusal says why"),
        ParsedMessage::Nothing => {}
    }
}

#[cfg(test)]
mod tests;
