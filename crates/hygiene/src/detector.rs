//! The detector: finds all kinds of personal data and secrets, in text and in JSON.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::finding::{Evidence, Finding, resolve};
use crate::hints::Hints;
use crate::json::{Columns, DEPTH, Standing};
use crate::kind::{Kind, Kinds};
use crate::own::Own;
use crate::scan::{Place, Scanned, scan};
use crate::unseen::look_through;
use crate::value::Ground;
use crate::{secret, table, value};

/// The configuration of a detector.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kinds of personal data to find.
    pub kinds: Kinds,
    /// How names, places and addresses are found.
    pub names: Names,
    /// What happens to secrets.
    pub secrets: Secrets,
    /// Custom kinds of the operator, searched in addition to `kinds`.
    pub own: Vec<Own>,
}

/// How names of people, places and addresses are found.
#[derive(Clone)]
#[non_exhaustive]
pub enum Names {
    /// By the key, column or label before them.
    Keys,
    /// Also in prose, by dictionaries. Organisations need a reader with a model.
    Dictionary,
    /// Also in prose, by a reader of the operator, such as one with a model.
    Reader(Arc<dyn Prose>),
}

/// Finds names, places and organisations in running text, which only a reader can recognise.
pub trait Prose: Send + Sync {
    /// Returns the findings in a text, in any order. Findings outside the text or inside a character are dropped.
    fn find(&self, text: &str) -> Vec<Finding>;
}

/// Whether secrets are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    /// Secrets are detected and removed.
    Redact,
    /// Secrets are not detected.
    Off,
}

impl fmt::Debug for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Names::Keys => "Keys",
            Names::Dictionary => "Dictionary",
            Names::Reader(_) => "Reader",
        })
    }
}

/// A finding in a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFinding {
    /// JSON pointer to the string or number.
    pub pointer: String,
    /// Whether it is in the key at the end of the pointer, rather than in the value.
    pub in_key: bool,
    /// The finding, in bytes of that string or of the number as written.
    pub finding: Finding,
}

/// Finds personal data and secrets. Create it once and share it.
#[derive(Debug, Clone)]
pub struct Detector {
    settings: Settings,
}

impl Detector {
    /// Creates a detector from its configuration.
    pub fn new(settings: &Settings) -> Detector {
        let mut settings = settings.clone();
        settings.kinds = match settings.secrets {
            Secrets::Redact => settings.kinds.with(Kind::Secret),
            Secrets::Off => settings.kinds.without(Kind::Secret),
        };
        Detector { settings }
    }

    /// Returns the findings in a text, in order and without overlaps. CSV and Markdown tables are read by their
    /// headers.
    pub fn find(&self, text: &str) -> Vec<Finding> {
        look_through(text, |text| {
            let mut found = Vec::new();
            self.tables(text, &mut found);
            self.everything(text, Place::Text, found)
        })
    }

    /// Returns the findings in one value, given the kind that its key or column states.
    pub fn find_value(&self, text: &str, said: Option<Kind>) -> Vec<Finding> {
        look_through(text, |text| {
            let mut found = Vec::new();
            if let Some(kind) = said {
                self.borne_out(text, 0, kind, &mut found);
            }
            if text.contains('\n') {
                self.tables(text, &mut found);
            }
            self.everything(text, Place::Value, found)
        })
    }

    /// Returns the findings in a JSON value, keys included. Values at excessive depth are not checked.
    pub fn find_json(&self, value: &Value, hints: &Hints) -> Vec<JsonFinding> {
        let mut walk = Walk {
            detector: self,
            pointer: String::new(),
            out: Vec::new(),
        };
        walk.value(value, Standing::top(hints), DEPTH);
        walk.out
    }

    /// Returns the kind of a whole JSON number, as a finding.
    pub(crate) fn find_number(&self, number: &str, said: Option<Kind>) -> Option<Finding> {
        let mut found = Vec::new();
        if let Some(kind) = said {
            self.borne_out(number, 0, kind, &mut found);
        }
        let found = self.everything(number, Place::Value, found);
        let whole = |one: &&Finding| one.start == 0 && one.end == number.len();
        // Without a key hint only numbers with a checksum are findings.
        let sure =
            |one: &&Finding| one.by == Evidence::Key || one.kind == Kind::Card || matches!(one.kind, Kind::Own(_));
        found.iter().find(whole).filter(sure).copied()
    }

    /// Finds values in table columns whose header states a kind.
    fn tables(&self, text: &str, found: &mut Vec<Finding>) {
        table::cells(text, &mut |text, cell| {
            let value = &text[cell.start..cell.end];
            if let Some(kind) = value::meant(cell.telling, cell.whose, value) {
                self.borne_out(value, cell.start, kind, found);
            }
        });
    }

    fn borne_out(&self, text: &str, offset: usize, kind: Kind, out: &mut Vec<Finding>) {
        if !self.settings.kinds.has(kind) {
            return;
        }
        if let Some((start, end)) = value::borne_out(text, kind, Ground::Key) {
            out.push(Finding {
                start: offset + start,
                end: offset + end,
                kind,
                by: Evidence::Key,
            });
        }
    }

    fn everything(&self, text: &str, place: Place, found: Vec<Finding>) -> Vec<Finding> {
        let Scanned {
            mut found,
            long,
            printed,
        } = scan(text, self.settings.kinds, place, found);
        if printed {
            crate::printed::find(text, self.settings.kinds, &mut found);
        }
        if self.settings.secrets == Secrets::Redact {
            secret::find(text, &long, &mut found);
        }
        for own in &self.settings.own {
            own.find(text, &mut found);
        }
        match &self.settings.names {
            Names::Keys => {}
            Names::Dictionary => crate::prose::find(text, self.settings.kinds, &mut found),
            Names::Reader(reader) => found.extend(reader.find(text).into_iter().filter(|one| {
                one.start < one.end && text.get(one.start..one.end).is_some() && self.settings.kinds.has(one.kind)
            })),
        }
        resolve(text, found)
    }
}

/// Walks over JSON and tracks the JSON pointer.
struct Walk<'d> {
    detector: &'d Detector,
    pointer: String,
    out: Vec<JsonFinding>,
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, standing: Standing<'_>, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::String(text) => {
                let found = self.detector.find_value(text, standing.kind_of(text));
                self.note(found, false);
            }
            Value::Number(number) => {
                let written = number.to_string();
                let found = self.detector.find_number(&written, standing.kind_of_number(&written));
                self.note(found, false);
            }
            Value::Array(items) => {
                let heading = Columns::heading(items);
                let standing = standing.list(heading.as_ref());
                for (index, item) in items.iter().enumerate() {
                    self.under(&index.to_string(), |walk| walk.value(item, standing.item(index), depth));
                }
            }
            Value::Object(members) => {
                let columns = Columns::beside(members);
                let standing = standing.object(members, columns.as_ref());
                for (key, member) in members {
                    self.under(key, |walk| {
                        let found = walk.detector.find_value(key, None);
                        walk.note(found, true);
                        walk.value(member, standing.member(key), depth);
                    });
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn under(&mut self, key: &str, walk: impl FnOnce(&mut Self)) {
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

    fn note(&mut self, found: impl IntoIterator<Item = Finding>, in_key: bool) {
        let pointer = &self.pointer;
        self.out.extend(found.into_iter().map(|finding| JsonFinding {
            pointer: pointer.clone(),
            in_key,
            finding,
        }));
    }
}

#[cfg(test)]
mod tests;
