use super::{ToolEffect, are_opposite};
use crate::slots::rank_best;
use crate::terms::TermStemmer;
use crate::testdata::listing;
use crate::{Catalog, CatalogView, SearchIndex, ServerHints, ToolSearch};

/// Tools of which some undo others, and some only read.
fn shop() -> Catalog {
    Catalog::new([listing(
        "shop",
        &[
            (
                "block_customer",
                "Stop somebody from ordering, for example because of unpaid invoices, until a colleague has looked at the account.",
            ),
            (
                "unblock_customer",
                "End the block of a customer: let a blocked customer order again.",
            ),
            ("get_customer", "Get one customer by its number."),
            ("list_customers", "List the customers that fit, page by page."),
            ("delete_customer", "Delete a customer and the orders of the customer."),
            ("enable_alerts", "Alerts are sent again."),
            (
                "disable_alerts",
                "Alerts that were enabled, an enabled alert of any kind, are off.",
            ),
            ("create_refund", "The refund of an order."),
            ("get_refund", "A refund of an order, with its present state."),
        ],
    )])
}

#[track_caller]
fn ranked(catalog: &Catalog, question: &str) -> Vec<String> {
    let index = SearchIndex::new(catalog);
    let view = CatalogView::everything(catalog, &index);
    let scores = view.score(&crate::query::SearchQuery::parse(question));
    let places = rank_best(&scores).into_iter();
    places
        .map(|(place, _)| catalog.tools()[place].short_name().to_owned())
        .collect()
}

#[test]
fn the_opposite_of_what_is_asked_does_not_come_first() {
    let shop = shop();
    for (question, first) in [
        ("block a customer", "block_customer"),
        ("unblock a customer", "unblock_customer"),
        ("blocking customers that do not pay", "block_customer"),
        ("enable alerts", "enable_alerts"),
        ("disable alerts", "disable_alerts"),
    ] {
        assert_eq!(ranked(&shop, question)[0], first, "{question}");
    }
}

#[test]
fn reading_comes_before_writing_where_nobody_asks_to_write() {
    let shop = shop();
    let first = |question: &str| ranked(&shop, question)[0].clone();
    assert_eq!(first("what is the refund of an order"), "get_refund");
    assert_eq!(first("refund an order"), "create_refund");
    assert_eq!(
        first("which customer is it, do not delete the customer"),
        "get_customer"
    );
    assert_eq!(first("delete a customer"), "delete_customer");
}

#[test]
fn tools_that_undo_each_other_never_share_a_slot() {
    let shop = shop();
    let index = SearchIndex::new(&shop);
    let found = CatalogView::everything(&shop, &index).search(&ToolSearch {
        intents: vec!["block a customer".to_owned()],
        ..ToolSearch::default()
    });
    let found = found.unwrap();
    let block = &found.intents[0].slots[0];
    assert_eq!(block.tool.name, "shop.block_customer");
    assert!(
        !block.alike.contains(&"shop.unblock_customer".to_owned()),
        "{:?}",
        block.alike
    );
}

#[test]
fn what_a_tool_does_is_in_its_hints_or_its_verb() {
    let stems = TermStemmer::new();
    let mut shop = listing(
        "x",
        &[("get_update", ""), ("update_get", ""), ("win_deal", ""), ("purge", "")],
    );
    shop.tools[2].hints.read_only = Some(false);
    shop.tools[3].hints = ServerHints {
        read_only: Some(true),
        ..ServerHints::default()
    };
    let catalog = Catalog::new([shop]);
    let effect = |name: &str| ToolEffect::classify(catalog.get(&format!("x.{name}")).unwrap(), &stems);
    assert_eq!(effect("get_update"), ToolEffect::Reads);
    assert_eq!(effect("update_get"), ToolEffect::Writes("updat".to_owned()));
    assert_eq!(effect("win_deal"), ToolEffect::Writes("win".to_owned()));
    assert_eq!(effect("purge"), ToolEffect::Reads);
}

#[test]
fn opposites_are_known_by_their_prefix_or_by_name() {
    let stems = TermStemmer::new();
    let opposite = |one: &str, other: &str| are_opposite(&stems.stem(one), &stems.stem(other));
    assert!(opposite("blocked", "unblock") && opposite("unblock", "block"));
    assert!(opposite("enabling", "disable") && opposite("approve", "rejected"));
    assert!(!opposite("it", "unit") && !opposite("play", "display") && !opposite("block", "block"));
}
