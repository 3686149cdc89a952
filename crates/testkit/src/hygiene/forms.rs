//! The same values in other forms: grouped, in other case, in JSON under a telling key or another one.

use ringfence_hygiene::{Detector, Finding, Hints, Kind};
use serde_json::{Value, json};

use super::data::{Label, Set};

/// A form for values of a kind, and the share of them that must be found.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The name of the form in the table.
    pub name: &'static str,
    /// The kind of the values.
    pub kind: Kind,
    /// The share of values that must be found.
    pub goal: f64,
    /// Writes a value in this form.
    write: fn(&str) -> Written,
}

/// A value with the text around it.
enum Written {
    /// The value and the text around it.
    Text(String, String),
    Json(&'static str, String),
    /// The value under a key, with the address of a person beside it.
    Beside(&'static str, String),
}

/// All forms that are measured.
pub const FORMS: [Form; 20] = [
    text("card, groups of four, spaces", Kind::Card, 0.99, |value| {
        grouped(value, " ")
    }),
    text("card, dashes", Kind::Card, 0.99, |value| grouped(value, "-")),
    text("card, no-break spaces", Kind::Card, 0.99, |value| {
        grouped(value, "\u{a0}")
    }),
    text("card, narrow no-break spaces", Kind::Card, 0.99, |value| {
        grouped(value, "\u{202f}")
    }),
    text("IBAN, groups of four", Kind::Iban, 1.0, |value| grouped(value, " ")),
    text("IBAN, small letters", Kind::Iban, 1.0, |value| {
        within(value.to_lowercase())
    }),
    text("IBAN, small and grouped", Kind::Iban, 1.0, |value| {
        grouped(&value.to_lowercase(), " ")
    }),
    text("SSN, spaces", Kind::Ssn, 1.0, |value| within(value.replace('-', " "))),
    text("SSN, bare after its word", Kind::Ssn, 0.95, |value| {
        Written::Text(value.replace('-', ""), format!("SSN {}", value.replace('-', "")))
    }),
    text("card in JSON, any key", Kind::Card, 0.97, |value| {
        Written::Json("value", value.to_owned())
    }),
    text("IP in JSON, any key", Kind::Ip, 1.0, |value| {
        Written::Json("value", value.to_owned())
    }),
    text("phone in JSON, any key", Kind::Phone, 0.72, |value| {
        Written::Json("value", value.to_owned())
    }),
    text("phone, telling key", Kind::Phone, 0.98, |value| {
        Written::Json("phone", value.to_owned())
    }),
    text("phone, `contactNumber`", Kind::Phone, 0.98, |value| {
        Written::Json("contactNumber", value.to_owned())
    }),
    text("name, key `name`, a person beside it", Kind::Name, 0.98, |value| {
        Written::Beside("name", value.to_owned())
    }),
    text("name, key `name` alone", Kind::Name, 0.70, |value| {
        Written::Json("name", value.to_owned())
    }),
    text("name, key `customer_name`", Kind::Name, 0.98, |value| {
        Written::Json("customer_name", value.to_owned())
    }),
    text("place, key `city`, a person beside it", Kind::Place, 0.98, |value| {
        Written::Beside("city", value.to_owned())
    }),
    text(
        "place, key `location`, a person beside it",
        Kind::Place,
        0.98,
        |value| Written::Beside("location", value.to_owned()),
    ),
    text("address, key `billingAddress`", Kind::Address, 0.98, |value| {
        Written::Json("billingAddress", value.to_owned())
    }),
];

const fn text(name: &'static str, kind: Kind, goal: f64, write: fn(&str) -> Written) -> Form {
    Form {
        name,
        kind,
        goal,
        write,
    }
}

fn grouped(value: &str, separator: &str) -> Written {
    let letters: Vec<char> = value.chars().collect();
    let groups: Vec<String> = letters.chunks(4).map(|group| group.iter().collect()).collect();
    within(groups.join(separator))
}

fn within(value: String) -> Written {
    let text = format!("it is {value} today");
    Written::Text(value, text)
}

/// One value in one form.
#[derive(Debug)]
pub struct Case {
    /// The text with the value: what a reader that does not see keys gets.
    pub text: String,
    /// The position of the value in the text.
    pub label: Label,
    /// The structure and the value in it, where the text is JSON.
    json: Option<(Value, String)>,
}

impl Form {
    /// Every value of the kind, in this form.
    pub fn cases(&self, sets: &[Set]) -> Vec<Case> {
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

    fn case(&self, value: &str) -> Option<Case> {
        let (text, written, json) = match (self.write)(value) {
            Written::Text(value, text) => (text, value, None),
            Written::Json(key, value) => structured(json!({ "id": 17, key: value }), value),
            Written::Beside(key, value) => structured(json!({ "email": "x@example.com", key: value }), value),
        };
        let start = text.rfind(&written)?;
        let label = Label {
            start,
            end: start + written.len(),
            kind: self.kind,
        };
        Some(Case { text, label, json })
    }
}

/// The text of a structure, the value as it is written there, and both for a reader of structures.
fn structured(json: Value, value: String) -> (String, String, Option<(Value, String)>) {
    let written = Value::from(value.as_str()).to_string().trim_matches('"').to_owned();
    (json.to_string(), written, Some((json, value)))
}

impl Case {
    /// Whether a detector hides the whole value under its own kind.
    pub fn is_hidden(&self, detector: &Detector) -> bool {
        let kind = self.label.kind;
        match &self.json {
            None => detector
                .find(&self.text)
                .iter()
                .any(|one| (one.kind, one.start, one.end) == (kind, self.label.start, self.label.end)),
            Some((json, value)) => {
                let found = detector.find_json(json, &Hints::none());
                found
                    .iter()
                    .any(|one| one.finding.kind == kind && one.finding.end - one.finding.start >= value.trim().len())
            }
        }
    }

    /// Whether a finding in the text overlaps the value by half.
    pub fn is_found(&self, found: &[Finding]) -> bool {
        let near = |one: &Finding| one.kind == self.label.kind && super::score::hits(one, &self.label);
        found.iter().any(near)
    }
}
