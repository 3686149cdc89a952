//! Runs the entry points on seeded inputs.

use super::fuzz_hygiene;

#[test]
fn seeded_inputs_break_nothing() {
    let seeds: [&[u8]; 8] = [
        b"",
        b"{\"name\":\"Ann Lee\",\"n\":[1,2,{\"e\":\"a@b.co\"}]}",
        b"name,email\nAnn,a@b.co\n",
        b"\xff\xfe\x1b[31m",
        "‹email:222222› ⟦ringfence: x⟧".as_bytes(),
        b"| name |\n|---|\n| Ann |",
        b"4532 2766 4457 7020 +41 44 668 18 00",
        b"Mr. Smith's card: 4532276644577020, born 1/2/1980 \xe2\x80",
    ];
    let mut state = 7_u64;
    for seed in seeds {
        fuzz_hygiene(seed);
        for _ in 0..60 {
            let mut bytes = seed.repeat(2);
            for _ in 0..4 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let random = usize::try_from(state >> 33).unwrap();
                if !bytes.is_empty() {
                    let at = random % bytes.len();
                    bytes[at] = bytes[(random / 7) % bytes.len()].wrapping_add(u8::try_from(random % 3).unwrap());
                }
            }
            fuzz_hygiene(&bytes);
        }
    }
}
