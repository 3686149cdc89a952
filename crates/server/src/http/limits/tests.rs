use super::*;

fn accounts(requests: usize, rate: u32) -> Arc<PrincipalAccounts> {
    Arc::new(PrincipalAccounts::new(&HttpLimits {
        requests,
        rate,
        ..HttpLimits::default()
    }))
}

#[test]
fn a_place_is_given_back_and_others_have_their_own() {
    let accounts = accounts(2, 1000);
    let (me, other) = (Principal::Local(1), Principal::Local(2));
    let now = Instant::now();
    let places = [accounts.admit(me, now).unwrap(), accounts.admit(me, now).unwrap()];
    assert!(accounts.admit(me, now).is_err());
    assert!(accounts.admit(other, now).is_ok());
    drop(places);
    assert!(accounts.admit(me, now).is_ok());
}

#[test]
fn a_burst_of_two_seconds_then_the_rate() {
    let accounts = accounts(100, 10);
    let me = Principal::Local(1);
    let start = Instant::now();
    for _ in 0..20 {
        accounts.admit(me, start).unwrap();
    }
    assert!(accounts.admit(me, start).is_err());
    let later = start + Duration::from_millis(100);
    assert!(accounts.admit(me, later).is_ok());
    assert!(accounts.admit(me, later).is_err());
    // A long pause adds no more than the burst.
    let day = start + Duration::from_hours(24);
    assert_eq!((0..100).filter(|_| accounts.admit(me, day).is_ok()).count(), 20);
}
