//! Guards the parser's stack: the parser recurses once or more for every open bracket.

/// More than any program needs, and less than half of what fits an 8 MiB stack.
pub(super) const MAX_DEPTH: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum LexicalContext {
    Code,
    Quotes(u8),
    LineComment,
    BlockComment,
}

/// Finds where brackets are first open more than [`MAX_DEPTH`] deep. This skips quotes and comments without parsing, so
/// brackets in a template or a regular expression count.
pub(super) fn find_too_deep(source: &str) -> Option<u32> {
    let bytes = source.as_bytes();
    let mut inside = LexicalContext::Code;
    let mut depth = 0_usize;
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        let next = bytes.get(index + 1).copied();
        match inside {
            LexicalContext::Code => match (byte, next) {
                (b'(' | b'[' | b'{', _) => {
                    depth += 1;
                    if depth > MAX_DEPTH {
                        return Some(u32::try_from(index).unwrap_or(u32::MAX));
                    }
                }
                (b')' | b']' | b'}', _) => depth = depth.saturating_sub(1),
                (b'"' | b'\'', _) => inside = LexicalContext::Quotes(byte),
                (b'/', Some(b'/')) => inside = LexicalContext::LineComment,
                (b'/', Some(b'*')) => {
                    inside = LexicalContext::BlockComment;
                    index += 1;
                }
                _ => {}
            },
            LexicalContext::Quotes(quote) => match byte {
                b'\\' => index += 1,
                b'\n' => inside = LexicalContext::Code,
                _ if byte == quote => inside = LexicalContext::Code,
                _ => {}
            },
            LexicalContext::LineComment => {
                if byte == b'\n' {
                    inside = LexicalContext::Code;
                }
            }
            LexicalContext::BlockComment => {
                if (byte, next) == (b'*', Some(b'/')) {
                    inside = LexicalContext::Code;
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
