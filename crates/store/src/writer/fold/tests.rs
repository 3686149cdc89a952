use super::*;

/// A database with one table, and a checkpointer that watches its log.
fn log() -> (tempfile::TempDir, Connection, Fold) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::prepare(folder.path()).unwrap();
    home.create_database().unwrap();
    let connection = database::connect(&home.database()).unwrap();
    connection.execute_batch("CREATE TABLE lines (line TEXT)").unwrap();
    let fold = Fold::of(home, &connection);
    (folder, connection, fold)
}

/// Commits until the log has grown by this many pages, or started again.
fn grow(connection: &Connection, fold: &mut Fold, pages: u32) {
    let before = fold.pages;
    while fold.pages >= before && fold.pages < before + pages {
        connection
            .execute("INSERT INTO lines VALUES (?)", ["x".repeat(3000)])
            .unwrap();
        fold.look();
    }
}

#[tokio::test]
async fn a_log_is_folded_beside_and_begins_anew() {
    let (_folder, connection, mut fold) = log();
    grow(&connection, &mut fold, PAGES - 50);
    assert_eq!(fold.need(), Need::Nothing);
    grow(&connection, &mut fold, 50);
    assert_eq!(fold.need(), Need::Beside);
    fold.beside();
    assert_eq!(fold.need(), Need::Nothing);
    fold.settle().await;
    // The whole log was checkpointed: the next commit is the first of a new log.
    grow(&connection, &mut fold, PAGES);
    assert!(fold.pages < 50, "{}", fold.pages);
    assert_eq!((fold.beside, fold.need()), (0, Need::Nothing));
}

#[tokio::test]
async fn a_log_that_a_reader_holds_is_folded_again_only_when_it_has_grown() {
    let (folder, connection, mut fold) = log();
    let reader = database::connect(&folder.path().join("ringfence.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM lines").unwrap();
    grow(&connection, &mut fold, MOST);
    assert_eq!(fold.need(), Need::First);
    fold.first(&connection);
    assert_eq!(fold.need(), Need::Nothing);
    grow(&connection, &mut fold, 10);
    assert_eq!((fold.pages >= MOST, fold.need()), (true, Need::Nothing));
    reader.execute_batch("COMMIT").unwrap();
    grow(&connection, &mut fold, PAGES);
    assert_eq!(fold.need(), Need::Beside);
    fold.beside();
    fold.settle().await;
    grow(&connection, &mut fold, PAGES);
    assert!(fold.pages < 50, "{}", fold.pages);
}

#[tokio::test]
async fn a_commit_that_failed_changes_nothing() {
    let (_folder, connection, mut fold) = log();
    grow(&connection, &mut fold, 10);
    let before = fold.pages;
    connection.execute("INSERT INTO nothing VALUES (1)", []).unwrap_err();
    fold.look();
    assert_eq!(fold.pages, before);
}
