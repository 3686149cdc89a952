use ringfence_policy::{Ceiling, Draft};

use super::*;

fn limits(written: &str) -> NetLimits {
    let draft = Draft::parse(&format!("net: {{ limits: {{ {written} }} }}"), "t").unwrap();
    draft.under(&Ceiling::own_word()).unwrap().net_limits()
}

#[test]
fn a_place_is_free_again_when_its_connection_is_gone() {
    let limiter = Arc::new(Limiter::new(limits("connections: 2")));
    let first = limiter.open().unwrap();
    let _second = limiter.open().unwrap();
    let over = limiter.open().unwrap_err();
    assert_eq!((over.refusal.code, over.first), ("limit.connections", true));
    assert!(!limiter.open().unwrap_err().first, "told once");
    drop(first);
    assert!(limiter.open().is_ok());
}

#[test]
fn what_is_refused_is_not_counted() {
    let limiter = Limiter::new(limits("rate: 3/min"));
    for _ in 0..3 {
        limiter.take().unwrap();
    }
    let over = limiter.take().unwrap_err();
    assert_eq!((over.refusal.code, over.first), ("limit.rate", true));
    assert!(!limiter.take().unwrap_err().first);
    assert_eq!(limiter.recent.lock().unwrap().len(), 3);
}

#[test]
fn the_last_byte_may_cross_and_no_more() {
    let limiter = Limiter::new(limits("bytes: 10B"));
    limiter.spend(10).unwrap();
    assert_eq!(limiter.spend(1).unwrap_err().code, "limit.egress");
    assert_eq!(limiter.take().unwrap_err().refusal.code, "limit.egress");
}

#[test]
fn other_limits_hold_for_what_was_counted_before() {
    let limiter = Limiter::new(limits("bytes: 10B, rate: 1/min"));
    limiter.spend(8).unwrap();
    limiter.take().unwrap();
    limiter.change(limits("bytes: 9B, rate: 2/min"));
    limiter.take().unwrap();
    assert_eq!(limiter.take().unwrap_err().refusal.code, "limit.rate");
    assert!(limiter.spend(2).is_err());
}
