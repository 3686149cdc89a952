//! The memory of the company: one table per entity, built when a call first needs it.

use crate::seed;
use crate::spec::{COMPANY, Entity, EntityField, FieldKind, entity_position};
use crate::value::FieldValue;

/// The maximum number of records in a table, which bounds memory against repeated creations.
const MAX_ROWS: usize = 100_000;

/// A record in memory, without the parts that follow from its entity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordRow {
    /// The number in the id of the record.
    pub(crate) number: u32,
    /// The time of creation, in seconds since 1970.
    pub(crate) made: i64,
    /// The time of the last change, in seconds since 1970.
    pub(crate) changed: i64,
    /// The values of the record, in the order of the entity's fields.
    pub(crate) cells: Vec<FieldValue>,
}

/// All records of an entity, ordered by number.
#[derive(Debug, Default)]
pub(crate) struct RecordTable {
    rows: Vec<RecordRow>,
    last: u32,
    made: bool,
}

/// The tables of all entities, and the count of writes that serves as a clock.
#[derive(Debug)]
pub(crate) struct CompanyStore {
    tables: Vec<RecordTable>,
    writes: i64,
}

impl RecordTable {
    /// Creates a table from rows that are ordered by number.
    pub(crate) fn from_rows(rows: Vec<RecordRow>) -> Self {
        let last = rows.last().map_or(0, |row| row.number);
        Self { rows, last, made: true }
    }

    pub(crate) fn rows(&self) -> &[RecordRow] {
        &self.rows
    }

    pub(crate) fn row(&self, number: u32) -> Option<&RecordRow> {
        self.rows
            .binary_search_by_key(&number, |row| row.number)
            .ok()
            .and_then(|at| self.rows.get(at))
    }

    /// Finds the row with this number for a change.
    pub(crate) fn row_mut(&mut self, number: u32) -> Option<&mut RecordRow> {
        self.rows
            .binary_search_by_key(&number, |row| row.number)
            .ok()
            .and_then(|at| self.rows.get_mut(at))
    }

    /// Adds a record under the next number; `None` if the table is full.
    pub(crate) fn add(&mut self, now: i64, cells: Vec<FieldValue>) -> Option<&RecordRow> {
        if self.rows.len() >= MAX_ROWS {
            return None;
        }
        self.last = self.last.checked_add(1)?;
        self.rows.push(RecordRow {
            number: self.last,
            made: now,
            changed: now,
            cells,
        });
        self.rows.last()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<RecordRow> {
        self.rows
            .binary_search_by_key(&number, |row| row.number)
            .ok()
            .map(|at| self.rows.remove(at))
    }
}

impl CompanyStore {
    pub(crate) fn new() -> Self {
        Self {
            tables: COMPANY.iter().map(|_| RecordTable::default()).collect(),
            writes: 0,
        }
    }

    /// Builds the table at this position and the tables it links to, unless they exist.
    pub(crate) fn load_table(&mut self, at: usize) {
        let Some(entity) = COMPANY.get(at) else { return };
        if self.tables.get(at).is_some_and(|table| table.made) {
            return;
        }
        for target in link_targets(entity.fields)
            .into_iter()
            .filter_map(entity_position)
            .filter(|target| *target != at)
        {
            self.load_table(target);
        }
        let made = seed::build_table(entity, &self.tables);
        if let Some(table) = self.tables.get_mut(at) {
            *table = made;
        }
    }

    /// Builds every table that does not exist yet.
    pub(crate) fn load_all(&mut self) {
        for at in 0..COMPANY.len() {
            self.load_table(at);
        }
    }

    pub(crate) fn tables(&self) -> &[RecordTable] {
        &self.tables
    }

    /// The table of an entity; it is empty before it is loaded.
    pub(crate) fn table(&self, many: &str) -> Option<&RecordTable> {
        entity_position(many).and_then(|at| self.tables.get(at))
    }

    pub(crate) fn table_mut(&mut self, many: &str) -> Option<&mut RecordTable> {
        entity_position(many).and_then(|at| self.tables.get_mut(at))
    }

    /// The time of the next write: each write advances it by one second.
    pub(crate) fn next_time(&mut self) -> i64 {
        self.writes += 1;
        seed::COMPANY_NOW + self.writes
    }

    /// Finds an entity with records that link to this one, and counts them; `None` if no record links to it.
    pub(crate) fn count_links(&self, many: &str, number: u32) -> Option<(&'static Entity, usize)> {
        COMPANY.iter().zip(&self.tables).find_map(|(entity, table)| {
            let count = table
                .rows
                .iter()
                .filter(|row| links_to(entity.fields, &row.cells, many, number))
                .count();
            (count > 0).then_some((entity, count))
        })
    }
}

/// The names of the entities that these fields link to, including fields of groups.
pub(crate) fn link_targets(fields: &[EntityField]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for field in fields {
        if let FieldKind::Link(many) | FieldKind::Links(many) = field.kind {
            found.push(many);
        }
        if let FieldKind::Part(inner) | FieldKind::Parts(inner) = field.kind {
            found.extend(link_targets(inner));
        }
    }
    found
}

/// Whether any of these values links to the record.
fn links_to(fields: &[EntityField], cells: &[FieldValue], many: &str, number: u32) -> bool {
    fields.iter().zip(cells).any(|(field, cell)| match (field.kind, cell) {
        (FieldKind::Link(target), cell) => target == many && *cell == FieldValue::Link(number),
        (FieldKind::Links(target), FieldValue::Many(cells)) => {
            target == many && cells.contains(&FieldValue::Link(number))
        }
        (FieldKind::Part(inner), FieldValue::Part(cells)) => links_to(inner, cells, many, number),
        (FieldKind::Parts(inner), FieldValue::Many(parts)) => {
            parts.iter().any(|part| links_to(inner, part.children(), many, number))
        }
        _ => false,
    })
}
