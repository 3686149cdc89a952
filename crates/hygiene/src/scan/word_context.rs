//! Word context: words around a number that say what it is. They are read only if the number could be something.

use std::sync::LazyLock;

use super::Scan;
use crate::word_lists::WordLists;

pub(super) const PHONE: u16 = 1;
pub(super) const CARD: u16 = 1 << 1;
pub(super) const SSN: u16 = 1 << 2;
pub(super) const BIRTH: u16 = 1 << 3;
pub(super) const VERSION: u16 = 1 << 4;
/// A word for a national number of a person.
pub(super) const NATIONAL: u16 = 1 << 5;
/// A word for a telephone number if it is next to it.
const PHONE_NEAR: u16 = 1 << 7;

/// How far to search, in bytes and in words.
const MAX_BYTES_BACK: usize = 72;
const MAX_BYTES_AHEAD: usize = 24;
const MAX_WORDS_BACK: usize = 9;
const MAX_WORDS_AHEAD: usize = 2;

/// The meaning of the words around a range, read once on first use.
pub(super) struct WordContext {
    start: usize,
    end: usize,
    flags: Option<u16>,
}

impl WordContext {
    pub(super) fn new(start: usize, end: usize) -> WordContext {
        WordContext {
            start,
            end,
            flags: None,
        }
    }

    pub(super) fn has(&mut self, scan: &Scan<'_>, wanted: u16) -> bool {
        let flags = *self
            .flags
            .get_or_insert_with(|| read_meanings(scan, self.start, self.end));
        flags & wanted != 0
    }
}

fn read_meanings(scan: &Scan<'_>, start: usize, end: usize) -> u16 {
    let before = &scan.bytes[start.saturating_sub(MAX_BYTES_BACK)..start];
    if let Some(key) = key_before_number(before) {
        // In a structure only the key of a number says what it is.
        let words = key.rsplit(|byte| !is_letter(*byte)).filter(|word| !word.is_empty());
        return words.fold(0, |flags, word| flags | word_meaning(word, b""));
    }
    let after = &scan.bytes[end..scan.bytes.len().min(end + MAX_BYTES_AHEAD)];
    let mut flags = 0;
    let mut back = before.rsplit(|byte| !is_letter(*byte)).filter(|word| !word.is_empty());
    let mut next = back.next();
    for index in 0..MAX_WORDS_BACK {
        let Some(word) = next else { break };
        next = back.next();
        let meant = word_meaning(word, next.unwrap_or_default());
        flags |= if index == 0 && meant & PHONE_NEAR != 0 {
            meant | PHONE
        } else {
            meant
        };
    }
    // Words after a number refer to it only in the same line.
    let line = after.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let ahead = line.split(|byte| !is_letter(*byte)).filter(|word| !word.is_empty());
    for (index, word) in ahead.take(MAX_WORDS_AHEAD).enumerate() {
        let meant = word_meaning(word, b"");
        flags |= meant & (PHONE | CARD)
            | if index == 0 && meant & PHONE_NEAR != 0 {
                PHONE
            } else {
                0
            };
    }
    flags
}

/// Returns the key in a printed structure before a number, its sign or its quote: `"id": 17`, `{ id: 17 }`.
fn key_before_number(before: &[u8]) -> Option<&[u8]> {
    let sign = |byte: &u8| matches!(byte, b'+' | b'-' | b'(' | b' ' | b'"' | b'\'');
    let lead = before.iter().rev().take(4).take_while(|byte| sign(byte)).count();
    let before = before[..before.len() - lead].strip_suffix(b":")?.trim_ascii_end();
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || *byte >= 0x80;
    let word = |text: &[u8]| text.iter().rev().take_while(|byte| part(byte)).count();
    if let Some(inner) = before.strip_suffix(b"\"").or_else(|| before.strip_suffix(b"'")) {
        let key = word(inner);
        let open = inner[..inner.len() - key].last();
        return matches!(open, Some(b'"' | b'\'')).then(|| &inner[inner.len() - key..]);
    }
    let key = word(before);
    let outside = before[..before.len() - key].trim_ascii_end().last();
    (key > 0 && matches!(outside, Some(b'{' | b','))).then(|| &before[before.len() - key..])
}

/// Whether the words right before a number say that it is the number of a thing: `part no`, `SKU`, `ports`.
pub(super) fn numbers_a_thing(scan: &Scan<'_>, start: usize) -> bool {
    const THINGS: [&str; 14] = [
        "part", "sku", "model", "serial", "article", "item", "isbn", "lot", "catalog", "upc", "port", "ports", "range",
        "ranges",
    ];
    let before = &scan.bytes[start.saturating_sub(MAX_BYTES_AHEAD)..start];
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    // A word that a number follows is in the same clause.
    let clause = line
        .rsplit(|byte| matches!(byte, b',' | b';' | b'('))
        .next()
        .unwrap_or_default();
    let mut words = clause.rsplit(|byte| !is_letter(*byte)).filter(|word| !word.is_empty());
    let is_thing = |word: &[u8]| THINGS.iter().any(|thing| word.eq_ignore_ascii_case(thing.as_bytes()));
    let Some(last) = words.next() else { return false };
    let numbered = ["no", "nr", "number", "num"]
        .iter()
        .any(|word| last.eq_ignore_ascii_case(word.as_bytes()));
    is_thing(last) || numbered && words.next().is_some_and(is_thing)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte >= 0x80
}

/// Returns the meaning of a word, given the one before it.
fn word_meaning(word: &[u8], before: &[u8]) -> u16 {
    let Ok(word) = std::str::from_utf8(word) else { return 0 };
    let meant = WORD_MEANINGS.flags(word);
    if meant & PAIRED == 0 {
        return meant;
    }
    let before = std::str::from_utf8(before).map_or(0, |before| WORD_PAIRS.flags(before));
    let number = word.eq_ignore_ascii_case("number") || word.eq_ignore_ascii_case("no");
    match word {
        word if word.eq_ignore_ascii_case("security") => before & (SSN | NATIONAL),
        _ if number => before & (PHONE | NATIONAL),
        _ => before & NATIONAL,
    }
}

/// A word that has a meaning only after another.
const PAIRED: u16 = 1 << 8;

static WORD_MEANINGS: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[
        (
            PHONE,
            "phone phones tel telephone mobile cell cellphone fax call calls calling dial sms whatsapp hotline",
        ),
        (
            PHONE,
            "answering voicemail messages reach reached texting landline switchboard helpline callback gsm",
        ),
        (
            PHONE,
            "telefon telefone telefono mobil handy movil celular cellulare puhelin telefoon téléphone tél",
        ),
        (PHONE, "teléfono móvil 电话 電話 телефон"),
        (PHONE_NEAR, "desk office contact portable extension ring home work"),
        (
            CARD,
            "card cards credit debit visa mastercard amex maestro creditcard cvv discover diners jcb",
        ),
        (CARD, "karte kreditkarte carte tarjeta carta"),
        (SSN | NATIONAL, "ssn ssns itin"),
        (
            BIRTH,
            "born birth dob birthday birthdate geboren geburtsdatum naissance nacimiento nascita",
        ),
        (VERSION, "version versions release ver build firmware"),
        (
            NATIONAL,
            "steuer idnr tin nino nhs bsn burgerservicenummer pesel cpf nif nie dni cnp egn oib tfn sin",
        ),
        (
            NATIONAL,
            "aadhaar aadhar tckn kimlik isikukood personnummer cpr amka passport identity citizen insee nir",
        ),
        (
            NATIONAL,
            "rijksregisternummer medicare curp rut cuit cuil mynumber ahv avs fodselsnummer hetu",
        ),
        (PAIRED, "security number no insurance id"),
    ])
});

/// The words before a paired word, with the meaning of the pair.
static WORD_PAIRS: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[
        (SSN | NATIONAL, "social"),
        (NATIONAL, "national tax identification personal"),
        (PHONE, "my"),
    ])
});
