use super::*;

/// A small generator with a fixed seed, so that a failure can be run again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end.max(1) as u64).unwrap()
    }
}

const ODD: &[u8] = b"\0\n\t :-[]{}&*!|>'\"%@`#,./\\09aZ";

/// Cuts, doubles, swaps and overwrites parts of a seed.
fn mutate(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(12)).min(bytes.len());
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = ODD[random.below(ODD.len())],
            1 => drop(bytes.drain(at..end)),
            2 => {
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
            3 => bytes.truncate(end),
            _ => bytes.insert(at, u8::try_from(random.below(256)).unwrap()),
        }
    }
    bytes
}

fn run(target: fn(&[u8]), seeds: &[&[u8]], rounds: usize) {
    let mut random = Random(0x5eed_1234_abcd_0001);
    for seed in seeds {
        target(seed);
        for _ in 0..rounds {
            target(&mutate(seed, &mut random));
        }
    }
}

#[test]
fn policy_documents_hold_their_invariants() {
    let mut seeds: Vec<&[u8]> = crate::presets()
        .filter_map(crate::preset_text)
        .map(str::as_bytes)
        .collect();
    seeds.push(include_bytes!("../../testdata/contract.yaml"));
    let small: [&[u8]; 9] = [
        b"env: { A: \"x\\x7fy\\u0085\\u2028\\ufeff\" }",
        b"tools: { rules: [{ deny: a.b, where: { p: { one_of: [1e300, 18446744073709551615, -9223372036854775808, 0.1, null, [true]] } } }] }",
        b"tools: { rules: [{ allow: 'a.*', where: { p: { equals: 1.5, max: 3 } } }] }",
        b"net: { enabled: true, allowlist: [{ host: '*.a.example.org', ports: [1], addresses: [10.0.0.0/8] }] }",
        b"{\"proc\": {\"cpu_quota\": 0.25, \"mem_limit\": 123456}}",
        b"env: { A: \"x\\u0001y\", B: 'caf\xc3\xa9' }",
        b"fs: { mounts: [{ path: /a, access: rw, quota: 3B, keep: true, keep_for: 90s }], deny: ['[!a-c]x'] }",
        b"data: { pii: { kinds: [], reveal_to: ['a.**'] } }\napprovals: { by: [] }",
        b"data: { pii: { own: [{ name: badge, pattern: 'B-(?<value>\\d+)', check: mod97 }] } }",
    ];
    run(fuzz_policy, &seeds, 60);
    run(fuzz_policy, &small, 1_000);
}

#[test]
fn hosts_and_paths_hold_their_invariants() {
    let tables = [
        include_str!("../../testdata/hosts.tsv"),
        include_str!("../../testdata/paths.tsv"),
        include_str!("../../testdata/urls.tsv"),
    ];
    for table in tables {
        let rows = crate::testdata::rows(table);
        let seeds: Vec<&[u8]> = rows.iter().map(|row| row.spelling.as_bytes()).collect();
        run(fuzz_host, &seeds, 100);
        run(fuzz_path, &seeds, 100);
    }
    run(
        fuzz_host,
        &[b"*.example.com", b"**.a.example.co.uk", b"[2001:db8::1]"],
        2_000,
    );
    run(fuzz_path, &[b"**/.ssh/**", b"a/[b-d]*/?", b"/a/b%20c"], 2_000);
}
