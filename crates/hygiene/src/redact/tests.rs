//! Tests of redaction: secrets are removed for good, and the rest stays unchanged.

use serde_json::json;

use crate::detector::{Detector, DetectorConfig, NameDetection, SecretDetection};
use crate::hints::SchemaHints;
use crate::kind::SensitiveKinds;

fn secrets() -> Detector {
    Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::none(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    })
}

#[test]
fn a_secret_goes_and_personal_data_stays() {
    let text = "ann@example.com has ghp_0123456789abcdefABCDEF0123456789abcd in her notes";
    let hidden = secrets().redact(text);
    assert_eq!(hidden.shown, "ann@example.com has ⟦secret removed⟧ in her notes");
    assert_eq!(hidden.counts.iter().collect::<Vec<_>>(), [("secret", 1)]);
}

#[test]
fn json_keeps_its_form() {
    let value = json!({"password": "hunter2-hunter2", "mail": "ann@example.com", "n": 7});
    let hidden = secrets().redact_json(value, &SchemaHints::none());
    assert_eq!(
        hidden.shown,
        json!({"password": "⟦secret removed⟧", "mail": "ann@example.com", "n": 7})
    );
    assert_eq!(hidden.counts.total(), 1);
}
