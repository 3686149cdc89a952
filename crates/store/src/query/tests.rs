use rusqlite::Connection;
use tempfile::TempDir;

use super::{FromColumn, QueryRow, ReadConnection, query};
use crate::QueryError;

/// A database with one table of two rows, and a connection that reads it.
fn fixture() -> (TempDir, Connection, ReadConnection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    let writer = Connection::open(&path).unwrap();
    writer
        .execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE things (n INTEGER, name TEXT);
             INSERT INTO things VALUES (1, 'one'), (2, 'two')",
        )
        .unwrap();
    (folder, writer, ReadConnection::new(path))
}

async fn value(sql: &'static str) -> QueryRow {
    let (_folder, _writer, reader) = fixture();
    query(sql).fetch_one(&reader).await.unwrap()
}

#[track_caller]
fn check<'a, T: FromColumn<'a> + PartialEq + std::fmt::Debug>(row: &'a QueryRow, expected: Option<T>) {
    assert_eq!(row.get::<T>("v").ok(), expected);
}

#[tokio::test]
async fn a_value_is_read_as_what_it_is_or_not_at_all() {
    let number = value("SELECT 7 AS v").await;
    check(&number, Some(7_i64));
    check(&number, Some(true));
    check::<&str>(&number, None);
    check::<&[u8]>(&number, None);
    let text = value("SELECT '7' AS v").await;
    check(&text, Some("7"));
    check(&text, Some(Some("7".to_owned())));
    check::<i64>(&text, None);
    check::<&[u8]>(&text, None);
    let bytes = value("SELECT x'07' AS v").await;
    check(&bytes, Some([7_u8].as_slice()));
    check::<&str>(&bytes, None);
    let nothing = value("SELECT NULL AS v").await;
    check(&nothing, Some(None::<i64>));
    check::<i64>(&nothing, None);
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_no_text() {
    let row = value("SELECT CAST(x'ff41' AS TEXT) AS v").await;
    check::<&str>(&row, None);
    assert_eq!(row.get::<&[u8]>("v").unwrap(), [0xff, 0x41]);
}

#[tokio::test]
async fn a_column_that_is_not_there_is_refused() {
    assert!(value("SELECT 7 AS v").await.get::<i64>("w").is_err());
}

#[tokio::test]
async fn rows_come_in_order_and_parameters_in_theirs() {
    let (_folder, _writer, reader) = fixture();
    let sql = "SELECT name FROM things WHERE n <= ?2 AND name <> ?1 ORDER BY n";
    let rows = query(sql)
        .bind("one".to_owned())
        .bind(2)
        .fetch_all(&reader)
        .await
        .unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.get("name").unwrap()).collect();
    assert_eq!(names, ["two"]);
    let count = query("SELECT count(*) FROM things").fetch_scalar::<i64>(&reader).await;
    assert_eq!(count.unwrap(), Some(2));
    let none = query("SELECT n FROM things WHERE n > 2")
        .fetch_scalar::<i64>(&reader)
        .await;
    assert_eq!(none.unwrap(), None);
}

#[tokio::test]
async fn nothing_is_written_through_it() {
    let (_folder, _writer, reader) = fixture();
    let error = query("DELETE FROM things").fetch_all(&reader).await.unwrap_err();
    assert!(matches!(error, QueryError::Database(_)), "{error:?}");
    let count = query("SELECT count(*) FROM things").fetch_scalar::<i64>(&reader).await;
    assert_eq!(count.unwrap(), Some(2));
}

#[tokio::test]
async fn a_transaction_sees_one_state_and_a_closed_connection_opens_again() {
    let (_folder, writer, reader) = fixture();
    let count = || query("SELECT count(*) FROM things").fetch_scalar::<i64>(&reader);
    reader.begin().await.unwrap();
    assert_eq!(count().await.unwrap(), Some(2));
    writer.execute_batch("DELETE FROM things").unwrap();
    assert_eq!(count().await.unwrap(), Some(2));
    reader.close().await;
    assert_eq!(count().await.unwrap(), Some(0));
}

#[tokio::test]
async fn who_stops_waiting_leaves_the_connection_usable() {
    let (_folder, _writer, reader) = fixture();
    drop(query("SELECT * FROM things").fetch_all(&reader));
    let rows = query("SELECT * FROM things").fetch_all(&reader).await;
    assert_eq!(rows.unwrap().len(), 2);
}
