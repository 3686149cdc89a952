//! Aliases: sealed, in order, and deleted with their session.

use ringfence_journal::{RecordError, Recorder as _, ReplayRecorder as _, SessionId, Zeroizing};

use crate::support::{closed, world};

fn part(text: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(text.as_bytes().to_vec())
}

#[tokio::test]
async fn parts_come_back_in_order_until_the_session_is_over() {
    let world = world().await;
    let (session, other) = (world.session().await, world.session().await);
    for text in ["ann@example.com", "bob@example.com"] {
        world.store.store_aliases(session, part(text)).await.unwrap();
    }
    world.store.store_aliases(other, part("eve@example.com")).await.unwrap();
    let kept = world.store.aliases(session).await.unwrap();
    let kept: Vec<&[u8]> = kept.iter().map(|part| part.as_slice()).collect();
    assert_eq!(kept, [b"ann@example.com", b"bob@example.com"]);
    for file in std::fs::read_dir(world.home()).unwrap() {
        let Ok(bytes) = std::fs::read(file.unwrap().path()) else {
            continue;
        };
        assert!(!bytes.windows(11).any(|window| window == b"example.com"));
    }

    world.store.record(closed(session)).await.unwrap();
    assert!(world.store.aliases(session).await.unwrap().is_empty());
    assert_eq!(world.store.aliases(other).await.unwrap().len(), 1);
    let late = world.store.store_aliases(session, part("late")).await;
    assert!(matches!(late, Err(RecordError::Closed { .. })), "{late:?}");
}

#[tokio::test]
async fn a_session_of_nobody_keeps_nothing() {
    let world = world().await;
    let unknown = world
        .store
        .store_aliases(SessionId::generate().unwrap(), part("x"))
        .await;
    assert!(matches!(unknown, Err(RecordError::NotOwned { .. })), "{unknown:?}");
}
