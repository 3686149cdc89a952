use std::sync::mpsc;
use std::time::Duration;

use super::*;

#[tokio::test]
async fn one_principal_does_not_keep_another_waiting() {
    let work = Arc::new(HostWork::default());
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let mut greedy = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (work, held) = (Arc::clone(&work), Arc::clone(&held));
        greedy.spawn(async move {
            work.run(Principal::Local(1), move || held.lock().unwrap().recv().is_ok())
                .await
        });
    }
    tokio::task::yield_now().await;
    let other = work.run(Principal::Local(2), || "done");
    let other = tokio::time::timeout(Duration::from_mins(1), other).await.unwrap();
    assert_eq!(other.unwrap(), "done");
    for _ in 0..64 {
        release.send(()).unwrap();
    }
    while let Some(done) = greedy.join_next().await {
        assert!(done.unwrap().unwrap());
    }
}

#[tokio::test]
async fn work_does_not_keep_the_thread_that_serves() {
    let work = HostWork::default();
    let (release, held) = mpsc::channel::<()>();
    // This runtime has one thread: work on it would block the task that releases it.
    let slow = work.run(Principal::Local(1), move || held.recv().is_ok());
    let serve = async { release.send(()).unwrap() };
    let (done, ()) = tokio::join!(slow, serve);
    assert!(done.unwrap());
}

#[tokio::test]
async fn a_folder_is_removed_in_as_many_turns_as_it_takes() {
    let work = HostWork::default();
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("much");
    for group in 0..4 {
        let inner = folder.join(group.to_string());
        std::fs::create_dir_all(&inner).unwrap();
        for number in 0..MAX_REMOVALS_PER_TURN / 3 {
            std::fs::write(inner.join(number.to_string()), "").unwrap();
        }
    }
    work.remove_folder(&folder).await.unwrap();
    assert!(!folder.exists());
}
