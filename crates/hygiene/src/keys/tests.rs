//! Tests of key hints.

use super::name_owner::{SiblingHint, sibling_hint};
use super::{NameOwner, key_hint};
use crate::kind::SensitiveKind;

#[track_caller]
fn check(key: &str, kind: Option<SensitiveKind>) {
    assert_eq!(key_hint(key).map(|telling| telling.kind), kind, "{key}");
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
        check(key, Some(SensitiveKind::Email));
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
        check(key, Some(SensitiveKind::Phone));
    }
    check("socialSecurityNumber", Some(SensitiveKind::Ssn));
    check("card_number", Some(SensitiveKind::Card));
    check("ipAddress", Some(SensitiveKind::Ip));
    check("client_ip", Some(SensitiveKind::Ip));
    check("dateOfBirth", Some(SensitiveKind::BirthDate));
    check("firstName", Some(SensitiveKind::Name));
    check("customer", Some(SensitiveKind::Name));
    check("company_name", Some(SensitiveKind::Organisation));
    check("shipping_address", Some(SensitiveKind::Address));
    check("zipCode", Some(SensitiveKind::Address));
    check("city", Some(SensitiveKind::Place));
    check("db_password", Some(SensitiveKind::Secret));
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
        let found = key_hint(key).filter(|telling| !telling.is_vague());
        assert_eq!(found.map(|telling| telling.kind), Some(SensitiveKind::Secret), "{key}");
    }
    for key in ["token", "csrf_token", "signing_key", "account_key"] {
        assert!(key_hint(key).is_some_and(super::KeyHint::is_vague), "{key}");
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
    assert_eq!(sibling_hint("email"), Some(SiblingHint::Contact));
    assert_eq!(sibling_hint("birthday"), Some(SiblingHint::Person));
    assert_eq!(sibling_hint("title"), None);
    assert_eq!(sibling_hint("author"), None);
    assert_eq!(sibling_hint("sku"), Some(SiblingHint::Thing));
    assert_eq!(sibling_hint("id"), None);
    for (over, keys, whose) in [
        (NameOwner::Unknown, "id email", NameOwner::Contacts),
        (NameOwner::Unknown, "sku dob", NameOwner::People),
        (NameOwner::Unknown, "rating phone", NameOwner::LikelyThings),
        (NameOwner::Unknown, "sku id", NameOwner::Things),
        (NameOwner::People, "sku id", NameOwner::LikelyThings),
        (NameOwner::People, "sku email", NameOwner::People),
    ] {
        assert_eq!(over.with_siblings(keys.split(' ')), whose, "{keys}");
    }
}

#[test]
fn what_stands_over_a_name_says_whose_it_is_through_envelopes() {
    for (keys, whose) in [
        ("customers", NameOwner::People),
        ("users", NameOwner::People),
        ("files", NameOwner::Things),
        ("tool", NameOwner::Things),
        ("staff", NameOwner::People),
        ("data results", NameOwner::Unknown),
        ("items", NameOwner::LikelyThings),
        ("customers data items", NameOwner::People),
        ("files page items", NameOwner::Things),
        ("customers event", NameOwner::LikelyThings),
        ("team members", NameOwner::People),
    ] {
        let found = keys.split(' ').fold(NameOwner::Unknown, NameOwner::below_key);
        assert_eq!(found, whose, "{keys}");
    }
}

#[test]
fn keys_tell_in_ten_languages_more() {
    for (kind, keys) in [
        (
            SensitiveKind::Email,
            "E-Mail-Adresse courriel correo_electronico indirizzoEmail e-mailadres adres_email 电子邮箱 メールアドレス почта",
        ),
        (
            SensitiveKind::Phone,
            "Telefonnummer téléphone numero_de_telefono cellulare telemóvel telefoonnummer numer_telefonu 联系电话 電話番号 телефон",
        ),
        (
            SensitiveKind::Name,
            "Nachname prénom apellidos cognome sobrenome achternaam nazwisko 客户姓名 氏名 фамилия",
        ),
        (
            SensitiveKind::Address,
            "Straße code_postal dirección indirizzo endereço straat kod_pocztowy 地址 住所 адрес",
        ),
        (
            SensitiveKind::BirthDate,
            "Geburtsdatum date_de_naissance fecha_de_nacimiento data_di_nascita data_de_nascimento geboortedatum data_urodzenia 出生日期 生年月日 датаРождения",
        ),
        (
            SensitiveKind::Secret,
            "Passwort mot_de_passe contraseña senha wachtwoord hasło 密码 パスワード пароль",
        ),
    ] {
        for key in keys.split(' ') {
            check(key, Some(kind));
        }
    }
    for key in ["Nom", "naam", "名前", "имя", "nombre"] {
        assert!(key_hint(key).is_some_and(super::KeyHint::is_vague), "{key}");
    }
    for key in ["产品", "数量", "цена", "Preis", "quantité", "品番"] {
        check(key, None);
    }
    assert_eq!(NameOwner::Unknown.below_key("Kunden"), NameOwner::People);
    assert_eq!(
        NameOwner::Unknown.with_siblings(["фамилия"].into_iter()),
        NameOwner::People
    );
}
