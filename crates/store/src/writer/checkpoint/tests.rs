use super::*;

/// A database with one table, and a checkpointer that watches its log.
fn log() -> (tempfile::TempDir, Connection, Checkpointer) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::prepare(folder.path()).unwrap();
    home.create_database().unwrap();
    let connection = database::connect(&home.database_path()).unwrap();
    connection.execute_batch("CREATE TABLE lines (line TEXT)").unwrap();
    let fold = Checkpointer::new(home, &connection);
    (folder, connection, fold)
}

/// Commits until the log has grown by this many pages, or started again.
fn grow(connection: &Connection, fold: &mut Checkpointer, pages: u32) {
    let before = fold.pages;
    while fold.pages >= before && fold.pages < before + pages {
        connection
            .execute("INSERT INTO lines VALUES (?)", ["x".repeat(3000)])
            .unwrap();
        fold.update();
    }
}

#[tokio::test]
async fn a_log_is_folded_beside_and_begins_anew() {
    let (_folder, connection, mut fold) = log();
    grow(&connection, &mut fold, CHECKPOINT_PAGES - 50);
    assert_eq!(fold.need(), CheckpointNeed::Nothing);
    grow(&connection, &mut fold, 50);
    assert_eq!(fold.need(), CheckpointNeed::Background);
    fold.start_background();
    assert_eq!(fold.need(), CheckpointNeed::Nothing);
    fold.wait_for_background().await;
    // The whole log was checkpointed: the next commit is the first of a new log.
    grow(&connection, &mut fold, CHECKPOINT_PAGES);
    assert!(fold.pages < 50, "{}", fold.pages);
    assert_eq!((fold.background_pages, fold.need()), (0, CheckpointNeed::Nothing));
}

#[tokio::test]
async fn a_log_that_a_reader_holds_is_folded_again_only_when_it_has_grown() {
    let (folder, connection, mut fold) = log();
    let reader = database::connect(&folder.path().join("ringfence.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM lines").unwrap();
    grow(&connection, &mut fold, MAX_LOG_PAGES);
    assert_eq!(fold.need(), CheckpointNeed::Blocking);
    fold.run_blocking(&connection);
    assert_eq!(fold.need(), CheckpointNeed::Nothing);
    grow(&connection, &mut fold, 10);
    assert_eq!(
        (fold.pages >= MAX_LOG_PAGES, fold.need()),
        (true, CheckpointNeed::Nothing)
    );
    reader.execute_batch("COMMIT").unwrap();
    grow(&connection, &mut fold, CHECKPOINT_PAGES);
    assert_eq!(fold.need(), CheckpointNeed::Background);
    fold.start_background();
    fold.wait_for_background().await;
    grow(&connection, &mut fold, CHECKPOINT_PAGES);
    assert!(fold.pages < 50, "{}", fold.pages);
}

#[tokio::test]
async fn a_commit_that_failed_changes_nothing() {
    let (_folder, connection, mut fold) = log();
    grow(&connection, &mut fold, 10);
    let before = fold.pages;
    connection.execute("INSERT INTO nothing VALUES (1)", []).unwrap_err();
    fold.update();
    assert_eq!(fold.pages, before);
}
