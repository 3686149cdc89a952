//! Checks that the tables of the specification are consistent.

use super::{
    ActionEffect, COMPANY, Entity, EntityField, FieldChange, FieldKind, FieldOrigin, SeedRule, entity_position,
};
use crate::store::link_targets;

#[test]
fn links_lead_to_an_earlier_entity_or_the_same() {
    for (at, entity) in COMPANY.iter().enumerate() {
        for target in link_targets(entity.fields) {
            assert!(
                entity_position(target).is_some_and(|target| target <= at),
                "{}: {target}",
                entity.many
            );
        }
    }
}

#[test]
fn a_field_that_may_be_left_out_has_something_to_hold() {
    fn check(owner: &str, fields: &[EntityField]) {
        for field in fields {
            let worked_out = matches!(field.seed, SeedRule::Through(..) | SeedRule::Sum(..));
            let held = field.origin == FieldOrigin::Required || field.nullable || worked_out;
            let blank = crate::value::blank_value(field);
            assert!(
                held || blank != crate::value::FieldValue::Null,
                "{owner}.{}",
                field.name
            );
            if let FieldKind::Part(inner) | FieldKind::Parts(inner) = field.kind {
                check(owner, inner);
            }
        }
    }
    for entity in COMPANY {
        check(entity.many, entity.fields);
    }
}

#[test]
fn names_in_acts_and_rules_exist() {
    let has = |entity: &Entity, name: &str| assert!(entity.field(name).is_some(), "{}.{name}", entity.many);
    for entity in COMPANY {
        entity.under.iter().for_each(|link| has(entity, link));
        for act in entity.actions {
            act.only.iter().for_each(|(field, _)| has(entity, field));
            let ActionEffect::Set(sets) = act.effect else { continue };
            for set in sets {
                let (FieldChange::To(name, _)
                | FieldChange::Clear(name)
                | FieldChange::Now(name)
                | FieldChange::Given(name)
                | FieldChange::Flag(name, _)) = set;
                has(entity, name);
            }
        }
    }
}

#[test]
fn ids_are_read_as_they_are_written() {
    let entity = &COMPANY[0];
    for number in [1, 999, 9_999, 10_000, 123_456] {
        assert_eq!(entity.number(&entity.id(number)), Some(number));
    }
    for strange in [
        "",
        "TEA",
        "TEA-1",
        "TEA-00001",
        "TEA-abcd",
        "PER-0001",
        "TEA-1234567890",
        "TEA-+001",
    ] {
        assert_eq!(entity.number(strange), None, "{strange}");
    }
}
