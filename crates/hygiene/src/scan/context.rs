//! Words around a number that say what it is. They are read only when a number could be something.

use super::Scan;

pub(super) const PHONE: u16 = 1;
pub(super) const CARD: u16 = 1 << 1;
pub(super) const SSN: u16 = 1 << 2;
pub(super) const BIRTH: u16 = 1 << 3;
pub(super) const VERSION: u16 = 1 << 4;
/// A word for a number that a state gives to a person.
pub(super) const NATIONAL: u16 = 1 << 5;
/// A word for a telephone number if it stands next to it.
const NEAR: u16 = 1 << 7;
/// A word for something else that is counted or numbered.
pub(super) const THING: u16 = 1 << 6;

/// How far to look, in bytes and in words.
const BACK: usize = 72;
const AHEAD: usize = 24;
const WORDS_BACK: usize = 9;
const WORDS_AHEAD: usize = 2;

/// What the words around a stretch say, read once when first asked for.
pub(super) struct Context {
    start: usize,
    end: usize,
    flags: Option<u16>,
}

impl Context {
    pub(super) fn new(start: usize, end: usize) -> Context {
        Context {
            start,
            end,
            flags: None,
        }
    }

    pub(super) fn has(&mut self, scan: &Scan<'_>, wanted: u16) -> bool {
        let flags = match self.flags {
            Some(flags) => flags,
            None => {
                let flags = words(scan, self.start, self.end);
                self.flags = Some(flags);
                flags
            }
        };
        flags & wanted != 0
    }
}

fn words(scan: &Scan<'_>, start: usize, end: usize) -> u16 {
    let before = &scan.bytes[start.saturating_sub(BACK)..start];
    let after = &scan.bytes[end..scan.bytes.len().min(end + AHEAD)];
    let mut flags = 0;
    let mut back = before.rsplit(|byte| !is_letter(*byte)).filter(|word| !word.is_empty());
    let mut next = back.next();
    for index in 0..WORDS_BACK {
        let Some(word) = next else { break };
        next = back.next();
        let meant = meaning(word, next.unwrap_or_default());
        flags |= if index == 0 && meant & NEAR != 0 { meant | PHONE } else { meant };
    }
    // What follows a number speaks of it only on the same line.
    let line = after.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let ahead = line.split(|byte| !is_letter(*byte)).filter(|word| !word.is_empty());
    for (index, word) in ahead.take(WORDS_AHEAD).enumerate() {
        let meant = meaning(word, b"");
        flags |= meant & (PHONE | CARD) | if index == 0 && meant & NEAR != 0 { PHONE } else { 0 };
    }
    flags
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte >= 0x80
}

/// What a word says, knowing the one before it.
fn meaning(word: &[u8], before: &[u8]) -> u16 {
    let mut small = [0; 16];
    let Some(letters) = small.get_mut(..word.len()) else { return 0 };
    letters.copy_from_slice(word);
    letters.make_ascii_lowercase();
    let before = |wanted: &[u8]| before.eq_ignore_ascii_case(wanted);
    match &*letters {
        b"phone" | b"phones" | b"tel" | b"telephone" | b"mobile" | b"cell" | b"cellphone" | b"fax"  
        | b"call" | b"calls" | b"calling" | b"dial" | b"sms" | b"whatsapp" | b"hotline" | b"answering" | b"voicemail"
        | b"messages" | b"reach"  | b"telefon" | b"telefone" | b"telefono" | b"mobil" | b"handy" | b"movil"
        | b"celular" | b"cellulare"  | b"gsm" | b"landline"  | b"texting" | b"reached" 
        | b"puhelin" | b"telefoon" | b"switchboard" | b"helpline" | b"callback" => PHONE,
        b"t\xc3\xa9l\xc3\xa9phone" | b"t\xc3\xa9l" | b"tel\xc3\xa9fono" | b"m\xc3\xb3vil" | b"\xe7\x94\xb5\xe8\xaf\x9d" => PHONE,
        b"number" | b"no" if before(b"my") => PHONE,
        b"desk" | b"office" | b"contact" | b"portable" | b"extension" | b"ring" | b"home" | b"work" => NEAR,
        b"card" | b"cards" | b"visa" | b"mastercard" | b"amex" | b"maestro" | b"creditcard" | b"karte" | b"kreditkarte"
        | b"carte" | b"tarjeta" | b"carta" | b"cvv" | b"discover" | b"diners" | b"jcb" => CARD,
        b"credit" | b"debit" => CARD,
        b"ssn" | b"ssns" | b"itin" => SSN | NATIONAL,
        b"security" if before(b"social") => SSN | NATIONAL,
        b"born" | b"birth" | b"dob" | b"birthday" | b"birthdate" | b"geboren" | b"geburtsdatum" | b"naissance"
        | b"nacimiento" | b"nascita" => BIRTH,
        b"version" | b"versions" | b"release" | b"ver" | b"build" | b"firmware" => VERSION | THING,
        b"steuer" | b"idnr" | b"tin" | b"nino" | b"nhs" | b"bsn" | b"burgerservicenummer" | b"pesel" | b"cpf" | b"nif"
        | b"nie" | b"dni" | b"cnp" | b"egn" | b"oib" | b"tfn" | b"sin" | b"aadhaar" | b"aadhar" | b"tckn" | b"kimlik"
        | b"isikukood" | b"personnummer" | b"cpr" | b"amka" | b"passport" | b"identity" | b"citizen" | b"insee" | b"nir"
        | b"rijksregisternummer" | b"medicare" | b"curp" | b"rut" | b"cuit" | b"cuil" | b"mynumber" | b"ahv" | b"avs"
        | b"fodselsnummer" | b"hetu" => NATIONAL,
        b"insurance" | b"id" if before(b"national") || before(b"tax") || before(b"social") => NATIONAL,
        b"number" | b"no" if before(b"national") || before(b"tax") || before(b"identification") || before(b"personal") => NATIONAL,
        b"order" | b"invoice" | b"ticket" | b"issue" | b"port" | b"arxiv" | b"isbn" | b"doi" | b"pid" | b"rfc"
        | b"timestamp" | b"account" | b"zip" | b"license" | b"licence" | b"serial" | b"tracking" | b"sku" => THING,
        _ => 0,
    }
}
