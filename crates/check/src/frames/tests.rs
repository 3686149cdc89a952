use super::*;

fn decode(pieces: &[&[u8]]) -> Result<Vec<String>, LspFrameError> {
    let (mut decoder, mut seen) = (LspDecoder::default(), Vec::new());
    for piece in pieces {
        decoder.push(piece, &mut |incoming| {
            seen.push(match incoming {
                LspIncoming::Answer { number, result } => {
                    format!(
                        "{number}={}",
                        result.map_or_else(|| "none".to_owned(), |result| result.get().to_owned())
                    )
                }
                LspIncoming::Request { id, method, items } => format!("{id}?{method}/{items}"),
            });
        })?;
    }
    Ok(seen)
}

fn framed(body: &str) -> Vec<u8> {
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn messages_are_put_together_from_any_pieces() {
    let mut bytes = framed(r#"{"jsonrpc":"2.0","id":7,"result":{"items":[]}}"#);
    bytes.extend(framed(r#"{"method":"window/logMessage","params":{"message":"é"}}"#));
    bytes.extend(framed(
        r#"{"id":"a","method":"workspace/configuration","params":{"items":[{},{}]}}"#,
    ));
    bytes.extend(framed(r#"{"id":8,"error":{"code":1,"message":"no"}}"#));
    let expected = ["7={\"items\":[]}", "\"a\"?workspace/configuration/2", "8=none"];
    for size in [1, 2, 7, 64, bytes.len()] {
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(decode(&pieces).unwrap(), expected, "in pieces of {size}");
    }
}

#[test]
fn nonsense_ends_the_conversation() {
    let check = |bytes: &[u8], expected| assert_eq!(decode(&[bytes]), Err(expected), "{bytes:?}");
    check(&[b'x'; 2000], LspFrameError::Header);
    check(b"Content-Length: -1\r\n\r\n", LspFrameError::Header);
    check(b"Content-Length: +1\r\n\r\n", LspFrameError::Header);
    check(b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", LspFrameError::Header);
    check(b"Content-Type: x\r\n\r\n", LspFrameError::Header);
    check(b"\r\n\r\n", LspFrameError::Header);
    check(b"\xff: 1\r\n\r\n", LspFrameError::Header);
    check(b"Content-Length: 8388609\r\n\r\n", LspFrameError::TooLong);
    check(
        b"Content-Length: 99999999999999999999999\r\n\r\n",
        LspFrameError::TooLong,
    );
    check(&framed("{"), LspFrameError::Message);
    check(&framed("{}"), LspFrameError::Message);
    check(&framed(r#"{"id":"x","result":1}"#), LspFrameError::Message);
    check(&framed(&"[".repeat(100_000)), LspFrameError::Message);
    let long = format!(r#"{{"id":1,"method":"{}"}}"#, "m".repeat(MAX_REQUEST_BYTES));
    check(&framed(&long), LspFrameError::TooLong);
}

#[test]
fn a_request_of_the_checker_is_answered_with_nothing() {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"result":[null,null]}"#;
    let answer = text(encode_empty_answer(&json!(1), "workspace/configuration", 2));
    assert_eq!(answer, format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    assert!(text(encode_empty_answer(&json!("a"), "client/registerCapability", 2)).ends_with("\"result\":null}"));
}
