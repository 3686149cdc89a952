use super::*;

const LIMITS: Limits = Limits {
    connections: 2,
    per_minute: 3,
    bytes: 10,
};

#[test]
fn a_place_is_free_again_when_its_connection_is_gone() {
    let limiter = Arc::new(Limiter::default());
    let first = limiter.open(&LIMITS).unwrap();
    let _second = limiter.open(&LIMITS).unwrap();
    let over = limiter.open(&LIMITS).unwrap_err();
    assert_eq!((over.refusal.code, over.first), ("limit.connections", true));
    assert!(!limiter.open(&LIMITS).unwrap_err().first, "told once");
    drop(first);
    assert!(limiter.open(&LIMITS).is_ok());
}

#[test]
fn what_is_refused_is_not_counted() {
    let limiter = Limiter::default();
    for _ in 0..3 {
        limiter.take(&LIMITS).unwrap();
    }
    let over = limiter.take(&LIMITS).unwrap_err();
    assert_eq!((over.refusal.code, over.first), ("limit.rate", true));
    assert!(!limiter.take(&LIMITS).unwrap_err().first);
    assert_eq!(limiter.recent.lock().unwrap().len(), 3);
}

#[test]
fn the_last_byte_may_cross_and_no_more() {
    let limiter = Limiter::default();
    limiter.spend(10, &LIMITS).unwrap();
    assert_eq!(limiter.spend(1, &LIMITS).unwrap_err().code, "limit.egress");
    assert_eq!(limiter.take(&LIMITS).unwrap_err().refusal.code, "limit.egress");
}
