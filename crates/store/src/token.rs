//! Access tokens for our own doors: made, listed, revoked, and found by their secret.
//!
//! A secret is shown once, when it is made; here only its digest is kept. Every look reads the
//! database, so what another process revoked is refused at the next request.

use std::fmt;

use jiff::Timestamp;
use ringfence_journal::{Hash, RecordError, TokenId};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::Store;
use crate::database::{self, ReadError, Trouble, record_error};

const TABLE: &str = "tokens";
/// What every secret begins with, so that one that leaks is known for what it is.
const PREFIX: &str = "rf_";
const ID_PREFIX: &str = "t_";
/// Digits of an id, after its prefix.
const ID_DIGITS: usize = 26;
const SECRET_BYTES: usize = 32;
/// The most characters of a name.
const NAME: usize = 64;

/// What an access token lets its holder do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look at what is its own.
    Viewer,
    /// Run code; never decide for people.
    Agent,
    /// See and stop everything.
    Operator,
}

impl Scope {
    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Viewer => "viewer",
            Scope::Agent => "agent",
            Scope::Operator => "operator",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An access token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessToken {
    /// Its id.
    pub id: TokenId,
    /// What people call it.
    pub name: String,
    /// What it lets its holder do.
    pub scope: Scope,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last used, to the minute or so.
    pub last_used: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
}

/// What the holder of an access token shows. Printed only on purpose.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why an access token is not made or revoked.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name is not one.
    #[error("`{name}` is no name for an access token")]
    Name {
        /// What was given.
        name: String,
    },
    /// Another one in use has this name.
    #[error("there is an access token called `{name}` already")]
    Taken {
        /// The name.
        name: String,
    },
    /// There is none of this id.
    #[error("there is no access token `{id}`")]
    Unknown {
        /// The id.
        id: TokenId,
    },
    /// The system gave no random bytes.
    #[error("cannot make a secret: the system gave no random bytes")]
    Entropy(#[source] getrandom::Error),
    /// The same, for its id.
    #[error("cannot make an id")]
    Id(#[source] ringfence_journal::NoEntropy),
    /// The database failed.
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

    /// What a person can do about it.
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
    /// Makes an access token. Its secret is known to whoever gets this answer, and to nobody else.
    pub async fn create_token(&self, name: &str, scope: Scope) -> Result<(AccessToken, Secret), TokenError> {
        let name = name.trim();
        if name.is_empty() || name.chars().count() > NAME || name.chars().any(char::is_control) {
            return Err(TokenError::Name {
                name: name.escape_debug().take(NAME).collect(),
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
        let secret = secret_of(token.id)?;
        let (row, digest) = (token.clone(), digest(&secret.0));
        let inserted = self.write(move |connection| {
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
            Err(error) if Trouble::of_write(&error) == Trouble::Taken => Err(TokenError::Taken { name: token.name }),
            Err(error) => Err(record_error(error).into()),
        }
    }

    /// Every access token there was, oldest first.
    pub async fn tokens(&self) -> Result<Vec<AccessToken>, ReadError> {
        let mut reader = self.reader().await?;
        let rows = sqlx::query("SELECT id, name, scope, created, used, revoked FROM tokens ORDER BY id")
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        rows.iter().map(token).collect()
    }

    /// Revokes an access token, for every process at once. Answers when it was revoked: now, or before.
    pub async fn revoke_token(&self, id: TokenId) -> Result<Timestamp, TokenError> {
        let now = Timestamp::now();
        let updated = self.write(move |connection| {
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

    /// The access token in use whose secret this is.
    pub async fn token_of(&self, shown: &str) -> Result<Option<AccessToken>, ReadError> {
        let Some(id) = id_in(shown) else { return Ok(None) };
        let mut reader = self.reader().await?;
        let row = sqlx::query("SELECT id, name, scope, digest, created, used, revoked FROM tokens WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        let Some(row) = row else { return Ok(None) };
        let kept = database::digest(&row, TABLE, "digest")?;
        let found = token(&row)?;
        let same = equal(kept.as_bytes(), digest(shown).as_bytes());
        Ok((same && found.revoked.is_none()).then_some(found))
    }

    /// The access token of this id.
    pub async fn token(&self, id: TokenId) -> Result<Option<AccessToken>, ReadError> {
        let mut reader = self.reader().await?;
        let row = sqlx::query("SELECT id, name, scope, created, used, revoked FROM tokens WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        row.as_ref().map(token).transpose()
    }

    /// Notes that an access token was used now.
    pub async fn token_used(&self, id: TokenId) -> Result<(), RecordError> {
        let values = (Timestamp::now().to_string(), id.to_string());
        let updated =
            self.write(move |connection| connection.execute("UPDATE tokens SET used = ? WHERE id = ?", values));
        updated.await?.map(drop).map_err(record_error)
    }

    /// Writes on a thread where waiting for other processes holds nobody up.
    async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<Result<T, rusqlite::Error>, RecordError> {
        let path = self.home.database();
        let written =
            tokio::task::spawn_blocking(move || database::connect(&path).and_then(|connection| change(&connection)));
        written.await.map_err(|_| RecordError::Ended)
    }
}

/// A secret that says whose it is: found by its id, proven by its digest.
fn secret_of(id: TokenId) -> Result<Secret, TokenError> {
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random).map_err(TokenError::Entropy)?;
    let id = id.to_string();
    let mut text = format!("{PREFIX}{}", id.strip_prefix(ID_PREFIX).unwrap_or(&id));
    for byte in random {
        use fmt::Write as _;
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(Secret(text))
}

/// The id that a secret of ours begins with.
fn id_in(shown: &str) -> Option<TokenId> {
    let rest = shown.strip_prefix(PREFIX)?;
    if rest.len() != ID_DIGITS + 2 * SECRET_BYTES {
        return None;
    }
    format!("{ID_PREFIX}{}", rest.get(..ID_DIGITS)?).parse().ok()
}

/// The secret has 256 random bits, so a plain digest gives nothing away.
fn digest(secret: &str) -> Hash {
    Hash::of(secret.as_bytes())
}

/// Compares without saying by its time where the first difference is.
fn equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let difference = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0
}

fn token(row: &SqliteRow) -> Result<AccessToken, ReadError> {
    let damaged = |column| ReadError::Row { table: TABLE, column };
    let time = |column| {
        let text: Option<&str> = row.try_get(column).map_err(|_| damaged(column))?;
        text.map(str::parse).transpose().map_err(|_| damaged(column))
    };
    let scope = match row.try_get("scope") {
        Ok("viewer") => Scope::Viewer,
        Ok("agent") => Scope::Agent,
        Ok("operator") => Scope::Operator,
        _ => return Err(damaged("scope")),
    };
    Ok(AccessToken {
        id: database::parsed(row, TABLE, "id")?,
        name: database::parsed(row, TABLE, "name")?,
        scope,
        created: database::parsed(row, TABLE, "created")?,
        last_used: time("used")?,
        revoked: time("revoked")?,
    })
}

#[cfg(test)]
mod tests;
