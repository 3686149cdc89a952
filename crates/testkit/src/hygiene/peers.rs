//! Detectors of others on the same texts, in the same run: three Python packages, one crate.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use ringfence_hygiene::{Evidence, Finding, Kind};
use serde::{Deserialize, Serialize};

use super::score::Found;
use crate::peer::Peer;

/// A detector, and the arguments of its script.
struct Other {
    peer: Peer,
    arguments: &'static [&'static str],
}

const INSTALL: &[&[&str]] = &[
    &["python3", "-m", "venv", "hygiene"],
    &[
        "hygiene/bin/pip",
        "install",
        "--quiet",
        "presidio-analyzer==2.2.366",
        "scrubadub==2.0.1",
        "datafog==4.9.0",
    ],
];

const OTHERS: [Other; 4] = [
    python("presidio-analyzer 2.2.366, patterns", &["presidio"]),
    python("scrubadub 2.0.1", &["scrubadub"]),
    python("datafog 4.9.0", &["datafog"]),
    Other {
        peer: Peer {
            name: "redact-core 0.12.7",
            runner: &["redact/release/ringfence-peer-redact"],
            install: &[&[
                "cargo",
                "build",
                "--release",
                "--locked",
                "--quiet",
                "--manifest-path",
                concat!(env!("CARGO_MANIFEST_DIR"), "/peers/redact/Cargo.toml"),
                "--target-dir",
                "redact",
            ]],
            script: ("redact", ""),
        },
        arguments: &[],
    },
];

const fn python(name: &'static str, arguments: &'static [&'static str]) -> Other {
    Other {
        peer: Peer {
            name,
            runner: &["hygiene/bin/python"],
            install: INSTALL,
            script: ("hygiene.py", include_str!("peers.py")),
        },
        arguments,
    }
}

/// The input of the peers: texts to search, and pieces to measure speed on.
#[derive(Debug, Serialize)]
pub struct Given<'t> {
    /// The texts that a peer searches.
    pub texts: Vec<&'t str>,
    /// Pieces of 10 KB each.
    pub pieces: &'t [String],
}

/// The findings of one peer.
#[derive(Debug)]
pub struct Told {
    /// The name and version of the peer.
    pub name: &'static str,
    /// Its findings in each text, of the kinds that are compared.
    pub found: Found,
    /// The speed in megabytes per second.
    pub speed: f64,
}

#[derive(Deserialize)]
struct Answer {
    found: Vec<Vec<(usize, usize, String)>>,
    seconds: f64,
}

/// Asks each peer; an error text says why one cannot run.
pub fn ask(given: &Given<'_>) -> Result<Vec<Result<Told, String>>> {
    let mut file = tempfile::NamedTempFile::new().context("cannot make a file for the peers")?;
    serde_json::to_writer(&mut file, given).context("cannot write the texts for the peers")?;
    file.flush().context("cannot write the texts for the peers")?;
    let place = file.path().to_string_lossy().into_owned();
    let told = |other: &Other| {
        let said = other.said(&place, given);
        said.map_err(|error| format!("{}: not measured: {error:#}", other.peer.name))
    };
    Ok(OTHERS.iter().map(told).collect())
}

impl Other {
    fn said(&self, place: &str, given: &Given<'_>) -> Result<Told> {
        let mut arguments = self.arguments.to_vec();
        arguments.push(place);
        let said = self.peer.measure(&arguments)?;
        let answer: Answer = serde_json::from_str(&said).context("it said something else")?;
        ensure!(answer.found.len() == given.texts.len(), "it read other texts");
        let spans = answer.found.into_iter().map(|spans| {
            let spans = spans.into_iter();
            spans
                .filter_map(|(start, end, word)| finding(start, end, &word))
                .collect()
        });
        let bytes: usize = given.pieces.iter().map(String::len).sum();
        #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
        let speed = bytes as f64 / 1e6 / answer.seconds.max(1e-9);
        Ok(Told {
            name: self.peer.name,
            found: spans.collect(),
            speed,
        })
    }
}

/// Converts a finding, if its kind is one that is compared.
fn finding(start: usize, end: usize, word: &str) -> Option<Finding> {
    let kind = match word {
        "EMAIL_ADDRESS" | "EMAIL" | "email" => Kind::Email,
        "CREDIT_CARD" | "credit_card" => Kind::Card,
        "IBAN_CODE" | "IBAN" => Kind::Iban,
        "US_SSN" | "SSN" | "social_security_number" => Kind::Ssn,
        "IP_ADDRESS" => Kind::Ip,
        "URL" | "DOMAIN_NAME" | "url" => Kind::Url,
        "PHONE_NUMBER" | "UK_PHONE_NUMBER" | "UK_MOBILE_NUMBER" | "PHONE" | "phone" => Kind::Phone,
        _ => return None,
    };
    Some(Finding {
        start,
        end,
        kind,
        by: Evidence::Form,
    })
}
