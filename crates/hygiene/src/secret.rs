//! Secrets in text: tokens with a known prefix, private keys, and values assigned to a word for secrets.

mod tokens;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::finding::{Evidence, SensitiveSpan};
use crate::kind::SensitiveKind;
use tokens::{TOKEN_PREFIXES, TokenAlphabet};

/// Words to which a secret is assigned: `password = …`, `"api_key": "…"`.
const SECRET_KEY_WORDS: &str = "password passwd passphrase secret api_key apikey api-key access_key accesskey token private_key \
    privatekey credential auth_key accountkey access_id client_id";

/// Names of services: a random value assigned to one of them is its key.
const SERVICE_NAMES: &str = "adafruit adobe airtable algolia alibaba artifactory asana atlassian confluence jira beamer bitbucket \
    bittrex meraki cloudflare codecov cohere coinbase confluent contentful databricks datadog discord droneci dropbox etsy \
    facebook fastly finicity finnhub flickr freshbooks gitter heroku hubspot intercom jfrog kraken kucoin launchdarkly \
    linkedin looker mailchimp mailgun mattermost messagebird netlify newrelic new-relic nytimes okta plaid rapidapi \
    sendbird sentry sidekiq snyk sonar squarespace sumologic telegram travis twilio twitch twitter typeform yandex zendesk";

const JWT_PREFIX: &str = "eyJ";
const PEM_PREFIX: &str = "-----BEGIN";
const BEARER_PREFIXES: [&str; 2] = ["bearer ", "basic "];
const WEBHOOK_PREFIXES: [&str; 3] = [
    "hooks.slack.com/",
    "discord.com/api/webhooks/",
    "webhook.office.com/webhookb2/",
];
const URL_SEPARATOR: &str = "://";
/// Marks a secret of Azure in its middle, and one of `MaxMind` at its end.
const AZURE_MARKER: &str = "Q~";
const MAXMIND_SUFFIX: &str = "_mmk";

/// What a match of the search means.
#[derive(Debug, Clone, Copy)]
enum SecretMatcher {
    Token(&'static str, TokenAlphabet, usize),
    Given,
    Service,
    Jwt,
    Bearer,
    Hook,
    Login,
    Around,
}

struct SecretSearch {
    automaton: AhoCorasick,
    rules: Vec<SecretMatcher>,
}

static SECRET_SEARCH: LazyLock<Option<SecretSearch>> = LazyLock::new(|| {
    let mut words: Vec<(&str, SecretMatcher)> = Vec::new();
    for (letters, least, begins) in TOKEN_PREFIXES {
        words.extend(
            begins
                .split_ascii_whitespace()
                .map(|begin| (begin, SecretMatcher::Token(begin, letters, least))),
        );
    }
    words.extend(
        SECRET_KEY_WORDS
            .split_ascii_whitespace()
            .map(|word| (word, SecretMatcher::Given)),
    );
    words.extend(
        SERVICE_NAMES
            .split_ascii_whitespace()
            .map(|word| (word, SecretMatcher::Service)),
    );
    words.extend(BEARER_PREFIXES.map(|word| (word, SecretMatcher::Bearer)));
    words.extend(WEBHOOK_PREFIXES.map(|word| (word, SecretMatcher::Hook)));
    words.extend([AZURE_MARKER, MAXMIND_SUFFIX].map(|word| (word, SecretMatcher::Around)));
    words.extend([(JWT_PREFIX, SecretMatcher::Jwt), (URL_SEPARATOR, SecretMatcher::Login)]);
    let automaton = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(true)
        .build(words.iter().map(|(word, _)| *word))
        .ok()?;
    let rules = words.into_iter().map(|(_, rule)| rule).collect();
    Some(SecretSearch { automaton, rules })
});

/// Tokens that may have no digits.
const DIGITLESS_TOKENS: [&str; 2] = ["hf_", "api_org_"];

/// How far before a long word the search begins.
const MAX_BYTES_BEFORE: usize = 96;

/// Finds the secrets in a text, given its long words with digits: all secrets are in these, except private keys and a
/// few tokens.
pub(crate) fn find_secrets(text: &str, long: &[(usize, usize)], out: &mut Vec<SensitiveSpan>) {
    let mut note = |start: usize, end: usize| {
        out.push(SensitiveSpan {
            start,
            end,
            kind: SensitiveKind::Secret,
            by: Evidence::Form,
        });
    };
    for begin in DIGITLESS_TOKENS {
        for (start, _) in text.match_indices(begin) {
            if let Some((start, end)) = token_span(text, start, begin, TokenAlphabet::Alnum, 30) {
                note(start, end);
            }
        }
    }
    if text.contains(PEM_PREFIX) {
        let mut floor = 0;
        for (start, _) in text.match_indices(PEM_PREFIX) {
            if start >= floor
                && let Some((start, end)) = pem_span(text, start)
            {
                floor = end;
                note(start, end);
            }
        }
    }
    let Some(search) = SECRET_SEARCH.as_ref() else { return };
    let (mut floor, mut seen) = (0, 0);
    for (start, end) in long {
        let from = start.saturating_sub(MAX_BYTES_BEFORE).max(seen);
        seen = *end;
        for hit in search.automaton.find_iter(&text.as_bytes()[from..*end]) {
            let rule = search.rules.get(hit.pattern().as_usize());
            let Some(rule) = rule.filter(|_| from + hit.start() >= floor) else {
                continue;
            };
            if let Some((start, end)) = rule.apply(text, from + hit.start(), from + hit.end()) {
                floor = end;
                note(start, end);
            }
        }
    }
}

impl SecretMatcher {
    fn apply(self, text: &str, start: usize, end: usize) -> Option<(usize, usize)> {
        match self {
            SecretMatcher::Token(begin, letters, least) => token_span(text, start, begin, letters, least),
            SecretMatcher::Given => assigned_value_span(text, end, TokenAlphabet::Wide),
            SecretMatcher::Service => assigned_value_span(text, end, TokenAlphabet::Dotted),
            SecretMatcher::Jwt => jwt_span(text, start),
            SecretMatcher::Bearer => bearer_span(text, end),
            SecretMatcher::Hook => {
                let length = run_length(text, end, TokenAlphabet::Base64);
                (length >= 20).then_some((end, end + length))
            }
            SecretMatcher::Login => login_password_span(text, end),
            SecretMatcher::Around => token_around(text, start, end),
        }
    }
}

/// Most bytes of a value that are checked, so that no text makes every word scan all the rest.
const MAX_VALUE_BYTES: usize = 1024;
/// Most bytes of a private key.
const MAX_KEY_BYTES: usize = 1 << 16;

/// Truncates a text at a character boundary.
fn truncate(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns how many bytes from here on are in this alphabet.
fn run_length(text: &str, from: usize, letters: TokenAlphabet) -> usize {
    text.as_bytes()[from..]
        .iter()
        .take(MAX_VALUE_BYTES * 4)
        .take_while(|byte| letters.contains(**byte))
        .count()
}

fn token_span(text: &str, start: usize, begin: &str, letters: TokenAlphabet, least: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let from = start + begin.len();
    if !bytes[start..].starts_with(begin.as_bytes()) {
        return None;
    }
    let inside = start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
    let length = run_length(text, from, letters);
    let value = &bytes[from..from + length];
    (!inside && length >= least && is_irregular(value, letters)).then(|| {
        (
            start,
            from + text[from..from + length].trim_end_matches(['.', '=']).len(),
        )
    })
}

/// Whether the text after a known prefix is a token, rather than the rest of a name in a program.
fn is_irregular(value: &[u8], letters: TokenAlphabet) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let least = match letters {
        TokenAlphabet::Upper | TokenAlphabet::Hex | TokenAlphabet::Alnum => 1,
        TokenAlphabet::Wide | TokenAlphabet::Dotted | TokenAlphabet::Base64 => 2,
    };
    let small = value.iter().filter(|byte| byte.is_ascii_lowercase()).count();
    let large = value.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    digits >= least && entropy(value) >= 2.8 || small >= 8 && large >= 8 && entropy(value) >= 3.8
}

/// Finds three parts with dots, the first two of which are JSON.
fn jwt_span(text: &str, start: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    if !bytes[start..].starts_with(JWT_PREFIX.as_bytes()) || start > 0 && bytes[start - 1].is_ascii_alphanumeric() {
        return None;
    }
    let length = run_length(text, start, TokenAlphabet::Dotted);
    let mut parts = text[start..start + length].split('.');
    let head = parts.next().is_some_and(|part| part.len() >= 12);
    let body = parts
        .next()
        .is_some_and(|part| part.starts_with(JWT_PREFIX) && part.len() >= 12);
    (head && body).then_some((start, start + length))
}

/// Returns the first line of a private key that the end of the text cuts off.
pub(crate) fn open_key(text: &str) -> Option<(usize, usize)> {
    let start = text.rfind(PEM_PREFIX)?;
    let (_, end) = pem_span(text, start)?;
    let rest = text.get(start..end)?;
    let is_open = !rest.contains("-----END");
    is_open.then(|| (start, start + rest.find('\n').map_or(rest.len(), |at| at + 1)))
}

/// Finds a private key, up to its last line, or to the end of the text if that line is missing.
fn pem_span(text: &str, start: usize) -> Option<(usize, usize)> {
    let rest = truncate(&text[start..], MAX_KEY_BYTES);
    if !truncate(rest, 80).lines().next()?.contains("PRIVATE KEY") {
        return None;
    }
    let Some(last) = rest.find("-----END") else {
        return Some((start, start + rest.len()));
    };
    let tail = &rest[last + 8..];
    let close = tail.find("-----").map_or(tail.len(), |index| index + 5);
    Some((start, start + last + 8 + close))
}

/// Finds a token by the mark in its middle or at its end.
fn token_around(text: &str, start: usize, end: usize) -> Option<(usize, usize)> {
    let letters = |byte: &&u8| TokenAlphabet::Base64.contains(**byte);
    let back = text.as_bytes()[..start]
        .iter()
        .rev()
        .take(64)
        .take_while(letters)
        .count();
    let ahead = run_length(text, end, TokenAlphabet::Base64);
    let value = &text[start - back..end + ahead];
    ((34..=80).contains(&value.len()) && is_random(value)).then_some((start - back, end + ahead))
}

fn bearer_span(text: &str, from: usize) -> Option<(usize, usize)> {
    let length = run_length(text, from, TokenAlphabet::Base64);
    let value = &text[from..from + length];
    (length >= 16 && is_random(value)).then_some((from, from + length))
}

/// Finds a password in a URL.
fn login_password_span(text: &str, from: usize) -> Option<(usize, usize)> {
    let rest = truncate(&text[from..], MAX_VALUE_BYTES);
    let host =
        rest.find(|letter: char| letter.is_whitespace() || matches!(letter, '/' | '?' | '#' | '"' | '\'' | '<' | '>'));
    let host = &rest[..host.unwrap_or(rest.len())];
    let at = host.rfind('@')?;
    let (user, password) = host[..at].split_once(':')?;
    let plain = !password.is_empty() && !password.starts_with(['$', '{', '<', '*', '%']);
    let start = from + user.len() + 1;
    plain.then_some((start, start + password.len()))
}

/// Finds the value assigned to a word: after `=`, `:`, `=>` and similar, quoted or not. The name may continue after
/// the word.
fn assigned_value_span(text: &str, from: usize, name: TokenAlphabet) -> Option<(usize, usize)> {
    let goes_on = |byte: &&u8| name.contains(**byte) || matches!(**byte, b' ' | b'\t');
    let tail = text.as_bytes()[from..].iter().take(24).take_while(goes_on).count();
    let rest = truncate(&text[from + tail..], MAX_VALUE_BYTES);
    let after = rest.trim_start_matches(['"', '\'', '`', ' ', '\t', '\\', ']', '\r', '\n']);
    let value = after.trim_start_matches(['=', ':', '>', '?', '|', ',']);
    let operator = after.len() - value.len();
    let direct = after.starts_with(['=', ':', '?']);
    if !(1..=4).contains(&operator) {
        return None;
    }
    let value = value.trim_start_matches([' ', '\t', '\\', '\r', '\n']);
    let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\'' | '`'));
    let value = quote.map_or(value, |quote| &value[quote.len_utf8()..]);
    let end = match quote {
        Some(quote) => value.find([quote, '\n', '\\'])?,
        None => value
            .find(|letter: char| {
                letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | ',' | ';' | '&' | '<' | ')' | '}' | '\\')
            })
            .unwrap_or(value.len()),
    };
    let start = from + tail + rest.len() - value.len();
    let value = &value[..end];
    // `tokenUrl` says where to get one.
    let place = text[from..from + tail]
        .trim_end_matches([' ', '\t'])
        .to_ascii_lowercase();
    if value.contains("://")
        && ["url", "uri", "endpoint", "link"]
            .iter()
            .any(|end| place.ends_with(end))
    {
        return None;
    }
    let chosen = quote.is_some() && direct && matches!(name, TokenAlphabet::Wide) && is_password(value);
    let random =
        is_random(value) && !value.contains(['(', '{', '[']) && !value.contains("://") && !value.starts_with("//");
    (chosen || random).then_some((start, start + value.len()))
}

/// Whether a quoted value looks chosen to be secret.
pub(crate) fn is_password(value: &str) -> bool {
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

/// Returns the Shannon entropy in bits per byte.
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
