use std::time::{Duration, Instant};

use ringfence_policy::{CallHistory, Ceiling, Draft, Policy, ToolHints};
use serde_json::json;

use super::{MeteredRate, RateBuckets, RateExhausted};

fn policy(text: &str) -> Policy {
    Draft::parse(text, "t").unwrap().under(&Ceiling::unlimited()).unwrap()
}

fn metered(policy: &Policy, tool: &str) -> Vec<MeteredRate> {
    let rates = policy.rates(
        &tool.parse().unwrap(),
        ToolHints::none(),
        &json!({}),
        &CallHistory::new(),
    );
    let metered = |(rule, rate)| MeteredRate {
        rule,
        key: String::new(),
        rate,
    };
    rates.into_iter().map(metered).collect()
}

fn take(rates: &mut RateBuckets, metered: &[MeteredRate], now: Instant) -> Result<(), RateExhausted> {
    rates.check_capacity(metered, now)?;
    rates.count(metered, now)
}

#[test]
fn a_rate_is_used_up_and_fills_evenly() {
    let policy = policy("tools: { rules: [{ allow: 'a.*', rate: 2/min }] }");
    let rates = metered(&policy, "a.b");
    let (mut counted, start) = (RateBuckets::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    assert!(take(&mut counted, &rates, at(0)).is_ok());
    assert!(take(&mut counted, &rates, at(0)).is_ok());
    let full = take(&mut counted, &rates, at(10)).unwrap_err();
    assert_eq!(
        (full.rule.as_str(), full.wait),
        ("tools.rules[0]", Duration::from_secs(20))
    );
    assert!(take(&mut counted, &rates, at(30)).is_ok());
    assert!(take(&mut counted, &rates, at(31)).is_err());
    for _ in 0..2 {
        assert!(take(&mut counted, &rates, at(200)).is_ok());
    }
    assert!(take(&mut counted, &rates, at(200)).is_err());
}

#[test]
fn whoever_waits_as_told_finds_room() {
    let policy = policy("tools: { rules: [{ allow: 'a.*', rate: 7/s }] }");
    let rates = metered(&policy, "a.b");
    let (mut counted, mut now) = (RateBuckets::default(), Instant::now());
    for _ in 0..50 {
        if let Err(full) = take(&mut counted, &rates, now) {
            assert!(full.wait > Duration::ZERO);
            assert!(take(&mut counted, &rates, now + full.wait / 2).is_err());
            now += full.wait;
            assert!(take(&mut counted, &rates, now).is_ok());
        }
    }
}

#[test]
fn a_call_that_one_rule_refuses_counts_under_none() {
    let policy = policy("tools: { rules: [{ allow: 'a.*', rate: 9/min }, { allow: 'a.b', rate: 1/min }] }");
    let (rates, other) = (metered(&policy, "a.b"), metered(&policy, "a.c"));
    let (mut counted, now) = (RateBuckets::default(), Instant::now());
    assert!(take(&mut counted, &rates, now).is_ok());
    for _ in 0..20 {
        assert!(take(&mut counted, &rates, now).is_err());
    }
    for _ in 0..8 {
        assert!(take(&mut counted, &other, now).is_ok());
    }
    assert!(take(&mut counted, &other, now).is_err());
}

#[test]
fn a_set_is_idle_when_its_longest_window_has_passed() {
    let policy = policy("tools: { rules: [{ allow: 'a.*', rate: 2/min }] }");
    let (mut counted, now) = (RateBuckets::default(), Instant::now());
    take(&mut counted, &metered(&policy, "a.b"), now).unwrap();
    assert!(!counted.is_idle(now + Duration::from_secs(59)));
    assert!(counted.is_idle(now + Duration::from_secs(61)));
}

#[test]
fn a_call_of_an_earlier_process_still_counts() {
    let policy = policy("tools: { rules: [{ allow: 'a.*', rate: 2/min }] }");
    let rates = metered(&policy, "a.b");
    let mut counted = RateBuckets::default();
    let start = Instant::now();
    let ago = Duration::from_secs;
    // Long ago, just now, and too long ago for any rate.
    for ago in [ago(10_000), ago(3_000), ago(10), ago(0), ago(0)] {
        counted.remember(&rates, ago);
    }
    let full = take(&mut counted, &rates, start).unwrap_err();
    assert!(
        full.wait > Duration::from_secs(15) && full.wait <= Duration::from_secs(30),
        "{full:?}"
    );
    assert!(take(&mut counted, &rates, start + full.wait + Duration::from_secs(1)).is_ok());
    let mut old = RateBuckets::default();
    for _ in 0..3 {
        old.remember(&rates, ago(90));
    }
    assert!(take(&mut old, &rates, start).is_ok());
    assert!(take(&mut old, &rates, start).is_ok());
}
