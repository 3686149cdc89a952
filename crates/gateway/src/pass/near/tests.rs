use super::*;

fn pause(near: &Near) -> u32 {
    near.pause.load(Ordering::Relaxed)
}

#[tokio::test]
async fn what_is_near_is_waited_for_awake_and_what_is_not_asleep() {
    let near = Near::default();
    assert_eq!(near.wait(async { 1 }).await, 1);
    assert_eq!(pause(&near), 0);
    let late = async {
        tokio::time::sleep(Duration::from_millis(2)).await;
        2
    };
    assert_eq!(near.wait(late).await, 2);
    assert_eq!(pause(&near), PAUSE);
    for left in (0..PAUSE).rev() {
        assert_eq!(near.wait(async { 3 }).await, 3);
        assert_eq!(pause(&near), left);
    }
}
