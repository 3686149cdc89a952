//! Limits the number of JSON values of a message before it is parsed: a small text must not become a large tree.

/// The most values in one message.
pub(crate) const MAX_JSON_VALUES: usize = 250_000;

/// Whether a JSON text has too many values to be parsed. It counts opening brackets and commas outside of strings.
pub(crate) fn has_too_many_values(text: &[u8]) -> bool {
    let (mut quoted, mut escaped, mut count) = (false, false, 1_usize);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => count += 1,
            _ => {}
        }
    }
    count > MAX_JSON_VALUES
}
