//! Reads columns for the writer: a value that this program never writes counts as damage and fails the commit.

use std::error::Error;
use std::str::FromStr;

use ringfence_journal::ContentHash;
use rusqlite::Row;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;

/// A text column, parsed with `FromStr`.
pub(super) fn text_at<T>(row: &Row<'_>, column: usize) -> Result<T, rusqlite::Error>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let text: String = row.get(column)?;
    text.parse()
        .map_err(|error| conversion_error(column, Type::Text, error))
}

/// A text column that may be null, parsed with `FromStr`.
pub(super) fn optional_text_at<T>(row: &Row<'_>, column: usize) -> Result<Option<T>, rusqlite::Error>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let text: Option<String> = row.get(column)?;
    text.map(|text| text.parse())
        .transpose()
        .map_err(|error| conversion_error(column, Type::Text, error))
}

/// A value of a closed set, in the spelling of the journal; may be null.
pub(super) fn optional_word_at<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>, rusqlite::Error> {
    let word: Option<String> = row.get(column)?;
    word.map(|word| serde_json::from_value(word.into()))
        .transpose()
        .map_err(|error| conversion_error(column, Type::Text, error))
}

/// A number column that is never negative.
pub(super) fn unsigned_at(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|error| conversion_error(column, Type::Integer, error))
}

/// A hash column, stored as 32 bytes.
pub(super) fn hash_at(row: &Row<'_>, column: usize) -> Result<ContentHash, rusqlite::Error> {
    let bytes: Vec<u8> = row.get(column)?;
    ContentHash::try_from(bytes.as_slice()).map_err(|error| conversion_error(column, Type::Blob, error))
}

fn conversion_error(column: usize, kind: Type, error: impl Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(error))
}
