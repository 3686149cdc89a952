use super::*;

#[test]
fn pauses_double_up_to_a_minute() {
    assert_eq!(backoff_delay(1), Duration::ZERO);
    for (failures, middle) in [(2, 500), (3, 1_000), (4, 2_000), (8, 32_000), (9, 60_000), (40, 60_000)] {
        let pause = backoff_delay(failures).as_millis();
        assert!(
            pause >= middle * 3 / 4 && pause <= middle * 5 / 4,
            "{failures}: {pause}"
        );
    }
}

#[test]
fn what_the_operator_must_mend_has_no_pause() {
    let mut state = UpstreamState {
        connection: UpstreamLinkState::Idle,
        failures: 5,
    };
    state.note_failure(ServerError::Login { server: "a".to_owned() }, Duration::ZERO);
    assert!(matches!(state.connection, UpstreamLinkState::Idle));
    assert_eq!(state.failures, 0);
}

#[test]
fn a_long_life_forgives() {
    let mut state = UpstreamState {
        connection: UpstreamLinkState::Idle,
        failures: 5,
    };
    let closed = ServerError::Closed {
        server: "a".to_owned(),
        detail: String::new(),
    };
    state.note_failure(closed, MIN_STABLE_LIFETIME);
    assert_eq!(state.failures, 1);
}
