use super::{IssuedRefusals, MAX_BYTES};
use crate::call_port::ToolRefusal;

fn refusal(message: &str) -> ToolRefusal {
    ToolRefusal {
        code: "tool.denied".to_owned(),
        message: message.to_owned(),
        rule: Some("tools.default".to_owned()),
        hint: None,
        retry_after_ms: None,
    }
}

#[test]
fn only_what_was_said_to_a_call_is_known_of_it() {
    let mut issued = IssuedRefusals::default();
    issued.note(3, &refusal("no"));
    assert_eq!(issued.remove(2), None);
    assert_eq!(issued.remove(3), Some(refusal("no")));
}

#[test]
fn a_flood_of_refusals_costs_a_bounded_amount_and_the_latest_stay() {
    let mut issued = IssuedRefusals::default();
    let long = "x".repeat(1000);
    for call in 1..=10_000 {
        issued.note(call, &refusal(&long));
        assert!(issued.bytes <= MAX_BYTES);
    }
    assert!(issued.by_call.len() < 300);
    assert_eq!((issued.remove(1), issued.remove(10_000)), (None, Some(refusal(&long))));
}
