use super::fuzz_framing;

/// Numbers that are the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).unwrap()
    }
}

const WORDS: [&str; 16] = [
    "\n",
    "\r\n",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    "\\",
    "\u{feff}",
    r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"a":[1,2,3]}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    r#""id":"#,
    "1e999",
    "\u{0}",
];

#[test]
fn no_bytes_of_a_client_break_the_pipe() {
    let mut numbers = Numbers(0x5eed);
    for _ in 0..4_000 {
        let mut input = vec![u8::try_from(numbers.next(256)).unwrap()];
        for _ in 0..numbers.next(24) {
            match numbers.next(3) {
                0 => input.extend(
                    (0..numbers.next(40))
                        .map(|_| u8::try_from(numbers.next(256)).unwrap())
                        .collect::<Vec<_>>(),
                ),
                1 => input.extend(std::iter::repeat_n(b'[', numbers.next(6000))),
                _ => input.extend_from_slice(WORDS[numbers.next(WORDS.len())].as_bytes()),
            }
        }
        fuzz_framing(&input);
    }
}
