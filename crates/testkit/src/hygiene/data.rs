//! The data: texts with labelled spans, and descriptions of tools without personal data.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ringfence_hygiene::SensitiveKind;
use serde::Deserialize;

const SET_FILES: [&str; 2] = ["pii_small.json", "pii_synth.json"];
const TOOLS_FILE: &str = "toucan_tools.jsonl";
const LISTING_FILES: [&str; 2] = [TOOLS_FILE, "livemcpbench_tools.jsonl"];

/// A folder that contains all data files.
#[derive(Debug, Clone)]
pub struct HygieneFolder(PathBuf);

/// A set of labelled texts.
#[derive(Debug)]
pub struct LabelledSet {
    /// The name of the set's file.
    pub name: &'static str,
    /// The texts, each with its labels.
    pub texts: Vec<LabelledText>,
}

/// A text with its labels.
#[derive(Debug)]
pub struct LabelledText {
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
    pub kind: SensitiveKind,
}

#[derive(Deserialize)]
struct LabelledLine {
    full_text: String,
    spans: Vec<LabelledSpan>,
}

#[derive(Deserialize)]
struct LabelledSpan {
    entity_type: String,
    start_position: usize,
    end_position: usize,
}

#[derive(Deserialize)]
struct ToolListing {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

impl HygieneFolder {
    /// The folder; an error with the first file that is missing.
    pub fn find(place: &Path) -> Result<HygieneFolder, String> {
        match SET_FILES
            .iter()
            .chain(&LISTING_FILES)
            .find(|file| !place.join(file).is_file())
        {
            Some(missing) => Err(format!("`{missing}` is not in the data folder (RINGFENCE_DATA)")),
            None => Ok(HygieneFolder(place.to_owned())),
        }
    }

    /// Reads the sets of labelled texts.
    pub fn sets(&self) -> Result<Vec<LabelledSet>> {
        SET_FILES.into_iter().map(|name| self.set(name)).collect()
    }

    fn set(&self, name: &'static str) -> Result<LabelledSet> {
        let file = fs::read_to_string(self.0.join(name)).with_context(|| format!("cannot read `{name}`"))?;
        let lines: Vec<LabelledLine> = serde_json::from_str(&file).with_context(|| format!("cannot parse `{name}`"))?;
        let texts = lines.into_iter().map(LabelledText::from).collect();
        Ok(LabelledSet { name, texts })
    }

    /// Reads the tool descriptions of one listing.
    pub fn descriptions(&self) -> Result<Vec<String>> {
        let tools = self.tools(TOOLS_FILE)?;
        Ok(tools.into_iter().filter_map(|tool| tool.description).collect())
    }

    /// Reads the names of tools in all listings.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = BTreeSet::new();
        for file in LISTING_FILES {
            names.extend(self.tools(file)?.into_iter().filter_map(|tool| tool.name));
        }
        Ok(names.into_iter().collect())
    }

    fn tools(&self, file: &str) -> Result<Vec<ToolListing>> {
        let text = fs::read_to_string(self.0.join(file)).with_context(|| format!("cannot read `{file}`"))?;
        let tools = text.lines().map(serde_json::from_str::<ToolListing>);
        tools
            .collect::<Result<_, _>>()
            .with_context(|| format!("cannot parse `{file}`"))
    }
}

impl From<LabelledLine> for LabelledText {
    /// Converts labels from character positions to byte positions.
    fn from(line: LabelledLine) -> LabelledText {
        let text = line.full_text;
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let label = |span: &LabelledSpan| {
            Some(Label {
                start: *places.get(span.start_position)?,
                end: *places.get(span.end_position)?,
                kind: parse_kind(&span.entity_type)?,
            })
        };
        let labels = line.spans.iter().filter_map(label).collect();
        LabelledText { text, labels }
    }
}

fn parse_kind(label: &str) -> Option<SensitiveKind> {
    Some(match label {
        "EMAIL_ADDRESS" => SensitiveKind::Email,
        "CREDIT_CARD" => SensitiveKind::Card,
        "IBAN_CODE" => SensitiveKind::Iban,
        "US_SSN" => SensitiveKind::Ssn,
        "IP_ADDRESS" => SensitiveKind::Ip,
        "DOMAIN_NAME" => SensitiveKind::Url,
        "PHONE_NUMBER" => SensitiveKind::Phone,
        "PERSON" => SensitiveKind::Name,
        "GPE" | "LOCATION" => SensitiveKind::Place,
        "STREET_ADDRESS" | "ADDRESS" => SensitiveKind::Address,
        "ORGANIZATION" => SensitiveKind::Organisation,
        _ => return None,
    })
}
