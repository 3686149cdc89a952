use proptest::prelude::*;
use ringfence_policy::{Ceiling, Draft, Policy};

use crate::testdata::catalog;
use crate::{Catalog, CatalogView, DetailLevel, ListError, SearchIndex, StubLanguage, ToolSearch};

fn policy() -> Policy {
    let text =
        "version: 1\ntools:\n  default: allow\n  rules:\n    - { deny: \"*.delete_*\" }\n    - { deny: \"disk.**\" }\n";
    let draft: Draft = Draft::parse(text, "test").unwrap();
    Draft::builtin().layer(&draft).under(&Ceiling::unlimited()).unwrap()
}

fn answers(view: &CatalogView<'_>, text: &str) -> String {
    let search = ToolSearch {
        intents: vec![text.to_owned(), "delete a file from the disk".to_owned()],
        task: Some(text.to_owned()),
        detail: DetailLevel::Full,
        limit: Some(50),
        ..ToolSearch::default()
    };
    let names = [
        text.to_owned(),
        "files.delete_file".to_owned(),
        "disk.usage".to_owned(),
        "disk.usag".to_owned(),
    ];
    let described = view
        .describe(&names, DetailLevel::Full, StubLanguage::TypeScript)
        .unwrap();
    assert!(described.tools.iter().all(|tool| !denied(&tool.name)));
    assert!(
        described
            .unknown
            .iter()
            .all(|unknown| !unknown.nearest.iter().any(|name| denied(name)))
    );
    let lists: Vec<String> = [
        (None, None),
        (Some("disk"), None),
        (Some("files"), None),
        (None, Some("delete")),
        (Some(text), Some(text)),
    ]
    .into_iter()
    .map(|(server, domain)| match view.list(server, domain, None) {
        Ok(listed) => serde_json::to_string(&listed).unwrap(),
        // The error repeats the requested name, which the client knows already.
        Err(ListError::UnknownServer { nearest, .. }) => format!("{nearest:?}"),
        Err(ListError::Cursor(bad)) => bad.to_string(),
    })
    .collect();
    let mut found = view.search(&search).unwrap();
    for answer in &mut found.intents {
        answer.intent.clear();
    }
    format!("{} {}", serde_json::to_string(&found).unwrap(), lists.join(" "))
}

fn denied(name: &str) -> bool {
    name.starts_with("disk.") || name.contains(".delete_")
}

/// Whether an answer reveals a denied tool, or a server without other tools.
fn tells(answered: &str) -> bool {
    let told = [
        "delete_file",
        "disk.read_file",
        "disk.usage",
        "tools.disk",
        "\"disk\"",
        "\"delete\"",
        "How much room",
    ];
    told.iter().any(|part| answered.contains(part))
}

#[test]
fn a_denied_tool_is_in_no_answer_and_is_counted_once() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let view = CatalogView::new(&catalog, &index, &policy());
    let text = answers(&view, "read usage");
    assert!(!tells(&text), "{text}");
    assert_eq!(view.list(None, None, None).unwrap().hidden_by_policy, 3);
    let all = CatalogView::everything(&catalog, &index);
    assert_eq!(all.list(None, None, None).unwrap().hidden_by_policy, 0);
}

#[test]
fn a_small_catalog_beside_another_is_seen_with_it() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let small = Catalog::new([crate::testdata::listing(
        "skills",
        &[("weekly-post", "Send the weekly post to everybody.")],
    )]);
    let beside = SearchIndex::new_beside(&small, &index);
    let policy = policy();
    let both = CatalogView::new(&catalog, &index, &policy).with_catalog(&small, &beside, &policy);
    let search = crate::ToolSearch {
        intents: vec!["send the weekly post".to_owned(), "read a file".to_owned()],
        ..crate::ToolSearch::default()
    };
    let found = both.search(&search).unwrap();
    let first = |answer: usize| found.intents[answer].slots[0].tool.name.clone();
    assert_eq!(
        (first(0), first(1)),
        ("skills.weekly-post".to_owned(), "files.read_file".to_owned())
    );
    let listed = both.list(None, None, None).unwrap();
    let servers: Vec<&str> = listed.servers.iter().map(|server| server.server.as_str()).collect();
    assert_eq!(servers, ["files", "mail", "weather", "skills"]);
    assert_eq!(
        both.list(Some("skills"), None, None).unwrap().tools,
        ["skills.weekly-post"]
    );
    let names = ["skills.weekly_post", "skills.weekly_pots", "files.write_file"].map(str::to_owned);
    let described = both
        .describe(&names, crate::DetailLevel::Signature, crate::StubLanguage::TypeScript)
        .unwrap();
    let signature = described.tools[0].signature.as_deref().unwrap();
    assert!(signature.starts_with("skills.weekly_post("), "{signature}");
    assert_eq!(described.tools.len(), 2);
    assert_eq!(described.unknown[0].nearest, ["skills.weekly-post"]);
    // The same query of the catalog alone has another cursor, and the same order.
    let alone = CatalogView::new(&catalog, &index, &policy);
    assert_ne!(alone.fingerprint(), both.fingerprint());
    let answer = alone.search(&search).unwrap();
    assert_eq!(answer.intents[1].slots[0].tool.name, "files.read_file");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_denied_tools_stay_unseen(text in "(delete|disk|usage|file|\\.|_| |\\PC){0,12}") {
        let catalog: Catalog = catalog();
        let index = SearchIndex::new(&catalog);
        let view = CatalogView::new(&catalog, &index, &policy());
        let answered = answers(&view, &text);
        prop_assert!(!tells(&answered), "{answered}");
    }
}
