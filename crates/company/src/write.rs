//! The tools that change records, only in the memory of this process.

use serde_json::{Map, Value, json};

use crate::call::Fault;
use crate::cell::{Cell, DAY, blank, moment};
use crate::param::{Argument, Role};
use crate::read::{number, record, row};
use crate::schema::changed;
use crate::seed::derived;
use crate::spec::{Act, Effect, Entity, Field, Given, Kind, Make, Set, entity, place};
use crate::store::{Store, Table};

/// Adds a record with the given values and the defaults of all other fields; returns it.
pub(crate) fn create(store: &mut Store, entity: &'static Entity, given: &[Argument]) -> Result<Value, Fault> {
    let mut cells: Vec<_> = entity.fields.iter().map(blank).collect();
    put(&mut cells, given);
    add(store, entity, cells)
}

fn add(store: &mut Store, entity: &'static Entity, mut cells: Vec<Cell>) -> Result<Value, Fault> {
    known(store, entity.fields, &cells)?;
    follow(store.tables(), entity, &mut cells, |_| true);
    let now = store.tick();
    let row = store.table_mut(entity.many).and_then(|table| table.add(now, cells));
    row.map(|row| record(entity, row)).ok_or_else(|| Fault::Full {
        entity: entity.spoken(),
    })
}

/// Other values for some fields.
pub(crate) fn update(store: &mut Store, entity: &'static Entity, given: &[Argument]) -> Result<Value, Fault> {
    let number = number(given);
    let mut cells = row(store, entity, number)?.cells.clone();
    let places: Vec<_> = given
        .iter()
        .filter_map(|it| if let Role::Value(at) = it.role { Some(at) } else { None })
        .collect();
    if places.is_empty() {
        return Err(Fault::NoChange);
    }
    put(&mut cells, given);
    known(store, entity.fields, &cells)?;
    let touched = |name: &str| entity.field(name).is_some_and(|(at, _)| places.contains(&at));
    follow(store.tables(), entity, &mut cells, touched);
    replace(store, entity, number, cells)?;
    row(store, entity, number).map(|row| record(entity, row))
}

/// Removes the record that the `id` argument names; fails while other records link to it.
pub(crate) fn delete(store: &mut Store, entity: &'static Entity, given: &[Argument]) -> Result<Value, Fault> {
    let number = number(given);
    row(store, entity, number)?;
    // Tables that link to the record may not be loaded yet.
    store.ready_all();
    let id = entity.id(number);
    if let Some((other, count)) = store.linked(entity.many, number) {
        return Err(Fault::Linked {
            id,
            count,
            many: other.many,
        });
    }
    let gone = store.table_mut(entity.many).and_then(|table| table.remove(number));
    Ok(json!({ "id": id, "deleted": gone.is_some() }))
}

/// Runs an action of the specification on one record.
pub(crate) fn act(
    store: &mut Store,
    owner: &'static Entity,
    act: &'static Act,
    given: &[Argument],
) -> Result<Value, Fault> {
    let number = number(given);
    let mut cells = row(store, owner, number)?.cells.clone();
    allowed(owner, act, number, &cells)?;
    match act.effect {
        Effect::Add(many, link) => {
            let target = entity(many).ok_or(Fault::NoChange)?;
            if let Some(at) = place(many) {
                store.ready(at);
            }
            let mut fresh: Vec<_> = target.fields.iter().map(blank).collect();
            put(&mut fresh, given);
            if let Some(cell) = target.field(link).and_then(|(at, _)| fresh.get_mut(at)) {
                *cell = Cell::Link(number);
            }
            add(store, target, fresh)
        }
        Effect::Set(sets) => {
            known_arguments(store, act.takes, given)?;
            apply(owner, act, sets, given, &mut cells);
            let second = replace(store, owner, number, cells.clone())?;
            let mut answer = Map::new();
            answer.insert("id".into(), owner.id(number).into());
            for (at, field) in changed(owner, sets) {
                answer.insert(
                    field.name.into(),
                    cells.get(at).map_or(Value::Null, |cell| cell.show(field.kind)),
                );
            }
            answer.insert("updated_at".into(), moment(second).into());
            Ok(Value::Object(answer))
        }
    }
}

fn allowed(owner: &'static Entity, act: &Act, number: u32, cells: &[Cell]) -> Result<(), Fault> {
    let Some((field, words)) = act.only else { return Ok(()) };
    let now = owner
        .field(field)
        .and_then(|(at, _)| cells.get(at))
        .and_then(Cell::text)
        .unwrap_or("null");
    if words.contains(&now) {
        return Ok(());
    }
    Err(Fault::NotNow {
        id: owner.id(number),
        field,
        now: now.to_owned(),
        only: words.join("` or `"),
    })
}

fn apply(owner: &'static Entity, act: &Act, sets: &[Set], given: &[Argument], cells: &mut [Cell]) {
    let taken = |name: &str| {
        let at = act.takes.iter().position(|field| field.name == name)?;
        crate::read::cell(given, Role::Taken(at)).cloned()
    };
    for set in sets {
        let (name, cell) = match set {
            Set::To(name, word) => (name, Some(Cell::Word(word))),
            Set::Clear(name) => (name, Some(Cell::Null)),
            Set::Flag(name, flag) => (name, Some(Cell::Flag(*flag))),
            Set::Given(name) => (name, taken(name)),
            Set::Now(name) => {
                let day = owner
                    .field(name)
                    .is_some_and(|(_, field)| matches!(field.kind, Kind::Day));
                let now = crate::seed::NOW;
                (
                    name,
                    Some(if day {
                        Cell::Day(now.div_euclid(DAY))
                    } else {
                        Cell::Time(now)
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

fn put(cells: &mut [Cell], given: &[Argument]) {
    for argument in given {
        if let Role::Value(at) = argument.role
            && let Some(cell) = cells.get_mut(at)
        {
            *cell = argument.cell.clone();
        }
    }
}

fn replace(store: &mut Store, entity: &Entity, number: u32, cells: Vec<Cell>) -> Result<i64, Fault> {
    let now = store.tick();
    let row = store.table_mut(entity.many).and_then(|table| table.row_mut(number));
    let row = row.ok_or_else(|| Fault::NoRecord {
        entity: entity.spoken(),
        id: entity.id(number),
        many: entity.many,
    })?;
    row.cells = cells;
    row.changed = now;
    Ok(now)
}

/// Recomputes the fields that follow from a changed field.
fn follow(tables: &[Table], entity: &Entity, cells: &mut [Cell], touched: impl Fn(&str) -> bool) {
    for (at, field) in entity
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| field.given == Given::Kept)
    {
        let (Make::Through(source, _) | Make::Sum(source, ..)) = field.make else {
            continue;
        };
        if touched(source)
            && let Some(fresh) = derived(tables, field, entity.fields, cells)
            && let Some(cell) = cells.get_mut(at)
        {
            *cell = fresh;
        }
    }
}

/// Checks that every link among these values leads to an existing record.
fn known(store: &Store, fields: &[Field], cells: &[Cell]) -> Result<(), Fault> {
    fields
        .iter()
        .zip(cells)
        .try_for_each(|(field, cell)| match (field.kind, cell) {
            (Kind::Link(many) | Kind::Links(many), Cell::Link(number)) => match entity(many) {
                Some(target) => row(store, target, *number).map(|_| ()),
                None => Ok(()),
            },
            (Kind::Links(_), Cell::Many(cells)) => cells
                .iter()
                .try_for_each(|cell| known(store, &[*field], std::slice::from_ref(cell))),
            (Kind::Part(inner), Cell::Part(cells)) => known(store, inner, cells),
            (Kind::Parts(inner), Cell::Many(parts)) => {
                parts.iter().try_for_each(|part| known(store, inner, part.inner()))
            }
            _ => Ok(()),
        })
}

fn known_arguments(store: &Store, takes: &[Field], given: &[Argument]) -> Result<(), Fault> {
    takes
        .iter()
        .enumerate()
        .try_for_each(|(at, field)| match crate::read::cell(given, Role::Taken(at)) {
            Some(cell) => known(store, &[*field], std::slice::from_ref(cell)),
            None => Ok(()),
        })
}

#[cfg(test)]
mod tests;
