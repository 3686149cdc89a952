//! The company's memory: one table for each entity, made when it is first looked at.

use crate::cell::Cell;
use crate::seed;
use crate::spec::{COMPANY, Entity, Field, Kind, place};

/// How many records a table may hold: a flood of creations ends here.
const MOST_ROWS: usize = 100_000;

/// One record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// The number in its id.
    pub(crate) number: u32,
    /// When it was made, in seconds since 1970.
    pub(crate) made: i64,
    /// When it last changed.
    pub(crate) changed: i64,
    /// Its values, in the order of the entity's fields.
    pub(crate) cells: Vec<Cell>,
}

/// All records of an entity, by number.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    last: u32,
    made: bool,
}

/// All tables.
#[derive(Debug)]
pub(crate) struct Store {
    tables: Vec<Table>,
    writes: i64,
}

impl Table {
    /// A table of these rows, which are in order.
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

    /// The row of this number, to change it.
    pub(crate) fn row_mut(&mut self, number: u32) -> Option<&mut Row> {
        self.rows
            .binary_search_by_key(&number, |row| row.number)
            .ok()
            .and_then(|at| self.rows.get_mut(at))
    }

    /// Adds a record under the next number, unless the table is full.
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

    /// The table at this place, and those it links to, are there afterwards.
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

    /// Every table is there afterwards.
    pub(crate) fn ready_all(&mut self) {
        for at in 0..COMPANY.len() {
            self.ready(at);
        }
    }

    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The table of an entity, if it was made ready.
    pub(crate) fn table(&self, many: &str) -> Option<&Table> {
        place(many).and_then(|at| self.tables.get(at))
    }

    pub(crate) fn table_mut(&mut self, many: &str) -> Option<&mut Table> {
        place(many).and_then(|at| self.tables.get_mut(at))
    }

    /// The moment of the next write: time passes by one second with each.
    pub(crate) fn tick(&mut self) -> i64 {
        self.writes += 1;
        seed::NOW + self.writes
    }

    /// How many records of which entity link to this one.
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

/// The entities that these fields link to.
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

/// Whether these values link to that record.
fn links(fields: &[Field], cells: &[Cell], many: &str, number: u32) -> bool {
    fields.iter().zip(cells).any(|(field, cell)| match (field.kind, cell) {
        (Kind::Link(target), cell) => target == many && *cell == Cell::Link(number),
        (Kind::Links(target), Cell::Many(cells)) => target == many && cells.contains(&Cell::Link(number)),
        (Kind::Part(inner), Cell::Part(cells)) => links(inner, cells, many, number),
        (Kind::Parts(inner), Cell::Many(parts)) => parts.iter().any(|part| links(inner, part.inner(), many, number)),
        _ => false,
    })
}
