//! Which keys tell.

use super::{Sibling, of_people, of_things, sibling, telling};
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
    assert!(of_people("customers") && of_people("users") && !of_people("files"));
    assert!(of_things("tools") && of_things("file") && !of_things("staff"));
}
