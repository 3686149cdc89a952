//! The detector: finds all kinds of personal data and secrets, in text and in JSON.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::custom::CustomKind;
use crate::finding::{Evidence, SensitiveSpan, resolve_overlaps};
use crate::hints::SchemaHints;
use crate::json_context::{JsonColumns, MAX_DEPTH, ValueContext};
use crate::kind::{SensitiveKind, SensitiveKinds};
use crate::scan::{ScanResult, ScanScope, scan_text};
use crate::value::HintSource;
use crate::zero_width::find_in_readings;
use crate::{secret, table, value};

/// The configuration of a detector.
#[derive(Debug, Clone)]
pub struct DetectorConfig {
    /// The kinds of personal data to find.
    pub kinds: SensitiveKinds,
    /// How names, places and addresses are found.
    pub names: NameDetection,
    /// What happens to secrets.
    pub secrets: SecretDetection,
    /// Custom kinds of the operator, searched in addition to `kinds`.
    pub own: Vec<CustomKind>,
}

/// How names of people, places and addresses are found.
#[derive(Clone)]
#[non_exhaustive]
pub enum NameDetection {
    /// By the key, column or label before them.
    Keys,
    /// Also in prose, by dictionaries. Organisations need a reader with a model.
    Dictionary,
    /// Also in prose, by a reader of the operator, such as one with a model.
    Reader(Arc<dyn ProseReader>),
}

/// Finds names, places and organisations in running text, which only a reader can recognise.
pub trait ProseReader: Send + Sync {
    /// Returns the findings in a text, in any order. Findings outside the text or inside a character are dropped.
    fn find(&self, text: &str) -> Vec<SensitiveSpan>;
}

/// Whether secrets are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretDetection {
    /// Secrets are detected and removed.
    Redact,
    /// Secrets are not detected.
    Off,
}

impl fmt::Debug for NameDetection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            NameDetection::Keys => "Keys",
            NameDetection::Dictionary => "Dictionary",
            NameDetection::Reader(_) => "Reader",
        })
    }
}

/// A finding in a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SensitiveJsonSpan {
    /// JSON pointer to the string or number.
    pub pointer: String,
    /// Whether it is in the key at the end of the pointer, rather than in the value.
    pub in_key: bool,
    /// The finding, in bytes of that string or of the number as written.
    pub finding: SensitiveSpan,
}

/// Finds personal data and secrets. Create it once and share it.
#[derive(Debug, Clone)]
pub struct Detector {
    settings: DetectorConfig,
}

impl Detector {
    /// Creates a detector from its configuration.
    pub fn new(settings: &DetectorConfig) -> Detector {
        let mut settings = settings.clone();
        settings.kinds = match settings.secrets {
            SecretDetection::Redact => settings.kinds.with(SensitiveKind::Secret),
            SecretDetection::Off => settings.kinds.without(SensitiveKind::Secret),
        };
        Detector { settings }
    }

    /// Returns the findings in a text, in order and without overlaps. CSV and Markdown tables are read by their
    /// headers.
    pub fn find(&self, text: &str) -> Vec<SensitiveSpan> {
        find_in_readings(text, |text| {
            let mut found = Vec::new();
            self.find_in_tables(text, &mut found);
            self.find_everything(text, ScanScope::Text, found)
        })
    }

    /// Returns the findings in one value, given the kind that its key or column states.
    pub fn find_value(&self, text: &str, said: Option<SensitiveKind>) -> Vec<SensitiveSpan> {
        find_in_readings(text, |text| {
            let mut found = Vec::new();
            if let Some(kind) = said {
                self.add_confirmed(text, 0, kind, &mut found);
            }
            if text.contains('\n') {
                self.find_in_tables(text, &mut found);
            }
            self.find_everything(text, ScanScope::Value, found)
        })
    }

    /// Returns the findings in a JSON value, keys included. Values at excessive depth are not checked.
    pub fn find_json(&self, value: &Value, hints: &SchemaHints) -> Vec<SensitiveJsonSpan> {
        let mut walk = JsonWalk {
            detector: self,
            pointer: String::new(),
            out: Vec::new(),
        };
        walk.visit_value(value, ValueContext::root(hints), MAX_DEPTH);
        walk.out
    }

    /// Returns the kind of a whole JSON number, as a finding.
    pub(crate) fn find_number(&self, number: &str, said: Option<SensitiveKind>) -> Option<SensitiveSpan> {
        let mut found = Vec::new();
        if let Some(kind) = said {
            self.add_confirmed(number, 0, kind, &mut found);
        }
        let found = self.find_everything(number, ScanScope::Value, found);
        let whole = |one: &&SensitiveSpan| one.start == 0 && one.end == number.len();
        // Without a key hint only numbers with a checksum are findings.
        let sure = |one: &&SensitiveSpan| {
            one.by == Evidence::Key || one.kind == SensitiveKind::Card || matches!(one.kind, SensitiveKind::Custom(_))
        };
        found.iter().find(whole).filter(sure).copied()
    }

    /// Finds values in table columns whose header states a kind.
    fn find_in_tables(&self, text: &str, found: &mut Vec<SensitiveSpan>) {
        table::visit_cells(text, &mut |text, cell| {
            let value = &text[cell.start..cell.end];
            if let Some(kind) = value::kind_of_value(cell.telling, cell.whose, value) {
                self.add_confirmed(value, cell.start, kind, found);
            }
        });
    }

    fn add_confirmed(&self, text: &str, offset: usize, kind: SensitiveKind, out: &mut Vec<SensitiveSpan>) {
        if !self.settings.kinds.contains(kind) {
            return;
        }
        if let Some((start, end)) = value::confirmed_part(text, kind, HintSource::Key) {
            out.push(SensitiveSpan {
                start: offset + start,
                end: offset + end,
                kind,
                by: Evidence::Key,
            });
        }
    }

    fn find_everything(&self, text: &str, place: ScanScope, found: Vec<SensitiveSpan>) -> Vec<SensitiveSpan> {
        let ScanResult {
            mut found,
            long,
            printed,
        } = scan_text(text, self.settings.kinds, place, found);
        if printed {
            crate::printed::find_in_printed(text, self.settings.kinds, &mut found);
        }
        if self.settings.secrets == SecretDetection::Redact {
            secret::find_secrets(text, &long, &mut found);
        }
        for own in &self.settings.own {
            own.find(text, &mut found);
        }
        match &self.settings.names {
            NameDetection::Keys => {}
            NameDetection::Dictionary => crate::prose::find_names(text, self.settings.kinds, &mut found),
            NameDetection::Reader(reader) => found.extend(reader.find(text).into_iter().filter(|one| {
                one.start < one.end && text.get(one.start..one.end).is_some() && self.settings.kinds.contains(one.kind)
            })),
        }
        resolve_overlaps(text, found)
    }
}

/// Walks over JSON and tracks the JSON pointer.
struct JsonWalk<'d> {
    detector: &'d Detector,
    pointer: String,
    out: Vec<SensitiveJsonSpan>,
}

impl JsonWalk<'_> {
    fn visit_value(&mut self, value: &Value, standing: ValueContext<'_>, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::String(text) => {
                let found = self.detector.find_value(text, standing.text_kind(text));
                self.add_findings(found, false);
            }
            Value::Number(number) => {
                let written = number.to_string();
                let found = self.detector.find_number(&written, standing.number_kind(&written));
                self.add_findings(found, false);
            }
            Value::Array(items) => {
                let heading = JsonColumns::from_first_row(items);
                let standing = standing.for_list(heading.as_ref());
                for (index, item) in items.iter().enumerate() {
                    self.with_key(&index.to_string(), |walk| {
                        walk.visit_value(item, standing.for_item(index), depth);
                    });
                }
            }
            Value::Object(members) => {
                let columns = JsonColumns::from_members(members);
                let standing = standing.for_object(members, columns.as_ref());
                for (key, member) in members {
                    self.with_key(key, |walk| {
                        let found = walk.detector.find_value(key, None);
                        walk.add_findings(found, true);
                        walk.visit_value(member, standing.for_member(key), depth);
                    });
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn with_key(&mut self, key: &str, walk: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        for letter in key.chars() {
            match letter {
                '~' => self.pointer.push_str("~0"),
                '/' => self.pointer.push_str("~1"),
                letter => self.pointer.push(letter),
            }
        }
        walk(self);
        self.pointer.truncate(length);
    }

    fn add_findings(&mut self, found: impl IntoIterator<Item = SensitiveSpan>, in_key: bool) {
        let pointer = &self.pointer;
        self.out.extend(found.into_iter().map(|finding| SensitiveJsonSpan {
            pointer: pointer.clone(),
            in_key,
            finding,
        }));
    }
}

#[cfg(test)]
mod tests;
