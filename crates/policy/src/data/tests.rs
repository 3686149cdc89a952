use std::num::NonZeroU32;

use super::*;
use crate::{Ceiling, Draft, Policy, ToolName};

fn draft(text: &str) -> Draft {
    Draft::parse(text, "x").unwrap()
}

fn own_word(text: &str) -> Policy {
    draft(text).under(&Ceiling::unlimited()).unwrap()
}

#[track_caller]
fn reveals(rules: &DataRules, tools: &[(&str, bool)]) {
    for (tool, expected) in tools {
        let name: ToolName = tool.parse().unwrap();
        assert_eq!(rules.reveals(&name), *expected, "{tool}");
    }
}

const STRICT: &str = "data: { pii: { mode: block, inside: alias, names: dictionary, kinds: [email, ip], reveal_to: ['crm.*', mail.send], own: [{ name: badge, pattern: 'B-\\d+' }] }, secrets: redact, return: { bytes: 1KiB, rows: 5 } }";

#[test]
fn what_a_file_says_of_data_holds() {
    let rules = own_word(
        "data: { pii: { mode: 'off', inside: real, names: keys, kinds: [email], reveal_to: ['crm.*'] }, secrets: 'off', return: { bytes: 1MiB, rows: 9 } }",
    )
    .data_rules();
    assert_eq!(
        (rules.pii, rules.inside, rules.names),
        (PiiMode::Off, PiiInside::Real, PiiNames::Keys)
    );
    assert_eq!(rules.kinds, [PiiKind::Email]);
    assert_eq!(rules.own, []);
    assert_eq!(rules.secrets, SecretMode::Off);
    assert_eq!((rules.bytes, rules.rows), (Some(ByteSize::mib(1)), NonZeroU32::new(9)));
    reveals(&rules, &[("crm.get", true), ("mail.send", false)]);
}

#[test]
fn where_nothing_is_written_personal_data_and_secrets_are_hidden() {
    let rules = own_word("").data_rules();
    assert_eq!(
        (rules.pii, rules.inside, rules.names),
        (PiiMode::Alias, PiiInside::Alias, PiiNames::Keys)
    );
    assert_eq!(rules.kinds, PiiKind::DEFAULT);
    assert_eq!(rules.secrets, SecretMode::Redact);
    reveals(&rules, &[("crm.get", false)]);
}

#[test]
fn a_ceiling_holds_for_every_key_that_is_left_out() {
    let ceiling = Ceiling::from_draft(draft(STRICT));
    let rules = Draft::empty().under(&ceiling).unwrap().data_rules();
    assert_eq!((rules.pii, rules.names), (PiiMode::Block, PiiNames::Dictionary));
    assert_eq!(rules.own.len(), 1);
    assert_eq!(rules.own[0].name, "badge");
    assert_eq!((rules.bytes, rules.rows), (Some(ByteSize::kib(1)), NonZeroU32::new(5)));
    assert!(
        [PiiKind::Email, PiiKind::Ip]
            .iter()
            .all(|kind| rules.kinds.contains(kind))
    );
    // The ceiling allows tools to get real values, but the draft does not request it.
    reveals(&rules, &[("crm.get", false), ("mail.send", false)]);
}

#[test]
fn own_kinds_of_the_ceiling_hold_and_may_be_repeated() {
    let ceiling = Ceiling::from_draft(draft(STRICT));
    let asked = draft("data: { pii: { own: [{ name: badge, pattern: 'B-\\d+' }] } }");
    let policy = asked.under(&ceiling).unwrap();
    let below = policy
        .to_draft()
        .layer(&Draft::empty())
        .under(&Ceiling::from_policy(&policy))
        .unwrap();
    for policy in [&policy, &below] {
        let rules = policy.data_rules();
        let names: Vec<&str> = rules.own.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["badge"]);
    }
}

#[test]
fn a_request_adds_no_kinds_of_its_own() {
    let letters = "{ name: x, pattern: '(?<value>[A-Za-z0-9])' }";
    // The request chooses an operator's kind name with another expression or another check, which makes it a kind of the request.
    for (top, asked) in [
        (STRICT, letters),
        (STRICT, "{ name: badge, pattern: '.' }"),
        (STRICT, "{ name: badge, pattern: 'B-\\d+', check: luhn }"),
        ("data: { pii: { mode: alias } }", letters),
        ("", letters),
    ] {
        let ceiling = Ceiling::from_draft(draft(top));
        let asked = draft(&format!("data: {{ pii: {{ own: [{asked}] }} }}"));
        let error = asked.under(&ceiling).unwrap_err();
        assert_eq!(error.keys[0].key, "data.pii.own[0]");
    }
    let policy = own_word("");
    let asked = draft(&format!("data: {{ pii: {{ own: [{letters}] }} }}"));
    let error = policy
        .to_draft()
        .layer(&asked)
        .under(&Ceiling::from_policy(&policy))
        .unwrap_err();
    assert_eq!(error.keys[0].key, "data.pii.own[0]");
}

#[test]
fn a_tool_gets_real_values_where_policy_and_every_ceiling_name_it() {
    let top = Ceiling::from_draft(draft(STRICT));
    let policy = draft("data: { pii: { reveal_to: [crm.get, mail.send] } }")
        .under(&top)
        .unwrap();
    reveals(
        &policy.data_rules(),
        &[
            ("crm.get", true),
            ("mail.send", true),
            ("crm.put", false),
            ("web.get", false),
        ],
    );
    // A request below it is measured against both ceilings.
    let request =
        |list: &str| draft(&format!("data: {{ pii: {{ reveal_to: {list} }} }}")).under(&Ceiling::from_policy(&policy));
    let error = request("[crm.put]").unwrap_err();
    assert_eq!(error.keys[0].key, "data.pii.reveal_to[0]");
    let rules = request("[crm.get]").unwrap().data_rules();
    reveals(&rules, &[("crm.get", true), ("mail.send", false)]);
    // A missing list equals an empty one, also in a ceiling.
    let error = draft("data: { pii: { reveal_to: [crm.get] } }")
        .under(&Ceiling::from_draft(draft("data: { pii: { mode: alias } }")))
        .unwrap_err();
    assert_eq!(error.keys[0].key, "data.pii.reveal_to[0]");
    assert!(
        draft("data: { pii: { reveal_to: [crm.get] } }")
            .under(&Ceiling::from_draft(Draft::empty()))
            .is_err()
    );
}

#[test]
fn the_strictest_word_of_all_layers_holds() {
    let top = Ceiling::from_draft(draft(
        "data: { pii: { mode: alias, kinds: [email] }, return: { rows: 50 } }",
    ));
    let policy = draft("data: { pii: { mode: block, kinds: [email, card] }, return: { rows: 20 } }")
        .under(&top)
        .unwrap();
    let request = draft("data: { return: { rows: 10 } }");
    let rules = policy
        .to_draft()
        .layer(&request)
        .under(&Ceiling::from_policy(&policy))
        .unwrap()
        .data_rules();
    assert_eq!(rules.pii, PiiMode::Block);
    assert_eq!(rules.kinds, [PiiKind::Email, PiiKind::Card]);
    assert_eq!(rules.rows, NonZeroU32::new(10));
    let weaker = draft("data: { pii: { mode: 'off' } }");
    let error = policy
        .to_draft()
        .layer(&weaker)
        .under(&Ceiling::from_policy(&policy))
        .unwrap_err();
    assert_eq!(error.keys[0].key, "data.pii.mode");
}

#[test]
fn a_document_adds_at_most_so_many_kinds() {
    let kinds = |count: usize| {
        let one = |index: usize| format!("{{ name: badge, pattern: 'B{index}-' }}");
        let all: Vec<String> = (0..count).map(one).collect();
        format!("data: {{ pii: {{ own: [{}] }} }}", all.join(", "))
    };
    assert!(Draft::parse(&kinds(32), "x").is_ok());
    let error = Draft::parse(&kinds(33), "x").unwrap_err().to_string();
    assert_eq!(error, "x:1:21: `data.pii.own`: 33 kinds of one's own, the most is 32");
}

#[test]
fn own_kinds_are_written_as_they_were_read() {
    let first = draft(STRICT);
    let text = first.to_yaml().unwrap();
    assert_eq!(Draft::parse(&text, "x"), Ok(first));
}

#[test]
fn every_kind_is_its_word() {
    for kind in PiiKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
}

#[test]
fn a_skill_never_gets_real_values() {
    let policy = own_word("data: { pii: { reveal_to: ['**'] } }");
    reveals(&policy.data_rules(), &[("mail.send", true), ("skills.send-it", false)]);
}
