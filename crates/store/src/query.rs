//! Queries of the reading side: a text with values, and rows that own what they hold.
//!
//! The rest of the crate says what it asks only through these types; which database answers is known here and in the writer.

use std::borrow::Cow;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::types::{FromSqlError, FromSqlResult, Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use crate::database::{self, QueryError};

/// Statements that a connection keeps prepared.
const STATEMENT_CACHE_CAPACITY: usize = 64;

/// A connection for queries only, opened at the first one. Queries run on blocking threads, one at a time.
#[derive(Debug)]
pub(crate) struct ReadConnection {
    path: PathBuf,
    open: Arc<Mutex<Option<Connection>>>,
}

impl ReadConnection {
    pub(crate) fn new(path: PathBuf) -> ReadConnection {
        ReadConnection {
            path,
            open: Arc::default(),
        }
    }

    /// Begins a transaction: later queries see the database as it is at the first of them.
    pub(crate) async fn begin(&self) -> Result<(), QueryError> {
        let begin = |connection: &Connection| connection.execute_batch("BEGIN").map(|()| Vec::new());
        self.run(Box::new(begin)).await.map(drop)
    }

    /// Closes the connection; an error is only logged. A later query opens it again.
    pub(crate) async fn close(&self) {
        let open = Arc::clone(&self.open);
        let closed = tokio::task::spawn_blocking(move || {
            let connection = open.lock().unwrap_or_else(PoisonError::into_inner).take();
            connection.map_or(Ok(()), |connection| connection.close().map_err(|(_, error)| error))
        });
        if let Ok(Err(error)) = closed.await {
            tracing::warn!(%error, "the database did not close cleanly");
        }
    }

    /// Runs a query on a blocking thread. A caller that stops waiting does not harm the connection.
    fn run(&self, read: Box<ReadFn>) -> QueryFuture {
        let (path, open) = (self.path.clone(), Arc::clone(&self.open));
        let reading = tokio::task::spawn_blocking(move || {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            let connection = match open.take() {
                Some(connection) => connection,
                None => {
                    let connection = database::connect_reader(&path)?;
                    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
                    connection
                }
            };
            read(open.insert(connection))
        });
        Box::pin(async move {
            let read = reading.await.map_err(QueryError::Interrupted)?;
            read.map_err(QueryError::Database)
        })
    }
}

type ReadFn = dyn FnOnce(&Connection) -> Result<Vec<QueryRow>, rusqlite::Error> + Send;

/// What a query gives in the end. Behind a pointer, so that whoever waits does not get the code that waits.
type QueryFuture = Pin<Box<dyn Future<Output = Result<Vec<QueryRow>, QueryError>> + Send>>;

/// A query and the values of its parameters, in order.
#[derive(Debug)]
pub(crate) struct Query {
    sql: Cow<'static, str>,
    values: Vec<Value>,
}

/// Makes a query; its parameters get their values by [`Query::bind`].
pub(crate) fn query(sql: impl Into<Cow<'static, str>>) -> Query {
    Query {
        sql: sql.into(),
        values: Vec::new(),
    }
}

impl Query {
    /// Gives the next parameter its value.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Query {
        self.values.push(value.into());
        self
    }

    /// All rows of the result.
    pub(crate) fn fetch_all(self, connection: &ReadConnection) -> QueryFuture {
        connection.run(Box::new(move |connection| self.read(connection, usize::MAX)))
    }

    /// The first row of the result, if it has any.
    pub(crate) async fn fetch_optional(self, connection: &ReadConnection) -> Result<Option<QueryRow>, QueryError> {
        let rows = connection.run(Box::new(move |connection| self.read(connection, 1)));
        Ok(rows.await?.into_iter().next())
    }

    /// The first row of a result that always has one.
    pub(crate) async fn fetch_one(self, connection: &ReadConnection) -> Result<QueryRow, QueryError> {
        let row = self.fetch_optional(connection).await?;
        row.ok_or(QueryError::Database(rusqlite::Error::QueryReturnedNoRows))
    }

    /// The first column of the first row; `None` without a row, or if the column is null.
    pub(crate) async fn fetch_scalar<T>(self, connection: &ReadConnection) -> Result<Option<T>, QueryError>
    where
        T: for<'a> FromColumn<'a>,
    {
        let Some(row) = self.fetch_optional(connection).await? else {
            return Ok(None);
        };
        let Some(value) = row.values.first() else {
            return Ok(None);
        };
        Option::from_column(value.into()).map_err(|error| {
            let cause = rusqlite::Error::FromSqlConversionFailure(0, value.data_type(), Box::new(error));
            QueryError::Database(cause)
        })
    }

    fn read(self, connection: &Connection, limit: usize) -> Result<Vec<QueryRow>, rusqlite::Error> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        let columns: Arc<[String]> = statement.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = statement.query(params_from_iter(self.values))?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let values = (0..columns.len())
                .map(|column| row.get_ref(column).map(to_owned))
                .collect::<Result<_, _>>()?;
            let columns = Arc::clone(&columns);
            found.push(QueryRow { columns, values });
        }
        Ok(found)
    }
}

/// Copies a value. Text that is not UTF-8 becomes bytes, so that whoever wants text is refused.
fn to_owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => match String::from_utf8(text.to_vec()) {
            Ok(text) => Value::Text(text),
            Err(error) => Value::Blob(error.into_bytes()),
        },
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// A row of a result.
#[derive(Debug)]
pub(crate) struct QueryRow {
    columns: Arc<[String]>,
    values: Vec<Value>,
}

impl QueryRow {
    /// The value of a column; fails if there is no such column or its value has another type.
    pub(crate) fn get<'a, T: FromColumn<'a>>(&'a self, column: &str) -> FromSqlResult<T> {
        let index = self.columns.iter().position(|name| name == column);
        let value = index.and_then(|index| self.values.get(index));
        T::from_column(value.ok_or(FromSqlError::InvalidType)?.into())
    }
}

/// A type that a column's value can be read as.
pub(crate) trait FromColumn<'a>: Sized {
    /// Reads the value; never converts between types.
    fn from_column(value: ValueRef<'a>) -> FromSqlResult<Self>;
}

impl<'a> FromColumn<'a> for i64 {
    fn from_column(value: ValueRef<'a>) -> FromSqlResult<i64> {
        value.as_i64()
    }
}

impl<'a> FromColumn<'a> for bool {
    fn from_column(value: ValueRef<'a>) -> FromSqlResult<bool> {
        value.as_i64().map(|number| number != 0)
    }
}

impl<'a> FromColumn<'a> for &'a str {
    fn from_column(value: ValueRef<'a>) -> FromSqlResult<&'a str> {
        value.as_str()
    }
}

impl<'a> FromColumn<'a> for String {
    fn from_column(value: ValueRef<'a>) -> FromSqlResult<String> {
        value.as_str().map(str::to_owned)
    }
}

impl<'a> FromColumn<'a> for &'a [u8] {
    fn from_column(value: ValueRef<'a>) -> FromSqlResult<&'a [u8]> {
        value.as_blob()
    }
}

impl<'a> FromColumn<'a> for Vec<u8> {
    fn from_column(value: ValueRef<'a>) -> FromSqlResult<Vec<u8>> {
        value.as_blob().map(<[u8]>::to_vec)
    }
}

impl<'a, T: FromColumn<'a>> FromColumn<'a> for Option<T> {
    fn from_column(value: ValueRef<'a>) -> FromSqlResult<Option<T>> {
        match value {
            ValueRef::Null => Ok(None),
            _ => T::from_column(value).map(Some),
        }
    }
}

#[cfg(test)]
mod tests;
