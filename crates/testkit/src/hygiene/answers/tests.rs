//! The labelled answers, and how the default detector treats them.

use std::collections::BTreeSet;

use super::{default_detector, labelled_answers, sets, tally};

#[test]
fn every_label_names_a_value() {
    let answers = labelled_answers().unwrap();
    assert!(answers.len() >= 400, "{}", answers.len());
    for one in &answers {
        for label in one.hide.iter().chain(&one.either) {
            let value = one.answer.pointer(label);
            let there = match one.answer.as_str() {
                Some(text) => text.contains(label.as_str()),
                None => value.is_some_and(|value| value.is_string() || value.is_number()),
            };
            assert!(there, "{label} in {}", one.answer);
        }
    }
    let things = answers.iter().filter(|one| one.hide.is_empty()).count();
    let about: BTreeSet<&str> = answers.iter().map(|one| one.about.as_str()).collect();
    assert!(
        things >= 200 && answers.len() - things >= 100 && about.len() >= 20,
        "{things}"
    );
}

#[test]
fn at_most_one_value_of_two_hundred_is_hidden_wrongly_and_people_are_hidden() {
    for (name, answers) in sets().unwrap() {
        let tally = tally(&default_detector(), &answers);
        assert!(tally.answers >= 100, "{name}");
        assert!(tally.wrong_share() <= 1.0 / 200.0, "{name}: {:#?}", tally.wrong);
        assert!(tally.precision() >= 0.98, "{name}: {:#?}", tally.wrong);
        assert!(tally.recall() >= 0.98, "{name}: {:#?}", tally.missed);
    }
}
