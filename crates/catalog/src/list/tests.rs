use crate::testdata::{catalog, definition, listing};
use crate::{Catalog, CatalogView, ListError, SearchIndex, ServerListing};

#[test]
fn servers_first_then_names() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let view = CatalogView::everything(&catalog, &index);
    let servers = view.list(None, None, None).unwrap();
    assert_eq!(
        servers
            .servers
            .iter()
            .map(|one| one.server.as_str())
            .collect::<Vec<_>>(),
        ["disk", "files", "mail", "weather"]
    );
    assert!(servers.tools.is_empty() && servers.tokens > 0);
    let mail = view.list(Some("mail"), None, None).unwrap();
    assert_eq!(mail.tools, ["mail.search_inbox", "mail.send_email"]);
    let read = view.list(None, Some("read"), None).unwrap();
    assert_eq!(read.tools, ["disk.read_file", "files.read_file"]);
}

#[test]
fn an_unknown_server_is_answered_with_the_nearest() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let refused = CatalogView::everything(&catalog, &index).list(Some("weathr"), None, None);
    assert_eq!(
        refused,
        Err(ListError::UnknownServer {
            server: "weathr".to_owned(),
            nearest: vec!["weather".to_owned()],
        })
    );
}

#[test]
fn long_lists_are_paged_and_cursors_checked() {
    let tools = (0..450)
        .map(|number| definition(&format!("tool{number:03}"), ""))
        .collect();
    let catalog = Catalog::new([ServerListing {
        tools,
        ..listing("many", &[])
    }]);
    let index = SearchIndex::new(&catalog);
    let view = CatalogView::everything(&catalog, &index);
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = view.list(Some("many"), None, cursor.as_deref()).unwrap();
        assert_eq!(page.total, 450);
        seen.extend(page.tools);
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
        assert!(matches!(
            view.list(None, None, cursor.as_deref()),
            Err(ListError::Cursor(_))
        ));
    }
    assert_eq!(seen.len(), 450);
    assert!(seen.is_sorted());
}

#[test]
fn a_servers_own_tags_are_its_domains() {
    let mut tagged = definition("x", "");
    tagged.tags = vec!["billing".to_owned()];
    let catalog = Catalog::new([ServerListing {
        tools: vec![tagged],
        ..listing("shop", &[])
    }]);
    let index = SearchIndex::new(&catalog);
    let view = CatalogView::everything(&catalog, &index);
    assert_eq!(
        view.list(Some("shop"), Some("billing"), None).unwrap().tools,
        ["shop.x"]
    );
    assert_eq!(view.list(None, None, None).unwrap().servers[0].domains, ["billing"]);
}
