//! Access tokens for the servers of this program: created, listed, revoked, and found by their secret.
//!
//! A secret is shown once, when it is created; only its digest is stored. Every check reads the database, so a token that another process
//! revoked is refused at the next request.

use std::fmt;
use std::sync::PoisonError;

use jiff::Timestamp;
use ringfence_journal::{ContentHash, RecordError, TokenId};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::Store;
use crate::database::{self, QueryError, SqliteErrorClass, record_error};

const TABLE: &str = "tokens";
/// The prefix of every secret, so that a leaked one can be recognised.
const SECRET_PREFIX: &str = "rf_";
const ID_PREFIX: &str = "t_";
/// The number of digits of an id, after its prefix.
const ID_DIGITS: usize = 26;
const SECRET_BYTES: usize = 32;
/// The most characters of a token's name.
const MAX_NAME_LENGTH: usize = 64;

/// What an access token lets its holder do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessScope {
    /// See all runs; change nothing.
    Viewer,
    /// Run code and see its own runs; never answer approvals.
    Agent,
    /// See and stop everything.
    Operator,
}

impl AccessScope {
    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        match self {
            AccessScope::Viewer => "viewer",
            AccessScope::Agent => "agent",
            AccessScope::Operator => "operator",
        }
    }
}

impl fmt::Display for AccessScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An access token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessToken {
    /// The id, which is also part of the secret.
    pub id: TokenId,
    /// The name given by the operator.
    pub name: String,
    /// What it lets its holder do.
    pub scope: AccessScope,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last used, to the minute or so; `None` if never.
    pub last_used: Option<Timestamp>,
    /// When it was revoked; `None` if it is valid.
    pub revoked: Option<Timestamp>,
}

/// The secret of an access token. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(String);

impl TokenSecret {
    /// The secret as text, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why an access token is not made or revoked.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name is empty, too long or has control characters.
    #[error("`{name}` is no name for an access token")]
    Name {
        /// The name as given, escaped and shortened.
        name: String,
    },
    /// Another valid token has this name.
    #[error("there is an access token called `{name}` already")]
    Taken {
        /// The name that is in use.
        name: String,
    },
    /// No token has this id.
    #[error("there is no access token `{id}`")]
    Unknown {
        /// The id that was requested.
        id: TokenId,
    },
    /// The system gave no random bytes for a secret.
    #[error("cannot make a secret: the system gave no random bytes")]
    Entropy(#[source] getrandom::Error),
    /// The system gave no random bytes for an id.
    #[error("cannot make an id")]
    Id(#[source] ringfence_journal::NoEntropy),
    /// The database returned an error.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl TokenError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            TokenError::Name { .. } => "token.name",
            TokenError::Taken { .. } => "token.taken",
            TokenError::Unknown { .. } => "token.unknown",
            TokenError::Entropy(_) | TokenError::Id(_) => "start.entropy",
            TokenError::Record(error) => error.code(),
        }
    }

    /// What a person can do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            TokenError::Name { .. } => Some("give 1 to 64 characters, none of them a control character"),
            TokenError::Taken { .. } => Some("choose another name, or revoke that one first"),
            TokenError::Unknown { .. } => Some("`ringfence token list` shows the ids"),
            TokenError::Entropy(_) | TokenError::Id(_) => None,
            TokenError::Record(error) => error.hint(),
        }
    }
}

impl Store {
    /// Creates an access token. Only the caller gets the secret; it cannot be read again.
    pub async fn create_token(&self, name: &str, scope: AccessScope) -> Result<(AccessToken, TokenSecret), TokenError> {
        let name = name.trim();
        if name.is_empty() || name.chars().count() > MAX_NAME_LENGTH || name.chars().any(char::is_control) {
            return Err(TokenError::Name {
                name: name.escape_debug().take(MAX_NAME_LENGTH).collect(),
            });
        }
        let token = AccessToken {
            id: TokenId::generate().map_err(TokenError::Id)?,
            name: name.to_owned(),
            scope,
            created: Timestamp::now(),
            last_used: None,
            revoked: None,
        };
        let secret = new_secret(token.id)?;
        let (row, digest) = (token.clone(), secret_digest(&secret.0));
        let inserted = self.write_blocking(move |connection| {
            connection.execute(
                "INSERT INTO tokens (id, name, scope, digest, created) VALUES (?, ?, ?, ?, ?)",
                params![
                    row.id.to_string(),
                    row.name,
                    row.scope.name(),
                    digest.as_bytes(),
                    row.created.to_string()
                ],
            )
        });
        match inserted.await? {
            Ok(_) => Ok((token, secret)),
            Err(error) if SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::ConstraintViolated => {
                Err(TokenError::Taken { name: token.name })
            }
            Err(error) => Err(record_error(error).into()),
        }
    }

    /// All access tokens, also revoked ones, oldest first.
    pub fn tokens(&self) -> Result<Vec<AccessToken>, QueryError> {
        let rows = self.with_connection(|connection| {
            let mut statement = connection.prepare_cached(&format!("{SELECT} ORDER BY id"))?;
            statement
                .query_map([], TokenRow::from_row)?
                .collect::<Result<Vec<_>, _>>()
        })?;
        rows.into_iter()
            .map(|row| row.into_token().map(|(token, _)| token))
            .collect()
    }

    /// Revokes an access token for every process at once. Returns when it was first revoked.
    pub async fn revoke_token(&self, id: TokenId) -> Result<Timestamp, TokenError> {
        let now = Timestamp::now();
        let updated = self.write_blocking(move |connection| {
            let sql = "UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ? RETURNING revoked";
            let values = params![now.to_string(), id.to_string()];
            connection
                .query_row(sql, values, |row| row.get::<_, String>(0))
                .optional()
        });
        let revoked = updated.await?.map_err(record_error)?;
        let revoked = revoked.ok_or(TokenError::Unknown { id })?;
        Ok(revoked.parse().unwrap_or(now))
    }

    /// The valid access token with this secret; `None` if there is none.
    pub fn token_by_secret(&self, shown: &str) -> Result<Option<AccessToken>, QueryError> {
        let Some(id) = token_id_of_secret(shown) else {
            return Ok(None);
        };
        let Some((found, kept)) = self.token_row(id)? else {
            return Ok(None);
        };
        let same = equal_in_constant_time(kept.as_bytes(), secret_digest(shown).as_bytes());
        Ok((same && found.revoked.is_none()).then_some(found))
    }

    /// The access token with this id, also if it is revoked.
    pub fn token(&self, id: TokenId) -> Result<Option<AccessToken>, QueryError> {
        Ok(self.token_row(id)?.map(|(token, _)| token))
    }

    fn token_row(&self, id: TokenId) -> Result<Option<(AccessToken, ContentHash)>, QueryError> {
        let row = self.with_connection(|connection| {
            let mut statement = connection.prepare_cached(&format!("{SELECT} WHERE id = ?"))?;
            statement.query_row([id.to_string()], TokenRow::from_row).optional()
        })?;
        row.map(TokenRow::into_token).transpose()
    }

    /// Reads on a separate connection: every request authenticates, and must not wait behind a long query.
    fn with_connection<T>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, QueryError> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match gate.take() {
            Some(connection) => connection,
            None => database::connect_reader(&self.home.database_path()).map_err(QueryError::Database)?,
        };
        question(gate.insert(connection)).map_err(QueryError::Database)
    }

    /// Notes that an access token was used now.
    pub async fn note_token_used(&self, id: TokenId) -> Result<(), RecordError> {
        let values = (Timestamp::now().to_string(), id.to_string());
        let updated = self
            .write_blocking(move |connection| connection.execute("UPDATE tokens SET used = ? WHERE id = ?", values));
        updated.await?.map(drop).map_err(record_error)
    }

    /// Writes on a blocking thread, where waiting for other processes delays no task.
    async fn write_blocking<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<Result<T, rusqlite::Error>, RecordError> {
        let path = self.home.database_path();
        let written =
            tokio::task::spawn_blocking(move || database::connect(&path).and_then(|connection| change(&connection)));
        written.await.map_err(|_| RecordError::Ended)
    }
}

/// Creates a secret that contains the id of its token: found by the id, proven by the digest.
fn new_secret(id: TokenId) -> Result<TokenSecret, TokenError> {
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random).map_err(TokenError::Entropy)?;
    let id = id.to_string();
    let mut text = format!("{SECRET_PREFIX}{}", id.strip_prefix(ID_PREFIX).unwrap_or(&id));
    for byte in random {
        use fmt::Write as _;
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(TokenSecret(text))
}

/// The id that a secret starts with; `None` if the text is not a secret.
fn token_id_of_secret(shown: &str) -> Option<TokenId> {
    let rest = shown.strip_prefix(SECRET_PREFIX)?;
    if rest.len() != ID_DIGITS + 2 * SECRET_BYTES {
        return None;
    }
    format!("{ID_PREFIX}{}", rest.get(..ID_DIGITS)?).parse().ok()
}

/// A plain digest is enough: the secret has 256 random bits.
fn secret_digest(secret: &str) -> ContentHash {
    ContentHash::digest(secret.as_bytes())
}

/// Compares in constant time.
fn equal_in_constant_time(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let difference = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0
}

const SELECT: &str = "SELECT id, name, scope, digest, created, used, revoked FROM tokens";

/// A row of the table, not parsed yet.
struct TokenRow {
    id: String,
    name: String,
    scope: String,
    digest: Vec<u8>,
    created: String,
    used: Option<String>,
    revoked: Option<String>,
}

impl TokenRow {
    fn from_row(row: &rusqlite::Row<'_>) -> Result<TokenRow, rusqlite::Error> {
        Ok(TokenRow {
            id: row.get(0)?,
            name: row.get(1)?,
            scope: row.get(2)?,
            digest: row.get(3)?,
            created: row.get(4)?,
            used: row.get(5)?,
            revoked: row.get(6)?,
        })
    }

    /// The token, and the digest of its secret.
    fn into_token(self) -> Result<(AccessToken, ContentHash), QueryError> {
        let damaged = |column| QueryError::Row { table: TABLE, column };
        let time = |text: Option<String>, column| -> Result<Option<Timestamp>, QueryError> {
            text.map(|text| text.parse().map_err(|_| damaged(column))).transpose()
        };
        let scope = match self.scope.as_str() {
            "viewer" => AccessScope::Viewer,
            "agent" => AccessScope::Agent,
            "operator" => AccessScope::Operator,
            _ => return Err(damaged("scope")),
        };
        let token = AccessToken {
            id: self.id.parse().map_err(|_| damaged("id"))?,
            name: self.name,
            scope,
            created: self.created.parse().map_err(|_| damaged("created"))?,
            last_used: time(self.used, "used")?,
            revoked: time(self.revoked, "revoked")?,
        };
        let digest = ContentHash::try_from(self.digest.as_slice()).map_err(|_| damaged("digest"))?;
        Ok((token, digest))
    }
}

#[cfg(test)]
mod tests;
