//! Reads columns for the writer: a value that this program never writes counts as damage and fails the commit.

use std::error::Error;
use std::str::FromStr;

use ringfence_journal::Hash;
use rusqlite::Row;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;

/// A text column, parsed with `FromStr`.
pub(super) fn parsed<T>(row: &Row<'_>, column: usize) -> Result<T, rusqlite::Error>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let text: String = row.get(column)?;
    text.parse().map_err(|error| damaged(column, Type::Text, error))
}

/// A text column that may be null, parsed with `FromStr`.
pub(super) fn maybe<T>(row: &Row<'_>, column: usize) -> Result<Option<T>, rusqlite::Error>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let text: Option<String> = row.get(column)?;
    text.map(|text| text.parse())
        .transpose()
        .map_err(|error| damaged(column, Type::Text, error))
}

/// A value of a closed set, in the spelling of the journal; may be null.
pub(super) fn maybe_word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>, rusqlite::Error> {
    let word: Option<String> = row.get(column)?;
    word.map(|word| serde_json::from_value(word.into()))
        .transpose()
        .map_err(|error| damaged(column, Type::Text, error))
}

/// A number column that is never negative.
pub(super) fn number(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|error| damaged(column, Type::Integer, error))
}

/// A hash column, stored as 32 bytes.
pub(super) fn digest(row: &Row<'_>, column: usize) -> Result<Hash, rusqlite::Error> {
    let bytes: Vec<u8> = row.get(column)?;
    Hash::try_from(bytes.as_slice()).map_err(|error| damaged(column, Type::Blob, error))
}

fn damaged(column: usize, kind: Type, error: impl Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(error))
}
