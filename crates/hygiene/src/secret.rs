//! Secrets in text: tokens with a known beginning, private keys, and values that a telling word is given.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::finding::{Evidence, Finding};
use crate::kind::Kind;

/// Letters of a token.
#[derive(Debug, Clone, Copy)]
enum Letters {
    /// `A-Z`, `2-7`.
    Upper,
    Hex,
    Alnum,
    /// Alphanumeric, `_`, `-`.
    Wide,
    /// Also `.`.
    Dotted,
    /// Also `+`, `/`, `=`.
    Base64,
}

impl Letters {
    fn has(self, byte: u8) -> bool {
        match self {
            Letters::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Letters::Hex => byte.is_ascii_hexdigit(),
            Letters::Alnum => byte.is_ascii_alphanumeric(),
            Letters::Wide => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Letters::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Letters::Base64 => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'~')
            }
        }
    }
}

/// Beginnings of tokens, the letters that follow, and at least how many.
const TOKENS: [(&str, Letters, usize); 87] = [
    ("AKIA", Letters::Upper, 16),
    ("ASIA", Letters::Upper, 16),
    ("ABIA", Letters::Upper, 16),
    ("AIza", Letters::Wide, 35),
    ("ya29.", Letters::Wide, 30),
    ("GOCSPX-", Letters::Wide, 28),
    ("ghp_", Letters::Alnum, 36),
    ("gho_", Letters::Alnum, 36),
    ("ghu_", Letters::Alnum, 36),
    ("ghs_", Letters::Alnum, 36),
    ("ghr_", Letters::Alnum, 36),
    ("github_pat_", Letters::Wide, 36),
    ("glpat-", Letters::Dotted, 20),
    ("gldt-", Letters::Wide, 20),
    ("glptt-", Letters::Wide, 40),
    ("glrt-", Letters::Wide, 20),
    ("glcbt-", Letters::Wide, 20),
    ("glsoat-", Letters::Wide, 20),
    ("glft-", Letters::Wide, 20),
    ("glimt-", Letters::Wide, 20),
    ("glagent-", Letters::Wide, 40),
    ("gloas-", Letters::Wide, 40),
    ("xoxb-", Letters::Wide, 20),
    ("xoxp-", Letters::Wide, 20),
    ("xoxe-", Letters::Wide, 20),
    ("xoxe.xox", Letters::Wide, 20),
    ("xoxa-", Letters::Wide, 20),
    ("xoxr-", Letters::Wide, 20),
    ("xoxs-", Letters::Wide, 20),
    ("xoxo-", Letters::Wide, 20),
    ("xapp-", Letters::Wide, 20),
    ("sk-ant-", Letters::Wide, 20),
    ("sk-proj-", Letters::Wide, 20),
    ("sk-svcacct-", Letters::Wide, 20),
    ("sk-admin-", Letters::Wide, 20),
    ("sk-or-v1-", Letters::Hex, 40),
    ("sk-", Letters::Alnum, 20),
    ("sk_live_", Letters::Alnum, 10),
    ("sk_test_", Letters::Alnum, 10),
    ("sk_prod_", Letters::Alnum, 10),
    ("rk_live_", Letters::Alnum, 10),
    ("rk_test_", Letters::Alnum, 10),
    ("rk_prod_", Letters::Alnum, 10),
    ("whsec_", Letters::Base64, 20),
    ("hf_", Letters::Alnum, 30),
    ("api_org_", Letters::Alnum, 30),
    ("npm_", Letters::Alnum, 36),
    ("pypi-AgEI", Letters::Wide, 40),
    ("dop_v1_", Letters::Hex, 40),
    ("doo_v1_", Letters::Hex, 40),
    ("dor_v1_", Letters::Hex, 40),
    ("SG.", Letters::Dotted, 60),
    ("lin_api_", Letters::Alnum, 30),
    ("shpat_", Letters::Hex, 32),
    ("shpss_", Letters::Hex, 32),
    ("shpca_", Letters::Hex, 32),
    ("shppa_", Letters::Hex, 32),
    ("sq0atp-", Letters::Wide, 22),
    ("sq0csp-", Letters::Wide, 22),
    ("AGE-SECRET-KEY-1", Letters::Alnum, 50),
    ("dckr_pat_", Letters::Wide, 20),
    ("tskey-", Letters::Wide, 20),
    ("ATATT3", Letters::Base64, 60),
    ("figd_", Letters::Wide, 30),
    ("glsa_", Letters::Wide, 30),
    ("glc_", Letters::Base64, 30),
    ("NRAK-", Letters::Alnum, 24),
    ("NRII-", Letters::Wide, 24),
    ("PMAK-", Letters::Wide, 40),
    ("rubygems_", Letters::Hex, 40),
    ("sntrys_", Letters::Base64, 40),
    ("sntryu_", Letters::Hex, 40),
    ("hvs.", Letters::Wide, 40),
    ("hvb.", Letters::Wide, 60),
    ("xkeysib-", Letters::Wide, 60),
    ("gsk_", Letters::Alnum, 40),
    ("pplx-", Letters::Alnum, 40),
    ("xai-", Letters::Alnum, 40),
    ("nvapi-", Letters::Wide, 40),
    ("sbp_", Letters::Hex, 40),
    ("pscale_tkn_", Letters::Dotted, 30),
    ("pscale_pw_", Letters::Dotted, 30),
    ("dp.pt.", Letters::Alnum, 40),
    ("EZAK", Letters::Alnum, 54),
    ("pat-na1-", Letters::Wide, 36),
    ("secret_", Letters::Alnum, 40),
    ("ntn_", Letters::Alnum, 40),
];

/// Words that are given a secret: `password = …`, `"api_key": "…"`.
const GIVEN: [&str; 16] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "accesskey",
    "token",
    "private_key",
    "privatekey",
    "credential",
    "auth_key",
    "accountkey",
    "client_id_secret",
];

const JWT: &str = "eyJ";
const PEM: &str = "-----BEGIN";
const BEARER: [&str; 2] = ["bearer ", "basic "];
const HOOKS: [&str; 2] = ["hooks.slack.com/services/", "discord.com/api/webhooks/"];
const URL: &str = "://";

static SEARCH: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let tokens = TOKENS.iter().map(|(begin, _, _)| *begin);
    let others = GIVEN
        .into_iter()
        .chain([JWT, PEM])
        .chain(BEARER)
        .chain(HOOKS)
        .chain([URL]);
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(true)
        .build(tokens.chain(others))
        .ok()
});

/// Secrets in a text.
pub(crate) fn find(text: &str, out: &mut Vec<Finding>) {
    let Some(search) = SEARCH.as_ref() else { return };
    let mut floor = 0;
    for hit in search.find_iter(text) {
        if hit.start() < floor {
            continue;
        }
        let index = hit.pattern().as_usize();
        let found = match TOKENS.get(index) {
            Some((begin, letters, least)) => token(text, hit.start(), begin, *letters, *least),
            None => other(text, index - TOKENS.len(), hit.start(), hit.end()),
        };
        if let Some((start, end)) = found {
            floor = end;
            out.push(Finding {
                start,
                end,
                kind: Kind::Secret,
                by: Evidence::Form,
            });
        }
    }
}

fn other(text: &str, index: usize, start: usize, end: usize) -> Option<(usize, usize)> {
    match index {
        index if index < GIVEN.len() => given(text, end),
        index if index == GIVEN.len() => jwt(text, start),
        index if index == GIVEN.len() + 1 => pem(text, start),
        index if index < GIVEN.len() + 4 => bearer(text, end),
        index if index < GIVEN.len() + 6 => {
            let length = run(text, end, Letters::Base64);
            (length >= 20).then_some((end, end + length))
        }
        _ => login(text, end),
    }
}

/// The longest value that is looked at, so that no text makes every word look at all the rest.
const VALUE: usize = 1024;
/// The longest private key.
const KEY: usize = 1 << 16;

/// The beginning of a text, whole letters only.
fn first(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// How many bytes from here on are such letters.
fn run(text: &str, from: usize, letters: Letters) -> usize {
    text.as_bytes()[from..]
        .iter()
        .take(VALUE * 4)
        .take_while(|byte| letters.has(**byte))
        .count()
}

fn token(text: &str, start: usize, begin: &str, letters: Letters, least: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let from = start + begin.len();
    if !bytes[start..].starts_with(begin.as_bytes()) {
        return None;
    }
    let inside = start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
    let length = run(text, from, letters);
    let value = &bytes[from..from + length];
    (!inside && length >= least && entropy(value) >= 2.5).then(|| {
        (
            start,
            from + text[from..from + length].trim_end_matches(['.', '=']).len(),
        )
    })
}

/// Three parts with dots, the first two of which are JSON.
fn jwt(text: &str, start: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    if !bytes[start..].starts_with(JWT.as_bytes()) || start > 0 && bytes[start - 1].is_ascii_alphanumeric() {
        return None;
    }
    let length = run(text, start, Letters::Dotted);
    let mut parts = text[start..start + length].split('.');
    let head = parts.next().is_some_and(|part| part.len() >= 12);
    let body = parts
        .next()
        .is_some_and(|part| part.starts_with(JWT) && part.len() >= 12);
    (head && body).then_some((start, start + length))
}

/// A private key to its last line, or to the end of the text if that is missing.
fn pem(text: &str, start: usize) -> Option<(usize, usize)> {
    let rest = first(&text[start..], KEY);
    if !first(rest, 80).lines().next()?.contains("PRIVATE KEY") {
        return None;
    }
    let Some(last) = rest.find("-----END") else {
        return Some((start, start + rest.len()));
    };
    let tail = &rest[last + 8..];
    let close = tail.find("-----").map_or(tail.len(), |index| index + 5);
    Some((start, start + last + 8 + close))
}

fn bearer(text: &str, from: usize) -> Option<(usize, usize)> {
    let length = run(text, from, Letters::Base64);
    let value = &text[from..from + length];
    (length >= 16 && is_random(value)).then_some((from, from + length))
}

/// A password in the address of a page.
fn login(text: &str, from: usize) -> Option<(usize, usize)> {
    let rest = first(&text[from..], VALUE);
    let host =
        rest.find(|letter: char| letter.is_whitespace() || matches!(letter, '/' | '?' | '#' | '"' | '\'' | '<' | '>'));
    let host = &rest[..host.unwrap_or(rest.len())];
    let at = host.rfind('@')?;
    let (user, password) = host[..at].split_once(':')?;
    let plain = !password.is_empty() && !password.starts_with(['$', '{', '<', '*', '%']);
    let start = from + user.len() + 1;
    plain.then_some((start, start + password.len()))
}

/// What a word is given: after `=`, `:` or `=>`, quoted or not.
fn given(text: &str, from: usize) -> Option<(usize, usize)> {
    let tail = run(text, from, Letters::Wide).min(24);
    let rest = first(&text[from + tail..], VALUE);
    let after = rest.trim_start_matches(['"', '\'', ' ', '\t', '\\']);
    let value = after
        .strip_prefix("=>")
        .or_else(|| after.strip_prefix(":="))
        .or_else(|| after.strip_prefix(['=', ':']))?;
    let value = value.trim_start_matches([' ', '\t', '\\']);
    let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\'' | '`'));
    let value = quote.map_or(value, |quote| &value[quote.len_utf8()..]);
    let end = match quote {
        Some(quote) => value.find([quote, '\n', '\\'])?,
        None => value
            .find(|letter: char| {
                letter.is_whitespace() || matches!(letter, '"' | '\'' | ',' | ';' | '&' | '<' | ')' | '}')
            })
            .unwrap_or(value.len()),
    };
    let start = from + tail + rest.len() - value.len();
    let value = &value[..end];
    let strong = if quote.is_some() {
        is_password(value)
    } else {
        is_random(value) && !value.contains(['(', '{', '['])
    };
    strong.then_some((start, start + value.len()))
}

/// Whether a quoted value looks chosen to be secret.
fn is_password(value: &str) -> bool {
    let digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let sign = value
        .bytes()
        .any(|byte| byte.is_ascii_punctuation() && !matches!(byte, b'_' | b'-' | b'.'));
    let wrapped = value.starts_with(['<', '$', '{', '%', '[']);
    value.len() >= 6
        && value.len() <= 512
        && (digit || sign)
        && !wrapped
        && !value.contains(' ')
        && entropy(value.as_bytes()) >= 2.0
}

/// Whether a value is too irregular to be a word.
pub(crate) fn is_random(value: &str) -> bool {
    let bytes = value.as_bytes();
    let digit = bytes.iter().any(u8::is_ascii_digit);
    let letter = bytes.iter().any(u8::is_ascii_alphabetic);
    let spaced = bytes.iter().any(u8::is_ascii_whitespace);
    (12..=4096).contains(&bytes.len())
        && digit
        && letter
        && !spaced
        && !value.starts_with(['<', '$', '{', '%', '['])
        && entropy(bytes) >= 3.0
}

/// Bits a byte, by Shannon.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes.iter().take(4096) {
        counts[usize::from(*byte)] += 1;
    }
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    let share = |count: &u32| f64::from(*count) / total;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(share)
        .map(|share| -share * share.log2())
        .sum()
}

#[cfg(test)]
mod tests;
