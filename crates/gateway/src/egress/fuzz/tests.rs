//! Runs the entry points on seeded inputs: valid ones, and valid ones with a byte changed, removed or doubled.

use super::*;

/// A seeded generator, so that every run is the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % sides.max(1)
    }

    fn bent(&mut self, good: &[u8]) -> Vec<u8> {
        let mut bytes = good.to_vec();
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len());
            match self.roll(4) {
                0 => bytes[at] = u8::try_from(self.roll(256)).unwrap(),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, bytes[at]),
                _ => bytes.insert(at, b"\r\n\0 :;,"[self.roll(7)]),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        bytes
    }
}

fn run(target: fn(&[u8]), seeds: &[&[u8]]) {
    let mut dice = Dice(7);
    for seed in seeds {
        target(seed);
        for _ in 0..3_000 {
            target(&dice.bent(seed));
        }
    }
}

#[test]
fn heads() {
    run(
        fuzz_head,
        &[
            b"\x03GET http://a.example/b HTTP/1.1\r\nHost: a.example\r\n\r\n",
            b"\x00POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\x10PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\x01CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        ],
    );
}

#[test]
fn socks() {
    run(
        fuzz_socks,
        &[
            b"\x02\x05\x01\x00\x05\x01\x00\x03\x09a.example\x01\xbb",
            b"\x00\x05\x02\x00\x02\x05\x01\x00\x01\x5d\xb8\xd8\x22\x00\x50",
            b"\x09\x05\x01\x00\x05\x01\x00\x04aaaabbbbccccdddd\x00\x50",
        ],
    );
}

#[test]
fn tunnels() {
    run(
        fuzz_tunnel,
        &[
            b"\x04GET / HTTP/1.1\r\n",
            b"\x08SSH-2.0-x\r\n",
            b"\x06\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03",
        ],
    );
}
