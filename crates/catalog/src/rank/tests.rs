use crate::question::Question;
use crate::testdata::catalog;
use crate::{Catalog, Index};

#[track_caller]
fn check(catalog: &Catalog, question: &str, best: &str) {
    let index = Index::new(catalog);
    let visible = vec![true; catalog.tools().len()];
    let scores = super::score(&[(&index, &visible)], &Question::read(question));
    let first = super::super::slots::best(&scores)[0].0;
    assert_eq!(catalog.tools()[first].name.as_str(), best, "{question}");
}

#[test]
fn the_tool_that_is_meant_comes_first() {
    let catalog = catalog();
    check(&catalog, "remove a file", "files.delete_file");
    check(&catalog, "sending mails", "mail.send_email");
    check(
        &catalog,
        "what will the weather be in this city",
        "weather.get_forecast",
    );
    check(&catalog, "城市天气", "weather.天气查询");
    check(&catalog, "save it to /tmp/x.txt", "files.write_file");
}

#[test]
fn nothing_in_common_is_no_score() {
    let catalog = catalog();
    let index = Index::new(&catalog);
    let scores = super::score(
        &[(&index, &vec![true; catalog.tools().len()])],
        &Question::read("qqqq zzzz"),
    );
    assert!(scores.iter().all(|score| *score == 0.0));
}

#[test]
fn likeness_is_of_what_tools_do() {
    let catalog = catalog();
    let index = Index::new(&catalog);
    let place = |name: &str| {
        catalog
            .tools()
            .iter()
            .position(|tool| tool.name.as_str() == name)
            .unwrap()
    };
    let (one, other) = (place("files.read_file"), place("disk.read_file"));
    assert!(index.likeness(one, other) > 0.8);
    assert!(index.likeness(one, place("mail.send_email")) < 0.2);
}
