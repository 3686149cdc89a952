//! The same values written in other ways: grouped, in other case, in JSON under a key that tells or does not.

use ringfence_hygiene::{Detector, Hints, Kind};
use serde_json::json;

use super::data::Set;

/// One way to write values of a kind, and how many of them must be found.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// What is done to them.
    pub name: &'static str,
    /// Whose values.
    pub kind: Kind,
    /// The share to reach.
    pub goal: f64,
    /// The text they become.
    write: fn(&str) -> Written,
}

/// A value in its new surroundings.
enum Written {
    /// The value and the text around it.
    Text(String, String),
    Json(&'static str, String),
}

/// The ways.
pub const FORMS: [Form; 19] = [
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
    text("name, key `name`", Kind::Name, 0.98, |value| {
        Written::Json("name", value.to_owned())
    }),
    text("name, key `customer_name`", Kind::Name, 0.98, |value| {
        Written::Json("customer_name", value.to_owned())
    }),
    text("place, key `city`", Kind::Place, 0.98, |value| {
        Written::Json("city", value.to_owned())
    }),
    text("place, key `location`", Kind::Place, 0.98, |value| {
        Written::Json("location", value.to_owned())
    }),
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

impl Form {
    /// How many values there are, and how many of them are hidden whole.
    pub fn measure(&self, detector: &Detector, sets: &[Set]) -> (u32, u32) {
        let (mut all, mut hidden) = (0, 0);
        for text in sets.iter().flat_map(|set| &set.texts) {
            for label in text.labels.iter().filter(|label| label.kind == self.kind) {
                let value = &text.text[label.start..label.end];
                // A placeholder of the data's makers is nobody's name.
                if value == "nan" {
                    continue;
                }
                all += 1;
                hidden += u32::from(self.is_hidden(detector, value));
            }
        }
        (all, hidden)
    }

    fn is_hidden(&self, detector: &Detector, value: &str) -> bool {
        match (self.write)(value) {
            Written::Text(value, text) => {
                let found = detector.find(&text);
                found
                    .iter()
                    .any(|one| one.kind == self.kind && text[one.start..one.end] == value)
            }
            Written::Json(key, value) => {
                let json = json!({ "id": 17, key: value });
                let found = detector.find_json(&json, &Hints::none());
                found.iter().any(|one| {
                    one.finding.kind == self.kind && one.finding.end - one.finding.start >= value.trim().len()
                })
            }
        }
    }
}
