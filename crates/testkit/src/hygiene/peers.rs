//! Detectors of others on the same texts, in the same run: three Python packages, one crate.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use ringfence_hygiene::{Evidence, SensitiveKind, SensitiveSpan};
use serde::{Deserialize, Serialize};

use super::score::DetectorFindings;
use crate::peer::MeasuredPeer;

/// A detector, and the arguments of its script.
struct DetectorPeer {
    peer: MeasuredPeer,
    arguments: &'static [&'static str],
}

const INSTALL_COMMANDS: &[&[&str]] = &[
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

const PEERS: [DetectorPeer; 4] = [
    python_peer("presidio-analyzer 2.2.366, patterns", &["presidio"]),
    python_peer("scrubadub 2.0.1", &["scrubadub"]),
    python_peer("datafog 4.9.0", &["datafog"]),
    DetectorPeer {
        peer: MeasuredPeer {
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

const fn python_peer(name: &'static str, arguments: &'static [&'static str]) -> DetectorPeer {
    DetectorPeer {
        peer: MeasuredPeer {
            name,
            runner: &["hygiene/bin/python"],
            install: INSTALL_COMMANDS,
            script: ("hygiene.py", include_str!("peers.py")),
        },
        arguments,
    }
}

/// The input of the peers: texts to search, and pieces to measure speed on.
#[derive(Debug, Serialize)]
pub struct PeerInput<'t> {
    /// The texts that a peer searches.
    pub texts: Vec<&'t str>,
    /// Pieces of 10 KB each.
    pub pieces: &'t [String],
}

/// The findings of one peer.
#[derive(Debug)]
pub struct PeerFindings {
    /// The name and version of the peer.
    pub name: &'static str,
    /// Its findings in each text, of the kinds that are compared.
    pub found: DetectorFindings,
    /// The speed in megabytes per second.
    pub speed: f64,
}

#[derive(Deserialize)]
struct PeerAnswer {
    found: Vec<Vec<(usize, usize, String)>>,
    seconds: f64,
}

/// Asks each peer; an error text says why one cannot run.
pub fn ask_peers(given: &PeerInput<'_>) -> Result<Vec<Result<PeerFindings, String>>> {
    let mut file = tempfile::NamedTempFile::new().context("cannot make a file for the peers")?;
    serde_json::to_writer(&mut file, given).context("cannot write the texts for the peers")?;
    file.flush().context("cannot write the texts for the peers")?;
    let place = file.path().to_string_lossy().into_owned();
    let told = |other: &DetectorPeer| {
        let said = other.run(&place, given);
        said.map_err(|error| format!("{}: not measured: {error:#}", other.peer.name))
    };
    Ok(PEERS.iter().map(told).collect())
}

impl DetectorPeer {
    fn run(&self, place: &str, given: &PeerInput<'_>) -> Result<PeerFindings> {
        let mut arguments = self.arguments.to_vec();
        arguments.push(place);
        let said = self.peer.measure(&arguments)?;
        let answer: PeerAnswer = serde_json::from_str(&said).context("it said something else")?;
        ensure!(answer.found.len() == given.texts.len(), "it read other texts");
        let spans = answer.found.into_iter().map(|spans| {
            let spans = spans.into_iter();
            spans
                .filter_map(|(start, end, word)| to_finding(start, end, &word))
                .collect()
        });
        let bytes: usize = given.pieces.iter().map(String::len).sum();
        #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
        let speed = bytes as f64 / 1e6 / answer.seconds.max(1e-9);
        Ok(PeerFindings {
            name: self.peer.name,
            found: spans.collect(),
            speed,
        })
    }
}

/// Converts a finding, if its kind is one that is compared.
fn to_finding(start: usize, end: usize, word: &str) -> Option<SensitiveSpan> {
    let kind = match word {
        "EMAIL_ADDRESS" | "EMAIL" | "email" => SensitiveKind::Email,
        "CREDIT_CARD" | "credit_card" => SensitiveKind::Card,
        "IBAN_CODE" | "IBAN" => SensitiveKind::Iban,
        "US_SSN" | "SSN" | "social_security_number" => SensitiveKind::Ssn,
        "IP_ADDRESS" => SensitiveKind::Ip,
        "URL" | "DOMAIN_NAME" | "url" => SensitiveKind::Url,
        "PHONE_NUMBER" | "UK_PHONE_NUMBER" | "UK_MOBILE_NUMBER" | "PHONE" | "phone" => SensitiveKind::Phone,
        _ => return None,
    };
    Some(SensitiveSpan {
        start,
        end,
        kind,
        by: Evidence::Form,
    })
}
