//! Checks that the initial records are consistent with each other.

use crate::spec::COMPANY;
use crate::store::CompanyStore;
use crate::value::FieldValue;

#[test]
fn two_companies_hold_the_same_records() {
    let (mut one, mut other) = (CompanyStore::new(), CompanyStore::new());
    one.load_all();
    // The order in which tables are built does not matter.
    (0..COMPANY.len()).rev().for_each(|at| other.load_table(at));
    for (at, entity) in COMPANY.iter().enumerate() {
        assert_eq!(one.tables()[at].rows(), other.tables()[at].rows(), "{}", entity.many);
        assert_eq!(one.tables()[at].rows().len(), usize::try_from(entity.count).unwrap());
    }
}

#[test]
fn an_order_costs_what_its_items_cost() {
    let mut store = CompanyStore::new();
    store.load_all();
    let orders = store.table("orders").unwrap();
    let entity = crate::spec::find_entity("orders").unwrap();
    let (items, total) = (entity.field("items").unwrap().0, entity.field("total_cents").unwrap().0);
    for row in orders.rows() {
        let FieldValue::Many(parts) = &row.cells[items] else {
            panic!("items of {}", row.number)
        };
        let sum: i64 = parts
            .iter()
            .map(|part| part.children()[1].sort_key().unwrap() * part.children()[2].sort_key().unwrap())
            .sum();
        assert_eq!(row.cells[total], FieldValue::Integer(sum));
        assert!(sum > 0);
    }
}

#[test]
fn customers_come_from_twelve_countries() {
    let mut store = CompanyStore::new();
    store.load_all();
    let at = crate::spec::find_entity("customers")
        .unwrap()
        .field("country")
        .unwrap()
        .0;
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
    let mut store = CompanyStore::new();
    store.load_all();
    for table in store.tables() {
        for text in table
            .rows()
            .iter()
            .flat_map(|row| &row.cells)
            .filter_map(FieldValue::text)
        {
            let mail = text.contains('@');
            assert!(!mail || text.ends_with("@example.com"), "{text}");
            let link = text.contains("://");
            assert!(!link || text.starts_with("https://example.com/"), "{text}");
        }
    }
}
