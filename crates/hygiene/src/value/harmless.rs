//! Values under the keys of personal data and secrets that are plainly something else: types of columns, texts of
//! forms, folders.

use std::sync::LazyLock;

use crate::keys::is_label;
use crate::kind::SensitiveKind;
use crate::secret;
use crate::word_lists::WordLists;

/// Names of types that are no words.
const TYPE: u16 = 1;
/// Names of types that are words too, which a password may be.
const TYPE_WORD: u16 = 1 << 1;

static COLUMN_TYPES: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[
        (
            TYPE,
            "varchar nvarchar varchar2 bpchar nchar tinytext mediumtext longtext clob blob bytea json jsonb uuid int",
        ),
        (
            TYPE,
            "int2 int4 int8 integer bigint smallint tinyint bigserial varbinary timestamptz datetime citext boolean",
        ),
        (TYPE, "bool numeric macaddr cidr inet float4 float8"),
        (
            TYPE_WORD,
            "text char character date time timestamp real double float binary decimal enum serial",
        ),
    ])
});

/// What people are told about what they filled in, from its beginning.
const COMPLAINTS: [&str; 30] = [
    "is too ",
    "is required",
    "is invalid",
    "is missing",
    "is not valid",
    "is not correct",
    "is not strong",
    "is not allowed",
    "is incorrect",
    "is weak",
    "is already ",
    "is reserved",
    "must be ",
    "must contain ",
    "must have ",
    "must include ",
    "must match",
    "must not ",
    "should be ",
    "should contain ",
    "should have ",
    "should not ",
    "cannot be ",
    "can't be ",
    "can not be ",
    "does not match",
    "doesn't match",
    "do not match",
    "has already been ",
    "this field ",
];

/// Whether a value is the type of a column: `varchar`, `char(9)`, `bytea`.
pub(super) fn is_column_type(value: &str, kind: SensitiveKind) -> bool {
    let (name, size) = match value.split_once('(') {
        Some((name, size)) => (name.trim_end(), Some(size)),
        None => (value, None),
    };
    let sized = |size: &str| {
        size.strip_suffix(')').is_some_and(|size| {
            size.bytes()
                .all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b' '))
        })
    };
    let one_case =
        !name.bytes().any(|byte| byte.is_ascii_uppercase()) || !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let listed = COLUMN_TYPES.flags(name);
    let told = size.is_some() || kind != SensitiveKind::Secret;
    let known = listed & TYPE != 0 || listed & TYPE_WORD != 0 && told || name.eq_ignore_ascii_case("character varying");
    one_case && known && size.is_none_or(sized)
}

/// Whether a value is a text of a form: what is wrong with a field, or its label.
pub(super) fn is_form_text(value: &str, kind: SensitiveKind) -> bool {
    let complains = |complaint: &&str| {
        let start = value.get(..complaint.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(complaint))
    };
    let ends = !value.bytes().any(|byte| byte.is_ascii_digit()) || value.contains("character");
    ends && COMPLAINTS.iter().any(complains) || is_label(value, kind)
}

/// Whether a value is a folder: `/workspace`, `~`, `C:\\Users\\ann`.
pub(super) fn is_folder(value: &str) -> bool {
    let drive = matches!(value.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    let begins =
        drive || value == "~" || value == "." || ["/", "~/", "./", "../"].iter().any(|begin| value.starts_with(begin));
    let letter = |letter: char| {
        letter.is_alphanumeric() || matches!(letter, '/' | '.' | '-' | '_' | '~' | '\\' | ':' | '@' | ' ')
    };
    let parts = value.matches(['/', '\\']).count();
    begins && value.chars().all(letter) && (parts > 1 || !secret::is_random(value))
}

/// Whether a value is words alone, as no cookie is.
pub(super) fn is_words(value: &str) -> bool {
    let words = value.split_whitespace();
    words.count() > 1 && value.chars().all(|letter| letter.is_alphabetic() || letter == ' ')
}

#[cfg(test)]
mod tests;
