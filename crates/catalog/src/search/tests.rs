use crate::testdata::catalog;
use crate::{CatalogView, DetailLevel, SearchError, SearchIndex, SearchPage, ToolSearch};

fn search(intents: &[&str]) -> ToolSearch {
    ToolSearch {
        intents: intents.iter().map(|intent| (*intent).to_owned()).collect(),
        ..ToolSearch::default()
    }
}

fn names(found: &SearchPage) -> Vec<&str> {
    let slots = found.intents.iter().flat_map(|answer| &answer.slots);
    slots
        .flat_map(|slot| std::iter::once(&slot.tool.name).chain(&slot.alike))
        .map(String::as_str)
        .collect()
}

#[test]
fn every_intent_is_answered_and_twins_share_a_slot() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let view = CatalogView::everything(&catalog, &index);
    let found = view.search(&search(&["read a file", "send an email", "zzzz"])).unwrap();
    let first = &found.intents[0].slots[0];
    let mut twins = vec![first.tool.name.as_str()];
    twins.extend(first.alike.iter().map(String::as_str));
    twins.sort_unstable();
    assert!(
        twins.contains(&"disk.read_file") && twins.contains(&"files.read_file"),
        "{twins:?}"
    );
    assert_eq!(found.intents[1].slots[0].tool.name, "mail.send_email");
    assert!(found.intents[2].slots.is_empty());
    assert_eq!(
        found.more_from_server.get("mail").copied().unwrap_or_default() + count(&found, "mail."),
        2
    );
}

fn count(found: &SearchPage, server: &str) -> usize {
    names(found).iter().filter(|name| name.starts_with(server)).count()
}

#[test]
fn the_same_question_has_the_same_answer_and_says_its_cost() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let ask = || {
        CatalogView::everything(&catalog, &index)
            .search(&search(&["read the weather and send it by mail"]))
            .unwrap()
    };
    let found = ask();
    assert_eq!(found, ask());
    let mut free = found.clone();
    free.tokens = 0;
    assert_eq!(
        found.tokens,
        crate::tokens::count_tokens(&serde_json::to_string(&free).unwrap())
    );
}

#[test]
fn nothing_to_look_for_and_too_much_are_refused() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let view = CatalogView::everything(&catalog, &index);
    for empty in [search(&[]), search(&["", " … "])] {
        assert_eq!(view.search(&empty), Err(SearchError::Empty));
    }
    assert_eq!(
        view.search(&search(&["x"; 21])),
        Err(SearchError::TooMany { given: 21 })
    );
    let wrong = ToolSearch {
        cursor: Some("1-0".to_owned()),
        ..search(&["file"])
    };
    assert!(matches!(view.search(&wrong), Err(SearchError::Cursor(_))));
}

#[test]
fn pages_show_every_tool_once() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let view = CatalogView::everything(&catalog, &index);
    let mut ask = ToolSearch {
        limit: Some(1),
        detail: DetailLevel::Names,
        ..search(&["file", "mail"])
    };
    let whole = view
        .search(&ToolSearch {
            limit: Some(50),
            ..ask.clone()
        })
        .unwrap();
    let mut seen: Vec<String> = Vec::new();
    loop {
        let found = view.search(&ask).unwrap();
        seen.extend(names(&found).iter().map(|name| (*name).to_owned()));
        ask.cursor = found.cursor;
        if ask.cursor.is_none() {
            break;
        }
    }
    let mut all: Vec<String> = names(&whole).iter().map(|name| (*name).to_owned()).collect();
    all.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, all);
}
