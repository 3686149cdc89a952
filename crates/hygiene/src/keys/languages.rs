//! Keys in other languages: German, French, Spanish, Italian, Portuguese, Dutch, Polish, Chinese, Japanese, Russian.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::LazyLock;

use super::{KeyHint, KeyWords};
use crate::kind::SensitiveKind;
use crate::prose::fold_word;
use crate::word_lists::ShortWordHasher;

/// Returns the hint of a key in another language.
pub(super) fn foreign_key_hint(words: &KeyWords) -> Option<KeyHint> {
    let joined = words.joined();
    if !joined.is_ascii() && joined.chars().all(|letter| !uses_spaces(letter)) {
        // Such scripts have no spaces between words: the last word says what the value is.
        let mut ends = joined.char_indices().map(|(start, _)| &joined[start..]);
        return ends.find_map(|end| FOREIGN_KEYS.get(end)).copied();
    }
    let plain = |word: &str| match fold_word(word) {
        Some(plain) => FOREIGN_KEYS.get(plain.as_str()).copied(),
        None => FOREIGN_KEYS.get(word).copied(),
    };
    plain(joined).or_else(|| (words.count > 1).then(|| plain(words.last())).flatten())
}

/// Whether a script puts spaces between words.
fn uses_spaces(letter: char) -> bool {
    !matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}')
}

static FOREIGN_KEYS: LazyLock<HashMap<&str, KeyHint, BuildHasherDefault<ShortWordHasher>>> = LazyLock::new(|| {
    let mut keys = HashMap::default();
    for (telling, words) in KEY_LISTS {
        keys.extend(words.split_ascii_whitespace().map(|word| (word, telling)));
    }
    keys
});

const fn sure(kind: SensitiveKind, words: &'static str) -> (KeyHint, &'static str) {
    let trust = super::HintTrust::Sure;
    (KeyHint { kind, trust }, words)
}

const fn likely(kind: SensitiveKind, words: &'static str) -> (KeyHint, &'static str) {
    let trust = super::HintTrust::Likely;
    (KeyHint { kind, trust }, words)
}

const fn vague(kind: SensitiveKind, words: &'static str) -> (KeyHint, &'static str) {
    let trust = super::HintTrust::Vague;
    (KeyHint { kind, trust }, words)
}

const KEY_LISTS: [(KeyHint, &str); 28] = [
    sure(
        SensitiveKind::Email,
        "emailadresse mailadresse adressemail adresseemail correoelectronico postaelettronica indirizzoemail",
    ),
    sure(
        SensitiveKind::Email,
        "correioeletronico enderecodeemail emailadres mailadres adresemail poczta 邮箱 邮件 郵箱 メール メールアドレス почта имейл",
    ),
    sure(
        SensitiveKind::Phone,
        "telefonnummer handynummer mobilnummer rufnummer festnetz mobiltelefon mobil numerodetelephone movil celular",
    ),
    sure(
        SensitiveKind::Phone,
        "numerodetelefono cellulare numeroditelefono telefone telemovel numerodetelefone telefoon telefoonnummer mobiel",
    ),
    sure(
        SensitiveKind::Phone,
        "numertelefonu komorka 电话 手机 电话号码 手机号 手机号码 電話 電話番号 携帯 携帯番号 телефон телефона мобильный",
    ),
    likely(SensitiveKind::Phone, "portable"),
    sure(
        SensitiveKind::Name,
        "familienname benutzername kundenname ansprechpartner kunde prenom nomdefamille nomcomplet nombrecompleto",
    ),
    sure(
        SensitiveKind::Name,
        "cognome nomecognome nomeecognome sobrenome nomecompleto voornaam achternaam imie nazwisko imieinazwisko",
    ),
    sure(
        SensitiveKind::Name,
        "姓名 联系人 客户 顾客 氏名 顧客 お名前 苗字 фамилия отчество фио klant klient cliente paciente paziente клиент",
    ),
    vague(SensitiveKind::Name, "nom nome naam nombre 名字 名前 имя"),
    likely(
        SensitiveKind::Address,
        "strasse postleitzahl rue codepostal calle codigopostal domicilio indirizzo codicepostale",
    ),
    likely(
        SensitiveKind::Address,
        "endereco rua cep morada adres straat ulica kodpocztowy 地址 住址 邮编 邮政编码 住所 郵便番号 адрес улица",
    ),
    likely(SensitiveKind::Address, "почтовыйиндекс"),
    sure(SensitiveKind::Address, "hausnummer huisnummer"),
    likely(
        SensitiveKind::Place,
        "wohnort citta cidade woonplaats stad miasto 城市 都市 город",
    ),
    vague(SensitiveKind::Place, "ort plaats"),
    sure(
        SensitiveKind::BirthDate,
        "geburtstag datedenaissance naissance fechadenacimiento nacimiento datadinascita nascita datadenascimento",
    ),
    sure(
        SensitiveKind::BirthDate,
        "nascimento geboortedatum dataurodzenia 出生日期 生日 生年月日 датарождения",
    ),
    sure(
        SensitiveKind::NationalId,
        "personalausweis ausweisnummer steuernummer steueridentifikationsnummer sozialversicherungsnummer reisepass",
    ),
    sure(
        SensitiveKind::NationalId,
        "numerodesecuritesociale passeport pasaporte codicefiscale passaporto passaporte paspoort",
    ),
    sure(
        SensitiveKind::NationalId,
        "burgerservicenummer paszport 身份证 身份证号 身份证号码 护照 护照号 マイナンバー 個人番号 パスポート паспорт инн снилс",
    ),
    sure(
        SensitiveKind::Iban,
        "kontonummer rekeningnummer numerokonta numerodecuenta numerodecompte 银行账号 口座番号 номерсчета",
    ),
    sure(
        SensitiveKind::Card,
        "kreditkarte kreditkartennummer kartennummer cartebancaire numerodecarte tarjetadecredito numerodetarjeta",
    ),
    sure(
        SensitiveKind::Card,
        "cartadicredito numerocarta cartaodecredito numerodocartao creditcardnummer kartakredytowa numerkarty",
    ),
    sure(
        SensitiveKind::Card,
        "卡号 信用卡 信用卡号 银行卡号 カード番号 クレジットカード номеркарты",
    ),
    sure(
        SensitiveKind::Secret,
        "kennwort motdepasse contrasena senha haslo wachtwoord 密码 パスワード 暗証番号 пароль",
    ),
    likely(
        SensitiveKind::Organisation,
        "firma entreprise empresa azienda bedrijf 公司 会社 компания",
    ),
    likely(SensitiveKind::Name, "mitarbeiter"),
];
