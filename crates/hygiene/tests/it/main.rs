//! Measures the memory that a full table of aliases takes. Nothing else runs in this process, so that the growth is
//! the table's.
#![forbid(unsafe_code)]

use ringfence_hygiene::{
    AliasOrigin, Aliases, Detector, DetectorConfig, NameDetection, SchemaHints, SecretDetection, SensitiveKinds,
};
use serde_json::{Value, json};

/// What a table may take, and what the allocator keeps of what was freed.
const MAX_GROWTH: usize = (64 + 4) << 20;

/// Returns the memory that this process has in use.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: usize = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}

/// Fills a table until it is full, and returns how many values it took.
fn fill(aliases: &mut Aliases, detector: &Detector, value: impl Fn(usize) -> Value) -> usize {
    for from in (0..).step_by(1_000) {
        let before = aliases.len();
        let values: Vec<Value> = (from..from + 1_000).map(&value).collect();
        let hidden = aliases.hide_json(detector, values.into(), &SchemaHints::none());
        aliases.mask_known_json(hidden.shown);
        if aliases.len() < before + 1_000 {
            break;
        }
    }
    aliases.len()
}

#[test]
fn a_full_table_takes_sixty_four_mebibytes() {
    let detector = Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Off,
        own: Vec::new(),
    });
    let Some(before) = resident_bytes() else {
        println!("SKIPPED: this system does not tell what memory a process has");
        return;
    };
    let phone = |number: usize| json!({ "phone": format!("+49 170 {number:07}") });
    let letter = |number: usize| char::from(b"abcdefghij"[number % 10]);
    let letters = |number: usize| {
        (0..6)
            .map(|place| letter(number / 10_usize.pow(place)))
            .collect::<String>()
    };
    let name = |number: usize| json!({ "customer": format!("Zoë {}", letters(number)) });
    for (value, least) in [(&phone as &dyn Fn(usize) -> Value, 200_000), (&name, 150_000)] {
        let mut aliases = Aliases::new().unwrap();
        aliases.with_origin(AliasOrigin::Program);
        let count = fill(&mut aliases, &detector, value);
        let growth = resident_bytes().unwrap().saturating_sub(before);
        println!("{count} values take {} KiB", growth >> 10);
        assert!(count >= least, "{count}");
        assert!(growth <= MAX_GROWTH, "{count} values take {growth} bytes");
    }
}
