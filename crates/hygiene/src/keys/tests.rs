//! Which keys tell.

use super::{Sibling, Whose, sibling, telling};
use crate::kind::Kind;

#[track_caller]
fn check(key: &str, kind: Option<Kind>) {
    assert_eq!(telling(key).map(|telling| telling.kind), kind, "{key}");
}

#[test]
fn keys_tell_in_any_spelling() {
    for key in [
        "email",
        "e-mail",
        "Email",
        "billingEmail",
        "EMAIL_ADDRESS",
        "contact email",
        "emails",
        "workEmail2",
    ] {
        check(key, Some(Kind::Email));
    }
    for key in [
        "phone",
        "phone_number",
        "mobileNo",
        "Tel",
        "homePhone",
        "contactNumber",
        "fax",
    ] {
        check(key, Some(Kind::Phone));
    }
    check("socialSecurityNumber", Some(Kind::Ssn));
    check("card_number", Some(Kind::Card));
    check("ipAddress", Some(Kind::Ip));
    check("client_ip", Some(Kind::Ip));
    check("dateOfBirth", Some(Kind::BirthDate));
    check("firstName", Some(Kind::Name));
    check("customer", Some(Kind::Name));
    check("company_name", Some(Kind::Organisation));
    check("shipping_address", Some(Kind::Address));
    check("zipCode", Some(Kind::Address));
    check("city", Some(Kind::Place));
    check("db_password", Some(Kind::Secret));
}

#[test]
fn keys_of_secrets_are_unmistakable() {
    for key in [
        "password",
        "passwd",
        "client_secret",
        "secretAccessKey",
        "api_key",
        "apiKey",
        "X-Api-Key",
        "access_token",
        "refreshToken",
        "private_key",
        "pin",
        "cardPin",
        "pin_code",
        "CVV2",
        "cvc",
        "otp",
        "otp_code",
        "Cookie",
        "Set-Cookie",
        "authorization",
        "Proxy-Authorization",
        "password_hash",
        "new_password",
    ] {
        let found = telling(key).filter(|telling| !telling.vague);
        assert_eq!(found.map(|telling| telling.kind), Some(Kind::Secret), "{key}");
    }
    for key in ["token", "csrf_token", "signing_key", "account_key"] {
        assert!(telling(key).is_some_and(|telling| telling.vague), "{key}");
    }
    for key in [
        "nextPageToken",
        "page_token",
        "next_token",
        "continuationToken",
        "nextSyncToken",
        "password_policy",
        "secret_name",
        "authorization_endpoint",
        "cookie_consent",
        "pin_count",
        "pinned",
        "opinion",
    ] {
        check(key, None);
    }
}

#[test]
fn keys_about_a_value_do_not_tell() {
    for key in [
        "email_count",
        "phoneVerified",
        "has_email",
        "address_id",
        "file_name",
        "toolName",
        "product_name",
        "contract_address",
        "hostname",
        "is_customer",
        "id",
        "value",
        "",
        "a_very_long_key_that_goes_on_and_on_and_on_and_on_for_ever",
    ] {
        check(key, None);
    }
}

#[test]
fn neighbours_say_whether_a_name_is_a_persons() {
    assert_eq!(sibling("email"), Some(Sibling::Person));
    assert_eq!(sibling("sku"), Some(Sibling::Thing));
    assert_eq!(sibling("id"), None);
    assert_eq!(Whose::Unsaid.beside(["sku", "email"].into_iter()), Whose::Peoples);
    assert_eq!(Whose::Peoples.beside(["sku", "id"].into_iter()), Whose::Things);
}

#[test]
fn what_stands_over_a_name_says_whose_it_is_through_envelopes() {
    for (keys, whose) in [
        ("customers", Whose::Peoples),
        ("users", Whose::Peoples),
        ("files", Whose::Things),
        ("tool", Whose::Things),
        ("staff", Whose::Peoples),
        ("data results", Whose::Unsaid),
        ("items", Whose::Mostly),
        ("customers data items", Whose::Peoples),
        ("files page items", Whose::Things),
        ("customers event", Whose::Mostly),
        ("team members", Whose::Peoples),
    ] {
        let found = keys.split(' ').fold(Whose::Unsaid, Whose::under);
        assert_eq!(found, whose, "{keys}");
    }
}
