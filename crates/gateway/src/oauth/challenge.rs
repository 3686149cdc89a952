//! The `WWW-Authenticate` header, with which a server asks for a login or for more scopes.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// Most scopes that are read from one challenge.
const MAX_SCOPES: usize = 50;

/// A challenge of the scheme `Bearer`; everything in it is the server's claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Address of the server's metadata, if the challenge names it.
    pub(crate) metadata: Option<String>,
    /// Scopes that a token must have.
    pub(crate) scopes: Vec<String>,
    error: Option<String>,
}

impl Challenge {
    /// Reads the first `Bearer` challenge; without one the result is empty.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Challenge {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let mut challenges = values.filter_map(|value| parse_bearer(value.to_str().ok()?));
        challenges.next().unwrap_or_default()
    }

    /// Whether the token is valid but lacks scopes.
    pub(crate) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

fn parse_bearer(text: &str) -> Option<Challenge> {
    let mut found: Option<Challenge> = None;
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return found;
        }
        let Some(after) = after.strip_prefix('=') else {
            // A word without a value names a scheme; the next scheme ends this challenge.
            if found.is_some() {
                return found;
            }
            found = word.eq_ignore_ascii_case("bearer").then(Challenge::default);
            rest = after;
            continue;
        };
        let (value, after) = parse_value(after);
        rest = after;
        if let Some(challenge) = &mut found {
            match word.to_ascii_lowercase().as_str() {
                "resource_metadata" => challenge.metadata = Some(value),
                "scope" => {
                    let scopes = value.split(' ').filter(|scope| !scope.is_empty());
                    challenge.scopes = scopes.take(MAX_SCOPES).map(str::to_owned).collect();
                }
                "error" => challenge.error = Some(value),
                _ => {}
            }
        }
    }
}

/// Splits off a value, quoted or not, and returns it with the rest.
fn parse_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, after) = text.split_at(end);
        return (value.to_owned(), after);
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            letter => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests;
