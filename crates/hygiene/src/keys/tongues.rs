//! Keys in other languages: German, French, Spanish, Italian, Portuguese, Dutch, Polish, Chinese, Japanese, Russian.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::LazyLock;

use super::{Telling, Words};
use crate::kind::Kind;
use crate::lists::Short;
use crate::prose::folded;

/// Returns the hint of a key in another language.
pub(super) fn telling(words: &Words) -> Option<Telling> {
    let joined = words.joined();
    if !joined.is_ascii() && joined.chars().all(|letter| !is_spaced(letter)) {
        // Such scripts have no spaces between words: the last word says what the value is.
        let mut ends = joined.char_indices().map(|(start, _)| &joined[start..]);
        return ends.find_map(|end| KEYS.get(end)).copied();
    }
    let plain = |word: &str| match folded(word) {
        Some(plain) => KEYS.get(plain.as_str()).copied(),
        None => KEYS.get(word).copied(),
    };
    plain(joined).or_else(|| (words.count > 1).then(|| plain(words.last())).flatten())
}

/// Whether a script puts spaces between words.
fn is_spaced(letter: char) -> bool {
    !matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}')
}

static KEYS: LazyLock<HashMap<&str, Telling, BuildHasherDefault<Short>>> = LazyLock::new(|| {
    let mut keys = HashMap::default();
    for (telling, words) in LISTS {
        keys.extend(words.split_ascii_whitespace().map(|word| (word, telling)));
    }
    keys
});

const fn sure(kind: Kind, words: &'static str) -> (Telling, &'static str) {
    let trust = super::Trust::Sure;
    (Telling { kind, trust }, words)
}

const fn likely(kind: Kind, words: &'static str) -> (Telling, &'static str) {
    let trust = super::Trust::Likely;
    (Telling { kind, trust }, words)
}

const fn vague(kind: Kind, words: &'static str) -> (Telling, &'static str) {
    let trust = super::Trust::Vague;
    (Telling { kind, trust }, words)
}

const LISTS: [(Telling, &str); 27] = [
    sure(
        Kind::Email,
        "emailadresse mailadresse adressemail adresseemail correoelectronico postaelettronica indirizzoemail",
    ),
    sure(
        Kind::Email,
        "correioeletronico enderecodeemail emailadres mailadres adresemail poczta 邮箱 邮件 郵箱 メール メールアドレス почта имейл",
    ),
    sure(
        Kind::Phone,
        "telefonnummer handynummer mobilnummer rufnummer festnetz mobiltelefon mobil numerodetelephone movil celular",
    ),
    sure(
        Kind::Phone,
        "numerodetelefono cellulare numeroditelefono telefone telemovel numerodetelefone telefoon telefoonnummer mobiel",
    ),
    sure(
        Kind::Phone,
        "numertelefonu komorka 电话 手机 电话号码 手机号 手机号码 電話 電話番号 携帯 携帯番号 телефон телефона мобильный",
    ),
    likely(Kind::Phone, "portable"),
    sure(
        Kind::Name,
        "familienname benutzername kundenname ansprechpartner kunde prenom nomdefamille nomcomplet nombrecompleto",
    ),
    sure(
        Kind::Name,
        "cognome nomecognome nomeecognome sobrenome nomecompleto voornaam achternaam imie nazwisko imieinazwisko",
    ),
    sure(
        Kind::Name,
        "姓名 联系人 客户 顾客 氏名 顧客 お名前 苗字 фамилия отчество фио klant klient cliente paciente paziente клиент",
    ),
    vague(Kind::Name, "nom nome naam nombre 名字 名前 имя"),
    likely(
        Kind::Address,
        "strasse postleitzahl hausnummer rue codepostal calle codigopostal domicilio indirizzo codicepostale",
    ),
    likely(
        Kind::Address,
        "endereco rua cep morada adres straat huisnummer ulica kodpocztowy 地址 住址 邮编 邮政编码 住所 郵便番号 адрес улица",
    ),
    likely(Kind::Address, "почтовыйиндекс"),
    likely(
        Kind::Place,
        "wohnort citta cidade woonplaats stad miasto 城市 都市 город",
    ),
    vague(Kind::Place, "ort plaats"),
    sure(
        Kind::BirthDate,
        "geburtstag datedenaissance naissance fechadenacimiento nacimiento datadinascita nascita datadenascimento",
    ),
    sure(
        Kind::BirthDate,
        "nascimento geboortedatum dataurodzenia 出生日期 生日 生年月日 датарождения",
    ),
    sure(
        Kind::NationalId,
        "personalausweis ausweisnummer steuernummer steueridentifikationsnummer sozialversicherungsnummer reisepass",
    ),
    sure(
        Kind::NationalId,
        "numerodesecuritesociale passeport pasaporte codicefiscale passaporto passaporte paspoort",
    ),
    sure(
        Kind::NationalId,
        "burgerservicenummer paszport 身份证 身份证号 身份证号码 护照 护照号 マイナンバー 個人番号 パスポート паспорт инн снилс",
    ),
    sure(
        Kind::Iban,
        "kontonummer rekeningnummer numerokonta numerodecuenta numerodecompte 银行账号 口座番号 номерсчета",
    ),
    sure(
        Kind::Card,
        "kreditkarte kreditkartennummer kartennummer cartebancaire numerodecarte tarjetadecredito numerodetarjeta",
    ),
    sure(
        Kind::Card,
        "cartadicredito numerocarta cartaodecredito numerodocartao creditcardnummer kartakredytowa numerkarty",
    ),
    sure(
        Kind::Card,
        "卡号 信用卡 信用卡号 银行卡号 カード番号 クレジットカード номеркарты",
    ),
    sure(
        Kind::Secret,
        "kennwort motdepasse contrasena senha haslo wachtwoord 密码 パスワード 暗証番号 пароль",
    ),
    likely(
        Kind::Organisation,
        "firma entreprise empresa azienda bedrijf 公司 会社 компания",
    ),
    likely(Kind::Name, "mitarbeiter"),
];
