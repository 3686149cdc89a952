//! Tests of values that are plainly something else than their key says, and of those that are not.

use serde_json::{Value, json};

use crate::{Detector, DetectorConfig, NameDetection, SchemaHints, SecretDetection, SensitiveKinds};

fn findings(value: &Value) -> usize {
    let words = ["email", "phone", "card", "iban", "ssn", "name"];
    let kinds = words.into_iter().filter_map(SensitiveKinds::from_policy_name);
    let detector = Detector::new(&DetectorConfig {
        kinds: kinds.fold(SensitiveKinds::none(), SensitiveKinds::union),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    });
    let printed = match value.as_str() {
        Some(text) => detector.find(text),
        None => detector.find(&value.to_string()),
    };
    detector.find_json(value, &SchemaHints::none()).len().max(printed.len())
}

#[test]
fn what_is_plainly_something_else_stays() {
    for value in [
        json!({ "pwd": "/app" }),
        json!({ "pwd": "/", "cwd": "/home/ann" }),
        json!("PWD=/workspace\nOLDPWD=/\nHOME=/root\n"),
        json!("PWD=/home/ann/project\npwd: /workspace\npwd = \"/srv/app1\"\n"),
        json!({ "tokenUrl": "https://idp.example/oauth/token", "token_url": "https://x/token" }),
        json!("{\"token_endpoint\":\"https://idp/token\",\"tokenEndpoint\": \"https://idp/t1\"}"),
        json!({ "led_pin": 2, "relay_pin": 13 }),
        json!({ "name": "varchar", "email": "text", "address": "jsonb", "ssn": "char(9)", "password": "bytea" }),
        json!({ "first_name": "TEXT", "last_name": "character varying(255)", "password": "varchar(60)" }),
        json!({ "email": 120, "card": 4, "address": 9 }),
        json!({ "errors": { "email": "is invalid", "password": "is too short", "first_name": "is required" } }),
        json!({ "password": "must be at least 8 characters long" }),
        json!({ "password": "Passwort", "email": "E-Mail", "name": "Name", "first_name": "Vorname", "last_name": "Last name" }),
        json!("part no 123-45-6789 rev 2; SKU 219-09-9999"),
        json!("ports 100-200-3000, range 100-200-3000"),
        json!({ "cookie": "chocolate chip", "recipe": true }),
    ] {
        assert_eq!(findings(&value), 0, "{value}");
    }
}

#[test]
fn what_may_be_meant_is_found_as_before() {
    for value in [
        json!({ "password": "letmein" }),
        json!({ "password": "password" }),
        json!({ "password": "text" }),
        json!({ "password": "correct horse battery staple" }),
        json!({ "password": "is this love 4ever" }),
        json!({ "password": "/hunter2" }),
        json!({ "pwd": "letmein" }),
        json!({ "pwd": "open sesame" }),
        json!("DB_PASSWORD=letmein\n"),
        json!("PWD=hunter2\n"),
        json!({ "pin": 1234 }),
        json!({ "user_pin": 12 }),
        json!({ "cookie": "sid=abc" }),
        json!({ "cookie": "opensesame" }),
        json!({ "token": "https://hooks.example/T0123/B0123?key=abcdef0123456789" }),
        json!({ "address": { "street": "Main Street", "number": 9 } }),
        json!({ "hausnummer": 9 }),
        json!({ "address": 90_210 }),
        json!({ "last_name": "Kunde" }),
        json!({ "first_name": "Char" }),
        json!({ "ssn": "123-45-6789" }),
        json!("it is 123-45-6789."),
        json!("call 555-123-4567"),
        json!("port me my number 555-123-4567"),
    ] {
        assert!(findings(&value) > 0, "{value}");
    }
}
