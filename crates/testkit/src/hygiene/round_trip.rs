//! Random documents, hidden and revealed again: each must come back unchanged.

use anyhow::{Result, ensure};
use ringfence_hygiene::{Aliases, Detector, SchemaHints};
use serde_json::{Map, Value};

use super::data::LabelledSet;

const KEYS: [&str; 12] = [
    "name", "email", "phone", "note", "items", "customer", "address", "id", "ssn", "city", "value", "card",
];

/// A seeded generator: the numbers are the same in every run.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(usize::MAX) % most.max(1)
    }
}

/// Hides and reveals so many documents; returns the number of aliases.
pub fn measure_round_trips(detector: &Detector, sets: &[LabelledSet], count: usize) -> Result<u64> {
    let texts: Vec<&str> = sets
        .iter()
        .flat_map(|set| &set.texts)
        .map(|text| text.text.as_str())
        .collect();
    let mut dice = SeededRandom(0x9e37_79b9_7f4a_7c15);
    let mut aliases = Aliases::new()?;
    let mut hidden = 0;
    for number in 0..count {
        // A new alias table now and then, as sessions have.
        if number % 100 == 0 {
            aliases = Aliases::new()?;
        }
        let document = random_value(&mut dice, &texts, 3);
        let shown = aliases.hide_json(detector, document.clone(), &SchemaHints::none());
        hidden += shown.counts.total();
        ensure!(
            aliases.reveal_json(shown.shown)? == document,
            "document {number} came back changed"
        );
        let text = document.to_string();
        let shown = aliases.hide(detector, &text);
        hidden += shown.counts.total();
        ensure!(aliases.reveal(&shown.shown)? == text, "text {number} came back changed");
    }
    Ok(hidden)
}

fn random_value(dice: &mut SeededRandom, texts: &[&str], depth: usize) -> Value {
    let kinds = if depth == 0 { 4 } else { 6 };
    match dice.below(kinds) {
        0 => Value::Null,
        1 => Value::from(dice.below(1_000_000_000)),
        2 | 3 => Value::from(random_text(dice, texts)),
        4 => (0..dice.below(4))
            .map(|_| random_value(dice, texts, depth - 1))
            .collect(),
        _ => {
            let mut map = Map::new();
            for _ in 0..dice.below(6) {
                let key = KEYS[dice.below(KEYS.len())].to_owned();
                map.insert(key, random_value(dice, texts, depth - 1));
            }
            Value::Object(map)
        }
    }
}

/// A text, or a part of one between two characters.
fn random_text(dice: &mut SeededRandom, texts: &[&str]) -> String {
    let letters: Vec<char> = texts.get(dice.below(texts.len())).unwrap_or(&"").chars().collect();
    let start = dice.below(letters.len());
    match dice.below(3) {
        0 => letters.iter().collect(),
        1 => letters[start..].iter().collect(),
        _ => {
            let end = start + dice.below(letters.len() - start + 1);
            letters[start..end].iter().collect()
        }
    }
}
