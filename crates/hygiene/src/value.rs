//! Checks whether a value confirms what its key says, and which part of it is meant.

mod harmless;
mod person_name;

use std::borrow::Cow;
use std::net::IpAddr;

use crate::keys::{HintTrust, KeyHint, NameOwner, OtherMeaning};
use crate::kind::SensitiveKind;
use crate::secret;
pub(crate) use person_name::{is_ordinary, is_person_name};

/// Most bytes of a value that a key makes a finding as a whole; longer ones are texts, and are scanned as such.
const MAX_VALUE_BYTES: usize = 240;

/// The source of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HintSource {
    /// A key, a column or a schema: its value contains nothing else.
    Key,
    /// A label in running text: a sentence may follow it.
    Label,
}

/// Returns the part of a value that can be of this kind.
pub(crate) fn confirmed_part(value: &str, kind: SensitiveKind, ground: HintSource) -> Option<(usize, usize)> {
    let (value, cut) = strip_notice(value);
    let trimmed = value.trim();
    let start = value.len() - value.trim_start().len();
    // A cookie may have any length.
    let long = trimmed.len() > MAX_VALUE_BYTES && kind != SensitiveKind::Secret;
    if trimmed.is_empty() || long || is_empty_word(trimmed) || is_removed_secret(trimmed) {
        return None;
    }
    if harmless::is_column_type(trimmed, kind) || harmless::is_form_text(trimmed, kind) {
        return None;
    }
    let plain = without_aliases(trimmed);
    let known = plain.len() < trimmed.len();
    if known && !plain.contains(char::is_alphanumeric) {
        return None;
    }
    // The missing part of a truncated value might have confirmed it.
    let good = match ground {
        HintSource::Key => can_be_kind(&plain, kind) || cut && plain.contains(char::is_alphanumeric),
        HintSource::Label => has_form(&plain, kind),
    };
    good.then_some((start, start + trimmed.len()))
}

/// Whether a value under a key of this kind can be one at all, even if unusually written, encoded, or with words
/// around it.
fn can_be_kind(value: &str, kind: SensitiveKind) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    match kind {
        SensitiveKind::Email => looks_like_email(value),
        SensitiveKind::Phone => digits >= 3 && !is_version(value),
        SensitiveKind::Card => digits >= 4 && value.len() <= MAX_NUMBER_BYTES,
        SensitiveKind::Iban | SensitiveKind::Ssn | SensitiveKind::NationalId => {
            digits >= 1 && value.len() <= MAX_NUMBER_BYTES && !is_version(value)
        }
        SensitiveKind::Secret => !is_reference(value) && !is_already_masked(value),
        SensitiveKind::Ip
        | SensitiveKind::Mac
        | SensitiveKind::Url
        | SensitiveKind::BirthDate
        | SensitiveKind::Name
        | SensitiveKind::Place
        | SensitiveKind::Address
        | SensitiveKind::Organisation
        | SensitiveKind::Custom(_) => has_form(value, kind),
    }
}

/// Most bytes of an account number or national number with the text around it.
const MAX_NUMBER_BYTES: usize = 64;

/// Whether a value has the form of a kind, as far as the kind has one.
fn has_form(value: &str, kind: SensitiveKind) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.chars().filter(|letter| letter.is_alphabetic()).count();
    match kind {
        SensitiveKind::Custom(_) => false,
        SensitiveKind::Email => looks_like_email(value) && !value.contains(char::is_whitespace),
        SensitiveKind::Phone => (4..=20).contains(&digits) && is_dialled(value),
        SensitiveKind::Card => (8..=24).contains(&digits) && letters == 0,
        SensitiveKind::Iban => digits >= 4 && (12..=42).contains(&value.len()) && is_plain(value),
        SensitiveKind::Ssn => (4..=11).contains(&digits) && letters <= 2 && value.len() <= 16,
        SensitiveKind::NationalId => digits >= 3 && value.len() <= 32 && is_plain(value),
        SensitiveKind::Ip => value
            .parse::<IpAddr>()
            .is_ok_and(|address| !address.is_loopback() && !address.is_unspecified()),
        SensitiveKind::Mac => value.bytes().filter(u8::is_ascii_hexdigit).count() == 12 && value.len() <= 17,
        SensitiveKind::Url => {
            value.contains('.')
                && !value.contains(char::is_whitespace)
                && letters >= 3
                && !value.starts_with(['.', '/'])
        }
        SensitiveKind::BirthDate => (2..=20).contains(&digits) && value.len() <= 40,
        SensitiveKind::Name => letters >= 1 && digits <= 4 && value.chars().count() <= 80 && can_be_name(value),
        SensitiveKind::Place | SensitiveKind::Organisation => {
            letters >= 1 && value.chars().count() <= 120 && !value.contains("://")
        }
        SensitiveKind::Address => letters + digits >= 1 && can_be_postal_address(value),
        SensitiveKind::Secret => value.len() >= 4 && !value.contains(char::is_whitespace) && !is_placeholder(value),
    }
}

/// Whether a cell is exactly an e-mail address.
pub(crate) fn is_email(cell: &str) -> bool {
    cell.contains('@') && has_form(cell, SensitiveKind::Email)
}

/// Whether nobody reads mail to an e-mail address: the name beside it may be a program's.
pub(crate) fn is_nobodys_mail(value: &str) -> bool {
    let name: String = value.split('@').next().unwrap_or_default().to_ascii_lowercase();
    let name = name.replace(['-', '_', '.'], "");
    name.ends_with("noreply") || name.ends_with("donotreply") || name.ends_with("[bot]") || name == "mailerdaemon"
}

/// Whether a cell is written like a telephone number, rather than an amount, a date or an id.
pub(crate) fn is_dialable(cell: &str) -> bool {
    let digits = cell.bytes().filter(u8::is_ascii_digit).count();
    let begun = cell.starts_with(['+', '0', '(']);
    let parted = cell.contains([' ', '-', '/']) && !cell.contains(['.', ':', ',']);
    let dated = cell.len() == 10 && matches!(cell.as_bytes().get(4), Some(b'-' | b'/'));
    let letters = cell.chars().any(char::is_alphabetic);
    (7..=15).contains(&digits)
        && !letters
        && !dated
        && has_form(cell, SensitiveKind::Phone)
        && (begun && !cell.contains('.') || parted && digits >= 9)
}

/// Whether a value can be a person's name: no path, no system account.
fn can_be_name(value: &str) -> bool {
    const ACCOUNTS: [&str; 10] = [
        "root",
        "admin",
        "administrator",
        "postgres",
        "nobody",
        "system",
        "ubuntu",
        "www-data",
        "daemon",
        "bot",
    ];
    let path = !value.contains(char::is_whitespace) && value.contains(['/', '\\', '=']);
    let account = ACCOUNTS.iter().any(|account| value.eq_ignore_ascii_case(account));
    !path && !account && !value.contains("://")
}

/// Whether a value can be a postal address or a part of one: no host, no path, no memory address, no cell reference.
fn can_be_postal_address(value: &str) -> bool {
    let word = !value.contains(char::is_whitespace);
    let machine = word && value.contains(['.', ':', '/', '\\', '_', '=', '!']);
    let hex =
        word && (value.starts_with("0x") || value.len() >= 20 && value.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let coded = word && value.len() > 12 && value.is_ascii() && value.bytes().any(|byte| byte.is_ascii_digit());
    !machine && !hex && !coded && !value.contains("://")
}

/// Whether a value is a version: `^0.6.0`, `1.2`, `v3`.
fn is_version(value: &str) -> bool {
    let plain = value.trim_start_matches(['^', '~', '>', '<', '=', 'v', ' ']);
    let groups = || plain.split('.');
    let small = |group: &str| (1..=3).contains(&group.len()) && group.bytes().all(|byte| byte.is_ascii_digit());
    let marked = plain.len() < value.len() && plain.starts_with(|letter: char| letter.is_ascii_digit());
    marked || (2..=3).contains(&groups().count()) && groups().all(small)
}

/// Whether a value has the sign of an e-mail address, in any spelling. A list of plain addresses is not one value:
/// each is found by its form.
fn looks_like_email(value: &str) -> bool {
    const SIGNS: [&str; 9] = [
        "@", "%40", "&#64;", "&#x40;", "&commat;", "\u{ff20}", "\u{fe6b}", "[at]", "(at)",
    ];
    let small = value.to_ascii_lowercase();
    let told = small.contains(" at ") && small.contains(" dot ");
    let plain = |part: &str| {
        let parts = part
            .split_once('@')
            .and_then(|(name, domain)| Some((name, domain.rsplit_once('.')?)));
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
        parts.is_some_and(|(name, (domain, top))| {
            let good = |part: &str| !part.is_empty() && part.bytes().all(letter);
            good(name) && good(domain) && top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic())
        })
    };
    let parts = || {
        value
            .split([',', ';', ' ', '\n'])
            .map(str::trim)
            .filter(|part| !part.is_empty())
    };
    let list = parts().count() > 1 && parts().all(plain);
    !list && (told || SIGNS.iter().any(|sign| small.contains(sign)))
}

/// Strips the notice that the rest of a value was left out. Returns whether there was one.
fn strip_notice(value: &str) -> (&str, bool) {
    let said = value
        .strip_suffix('⟧')
        .and_then(|value| value.rsplit_once("⟦ringfence: "));
    let Some((before, notice)) = said else {
        return (value, false);
    };
    let numbers = |letter: char| letter.is_ascii_digit() || letter == ',';
    let ours = notice
        .trim_start_matches(numbers)
        .strip_prefix(" of ")
        .and_then(|rest| rest.trim_start_matches(numbers).strip_prefix(" bytes left out"))
        .is_some_and(|rest| (rest.is_empty() || rest.starts_with("; the whole is at ")) && !rest.contains('⟧'));
    if ours { (before, true) } else { (value, false) }
}

/// Whether a value is the rest of one that was removed for good.
fn is_removed_secret(value: &str) -> bool {
    let inner = value.strip_prefix('⟦').and_then(|rest| rest.strip_suffix('⟧'));
    let gone = inner.and_then(|inner| inner.split_once(' '));
    gone.is_some_and(|(kind, how)| is_kind_word(kind) && matches!(how, "removed" | "hidden"))
}

/// Returns a value without its aliases, which are masked already.
fn without_aliases(value: &str) -> Cow<'_, str> {
    if !value.contains('‹') {
        return Cow::Borrowed(value);
    }
    let mut plain = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('‹') {
        plain.push_str(before);
        let alias = after.split_once('›').filter(|(inner, _)| {
            let parts = inner.split_once(':');
            parts.is_some_and(|(kind, code)| {
                is_kind_word(kind) && code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
            })
        });
        rest = alias.map_or(after, |(_, rest)| rest);
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

fn is_kind_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Returns the kind of a value under a key with a hint, given the owner of the names around it.
pub(crate) fn kind_of_value(telling: KeyHint, whose: NameOwner, value: &str) -> Option<SensitiveKind> {
    let (value, _) = strip_notice(value);
    let good = match telling.trust {
        HintTrust::Sure => true,
        HintTrust::SureUnless(OtherMeaning::Folder) => !harmless::is_folder(value),
        HintTrust::SureUnless(OtherMeaning::Words) => !harmless::is_words(value),
        HintTrust::Likely => is_likely(telling.kind, whose, value),
        HintTrust::Vague => match (telling.kind, whose) {
            (SensitiveKind::Secret, _) => secret::is_random(value),
            (_, NameOwner::People) => true,
            (SensitiveKind::Place, NameOwner::Contacts) => looks_named(value),
            (_, NameOwner::Contacts) => looks_named(value) && !person_name::is_organisation(value),
            (SensitiveKind::Name, NameOwner::LikelyThings | NameOwner::UnknownInRow | NameOwner::Unknown) => {
                is_person_name(value)
            }
            (_, NameOwner::LikelyThings | NameOwner::UnknownInRow | NameOwner::Unknown | NameOwner::Things) => false,
        },
    };
    good.then_some(telling.kind)
}

/// Whether a value is what its key usually holds.
fn is_likely(kind: SensitiveKind, whose: NameOwner, value: &str) -> bool {
    let things = whose == NameOwner::Things;
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.chars().filter(|letter| letter.is_alphabetic()).count();
    match kind {
        SensitiveKind::Secret => !things && letters == 0 && (4..=12).contains(&digits),
        SensitiveKind::Phone => digits >= 6 && has_form(value, kind),
        SensitiveKind::Card => {
            let covered = value.contains(['*', '•', '…']) || value.to_ascii_lowercase().contains("ending");
            letters == 0 && digits >= 8 || covered && digits >= 4
        }
        SensitiveKind::Name if whose == NameOwner::People => true,
        SensitiveKind::Name => is_person_name(value) || !things && person_name::is_titled(value),
        SensitiveKind::Place | SensitiveKind::Organisation => {
            !things && !matches!(whose, NameOwner::LikelyThings | NameOwner::UnknownInRow)
        }
        // One or two digits are a count, or the place of a register.
        SensitiveKind::Address => !things && (value.len() > 2 || digits < value.len()),
        SensitiveKind::Email
        | SensitiveKind::Iban
        | SensitiveKind::Ssn
        | SensitiveKind::NationalId
        | SensitiveKind::Ip
        | SensitiveKind::Mac
        | SensitiveKind::Url
        | SensitiveKind::BirthDate
        | SensitiveKind::Custom(_) => !things,
    }
}

/// Whether a value under a key that things have too looks like the name of a person or a town.
pub(crate) fn looks_named(value: &str) -> bool {
    let trimmed = value.trim();
    let words = trimmed.split_whitespace().count();
    let letters = |letter: char| {
        letter.is_alphabetic()
            || letter.is_whitespace()
            || !letter.is_ascii()
            || matches!(letter, '.' | '\'' | '-' | ',' | '`' | '(' | ')' | '/' | '"')
    };
    (1..=6).contains(&words)
        && trimmed.chars().all(letters)
        && trimmed.chars().any(char::is_alphabetic)
        && !trimmed
            .trim_end_matches('.')
            .split_once('.')
            .is_some_and(|(_, rest)| !rest.is_empty() && !rest.contains(' '))
}

/// Whether a line is exactly a name: few capitalised words, or a person's name.
pub(crate) fn looks_titled(line: &str) -> bool {
    let capital = |word: &str| word.chars().next().is_some_and(|letter| !letter.is_lowercase());
    let words = || line.split_whitespace();
    looks_named(line) && words().count() <= 4 && (words().all(capital) || is_person_name(line))
}

/// Whether a word means that there is no value.
fn is_empty_word(value: &str) -> bool {
    const NOTHING: [&str; 14] = [
        "null",
        "none",
        "n/a",
        "na",
        "nil",
        "unknown",
        "undefined",
        "true",
        "false",
        "-",
        "yes",
        "no",
        "string",
        "anonymous",
    ];
    NOTHING.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether a value only refers to a secret: `${VAR}`, `$DB_PASSWORD`, `{{ password }}`, `%PASSWORD%`, `env:X`.
fn is_reference(value: &str) -> bool {
    let inner = |open: &str, close: &str| value.strip_prefix(open)?.strip_suffix(close);
    let named = |name: &str| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b':');
        !name.is_empty() && name.bytes().all(letter)
    };
    let loud = |name: &str| {
        let letter = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        name.contains('_') && name.bytes().all(letter)
    };
    let kept = ["env:", "vault:", "file:", "keyring:"];
    inner("${", "}").is_some_and(named)
        || inner("{{", "}}").map(str::trim).is_some_and(named)
        || inner("$", "").is_some_and(loud)
        || inner("%", "%").is_some_and(loud)
        || kept.iter().any(|place| inner(place, "").is_some_and(named))
}

/// Whether a value was masked before, by this crate or by others.
fn is_already_masked(value: &str) -> bool {
    ["[redacted]", "<redacted>"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
        || value.chars().all(|letter| matches!(letter, '*' | '•' | '●'))
}

/// Whether the text in the place of a secret describes it: `<your password>`, `The password to use`.
pub(crate) fn describes_secret(value: &str) -> bool {
    let wrapped = value.starts_with('<') && value.ends_with('>');
    let your = value.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("your"));
    let sentence = value
        .split_once(' ')
        .is_some_and(|(first, _)| matches!(first, "The" | "A" | "An" | "This" | "Use"));
    // Credential modes of `fetch` in JavaScript.
    let sent = matches!(value, "include" | "same-origin" | "omit");
    wrapped || your || sentence || sent
}

/// Whether a value in a text is a placeholder for a secret.
fn is_placeholder(value: &str) -> bool {
    let wrapped = value.starts_with(['<', '$', '{', '%', '[']) || value.contains("{{");
    let covered = value
        .chars()
        .all(|letter| matches!(letter, '*' | 'x' | 'X' | '.' | '•' | '#'));
    let told = ["your", "example", "changeme", "redacted", "required"];
    let begins = |word: &&str| {
        let start = value.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    wrapped || covered || told.iter().any(begins)
}

fn is_dialled(value: &str) -> bool {
    let letters = value.chars().filter(|letter| letter.is_alphabetic()).count();
    let known = |letter: char| {
        letter.is_ascii_digit()
            || letter.is_whitespace()
            || letter.is_ascii_alphabetic()
            || matches!(
                letter,
                '+' | '-' | '(' | ')' | '.' | '/' | ':' | '#' | '*' | ',' | '\u{2010}'..='\u{2015}' | '\u{2212}'
            )
    };
    letters <= 4 && value.chars().all(known)
}

fn is_plain(value: &str) -> bool {
    value.chars().all(|letter| {
        letter.is_alphanumeric() || letter.is_whitespace() || matches!(letter, '-' | '.' | '/' | '(' | ')')
    })
}

#[cfg(test)]
mod tests;
