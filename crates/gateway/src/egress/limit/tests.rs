use ringfence_policy::{Ceiling, Draft};

use super::*;

fn limits(written: &str) -> NetLimits {
    let draft = Draft::parse(&format!("net: {{ limits: {{ {written} }} }}"), "t").unwrap();
    draft.under(&Ceiling::unlimited()).unwrap().net_limits()
}

#[test]
fn a_place_is_free_again_when_its_connection_is_gone() {
    let limiter = Arc::new(EgressLimiter::new(limits("connections: 2")));
    let first = limiter.acquire_connection().unwrap();
    let _second = limiter.acquire_connection().unwrap();
    let over = limiter.acquire_connection().unwrap_err();
    assert_eq!((over.refusal.code, over.first), ("limit.connections", true));
    assert!(!limiter.acquire_connection().unwrap_err().first, "told once");
    drop(first);
    assert!(limiter.acquire_connection().is_ok());
}

#[test]
fn what_is_refused_is_not_counted() {
    let limiter = EgressLimiter::new(limits("rate: 3/min"));
    for _ in 0..3 {
        limiter.count_request().unwrap();
    }
    let over = limiter.count_request().unwrap_err();
    assert_eq!((over.refusal.code, over.first), ("limit.rate", true));
    assert!(!limiter.count_request().unwrap_err().first);
    assert_eq!(limiter.recent.lock().unwrap().len(), 3);
}

#[test]
fn the_last_byte_may_cross_and_no_more() {
    let limiter = EgressLimiter::new(limits("bytes: 10B"));
    limiter.spend_bytes(10).unwrap();
    assert_eq!(limiter.spend_bytes(1).unwrap_err().code, "limit.egress");
    assert_eq!(limiter.count_request().unwrap_err().refusal.code, "limit.egress");
}

#[test]
fn other_limits_hold_for_what_was_counted_before() {
    let limiter = EgressLimiter::new(limits("bytes: 10B, rate: 1/min"));
    limiter.spend_bytes(8).unwrap();
    limiter.count_request().unwrap();
    limiter.set_limits(limits("bytes: 9B, rate: 2/min"));
    limiter.count_request().unwrap();
    assert_eq!(limiter.count_request().unwrap_err().refusal.code, "limit.rate");
    assert!(limiter.spend_bytes(2).is_err());
}
