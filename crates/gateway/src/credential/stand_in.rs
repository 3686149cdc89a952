//! Stand-ins: random values that a sandbox holds instead of credentials, valid in one session only. A request to a
//! host that may receive the credential gets the real value; a stand-in anywhere else is refused and recorded.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use ringfence_journal::NoEntropy;
use ringfence_policy::{HostRequest, Scheme};
use zeroize::Zeroizing;

use super::mask::{SharedMaskPatterns, StreamMask, sorted_patterns};
use super::{
    CredentialError, CredentialSource, Credentials, EnvironmentLookup, HostUse, MIN_SCRUBBED_BYTES, SecretString,
};
use crate::refusal::RequestRefusal;
use crate::vault::Vault;

/// Shortest length of a stand-in, and how many characters longer it may be.
const MIN_LENGTH: usize = 32;
const MAX_EXTRA_LENGTH: usize = 8;
const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// All stand-ins of one session.
pub(crate) struct StandIns {
    all: Vec<StandIn>,
    environment: EnvironmentLookup,
    vault: Vault,
    /// The forms in which a response may contain the secrets that were read.
    patterns: SharedMaskPatterns,
}

struct StandIn {
    name: String,
    value: String,
    from: CredentialSource,
    hosts: Vec<HostUse>,
    secret: OnceLock<SecretString>,
}

impl std::fmt::Debug for StandIns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.all.iter().map(|one| &one.name)).finish()
    }
}

/// Why a request with a stand-in is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StandInMisuse {
    /// Name of the credential that the stand-in belongs to.
    pub(crate) credential: String,
    /// The part of the request that held the stand-in.
    pub(crate) place: &'static str,
    /// The refusal that the program gets.
    pub(crate) refusal: Box<RequestRefusal>,
}

impl StandInMisuse {
    /// Whether the program misused a stand-in; otherwise the operator has to correct the configuration.
    pub(crate) fn is_violation(&self) -> bool {
        !matches!(self.refusal.code, "credential.missing" | "credential.unfit")
    }
}

impl StandIns {
    /// Creates new stand-ins for a session; no secret is read before it is needed.
    pub(crate) fn new(
        credentials: &Credentials,
        environment: EnvironmentLookup,
        vault: Vault,
    ) -> Result<StandIns, NoEntropy> {
        let all = credentials.for_hosts().map(|credential| {
            Ok(StandIn {
                name: credential.name.clone(),
                value: random_stand_in()?,
                from: credential.from.clone(),
                hosts: credential.hosts.clone(),
                secret: OnceLock::new(),
            })
        });
        Ok(StandIns {
            all: all.collect::<Result<_, _>>()?,
            environment,
            vault,
            patterns: Arc::new(RwLock::new(sorted_patterns([]))),
        })
    }

    /// Whether the session has no stand-ins.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the variables of the sandbox: the names of the credentials with their stand-ins.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.all.iter().map(|one| (one.name.clone(), one.value.clone()))
    }

    /// Replaces stand-ins by their credentials, and returns the names of these. `target` is the path and query as
    /// they would be sent.
    pub(crate) async fn attach(
        self: &Arc<Self>,
        request: &HostRequest,
        target: &str,
        headers: &mut HeaderMap,
    ) -> Result<Vec<String>, StandInMisuse> {
        if let Some(one) = self.all.iter().find(|one| target.contains(&one.value)) {
            return Err(one.misplaced_misuse("URL"));
        }
        let mut used = Vec::new();
        let names: Vec<HeaderName> = headers.keys().cloned().collect();
        for name in names {
            for index in 0..self.all.len() {
                if self.replace_in_header(index, request, &name, headers).await? {
                    used.push(self.all[index].name.clone());
                }
            }
        }
        Ok(used)
    }

    /// Replaces one stand-in in one header, if the header contains it and the request may carry the credential.
    async fn replace_in_header(
        self: &Arc<Self>,
        index: usize,
        request: &HostRequest,
        name: &HeaderName,
        headers: &mut HeaderMap,
    ) -> Result<bool, StandInMisuse> {
        let one = &self.all[index];
        if !headers.get_all(name).iter().any(|value| one.occurs_in(value)) {
            return Ok(false);
        }
        one.check_destination(request, name)?;
        if headers.values().map(|value| one.count_in(value)).sum::<usize>() > 1 {
            return Err(one.misplaced_misuse("header"));
        }
        let secret = self
            .read_secret(index)
            .await
            .map_err(|error| one.unreadable_misuse(&error))?;
        let http::header::Entry::Occupied(mut values) = headers.entry(name) else {
            return Ok(false);
        };
        for value in values.iter_mut() {
            if let Some(filled) = one.substitute(value, &secret) {
                let mut filled = HeaderValue::from_bytes(&filled).map_err(|_| one.invalid_header_misuse())?;
                filled.set_sensitive(true);
                *value = filled;
            }
        }
        Ok(true)
    }

    /// Reads the secret once, on a blocking thread: a keyring or vault may be slow.
    async fn read_secret(self: &Arc<Self>, index: usize) -> Result<SecretString, CredentialError> {
        if let Some(secret) = self.all[index].secret.get() {
            return Ok(secret.clone());
        }
        let this = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let secret = this.all[index].from.resolve(&this.environment, &this.vault)?;
            let secret = this.all[index].secret.get_or_init(|| secret).clone();
            this.update_mask_patterns();
            Ok(secret)
        });
        read.await
            .unwrap_or_else(|_| Err(CredentialError::Vault("reading it was given up".to_owned())))
    }

    /// From here on all responses are masked for the secrets that were read, also those in progress.
    fn update_mask_patterns(&self) {
        let secrets = self.all.iter().filter_map(|one| one.secret.get());
        let found = sorted_patterns(secrets.flat_map(secret_forms));
        *self.patterns.write().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Returns a mask that hides the secrets that were read in responses.
    pub(crate) fn response_mask(&self) -> StreamMask {
        StreamMask::from_shared(Arc::clone(&self.patterns))
    }

    /// Returns a detector for stand-ins in outgoing bytes where none is replaced.
    pub(crate) fn leak_detector(&self) -> StreamMask {
        StreamMask::new(self.all.iter().map(|one| one.value.clone().into_bytes()))
    }

    /// Returns the misuse of a stand-in in a body. It cannot name the credential, because the match may span several
    /// pieces.
    pub(crate) fn misuse_in_body(&self) -> StandInMisuse {
        let names: Vec<&str> = self.all.iter().map(|one| one.name.as_str()).collect();
        StandInMisuse {
            credential: names.join(", "),
            place: "body",
            refusal: Box::new(misplaced_refusal(&names.join("` or `"), "body")),
        }
    }
}

impl StandIn {
    fn occurs_in(&self, value: &HeaderValue) -> bool {
        contains(value.as_bytes(), self.value.as_bytes())
            || decode_basic(value).is_some_and(|inner| contains(&inner, self.value.as_bytes()))
    }

    fn check_destination(&self, request: &HostRequest, name: &HeaderName) -> Result<(), StandInMisuse> {
        let refuse = |refusal: RequestRefusal| {
            Err(StandInMisuse {
                credential: self.name.clone(),
                place: "header",
                refusal: Box::new(refusal),
            })
        };
        if request.scheme != Scheme::Https {
            return refuse(
                RequestRefusal::new(
                    "credential.plain",
                    format!("`{}` never goes over plain http", self.name),
                )
                .by_rule("credentials")
                .with_hint("use https"),
            );
        }
        let mut fitting = self.hosts.iter().filter(|one| one.matches(request)).peekable();
        if fitting.peek().is_none() {
            return refuse(
                RequestRefusal::new(
                    "credential.host",
                    format!("`{}` does not belong to this host, method and path", self.name),
                )
                .by_rule("credentials")
                .with_hint("send it only where it belongs; the operator's `credentials` say where"),
            );
        }
        if fitting.any(|one| one.header == *name) {
            Ok(())
        } else {
            Err(self.misplaced_misuse("header"))
        }
    }

    /// Returns the header's value with the secret in place of the stand-in.
    fn substitute(&self, value: &HeaderValue, secret: &SecretString) -> Option<Zeroizing<Vec<u8>>> {
        let (old, new) = (self.value.as_bytes(), secret.reveal().as_bytes());
        if let Some(inner) = decode_basic(value)
            && contains(&inner, old)
        {
            let encoded = Zeroizing::new(STANDARD.encode(replace_all(&inner, old, new).as_slice()));
            return Some(Zeroizing::new(format!("Basic {}", *encoded).into_bytes()));
        }
        contains(value.as_bytes(), old).then(|| replace_all(value.as_bytes(), old, new))
    }

    /// Returns how often the stand-in occurs in a header's value.
    fn count_in(&self, value: &HeaderValue) -> usize {
        let count = |bytes: &[u8]| memchr::memmem::find_iter(bytes, self.value.as_bytes()).count();
        count(value.as_bytes()) + decode_basic(value).map_or(0, |inner| count(&inner))
    }

    fn misplaced_misuse(&self, place: &'static str) -> StandInMisuse {
        StandInMisuse {
            credential: self.name.clone(),
            place,
            refusal: Box::new(misplaced_refusal(&self.name, place)),
        }
    }

    fn unreadable_misuse(&self, error: &CredentialError) -> StandInMisuse {
        let refusal = RequestRefusal::new("credential.missing", format!("`{}` cannot be had: {error}", self.name));
        StandInMisuse {
            credential: self.name.clone(),
            place: "header",
            refusal: Box::new(
                refusal
                    .by_rule("credentials")
                    .with_hint("the operator has to provide it"),
            ),
        }
    }

    fn invalid_header_misuse(&self) -> StandInMisuse {
        let refusal = RequestRefusal::new("credential.unfit", format!("`{}` cannot stand in a header", self.name));
        StandInMisuse {
            credential: self.name.clone(),
            place: "header",
            refusal: Box::new(
                refusal
                    .by_rule("credentials")
                    .with_hint("the operator has to store it as one line of text"),
            ),
        }
    }
}

fn misplaced_refusal(name: &str, place: &str) -> RequestRefusal {
    RequestRefusal::new("credential.place", format!("`{name}` may not stand in this {place}"))
        .by_rule("credentials")
        .with_hint("send it in the header that the operator's `credentials` name, `Authorization` if they name none")
}

/// Returns the forms in which a response may contain a secret. A short secret has none, because it would match
/// everywhere.
fn secret_forms(secret: &SecretString) -> Vec<Vec<u8>> {
    let value = secret.reveal();
    if value.len() < MIN_SCRUBBED_BYTES {
        return Vec::new();
    }
    let encoded: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
    let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
    let mut all = vec![
        encoded.replace('+', "%20"),
        lower_hex(&encoded),
        encoded,
        quoted.replace('/', "\\/"),
        quoted,
        value.to_owned(),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect::<Vec<_>>();
    all.extend(base64_cores(value.as_bytes(), &STANDARD_NO_PAD));
    all.extend(base64_cores(value.as_bytes(), &URL_SAFE_NO_PAD));
    all
}

/// Writes `%2F` as `%2f`.
fn lower_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (hex, rest) = part.split_at(part.len().min(2));
        format!("{text}%{}{rest}", hex.to_ascii_lowercase())
    })
}

/// Returns the parts of a secret's base64 that depend on the secret alone, at each offset in the encoded data.
fn base64_cores(value: &[u8], engine: &GeneralPurpose) -> Vec<Vec<u8>> {
    let at = |offset: usize| {
        let mut bytes = Zeroizing::new(vec![0; offset]);
        bytes.extend_from_slice(value);
        let text = engine.encode(bytes.as_slice());
        let from = [0, 2, 3][offset];
        text.as_bytes()[from..bytes.len() * 8 / 6].to_vec()
    };
    (0..3).map(at).filter(|core| core.len() >= MIN_SCRUBBED_BYTES).collect()
}

/// Decodes the credentials of a `Basic …` header.
fn decode_basic(value: &HeaderValue) -> Option<Zeroizing<Vec<u8>>> {
    let text = value.to_str().ok()?;
    let (scheme, encoded) = text.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    STANDARD.decode(encoded.trim()).ok().map(Zeroizing::new)
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(bytes, word).is_some()
}

fn replace_all(bytes: &[u8], old: &[u8], new: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut all = Zeroizing::new(Vec::with_capacity(bytes.len() + new.len()));
    let mut rest = bytes;
    while let Some(at) = memchr::memmem::find(rest, old) {
        all.extend_from_slice(&rest[..at]);
        all.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    all.extend_from_slice(rest);
    all
}

/// Creates a stand-in: letters and digits of random length with no fixed part.
fn random_stand_in() -> Result<String, NoEntropy> {
    let mut byte = [0];
    NoEntropy::fill(&mut byte)?;
    let length = MIN_LENGTH + usize::from(byte[0]) % MAX_EXTRA_LENGTH;
    let mut text = String::with_capacity(length);
    while text.len() < length {
        NoEntropy::fill(&mut byte)?;
        // Every letter has the same probability.
        if let Some(letter) = ALPHABET.get(usize::from(byte[0] & 63)) {
            text.push(char::from(*letter));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
