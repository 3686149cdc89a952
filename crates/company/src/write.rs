//! The tools that change records, only in the memory of this process.

use serde_json::{Map, Value, json};

use crate::call::CompanyFault;
use crate::params::{CheckedArgument, ParamRole};
use crate::read::{find_row, id_argument, record_json};
use crate::schema::changed_fields;
use crate::seed::derive_value;
use crate::spec::{
    ActionEffect, Entity, EntityAction, EntityField, FieldChange, FieldKind, FieldOrigin, SeedRule, entity_position,
    find_entity,
};
use crate::store::{CompanyStore, RecordTable};
use crate::value::{FieldValue, SECONDS_PER_DAY, blank_value, format_time};

/// Adds a record with the given values and the defaults of all other fields; returns it.
pub(crate) fn create_record(
    store: &mut CompanyStore,
    entity: &'static Entity,
    given: &[CheckedArgument],
) -> Result<Value, CompanyFault> {
    let mut cells: Vec<_> = entity.fields.iter().map(blank_value).collect();
    set_values(&mut cells, given);
    add_record(store, entity, cells)
}

fn add_record(
    store: &mut CompanyStore,
    entity: &'static Entity,
    mut cells: Vec<FieldValue>,
) -> Result<Value, CompanyFault> {
    check_links(store, entity.fields, &cells)?;
    update_derived(store.tables(), entity, &mut cells, |_| true);
    let now = store.next_time();
    let row = store.table_mut(entity.many).and_then(|table| table.add(now, cells));
    row.map(|row| record_json(entity, row))
        .ok_or_else(|| CompanyFault::Full {
            entity: entity.spoken_name(),
        })
}

/// Other values for some fields.
pub(crate) fn update_record(
    store: &mut CompanyStore,
    entity: &'static Entity,
    given: &[CheckedArgument],
) -> Result<Value, CompanyFault> {
    let number = id_argument(given);
    let mut cells = find_row(store, entity, number)?.cells.clone();
    let places: Vec<_> = given
        .iter()
        .filter_map(|it| {
            if let ParamRole::Value(at) = it.role {
                Some(at)
            } else {
                None
            }
        })
        .collect();
    if places.is_empty() {
        return Err(CompanyFault::NoChange);
    }
    set_values(&mut cells, given);
    check_links(store, entity.fields, &cells)?;
    let touched = |name: &str| entity.field(name).is_some_and(|(at, _)| places.contains(&at));
    update_derived(store.tables(), entity, &mut cells, touched);
    replace_values(store, entity, number, cells)?;
    find_row(store, entity, number).map(|row| record_json(entity, row))
}

/// Removes the record that the `id` argument names; fails while other records link to it.
pub(crate) fn delete_record(
    store: &mut CompanyStore,
    entity: &'static Entity,
    given: &[CheckedArgument],
) -> Result<Value, CompanyFault> {
    let number = id_argument(given);
    find_row(store, entity, number)?;
    // Tables that link to the record may not be loaded yet.
    store.load_all();
    let id = entity.id(number);
    if let Some((other, count)) = store.count_links(entity.many, number) {
        return Err(CompanyFault::Linked {
            id,
            count,
            many: other.many,
        });
    }
    let gone = store.table_mut(entity.many).and_then(|table| table.remove(number));
    Ok(json!({ "id": id, "deleted": gone.is_some() }))
}

/// Runs an action of the specification on one record.
pub(crate) fn run_action(
    store: &mut CompanyStore,
    owner: &'static Entity,
    act: &'static EntityAction,
    given: &[CheckedArgument],
) -> Result<Value, CompanyFault> {
    let number = id_argument(given);
    let mut cells = find_row(store, owner, number)?.cells.clone();
    check_allowed(owner, act, number, &cells)?;
    match act.effect {
        ActionEffect::Add(many, link) => {
            let target = find_entity(many).ok_or(CompanyFault::NoChange)?;
            if let Some(at) = entity_position(many) {
                store.load_table(at);
            }
            let mut fresh: Vec<_> = target.fields.iter().map(blank_value).collect();
            set_values(&mut fresh, given);
            if let Some(cell) = target.field(link).and_then(|(at, _)| fresh.get_mut(at)) {
                *cell = FieldValue::Link(number);
            }
            add_record(store, target, fresh)
        }
        ActionEffect::Set(sets) => {
            check_argument_links(store, act.takes, given)?;
            apply_changes(owner, act, sets, given, &mut cells);
            let second = replace_values(store, owner, number, cells.clone())?;
            let mut answer = Map::new();
            answer.insert("id".into(), owner.id(number).into());
            for (at, field) in changed_fields(owner, sets) {
                answer.insert(
                    field.name.into(),
                    cells.get(at).map_or(Value::Null, |cell| cell.to_json(field.kind)),
                );
            }
            answer.insert("updated_at".into(), format_time(second).into());
            Ok(Value::Object(answer))
        }
    }
}

fn check_allowed(
    owner: &'static Entity,
    act: &EntityAction,
    number: u32,
    cells: &[FieldValue],
) -> Result<(), CompanyFault> {
    let Some((field, words)) = act.only else { return Ok(()) };
    let now = owner
        .field(field)
        .and_then(|(at, _)| cells.get(at))
        .and_then(FieldValue::text)
        .unwrap_or("null");
    if words.contains(&now) {
        return Ok(());
    }
    Err(CompanyFault::NotNow {
        id: owner.id(number),
        field,
        now: now.to_owned(),
        only: words.join("` or `"),
    })
}

fn apply_changes(
    owner: &'static Entity,
    act: &EntityAction,
    sets: &[FieldChange],
    given: &[CheckedArgument],
    cells: &mut [FieldValue],
) {
    let taken = |name: &str| {
        let at = act.takes.iter().position(|field| field.name == name)?;
        crate::read::argument_value(given, ParamRole::Taken(at)).cloned()
    };
    for set in sets {
        let (name, cell) = match set {
            FieldChange::To(name, word) => (name, Some(FieldValue::Word(word))),
            FieldChange::Clear(name) => (name, Some(FieldValue::Null)),
            FieldChange::Flag(name, flag) => (name, Some(FieldValue::Flag(*flag))),
            FieldChange::Given(name) => (name, taken(name)),
            FieldChange::Now(name) => {
                let day = owner
                    .field(name)
                    .is_some_and(|(_, field)| matches!(field.kind, FieldKind::Day));
                let now = crate::seed::COMPANY_NOW;
                (
                    name,
                    Some(if day {
                        FieldValue::Day(now.div_euclid(SECONDS_PER_DAY))
                    } else {
                        FieldValue::Time(now)
                    }),
                )
            }
        };
        let target = owner.field(name).and_then(|(at, _)| cells.get_mut(at));
        if let (Some(target), Some(cell)) = (target, cell) {
            *target = cell;
        }
    }
}

fn set_values(cells: &mut [FieldValue], given: &[CheckedArgument]) {
    for argument in given {
        if let ParamRole::Value(at) = argument.role
            && let Some(cell) = cells.get_mut(at)
        {
            *cell = argument.cell.clone();
        }
    }
}

fn replace_values(
    store: &mut CompanyStore,
    entity: &Entity,
    number: u32,
    cells: Vec<FieldValue>,
) -> Result<i64, CompanyFault> {
    let now = store.next_time();
    let row = store.table_mut(entity.many).and_then(|table| table.row_mut(number));
    let row = row.ok_or_else(|| CompanyFault::NoRecord {
        entity: entity.spoken_name(),
        id: entity.id(number),
        many: entity.many,
    })?;
    row.cells = cells;
    row.changed = now;
    Ok(now)
}

/// Recomputes the fields that follow from a changed field.
fn update_derived(tables: &[RecordTable], entity: &Entity, cells: &mut [FieldValue], touched: impl Fn(&str) -> bool) {
    for (at, field) in entity
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| field.origin == FieldOrigin::Managed)
    {
        let (SeedRule::Through(source, _) | SeedRule::Sum(source, ..)) = field.seed else {
            continue;
        };
        if touched(source)
            && let Some(fresh) = derive_value(tables, field, entity.fields, cells)
            && let Some(cell) = cells.get_mut(at)
        {
            *cell = fresh;
        }
    }
}

/// Checks that every link among these values leads to an existing record.
fn check_links(store: &CompanyStore, fields: &[EntityField], cells: &[FieldValue]) -> Result<(), CompanyFault> {
    fields
        .iter()
        .zip(cells)
        .try_for_each(|(field, cell)| match (field.kind, cell) {
            (FieldKind::Link(many) | FieldKind::Links(many), FieldValue::Link(number)) => match find_entity(many) {
                Some(target) => find_row(store, target, *number).map(|_| ()),
                None => Ok(()),
            },
            (FieldKind::Links(_), FieldValue::Many(cells)) => cells
                .iter()
                .try_for_each(|cell| check_links(store, &[*field], std::slice::from_ref(cell))),
            (FieldKind::Part(inner), FieldValue::Part(cells)) => check_links(store, inner, cells),
            (FieldKind::Parts(inner), FieldValue::Many(parts)) => parts
                .iter()
                .try_for_each(|part| check_links(store, inner, part.children())),
            _ => Ok(()),
        })
}

fn check_argument_links(
    store: &CompanyStore,
    takes: &[EntityField],
    given: &[CheckedArgument],
) -> Result<(), CompanyFault> {
    takes.iter().enumerate().try_for_each(|(at, field)| {
        match crate::read::argument_value(given, ParamRole::Taken(at)) {
            Some(cell) => check_links(store, &[*field], std::slice::from_ref(cell)),
            None => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests;
