use crate::testdata::{definition, listing};
use crate::{Catalog, CatalogView, SearchIndex, ServerListing, ToolSearch};

#[test]
fn ten_thousand_tools_are_indexed_and_searched() {
    let servers = (0..100).map(|server| ServerListing {
        server: format!("server{server}"),
        description: String::new(),
        tools: (0..100)
            .map(|tool| {
                definition(
                    &format!("tool_{server}_{tool}"),
                    &format!("Does the thing number{server}x{tool}."),
                )
            })
            .collect(),
    });
    let catalog = Catalog::new(servers);
    let index = SearchIndex::new(&catalog);
    let view = CatalogView::everything(&catalog, &index);
    let search = ToolSearch {
        intents: vec!["the thing number42x17".to_owned()],
        ..ToolSearch::default()
    };
    let found = view.search(&search).unwrap();
    assert_eq!(found.intents[0].slots[0].tool.name, "server42.tool_42_17");
}

#[test]
fn a_huge_description_is_read_in_part_and_an_empty_catalog_at_all() {
    let catalog = Catalog::new([listing("big", &[("one", &"endless words ".repeat(500_000))])]);
    assert_eq!(SearchIndex::new(&catalog).sayings.len(), 1);
    assert_eq!(SearchIndex::new(&Catalog::new([])).sayings.len(), 0);
}

#[test]
fn other_tools_have_another_fingerprint() {
    let of = |name: &str| SearchIndex::new(&Catalog::new([listing("a", &[(name, "")])])).fingerprint;
    assert_eq!(of("x"), of("x"));
    assert_ne!(of("x"), of("y"));
}
