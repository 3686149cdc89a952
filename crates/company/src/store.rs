//! The memory of the company: one table per entity, built when a call first needs it.

use crate::cell::Cell;
use crate::seed;
use crate::spec::{COMPANY, Entity, Field, Kind, place};

/// The maximum number of records in a table, which bounds memory against repeated creations.
const MOST_ROWS: usize = 100_000;

/// A record in memory, without the parts that follow from its entity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// The number in the id of the record.
    pub(crate) number: u32,
    /// The time of creation, in seconds since 1970.
    pub(crate) made: i64,
    /// The time of the last change, in seconds since 1970.
    pub(crate) changed: i64,
    /// The values of the record, in the order of the entity's fields.
    pub(crate) cells: Vec<Cell>,
}

/// All records of an entity, ordered by number.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    last: u32,
    made: bool,
}

/// The tables of all entities, and the count of writes that serves as a clock.
#[derive(Debug)]
pub(crate) struct Store {
    tables: Vec<Table>,
    writes: i64,
}

impl Table {
    /// Creates a table from rows that are ordered by number.
    pub(crate) fn of(rows: Vec<Row>) -> Self {
        let last = rows.last().map_or(0, |row| row.number);
        Self { rows, last, made: true }
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn row(&self, number: u32) -> Option<&Row> {
        self.rows
            .binary_search_by_key(&number, |row| row.number)
            .ok()
            .and_then(|at| self.rows.get(at))
    }

    /// Finds the row with this number for a change.
    pub(crate) fn row_mut(&mut self, number: u32) -> Option<&mut Row> {
        self.rows
            .binary_search_by_key(&number, |row| row.number)
            .ok()
            .and_then(|at| self.rows.get_mut(at))
    }

    /// Adds a record under the next number; `None` if the table is full.
    pub(crate) fn add(&mut self, now: i64, cells: Vec<Cell>) -> Option<&Row> {
        if self.rows.len() >= MOST_ROWS {
            return None;
        }
        self.last = self.last.checked_add(1)?;
        self.rows.push(Row {
            number: self.last,
            made: now,
            changed: now,
            cells,
        });
        self.rows.last()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Row> {
        self.rows
            .binary_search_by_key(&number, |row| row.number)
            .ok()
            .map(|at| self.rows.remove(at))
    }
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            tables: COMPANY.iter().map(|_| Table::default()).collect(),
            writes: 0,
        }
    }

    /// Builds the table at this position and the tables it links to, unless they exist.
    pub(crate) fn ready(&mut self, at: usize) {
        let Some(entity) = COMPANY.get(at) else { return };
        if self.tables.get(at).is_some_and(|table| table.made) {
            return;
        }
        for target in targets(entity.fields)
            .into_iter()
            .filter_map(place)
            .filter(|target| *target != at)
        {
            self.ready(target);
        }
        let made = seed::table(entity, &self.tables);
        if let Some(table) = self.tables.get_mut(at) {
            *table = made;
        }
    }

    /// Builds every table that does not exist yet.
    pub(crate) fn ready_all(&mut self) {
        for at in 0..COMPANY.len() {
            self.ready(at);
        }
    }

    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The table of an entity; it is empty before it is loaded.
    pub(crate) fn table(&self, many: &str) -> Option<&Table> {
        place(many).and_then(|at| self.tables.get(at))
    }

    pub(crate) fn table_mut(&mut self, many: &str) -> Option<&mut Table> {
        place(many).and_then(|at| self.tables.get_mut(at))
    }

    /// The time of the next write: each write advances it by one second.
    pub(crate) fn tick(&mut self) -> i64 {
        self.writes += 1;
        seed::NOW + self.writes
    }

    /// Finds an entity with records that link to this one, and counts them; `None` if no record links to it.
    pub(crate) fn linked(&self, many: &str, number: u32) -> Option<(&'static Entity, usize)> {
        COMPANY.iter().zip(&self.tables).find_map(|(entity, table)| {
            let count = table
                .rows
                .iter()
                .filter(|row| links(entity.fields, &row.cells, many, number))
                .count();
            (count > 0).then_some((entity, count))
        })
    }
}

/// The names of the entities that these fields link to, including fields of groups.
pub(crate) fn targets(fields: &[Field]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for field in fields {
        if let Kind::Link(many) | Kind::Links(many) = field.kind {
            found.push(many);
        }
        if let Kind::Part(inner) | Kind::Parts(inner) = field.kind {
            found.extend(targets(inner));
        }
    }
    found
}

/// Whether any of these values links to the record.
fn links(fields: &[Field], cells: &[Cell], many: &str, number: u32) -> bool {
    fields.iter().zip(cells).any(|(field, cell)| match (field.kind, cell) {
        (Kind::Link(target), cell) => target == many && *cell == Cell::Link(number),
        (Kind::Links(target), Cell::Many(cells)) => target == many && cells.contains(&Cell::Link(number)),
        (Kind::Part(inner), Cell::Part(cells)) => links(inner, cells, many, number),
        (Kind::Parts(inner), Cell::Many(parts)) => parts.iter().any(|part| links(inner, part.inner(), many, number)),
        _ => false,
    })
}
