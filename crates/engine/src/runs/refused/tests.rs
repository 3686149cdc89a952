use super::*;

#[test]
fn refusals_of_a_principal_have_a_burst_and_a_rate_and_the_rest_is_counted() {
    let (refused, now) = (RefusedRuns::default(), Instant::now());
    let (me, other) = (Principal::Local(1), Principal::Local(2));
    for _ in 0..MAX_BURST {
        assert!(!refused.is_spent(me, now));
        assert!(refused.spend(me, now));
    }
    assert!(refused.is_spent(me, now) && !refused.spend(me, now));
    assert!(refused.spend(other, now));
    for _ in 0..3 {
        assert_eq!(refused.count_unrecorded(me).code(), "limit.refused");
    }
    assert_eq!([refused.take_unrecorded(me), refused.take_unrecorded(me)], [3, 0]);
    let minute = now + Duration::from_mins(1);
    let later = (0..MAX_BURST).filter(|_| refused.spend(me, minute)).count();
    assert_eq!(later, 10);
    let day = now + Duration::from_hours(24);
    let rested = (0..=MAX_BURST).filter(|_| refused.spend(me, day)).count();
    assert_eq!(rested, MAX_BURST as usize);
}
