//! The data: texts with labelled spans, and descriptions of tools without personal data.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ringfence_hygiene::Kind;
use serde::Deserialize;

const SETS: [&str; 2] = ["pii_small.json", "pii_synth.json"];
const TOOLS: &str = "toucan_tools.jsonl";
const LISTINGS: [&str; 2] = [TOOLS, "livemcpbench_tools.jsonl"];

/// A folder that contains all data files.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

/// A set of labelled texts.
#[derive(Debug)]
pub struct Set {
    /// The name of the set's file.
    pub name: &'static str,
    /// The texts, each with its labels.
    pub texts: Vec<Text>,
}

/// A text with its labels.
#[derive(Debug)]
pub struct Text {
    /// The text that detectors search.
    pub text: String,
    /// The labels, with positions in bytes.
    pub labels: Vec<Label>,
}

/// A labelled stretch of a text.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    /// The position of the first byte.
    pub start: usize,
    /// The position after the last byte.
    pub end: usize,
    /// The kind of personal data in the stretch.
    pub kind: Kind,
}

#[derive(Deserialize)]
struct Line {
    full_text: String,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    entity_type: String,
    start_position: usize,
    end_position: usize,
}

#[derive(Deserialize)]
struct Tool {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

impl Folder {
    /// The folder; an error with the first file that is missing.
    pub fn find(place: &Path) -> Result<Folder, String> {
        match SETS.iter().chain(&LISTINGS).find(|file| !place.join(file).is_file()) {
            Some(missing) => Err(format!("`{missing}` is not in the data folder (RINGFENCE_DATA)")),
            None => Ok(Folder(place.to_owned())),
        }
    }

    /// Reads the sets of labelled texts.
    pub fn sets(&self) -> Result<Vec<Set>> {
        SETS.into_iter().map(|name| self.set(name)).collect()
    }

    fn set(&self, name: &'static str) -> Result<Set> {
        let file = fs::read_to_string(self.0.join(name)).with_context(|| format!("cannot read `{name}`"))?;
        let lines: Vec<Line> = serde_json::from_str(&file).with_context(|| format!("cannot parse `{name}`"))?;
        let texts = lines.into_iter().map(Text::from).collect();
        Ok(Set { name, texts })
    }

    /// Reads the tool descriptions of one listing.
    pub fn descriptions(&self) -> Result<Vec<String>> {
        let tools = self.tools(TOOLS)?;
        Ok(tools.into_iter().filter_map(|tool| tool.description).collect())
    }

    /// Reads the names of tools in all listings.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = BTreeSet::new();
        for file in LISTINGS {
            names.extend(self.tools(file)?.into_iter().filter_map(|tool| tool.name));
        }
        Ok(names.into_iter().collect())
    }

    fn tools(&self, file: &str) -> Result<Vec<Tool>> {
        let text = fs::read_to_string(self.0.join(file)).with_context(|| format!("cannot read `{file}`"))?;
        let tools = text.lines().map(serde_json::from_str::<Tool>);
        tools
            .collect::<Result<_, _>>()
            .with_context(|| format!("cannot parse `{file}`"))
    }
}

impl From<Line> for Text {
    /// Converts labels from character positions to byte positions.
    fn from(line: Line) -> Text {
        let text = line.full_text;
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let label = |span: &Span| {
            Some(Label {
                start: *places.get(span.start_position)?,
                end: *places.get(span.end_position)?,
                kind: kind(&span.entity_type)?,
            })
        };
        let labels = line.spans.iter().filter_map(label).collect();
        Text { text, labels }
    }
}

fn kind(label: &str) -> Option<Kind> {
    Some(match label {
        "EMAIL_ADDRESS" => Kind::Email,
        "CREDIT_CARD" => Kind::Card,
        "IBAN_CODE" => Kind::Iban,
        "US_SSN" => Kind::Ssn,
        "IP_ADDRESS" => Kind::Ip,
        "DOMAIN_NAME" => Kind::Url,
        "PHONE_NUMBER" => Kind::Phone,
        "PERSON" => Kind::Name,
        "GPE" | "LOCATION" => Kind::Place,
        "STREET_ADDRESS" | "ADDRESS" => Kind::Address,
        "ORGANIZATION" => Kind::Organisation,
        _ => return None,
    })
}
