//! Scores.
use ringfence_hygiene::{Detector, Kind, Kinds, Settings};
use serde_json::Value;
use std::collections::BTreeMap;

struct Gold {
    start: usize,
    end: usize,
    kind: &'static str,
}
fn kind_of(label: &str) -> Option<&'static str> {
    Some(match label {
        "EMAIL_ADDRESS" => "email",
        "CREDIT_CARD" => "card",
        "IBAN_CODE" => "iban",
        "US_SSN" => "ssn",
        "IP_ADDRESS" => "ip",
        "DOMAIN_NAME" => "url",
        "PHONE_NUMBER" => "phone",
        "PERSON" => "name",
        "GPE" | "LOCATION" => "place",
        "STREET_ADDRESS" | "ADDRESS" => "address",
        "ORGANIZATION" => "org",
        _ => return None,
    })
}
#[derive(Default, Debug)]
struct Score {
    gold: usize,
    found: usize,
    hits: usize,
    exact: usize,
    hidden: usize,
}

fn main() {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "../shared/data".to_owned());
    let show = std::env::args().nth(2).unwrap_or_default();
    let sec = if show == "nosec" {
        ringfence_hygiene::Secrets::Off
    } else {
        ringfence_hygiene::Secrets::Redact
    };
    let detector = Detector::new(&Settings {
        kinds: Kinds::all(),
        names: ringfence_hygiene::Names::Dictionary,
        secrets: sec,
        own: Vec::new(),
    });
    for set in ["pii_small.json", "pii_synth.json"] {
        let text = std::fs::read_to_string(format!("{dir}/{set}")).unwrap();
        let docs: Vec<Value> = serde_json::from_str(&text).unwrap();
        let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
        for doc in &docs {
            let text = doc["full_text"].as_str().unwrap();
            let offsets: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
            let golds: Vec<Gold> = doc["spans"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|s| {
                    Some(Gold {
                        start: offsets[s["start_position"].as_u64()? as usize],
                        end: offsets[s["end_position"].as_u64()? as usize],
                        kind: kind_of(s["entity_type"].as_str()?)?,
                    })
                })
                .collect();
            let found = detector.find(text);
            let mut used = vec![false; found.len()];
            for f in &found {
                scores.entry(word(f.kind)).or_default().found += 1;
            }
            for g in &golds {
                let s = scores.entry(g.kind).or_default();
                s.gold += 1;
                let best = found
                    .iter()
                    .enumerate()
                    .filter(|(i, f)| !used[*i] && word(f.kind) == g.kind)
                    .find(|(_, f)| {
                        let inter = f.end.min(g.end).saturating_sub(f.start.max(g.start));
                        let union = f.end.max(g.end) - f.start.min(g.start);
                        inter * 2 >= union
                    });
                if let Some((i, f)) = best {
                    used[i] = true;
                    s.hits += 1;
                    if (f.start, f.end) == (g.start, g.end) {
                        s.exact += 1;
                    }
                } else if show == "miss" || show == g.kind {
                    println!("MISS {} [{}] in {:?}", g.kind, &text[g.start..g.end], text);
                }
                let hidden = text[g.start..g.end].char_indices().all(|(i, c)| {
                    c.is_whitespace() || found.iter().any(|f| f.start <= g.start + i && g.start + i < f.end)
                });
                if hidden {
                    s.hidden += 1;
                }
            }
            for (i, f) in found.iter().enumerate() {
                if !used[i] && (show == "miss" || show == word(f.kind)) {
                    println!("FALSE {} [{}] in {:?}", f.kind, &text[f.start..f.end], text);
                }
            }
        }
        println!("{set}");
        for (k, s) in &scores {
            println!(
                "  {k:8} gold {:4} P {:.3} R {:.3} exact {:.3} hidden {:.3}",
                s.gold,
                s.hits as f64 / s.found as f64,
                s.hits as f64 / s.gold as f64,
                s.exact as f64 / s.gold as f64,
                s.hidden as f64 / s.gold as f64
            );
        }
    }
    let tools = std::fs::read_to_string(format!("{dir}/toucan_tools.jsonl")).unwrap();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = String::new();
    for line in tools.lines() {
        let v: Value = serde_json::from_str(line).unwrap();
        let d = v["description"].as_str().unwrap_or("");
        all.push_str(d);
        all.push('\n');
        for f in detector.find(d) {
            *counts.entry(f.kind.to_string()).or_default() += 1;
            if !matches!(f.kind, Kind::Email | Kind::Url) {
                let a = d[..f.start].char_indices().rev().nth(40).map_or(0, |x| x.0);
                println!("TOUCAN {} [{}] after {:?}", f.kind, &d[f.start..f.end], &d[a..f.start]);
            }
        }
    }
    println!("{counts:?}");
    let started = std::time::Instant::now();
    let c0 = cpu();
    let mut n = 0;
    let mut bytes = 0;
    while started.elapsed().as_millis() < 500 {
        for chunk in pieces(&all) {
            n += detector.find(chunk).len();
            bytes += chunk.len();
        }
    }
    println!(
        "tool descriptions {:.0} MB/s ({n})",
        bytes as f64 / (cpu() - c0) as f64 * 1e3
    );
    let text = std::fs::read_to_string(format!("{dir}/pii_synth.json")).unwrap();
    let docs: Vec<Value> = serde_json::from_str(&text).unwrap();
    let all: String = docs
        .iter()
        .map(|d| d["full_text"].as_str().unwrap().to_owned() + "\n")
        .collect();
    let started = std::time::Instant::now();
    let c0 = cpu();
    let mut n = 0;
    let mut bytes = 0;
    while started.elapsed().as_millis() < 500 {
        for chunk in pieces(&all) {
            n += detector.find(chunk).len();
            bytes += chunk.len();
        }
    }
    println!("synth {:.0} MB/s ({n})", bytes as f64 / (cpu() - c0) as f64 * 1e3);
}
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Email => "email",
        Kind::Phone => "phone",
        Kind::Card => "card",
        Kind::Iban => "iban",
        Kind::Ssn => "ssn",
        Kind::Ip => "ip",
        Kind::Url => "url",
        Kind::Name => "name",
        Kind::Place => "place",
        Kind::Address => "address",
        Kind::Organisation => "org",
        _ => "other",
    }
}
fn pieces(all: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = all;
    while rest.len() > 10_000 {
        let mut at = 10_000;
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        out.push(&rest[..at]);
        rest = &rest[at..];
    }
    out.push(rest);
    out
}

fn cpu() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}
