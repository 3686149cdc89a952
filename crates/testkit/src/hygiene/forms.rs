//! The same values in other forms: grouped, in other case, in JSON under a telling key or another one.

use ringfence_hygiene::{Detector, SchemaHints, SensitiveKind, SensitiveSpan};
use serde_json::{Value, json};

use super::data::{Label, LabelledSet};

/// A form for values of a kind, and the share of them that must be found.
#[derive(Debug, Clone, Copy)]
pub struct ValueForm {
    /// The name of the form in the table.
    pub name: &'static str,
    /// The kind of the values.
    pub kind: SensitiveKind,
    /// The share of values that must be found.
    pub goal: f64,
    /// Writes a value in this form.
    write: fn(&str) -> WrittenValue,
}

/// A value with the text around it.
enum WrittenValue {
    /// The value and the text around it.
    Text(String, String),
    Json(&'static str, String),
    /// The value under a key, with the address of a person beside it.
    BesideAddress(&'static str, String),
}

/// All forms that are measured.
pub const FORMS: [ValueForm; 20] = [
    text_form("card, groups of four, spaces", SensitiveKind::Card, 0.99, |value| {
        grouped(value, " ")
    }),
    text_form("card, dashes", SensitiveKind::Card, 0.99, |value| grouped(value, "-")),
    text_form("card, no-break spaces", SensitiveKind::Card, 0.99, |value| {
        grouped(value, "\u{a0}")
    }),
    text_form("card, narrow no-break spaces", SensitiveKind::Card, 0.99, |value| {
        grouped(value, "\u{202f}")
    }),
    text_form("IBAN, groups of four", SensitiveKind::Iban, 1.0, |value| {
        grouped(value, " ")
    }),
    text_form("IBAN, small letters", SensitiveKind::Iban, 1.0, |value| {
        in_sentence(value.to_lowercase())
    }),
    text_form("IBAN, small and grouped", SensitiveKind::Iban, 1.0, |value| {
        grouped(&value.to_lowercase(), " ")
    }),
    text_form("SSN, spaces", SensitiveKind::Ssn, 1.0, |value| {
        in_sentence(value.replace('-', " "))
    }),
    text_form("SSN, bare after its word", SensitiveKind::Ssn, 0.95, |value| {
        WrittenValue::Text(value.replace('-', ""), format!("SSN {}", value.replace('-', "")))
    }),
    text_form("card in JSON, any key", SensitiveKind::Card, 0.97, |value| {
        WrittenValue::Json("value", value.to_owned())
    }),
    text_form("IP in JSON, any key", SensitiveKind::Ip, 1.0, |value| {
        WrittenValue::Json("value", value.to_owned())
    }),
    text_form("phone in JSON, any key", SensitiveKind::Phone, 0.72, |value| {
        WrittenValue::Json("value", value.to_owned())
    }),
    text_form("phone, telling key", SensitiveKind::Phone, 0.98, |value| {
        WrittenValue::Json("phone", value.to_owned())
    }),
    text_form("phone, `contactNumber`", SensitiveKind::Phone, 0.98, |value| {
        WrittenValue::Json("contactNumber", value.to_owned())
    }),
    text_form(
        "name, key `name`, a person beside it",
        SensitiveKind::Name,
        0.98,
        |value| WrittenValue::BesideAddress("name", value.to_owned()),
    ),
    text_form("name, key `name` alone", SensitiveKind::Name, 0.70, |value| {
        WrittenValue::Json("name", value.to_owned())
    }),
    text_form("name, key `customer_name`", SensitiveKind::Name, 0.98, |value| {
        WrittenValue::Json("customer_name", value.to_owned())
    }),
    text_form(
        "place, key `city`, a person beside it",
        SensitiveKind::Place,
        0.98,
        |value| WrittenValue::BesideAddress("city", value.to_owned()),
    ),
    text_form(
        "place, key `location`, a person beside it",
        SensitiveKind::Place,
        0.98,
        |value| WrittenValue::BesideAddress("location", value.to_owned()),
    ),
    text_form("address, key `billingAddress`", SensitiveKind::Address, 0.98, |value| {
        WrittenValue::Json("billingAddress", value.to_owned())
    }),
];

const fn text_form(name: &'static str, kind: SensitiveKind, goal: f64, write: fn(&str) -> WrittenValue) -> ValueForm {
    ValueForm {
        name,
        kind,
        goal,
        write,
    }
}

fn grouped(value: &str, separator: &str) -> WrittenValue {
    let letters: Vec<char> = value.chars().collect();
    let groups: Vec<String> = letters.chunks(4).map(|group| group.iter().collect()).collect();
    in_sentence(groups.join(separator))
}

fn in_sentence(value: String) -> WrittenValue {
    let text = format!("it is {value} today");
    WrittenValue::Text(value, text)
}

/// One value in one form.
#[derive(Debug)]
pub struct FormCase {
    /// The text with the value: what a reader that does not see keys gets.
    pub text: String,
    /// The position of the value in the text.
    pub label: Label,
    /// The structure and the value in it, where the text is JSON.
    json: Option<(Value, String)>,
}

impl ValueForm {
    /// Every value of the kind, in this form.
    pub fn cases(&self, sets: &[LabelledSet]) -> Vec<FormCase> {
        let texts = sets.iter().flat_map(|set| &set.texts);
        let values = texts.flat_map(|text| {
            let labels = text.labels.iter().filter(|label| label.kind == self.kind);
            labels.map(|label| &text.text[label.start..label.end])
        });
        // The data has placeholders, which are not names.
        values
            .filter(|value| *value != "nan")
            .filter_map(|value| self.case(value))
            .collect()
    }

    fn case(&self, value: &str) -> Option<FormCase> {
        let (text, written, json) = match (self.write)(value) {
            WrittenValue::Text(value, text) => (text, value, None),
            WrittenValue::Json(key, value) => render_structure(json!({ "id": 17, key: value }), value),
            WrittenValue::BesideAddress(key, value) => {
                render_structure(json!({ "email": "x@example.com", key: value }), value)
            }
        };
        let start = text.rfind(&written)?;
        let label = Label {
            start,
            end: start + written.len(),
            kind: self.kind,
        };
        Some(FormCase { text, label, json })
    }
}

/// The text of a structure, the value as it is written there, and both for a reader of structures.
fn render_structure(json: Value, value: String) -> (String, String, Option<(Value, String)>) {
    let written = Value::from(value.as_str()).to_string().trim_matches('"').to_owned();
    (json.to_string(), written, Some((json, value)))
}

impl FormCase {
    /// Whether a detector hides the whole value under its own kind.
    pub fn is_hidden(&self, detector: &Detector) -> bool {
        let kind = self.label.kind;
        match &self.json {
            None => detector
                .find(&self.text)
                .iter()
                .any(|one| (one.kind, one.start, one.end) == (kind, self.label.start, self.label.end)),
            Some((json, value)) => {
                let found = detector.find_json(json, &SchemaHints::none());
                found
                    .iter()
                    .any(|one| one.finding.kind == kind && one.finding.end - one.finding.start >= value.trim().len())
            }
        }
    }

    /// Whether a finding in the text overlaps the value by half.
    pub fn is_found(&self, found: &[SensitiveSpan]) -> bool {
        let near = |one: &SensitiveSpan| one.kind == self.label.kind && super::score::is_hit(one, &self.label);
        found.iter().any(near)
    }
}
