//! Tests of JSON: keys, neighbours, schemas.

use serde_json::{Value, json};

use crate::detector::{Detector, DetectorConfig, NameDetection, SecretDetection};
use crate::hints::SchemaHints;
use crate::kind::SensitiveKinds;

#[track_caller]
fn check(value: &Value, schema: &Value, expected: &[(&str, &str)]) {
    let detector = Detector::new(&DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    });
    let found = detector.find_json(value, &SchemaHints::from_schema(schema));
    let mut found: Vec<_> = found
        .iter()
        .map(|one| (one.pointer.as_str(), one.finding.kind.as_str()))
        .collect();
    found.sort_unstable();
    assert_eq!(found, expected, "{value}");
}

#[test]
fn keys_and_what_they_stand_in_decide() {
    check(
        &json!({"customers": [{"name": "ann", "email": "a@b.co"}], "files": [{"name": "Report"}]}),
        &json!({}),
        &[("/customers/0/email", "email"), ("/customers/0/name", "name")],
    );
    check(&json!({"name": "Blue Chair", "sku": "A1", "price": 3}), &json!({}), &[]);
    check(
        &json!({"name": {"first": "Ann", "last": "Lee"}}),
        &json!({}),
        &[("/name/first", "name"), ("/name/last", "name")],
    );
    check(
        &json!({"phones": ["78 651 450", "nobody"]}),
        &json!({}),
        &[("/phones/0", "phone")],
    );
    check(
        &json!({"a~/b": {"ssn": 403_579_558}, "n": 403_579_558}),
        &json!({}),
        &[("/a~0~1b/ssn", "ssn")],
    );
    check(
        &json!({"x": {"ann@example.com": 1}}),
        &json!({}),
        &[("/x/ann@example.com", "email")],
    );
    check(
        &json!({"access_token": "a8f5f167f44f4964e6c998dee827110c", "tokens": 12}),
        &json!({}),
        &[("/access_token", "secret")],
    );
}

#[test]
fn a_schema_adds_to_what_keys_say() {
    let schema = json!({"properties": {
        "who": {"type": "string", "description": "Full name of the guest"},
        "people": {"items": {"$ref": "#/$defs/person"}},
        "at": {"anyOf": [{"format": "ipv4"}, {"type": "null"}]},
        "number": {"x-pii": "phone"},
        "owner": {"x-pii": "name"},
    }, "$defs": {"person": {"properties": {"tag": {"x-pii": "name"}}}}});
    check(
        &json!({"who": "ann", "people": [{"tag": "cy"}], "at": "10.1.2.3", "number": 5_550_100, "owner": {"first": "bo"}}),
        &schema,
        &[
            ("/at", "ip"),
            ("/number", "phone"),
            ("/owner/first", "name"),
            ("/people/0/tag", "name"),
            ("/who", "name"),
        ],
    );
}

#[test]
fn a_schema_takes_nothing_back() {
    let value = json!({"customer": "Ann Lee", "ssn": 403_579_558, "phones": ["78 651 450"], "address": "1 High St"});
    let found = [
        ("/address", "address"),
        ("/customer", "name"),
        ("/phones/0", "phone"),
        ("/ssn", "ssn"),
    ];
    check(&value, &json!({}), &found);
    for says in [
        json!({"x-pii": false}),
        json!({"x-pii": "email"}),
        json!({"x-pii": "url"}),
        json!({"format": "email"}),
    ] {
        let lists = json!({"items": says, "x-pii": false});
        let schema = json!({"properties": {"customer": says, "ssn": says, "phones": lists, "address": says}});
        check(&value, &schema, &found);
    }
}

#[test]
fn a_schema_that_names_itself_ends() {
    let schema = json!({"properties": {"next": {"$ref": "#"}}});
    check(
        &json!({"next": {"next": {"email": "a@b.co"}}}),
        &schema,
        &[("/next/next/email", "email")],
    );
}

#[test]
fn numbers_under_telling_keys_are_found_in_any_form() {
    check(
        &json!({"dob": 19_800_101, "born": -315_619_200, "zip": 90_210, "phone": 5_550_100.0, "ssn": -403_579_558, "pin": 1717}),
        &json!({}),
        &[
            ("/born", "born"),
            ("/dob", "born"),
            ("/phone", "phone"),
            ("/pin", "secret"),
            ("/ssn", "ssn"),
            ("/zip", "address"),
        ],
    );
    check(
        &json!({"token": 4096, "location": 12, "zip_count": 4, "phone_total": 5_550_100.5, "n": -5_550_100, "x": 1.5}),
        &json!({}),
        &[],
    );
}

#[test]
fn names_are_found_in_envelopes_and_in_what_people_do() {
    for (value, expected) in [
        (json!({"items": [{"id": 1, "name": "Ann Lee"}]}), Some("/items/0/name")),
        (
            json!({"items": [{"id": 1, "name": "maria garcia"}]}),
            Some("/items/0/name"),
        ),
        (json!({"items": [{"id": 1, "name": "Blue Chair"}]}), None),
        (
            json!({"customers": {"page": {"items": [{"name": "bo"}]}}}),
            Some("/customers/page/items/0/name"),
        ),
        (json!({"products": {"items": [{"name": "Ann Lee"}]}}), None),
        (
            json!({"data": {"rows": [{"name": "Ann Lee"}]}}),
            Some("/data/rows/0/name"),
        ),
        (json!({"event": {"name": "Maria Garcia Lopez"}}), Some("/event/name")),
        (json!({"event": {"name": "Board meeting"}}), None),
        (
            json!({"task": {"name": "Write report"}, "job": {"name": "build"}, "channel": {"name": "general"}}),
            None,
        ),
        (json!({"team": {"name": "Platform"}}), None),
        (
            json!({"name": "Ann⟦ringfence: 29 of 56 bytes left out⟧"}),
            Some("/name"),
        ),
        (json!({"team": {"name": "José"}}), Some("/team/name")),
    ] {
        let expected: Vec<_> = expected.iter().map(|pointer| (*pointer, "name")).collect();
        check(&value, &json!({}), &expected);
    }
}

#[test]
fn a_telling_key_or_schema_hides_whatever_can_be_the_value() {
    check(
        &json!({"email": "ann@intranet", "contact": {"mail": "ann%40example.com"}, "to": "ann&#64;example.com", "phone": "ext. 123"}),
        &json!({"properties": {"to": {"format": "email"}}}),
        &[
            ("/contact/mail", "email"),
            ("/email", "email"),
            ("/phone", "phone"),
            ("/to", "email"),
        ],
    );
    check(
        &json!({"emails": "ann@example.com, bo@example.com", "email": "none yet"}),
        &json!({}),
        &[("/emails", "email"), ("/emails", "email")],
    );
}

#[test]
fn a_secret_goes_whatever_it_looks_like_and_a_schema_of_one_stays() {
    check(
        &json!({"password": "one two three", "login": {"api_key": "<abc>"}, "headers": {"Set-Cookie": "a=b; path=/"}, "card": {"cvv": "123"}}),
        &json!({}),
        &[
            ("/card/cvv", "secret"),
            ("/headers/Set-Cookie", "secret"),
            ("/login/api_key", "secret"),
            ("/password", "secret"),
        ],
    );
    check(
        &json!({
            "properties": {"password": {"type": "string", "description": "The password of the account", "minLength": 8}},
            "required": ["password"],
            "password": false,
            "secret": "${SECRET}",
            "password_policy": "at least eight letters",
        }),
        &json!({}),
        &[],
    );
}

#[test]
fn names_of_things_are_no_names() {
    for value in [
        json!({"name": "react", "full_name": "facebook/react", "author": "meta", "title": "React", "version": "18.2.0"}),
        json!({"columns": [{"name": "id"}, {"name": "email", "type": "text"}]}),
        json!([{"name": "Germany"}, {"name": "PATH", "value": "/bin"}, {"name": "feature/login"}, {"name": "requests"}]),
        json!({"milestone": {"name": "v1.2"}, "branch": {"name": "main"}, "env": {"name": "staging"}}),
        json!({"name": "Search", "title": "Search the web", "inputSchema": {"properties": {"email": {"type": "string"}}}}),
        json!({"name": "Will", "note": "x"}),
        json!({"name": "Paris"}),
        json!({"name": "newsletter", "email": true}),
        json!({"owner": "platform-team", "driver": "overlay2", "client": "kubectl", "agent": "linux", "user": "root"}),
        json!({"name": "Grace Hotel", "phone": "", "address": "", "rating": 4.5}),
        json!({"dependencies": {"passport": "^0.6.0", "phone": "2.4.1", "iban": "0.0.14"}}),
    ] {
        check(&value, &json!({}), &[]);
    }
}

#[test]
fn values_of_things_are_no_secrets_addresses_or_numbers() {
    for value in [
        json!({"pin": 4, "mode": "output"}),
        json!({"pin": "13"}),
        json!({"zip": "archive.zip"}),
        json!({"zip": "s3://bucket/a.zip"}),
        json!({"address": "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"}),
        json!({"address": "db.internal:5432"}),
        json!({"card": "Fix the login of 2024"}),
        json!({"pan": -12.5, "tilt": 3}),
        json!({"desktop": 90_210, "mobile": 12_345}),
        json!({"cell": "AB123"}),
        json!({"amount_cents": 1_299_900, "country": "Germany", "package": "requests"}),
        json!({"city": "Berlin", "temperature": 21}),
        json!([{"city": "Bonn", "n": 1, "x": 0.5}, {"city": "Ulm", "n": 2, "x": null}]),
        json!({"columns": ["city", "n"], "rows": [["Bonn", 1]]}),
        json!({"location": "Room 4", "region": "eu-west", "place": "top"}),
    ] {
        check(&value, &json!({}), &[]);
    }
    check(
        &json!({"pin": "4071", "zip": "90210", "address": "12 Bond Street", "cell": "+1 201 555 0123", "card": "**** 4242"}),
        &json!({}),
        &[
            ("/address", "address"),
            ("/card", "card"),
            ("/cell", "phone"),
            ("/pin", "secret"),
            ("/zip", "address"),
        ],
    );
}

#[test]
fn a_bare_name_is_a_persons_where_a_person_stands_beside_it() {
    for beside in ["email", "phone", "birthday", "address", "first_name", "age"] {
        let said = match beside {
            "email" => "bo@example.com",
            "phone" => "+49 30 1234567",
            "birthday" => "1980-01-01",
            "address" => "12 Bond Street",
            "age" => "44",
            _ => "Bo",
        };
        let mut value = json!({"name": "xyzzy"});
        value[beside] = json!(said);
        let detector = Detector::new(&DetectorConfig {
            kinds: SensitiveKinds::all(),
            names: NameDetection::Keys,
            secrets: SecretDetection::Redact,
            own: Vec::new(),
        });
        let found = detector.find_json(&value, &SchemaHints::none());
        assert!(found.iter().any(|one| one.pointer == "/name"), "{value}");
    }
    check(&json!({"name": "xyzzy", "id": 1}), &json!({}), &[]);
}

#[test]
fn rows_that_are_lists_are_read_by_their_columns() {
    let found = [("/rows/0/1", "name"), ("/rows/0/2", "phone"), ("/rows/1/1", "name")];
    check(
        &json!({"columns": ["id", "customer", "phone"], "rows": [[1, "xyzzy", "0301234567"], [2, "bo", null]]}),
        &json!({}),
        &found,
    );
    check(
        &json!({"rows": [["id", "customer", "phone"], [1, "xyzzy", "0301234567"]]}),
        &json!({}),
        &[("/rows/1/1", "name"), ("/rows/1/2", "phone")],
    );
    check(
        &json!([["name", "email"], ["xyzzy", "x@example.com"]]),
        &json!({}),
        &[("/1/0", "name"), ("/1/1", "email")],
    );
    check(
        &json!({"fields": [{"name": "dob", "type": "date"}, {"name": "n"}], "data": [["1980-01-01", 3]]}),
        &json!({}),
        &[("/data/0/0", "born")],
    );
    check(
        &json!({"columns": ["name", "version"], "rows": [["react", "18.2.0"], ["Will", "1"]]}),
        &json!({}),
        &[],
    );
    check(&json!([["a", "b"], ["name", "react"], ["phone", "x"]]), &json!({}), &[]);
}

#[test]
fn a_field_says_what_the_value_beside_it_is() {
    for field in ["field", "key", "name", "label"] {
        let mut value = json!({"value": "0301234567"});
        value[field] = json!("Phone number");
        check(&value, &json!({}), &[("/value", "phone")]);
    }
    check(
        &json!([{"question": "Date of birth", "answer": "1 May 1980"}, {"name": "PATH", "value": "/bin"}]),
        &json!({}),
        &[("/0/answer", "born")],
    );
}
