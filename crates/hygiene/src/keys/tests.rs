//! Tests of key hints.

use super::whose::{Sibling, sibling};
use super::{Whose, telling};
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
        let found = telling(key).filter(|telling| !telling.is_vague());
        assert_eq!(found.map(|telling| telling.kind), Some(Kind::Secret), "{key}");
    }
    for key in ["token", "csrf_token", "signing_key", "account_key"] {
        assert!(telling(key).is_some_and(super::Telling::is_vague), "{key}");
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
    assert_eq!(sibling("email"), Some(Sibling::Reached));
    assert_eq!(sibling("birthday"), Some(Sibling::Person));
    assert_eq!(sibling("title"), None);
    assert_eq!(sibling("author"), None);
    assert_eq!(sibling("sku"), Some(Sibling::Thing));
    assert_eq!(sibling("id"), None);
    for (over, keys, whose) in [
        (Whose::Unsaid, "id email", Whose::Reached),
        (Whose::Unsaid, "sku dob", Whose::Peoples),
        (Whose::Unsaid, "rating phone", Whose::Mostly),
        (Whose::Unsaid, "sku id", Whose::Things),
        (Whose::Peoples, "sku id", Whose::Mostly),
        (Whose::Peoples, "sku email", Whose::Peoples),
    ] {
        assert_eq!(over.beside(keys.split(' ')), whose, "{keys}");
    }
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

#[test]
fn keys_tell_in_ten_languages_more() {
    for (kind, keys) in [
        (
            Kind::Email,
            "E-Mail-Adresse courriel correo_electronico indirizzoEmail e-mailadres adres_email 电子邮箱 メールアドレス почта",
        ),
        (
            Kind::Phone,
            "Telefonnummer téléphone numero_de_telefono cellulare telemóvel telefoonnummer numer_telefonu 联系电话 電話番号 телефон",
        ),
        (
            Kind::Name,
            "Nachname prénom apellidos cognome sobrenome achternaam nazwisko 客户姓名 氏名 фамилия",
        ),
        (
            Kind::Address,
            "Straße code_postal dirección indirizzo endereço straat kod_pocztowy 地址 住所 адрес",
        ),
        (
            Kind::BirthDate,
            "Geburtsdatum date_de_naissance fecha_de_nacimiento data_di_nascita data_de_nascimento geboortedatum data_urodzenia 出生日期 生年月日 датаРождения",
        ),
        (
            Kind::Secret,
            "Passwort mot_de_passe contraseña senha wachtwoord hasło 密码 パスワード пароль",
        ),
    ] {
        for key in keys.split(' ') {
            check(key, Some(kind));
        }
    }
    for key in ["Nom", "naam", "名前", "имя", "nombre"] {
        assert!(telling(key).is_some_and(super::Telling::is_vague), "{key}");
    }
    for key in ["产品", "数量", "цена", "Preis", "quantité", "品番"] {
        check(key, None);
    }
    assert_eq!(Whose::Unsaid.under("Kunden"), Whose::Peoples);
    assert_eq!(Whose::Unsaid.beside(["фамилия"].into_iter()), Whose::Peoples);
}
