//! Guards the parser's stack: the parser recurses once or more for every open bracket.

/// More than any program needs, and less than half of what fits an 8 MiB stack.
pub(super) const MOST: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    Quotes(u8),
    LineComment,
    BlockComment,
}

/// Finds where brackets are first open more than [`MOST`] deep. This skips quotes and comments without parsing, so
/// brackets in a template or a regular expression count.
pub(super) fn too_deep(source: &str) -> Option<u32> {
    let bytes = source.as_bytes();
    let mut inside = Inside::Code;
    let mut depth = 0_usize;
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        let next = bytes.get(index + 1).copied();
        match inside {
            Inside::Code => match (byte, next) {
                (b'(' | b'[' | b'{', _) => {
                    depth += 1;
                    if depth > MOST {
                        return Some(u32::try_from(index).unwrap_or(u32::MAX));
                    }
                }
                (b')' | b']' | b'}', _) => depth = depth.saturating_sub(1),
                (b'"' | b'\'', _) => inside = Inside::Quotes(byte),
                (b'/', Some(b'/')) => inside = Inside::LineComment,
                (b'/', Some(b'*')) => {
                    inside = Inside::BlockComment;
                    index += 1;
                }
                _ => {}
            },
            Inside::Quotes(quote) => match byte {
                b'\\' => index += 1,
                b'\n' => inside = Inside::Code,
                _ if byte == quote => inside = Inside::Code,
                _ => {}
            },
            Inside::LineComment => {
                if byte == b'\n' {
                    inside = Inside::Code;
                }
            }
            Inside::BlockComment => {
                if (byte, next) == (b'*', Some(b'/')) {
                    inside = Inside::Code;
                    index += 1;
                }
            }
        }
        index += 1;
    }
    None
}

#[cfg(test)]
mod tests;
