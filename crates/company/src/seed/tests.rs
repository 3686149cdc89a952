//! Checks that the initial records are consistent with each other.

use crate::cell::Cell;
use crate::spec::COMPANY;
use crate::store::Store;

#[test]
fn two_companies_hold_the_same_records() {
    let (mut one, mut other) = (Store::new(), Store::new());
    one.ready_all();
    // The order in which tables are built does not matter.
    (0..COMPANY.len()).rev().for_each(|at| other.ready(at));
    for (at, entity) in COMPANY.iter().enumerate() {
        assert_eq!(one.tables()[at].rows(), other.tables()[at].rows(), "{}", entity.many);
        assert_eq!(one.tables()[at].rows().len(), usize::try_from(entity.count).unwrap());
    }
}

#[test]
fn an_order_costs_what_its_items_cost() {
    let mut store = Store::new();
    store.ready_all();
    let orders = store.table("orders").unwrap();
    let entity = crate::spec::entity("orders").unwrap();
    let (items, total) = (entity.field("items").unwrap().0, entity.field("total_cents").unwrap().0);
    for row in orders.rows() {
        let Cell::Many(parts) = &row.cells[items] else {
            panic!("items of {}", row.number)
        };
        let sum: i64 = parts
            .iter()
            .map(|part| part.inner()[1].rank().unwrap() * part.inner()[2].rank().unwrap())
            .sum();
        assert_eq!(row.cells[total], Cell::Integer(sum));
        assert!(sum > 0);
    }
}

#[test]
fn customers_come_from_twelve_countries() {
    let mut store = Store::new();
    store.ready_all();
    let at = crate::spec::entity("customers").unwrap().field("country").unwrap().0;
    let countries: std::collections::BTreeSet<_> = store
        .table("customers")
        .unwrap()
        .rows()
        .iter()
        .filter_map(|row| row.cells[at].text())
        .collect();
    assert_eq!(countries.len(), 12);
}

#[test]
fn addresses_are_reserved_for_examples() {
    let mut store = Store::new();
    store.ready_all();
    for table in store.tables() {
        for text in table.rows().iter().flat_map(|row| &row.cells).filter_map(Cell::text) {
            let mail = text.contains('@');
            assert!(!mail || text.ends_with("@example.com"), "{text}");
            let link = text.contains("://");
            assert!(!link || text.starts_with("https://example.com/"), "{text}");
        }
    }
}
