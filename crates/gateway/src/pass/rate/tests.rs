use std::time::{Duration, Instant};

use ringfence_policy::{Ceiling, Draft, History, Policy};
use serde_json::json;

use super::Rates;

fn policy(text: &str) -> Policy {
    Draft::parse(text, "t").unwrap().under(&Ceiling::own_word()).unwrap()
}

#[test]
fn a_rate_fills_and_empties_by_its_window() {
    let policy = policy("tools: { rules: [{ allow: 'a.*', rate: 2/min }] }");
    let rates = policy.rates(&"a.b".parse().unwrap(), &json!({}), &History::new());
    let (mut counted, start) = (Rates::default(), Instant::now());
    assert!(counted.take(&rates, start).is_ok());
    assert!(counted.take(&rates, start + Duration::from_secs(10)).is_ok());
    let (rule, _, wait) = counted.take(&rates, start + Duration::from_secs(20)).unwrap_err();
    assert_eq!((rule.as_str(), wait), ("tools.rules[0]", Duration::from_secs(40)));
    assert!(counted.take(&rates, start + Duration::from_mins(1)).is_ok());
    assert!(counted.take(&rates, start + Duration::from_secs(61)).is_err());
}

#[test]
fn a_call_that_one_rule_refuses_counts_under_none() {
    let policy = policy("tools: { rules: [{ allow: 'a.*', rate: 9/min }, { allow: 'a.b', rate: 1/min }] }");
    let rates = policy.rates(&"a.b".parse().unwrap(), &json!({}), &History::new());
    let other = policy.rates(&"a.c".parse().unwrap(), &json!({}), &History::new());
    let (mut counted, now) = (Rates::default(), Instant::now());
    assert!(counted.take(&rates, now).is_ok());
    for _ in 0..20 {
        assert!(counted.take(&rates, now).is_err());
    }
    for _ in 0..8 {
        assert!(counted.take(&other, now).is_ok());
    }
    assert!(counted.take(&other, now).is_err());
}
