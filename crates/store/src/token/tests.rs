use super::*;
use crate::Store;

async fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).await.unwrap();
    (folder, store)
}

#[tokio::test]
async fn a_secret_finds_its_token_and_nothing_else_does() {
    let (_folder, store) = store().await;
    let (one, secret) = store.access_tokens().create("one", AccessScope::Agent).await.unwrap();
    let (_, other) = store
        .access_tokens()
        .create("other", AccessScope::Viewer)
        .await
        .unwrap();
    assert_eq!(
        store.access_tokens().find_by_secret(secret.reveal()).unwrap(),
        Some(one)
    );
    // One digit more, less or different; the id of one token with the secret of another.
    let text = secret.reveal();
    let mixed = format!("{}{}", &text[..29], &other.reveal()[29..]);
    let last = if text.ends_with('0') { "1" } else { "0" };
    let changed = format!("{}{last}", &text[..text.len() - 1]);
    let cases = [
        format!("{text}0"),
        text[..text.len() - 1].to_owned(),
        text.to_uppercase(),
        mixed,
        changed,
        String::new(),
        "rf_".to_owned(),
        "ä".repeat(93),
    ];
    for case in cases {
        assert_eq!(store.access_tokens().find_by_secret(&case).unwrap(), None, "{case}");
    }
}

#[tokio::test]
async fn only_the_digest_of_a_secret_is_kept_and_debug_hides_it() {
    let (folder, store) = store().await;
    let (_, secret) = store
        .access_tokens()
        .create("one", AccessScope::Operator)
        .await
        .unwrap();
    assert_eq!(format!("{secret:?}"), "Secret(…)");
    store.close().await;
    for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
        if file.file_type().unwrap().is_file() {
            let bytes = std::fs::read(file.path()).unwrap();
            let random = &secret.reveal().as_bytes()[29..];
            assert!(!bytes.windows(random.len()).any(|window| window == random));
        }
    }
}

#[tokio::test]
async fn what_one_process_revokes_another_refuses_at_once() {
    let (folder, here) = store().await;
    let there = Store::open(folder.path()).await.unwrap();
    let (token, secret) = here.access_tokens().create("one", AccessScope::Agent).await.unwrap();
    assert!(there.access_tokens().find_by_secret(secret.reveal()).unwrap().is_some());
    let at = here.access_tokens().revoke(token.id).await.unwrap();
    assert_eq!(there.access_tokens().find_by_secret(secret.reveal()).unwrap(), None);
    // A second revocation keeps the time of the first.
    assert_eq!(there.access_tokens().revoke(token.id).await.unwrap(), at);
    let listed = there.access_tokens().list().unwrap();
    assert_eq!(
        listed,
        [AccessToken {
            revoked: Some(at),
            ..token
        }]
    );
}

#[tokio::test]
async fn a_name_belongs_to_one_token_in_use() {
    let (_folder, store) = store().await;
    let (token, _) = store.access_tokens().create(" ci ", AccessScope::Agent).await.unwrap();
    assert_eq!(token.name, "ci");
    let second = store
        .access_tokens()
        .create("ci", AccessScope::Viewer)
        .await
        .unwrap_err();
    assert_eq!(second.code(), "token.taken");
    store.access_tokens().revoke(token.id).await.unwrap();
    store.access_tokens().create("ci", AccessScope::Viewer).await.unwrap();
    for name in ["", "  ", "a\nb", &"x".repeat(65)] {
        assert_eq!(
            store
                .access_tokens()
                .create(name, AccessScope::Agent)
                .await
                .unwrap_err()
                .code(),
            "token.name"
        );
    }
    let nobody = TokenId::generate().unwrap();
    assert_eq!(
        store.access_tokens().revoke(nobody).await.unwrap_err().code(),
        "token.unknown"
    );
}

#[tokio::test]
async fn the_last_use_is_noted() {
    let (_folder, store) = store().await;
    let (token, secret) = store.access_tokens().create("one", AccessScope::Agent).await.unwrap();
    store.access_tokens().note_use(token.id).await.unwrap();
    let found = store.access_tokens().find_by_secret(secret.reveal()).unwrap().unwrap();
    assert!(found.last_used.is_some_and(|used| used >= token.created));
}

#[tokio::test]
async fn a_journal_of_the_version_before_gets_its_table() {
    let (folder, store) = store().await;
    store.close().await;
    let path = folder.path().join("ringfence.db");
    let connection = database::connect(&path).unwrap();
    connection
        .execute_batch(
            "DROP TABLE tokens; DROP TABLE undelivered; DROP TABLE keys; DROP TABLE recordings; DROP TABLE entries;
             DROP TABLE approvals; DROP TABLE answers; DROP TABLE aliases; DROP TABLE workspaces;
             DROP TABLE pruned; DROP TABLE claims; DROP TABLE promises;
             DROP TABLE session_policies; ALTER TABLE sessions DROP COLUMN journal_bytes;
             ALTER TABLE executions DROP COLUMN parent;
             ALTER TABLE events DROP COLUMN execution; ALTER TABLE events DROP COLUMN piece;
             ALTER TABLE events DROP COLUMN total; ALTER TABLE events DROP COLUMN sealed; PRAGMA user_version = 1",
        )
        .unwrap();
    drop(connection);
    let store = Store::open(folder.path()).await.unwrap();
    store.access_tokens().create("one", AccessScope::Agent).await.unwrap();
    assert_eq!(store.access_tokens().list().unwrap().len(), 1);
}
