//! Decides whether a value after a key in text looks like a secret, rather than a word about one, a piece of a
//! program, or a path.

use std::sync::LazyLock;

use super::super::label::{KeyPlacement, LabelKey};
use crate::keys::{KeyHint, NameOwner};
use crate::kind::SensitiveKind;
use crate::value::{self, HintSource};
use crate::word_lists::WordLists;

/// Whether a value under a secret key can be one, and is neither code nor a word about it.
pub(super) fn looks_like_secret(value: &str, key: &LabelKey<'_>, telling: KeyHint) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let number = digits == value.len();
    let several = key.text.ends_with(['s', 'S']);
    let counted = number && (several || telling.is_vague() || digits < 3 || digits < 4 && is_password_key(key.text));
    let named = key.text.eq_ignore_ascii_case(value);
    let unsure = telling.is_vague() && !is_constant_name(key.text) && key.stands != KeyPlacement::Close;
    let about = !is_telling(value) && speaks_of_secrets(value);
    let meant =
        !unsure && !telling.has_exception() || value::kind_of_value(telling, NameOwner::Unknown, value).is_some();
    !counted
        && !named
        && !about
        && meant
        && !is_placeholder(value)
        && !is_code(value)
        && !is_path(value)
        && value::confirmed_part(value, SensitiveKind::Secret, HintSource::Key).is_some()
}

/// Whether a value has more than letters in it, which few words of a text have.
pub(super) fn is_telling(value: &str) -> bool {
    value
        .bytes()
        .any(|byte| !byte.is_ascii_alphabetic() && !matches!(byte, b'_' | b'-' | b'.'))
}

/// Whether a value is a placeholder: `<token>`, `$TOKEN`, `required`, `string`.
pub(super) fn is_placeholder(value: &str) -> bool {
    let plain = value.trim_matches(['!', '?', '*', '&', '"', '\'', '`', ',', ';', '.']);
    let wrapped =
        value.starts_with(['<', '{', '[', '%', '*', '…', '\\']) || value.contains("{{") || value.contains("...");
    let variable = value.strip_prefix('$').is_some_and(|name| {
        let inner = name.trim_start_matches(['{', '(']);
        inner.len() < name.len() || name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    let covered = plain.is_empty()
        || plain
            .chars()
            .all(|letter| matches!(letter, '*' | 'x' | 'X' | '•' | '#'));
    let your = ["your", "my_", "example"].iter().any(|word| {
        let start = plain.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    });
    wrapped || variable || covered || your || SHOWN.flags(plain) != 0
}

/// Whether a word of a sentence is a chosen password: letters with digits or signs in them, and neither a measure
/// (`8-character`) nor the name of a method (`sha256`).
pub(super) fn looks_chosen_by_person(word: &str) -> bool {
    const METHODS: [&str; 9] = ["sha", "md5", "base", "utf", "oauth", "argon", "pbkdf", "aes", "rsa"];
    let small = word.to_ascii_lowercase();
    let tail = small.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let measure = tail.len() < word.len() && tail.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let only_digits = tail.is_empty() && word.len() >= 4;
    let mixed = word
        .bytes()
        .any(|byte| byte.is_ascii_digit() || b"@#$%^&*+".contains(&byte))
        && word.len() >= 5;
    only_digits || mixed && !measure && !METHODS.iter().any(|method| small.starts_with(method))
}

/// Whether a value is a piece of a program: a call, a type, a member.
fn is_code(value: &str) -> bool {
    let name = |part: &str| {
        let mut bytes = part.bytes();
        bytes
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let called = value.split_once(['(', '[', '<']).is_some_and(|(before, after)| {
        let closed = after.is_empty() || after.contains([')', ']', '>', '(']);
        let plain = !before.bytes().any(|byte| byte.is_ascii_digit());
        (closed || plain)
            && before
                .trim_end_matches('!')
                .split(['.', ':'])
                .all(|part| part.is_empty() || name(part))
    });
    let member = value.contains('.') && value.split('.').all(|part| part.len() > 1 && name(part));
    let numbers = [
        "u8", "u16", "u32", "u64", "i32", "i64", "int32", "int64", "uint8", "uint64",
    ];
    let typed = numbers.contains(&value.trim_matches('_'));
    let lent = value.starts_with('&') && value[1..].split("::").all(|part| name(part.trim_start_matches("mut")));
    called || member && (speaks_of_secrets(value) || value.contains("env")) || typed || lent || value.contains("::")
}

/// Whether a value is a location: `/run/secrets/db`, `./key.pem`, `https://…`, `env:X`.
pub(super) fn is_path(value: &str) -> bool {
    let begins = ["/", "./", "../", "~/", "C:\\"]
        .iter()
        .any(|begin| value.starts_with(begin));
    let letter =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~' | b'\\' | b':');
    let inside = value.trim_start_matches(['.', '~', '/']).contains(['/', '.', '\\']);
    begins && inside && value.bytes().all(letter) || value.contains("://")
}

fn speaks_of_secrets(value: &str) -> bool {
    let small = value.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token", "key", "credential", "cookie"]
        .iter()
        .any(|word| small.contains(word))
}

/// Whether people choose the value of this key.
pub(super) fn is_password_key(key: &str) -> bool {
    let small = key.to_ascii_lowercase();
    ["passw", "pwd", "passphrase", "passcode"]
        .iter()
        .any(|word| small.contains(word))
}

/// Whether a word is written like an environment variable.
pub(super) fn is_constant_name(word: &str) -> bool {
    word.len() >= 2
        && word.bytes().any(|byte| byte.is_ascii_uppercase())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Words that are placeholders for a secret.
static SHOWN: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[
        (
            1,
            "string str text bool boolean number int integer any object bytes unknown required optional hidden none",
        ),
        (
            1,
            "null nil changeme password passwd pass secret token tokens value default empty missing invalid incorrect",
        ),
        (
            1,
            "expired reset prompt input disabled enabled varchar char plaintext encrypted hashed masked redacted auth",
        ),
        (
            1,
            "authentication authorization scheme header jwt credentials undefined sha256 sha512 argon2id argon2 uint8array",
        ),
    ])
});
