use super::*;

#[test]
fn it_stays_awake_for_a_moment_and_gives_up_when_that_was_in_vain() {
    let mut awake = Awake::default();
    assert!(!awake.is_awake());
    awake.answered();
    assert!(awake.until.is_some());
    awake.heard();
    assert!(!awake.is_awake() && awake.pause == 0);
    awake.answered();
    std::thread::sleep(2 * MOMENT);
    assert!(!awake.is_awake());
    for _ in 0..PAUSE {
        awake.answered();
        assert!(!awake.is_awake());
    }
    awake.answered();
    assert!(awake.until.is_some());
}
