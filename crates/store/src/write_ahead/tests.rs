use ringfence_journal::{Event, EventKind, ExecutionId};

use super::*;
use crate::{Store, lease};

/// A chain of records of one session; the second record has a sealed piece.
fn rows(session: SessionId, count: u64) -> Vec<WriteAheadRow> {
    let mut link = ChainTip::start(session);
    let mut next = |number: u64| {
        let kind = EventKind::Violation {
            what: "syscall".into(),
            detail: number.to_string().as_str().into(),
            rule: "r".into(),
        };
        let record = link.next(&Event::from_host(session, None, kind)).unwrap();
        link = record.tip();
        let piece = (number == 2).then(|| SealedPiece {
            execution: ExecutionId::generate().unwrap(),
            session,
            n: 1,
            total: 3,
            sealed: vec![1, 2, 3],
        });
        WriteAheadRow { record, piece }
    };
    (1..=count).map(&mut next).collect()
}

fn bytes(rows: &[WriteAheadRow]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in rows {
        encode_row(&row.record, row.piece.as_ref(), &mut bytes);
    }
    bytes
}

fn records(rows: &[WriteAheadRow]) -> Vec<&Record> {
    rows.iter().map(|row| &row.record).collect()
}

/// A data folder, a connection to its database, and the write-ahead file of a dead lease.
async fn left(bytes: &[u8]) -> (tempfile::TempDir, Connection, LeaseId) {
    let home = tempfile::tempdir().unwrap();
    Store::open(home.path()).await.unwrap().close().await;
    let lease = LeaseId::generate().unwrap();
    fs::write(file_path(&home.path().join("run"), lease), bytes).unwrap();
    let connection = crate::database::connect(&home.path().join("ringfence.db")).unwrap();
    (home, connection, lease)
}

fn kept(connection: &Connection) -> Vec<(i64, bool)> {
    let mut all = connection
        .prepare("SELECT seq, sealed IS NOT NULL FROM events ORDER BY n")
        .unwrap();
    let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn what_is_written_is_read_again() {
    let rows = rows(SessionId::generate().unwrap(), 3);
    let again = decode_rows(&bytes(&rows));
    assert_eq!(records(&again), records(&rows));
    let sealed: Vec<_> = again
        .iter()
        .map(|row| row.piece.as_ref().map(|piece| &piece.sealed))
        .collect();
    assert_eq!(sealed, [None, Some(&vec![1, 2, 3]), None]);
}

#[test]
fn what_is_not_whole_is_none_wherever_it_ends() {
    let rows = rows(SessionId::generate().unwrap(), 2);
    let (one, both) = (bytes(&rows[..1]).len(), bytes(&rows));
    for end in 0..both.len() {
        assert_eq!(decode_rows(&both[..end]).len(), usize::from(end >= one), "{end}");
    }
    for at in 0..one {
        let mut changed = both.clone();
        changed[at] ^= 1;
        assert!(decode_rows(&changed).is_empty(), "{at}");
    }
}

#[test]
fn what_an_earlier_use_left_behind_the_end_is_read_only_where_it_is_whole() {
    let session = SessionId::generate().unwrap();
    let (old, new) = (rows(session, 3), rows(SessionId::generate().unwrap(), 1));
    let mut file = bytes(&old);
    let first = bytes(&new);
    file[..first.len()].copy_from_slice(&first);
    let found = decode_rows(&file);
    assert_eq!(found[0].record, new[0].record);
    assert!(found[1..].iter().all(|row| row.record.session == session));
}

#[tokio::test]
async fn what_a_dead_process_left_is_taken_over_once() {
    let session = SessionId::generate().unwrap();
    let rows = rows(session, 20);
    let (home, connection, lease) = left(&bytes(&rows)).await;
    let run = home.path().join("run");
    // The database already has some of the records.
    insert_rows(&connection, &rows[..5]).unwrap();
    merge(&connection, &run, lease).unwrap();
    let expected: Vec<_> = (1..=20).map(|seq| (seq, seq == 2)).collect();
    assert_eq!(kept(&connection), expected);
    assert!(!file_path(&run, lease).exists());
    merge(&connection, &run, lease).unwrap();
    assert_eq!(kept(&connection).len(), 20);
}

#[tokio::test]
async fn what_does_not_follow_is_left_out() {
    let session = SessionId::generate().unwrap();
    let mut rows = rows(session, 4);
    rows.remove(1);
    let mut forged = self::rows(SessionId::generate().unwrap(), 1);
    forged[0].record.json = forged[0].record.json.replace("syscall", "nothing");
    rows.extend(forged);
    let (home, connection, lease) = left(&bytes(&rows)).await;
    let run = home.path().join("run");
    merge(&connection, &run, lease).unwrap();
    assert_eq!(kept(&connection), [(1, false)]);
    // The rejected file is reported.
    assert!(!file_path(&run, lease).exists() && file_path(&run, lease).with_extension("rejected").exists());
}

#[tokio::test]
async fn what_another_wrote_in_its_place_is_not_written_over() {
    let session = SessionId::generate().unwrap();
    let (ours, theirs) = (rows(session, 3), rows(session, 1));
    assert_ne!(ours[0].record.hash, theirs[0].record.hash);
    let (home, connection, lease) = left(&bytes(&ours)).await;
    insert_rows(&connection, &theirs).unwrap();
    let run = home.path().join("run");
    merge(&connection, &run, lease).unwrap();
    assert_eq!(kept(&connection).len(), 1);
    assert!(file_path(&run, lease).with_extension("rejected").exists());
}

/// Foreign content under the name of a write-ahead file.
fn put_in_place(path: &Path, what: &str) {
    fs::remove_file(path).unwrap();
    match what {
        "link" => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        "folder" => fs::create_dir(path).unwrap(),
        _ => fs::File::create(path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap(),
    }
}

#[tokio::test]
async fn what_is_no_file_of_records_is_put_aside_unread_and_keeps_nobody_from_sweeping() {
    for what in ["link", "folder", "too long"] {
        let (home, _, lease) = left(b"").await;
        let run = home.path().join("run");
        put_in_place(&file_path(&run, lease), what);
        let aside = file_path(&run, lease).with_extension("rejected");
        let store = Store::open(home.path()).await.unwrap();
        assert_eq!(
            rejected_files(home.path()).unwrap(),
            std::slice::from_ref(&aside),
            "{what}"
        );
        // The next attempt finds it while a store is open.
        fs::rename(&aside, file_path(&run, lease)).unwrap();
        let dead = lease::lock_dead_lease(&run, lease).unwrap();
        assert!(store.finish_dead_lease(dead, &[]).await.unwrap().is_empty());
        assert_eq!(rejected_files(home.path()).unwrap(), [aside], "{what}");
        store.close().await;
    }
}

#[tokio::test]
async fn whoever_opens_the_store_takes_over() {
    let rows = rows(SessionId::generate().unwrap(), 2);
    let (home, connection, _) = left(&bytes(&rows)).await;
    let store = Store::open(home.path()).await.unwrap();
    assert_eq!(store.session_records(rows[0].record.session).await.unwrap().len(), 2);
    assert_eq!(kept(&connection).len(), 2);
    store.close().await;
}
