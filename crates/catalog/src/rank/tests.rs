use crate::query::SearchQuery;
use crate::testdata::{catalog, listing};
use crate::{Catalog, SearchIndex};

#[track_caller]
fn check(catalog: &Catalog, question: &str, best: &str) {
    let index = SearchIndex::new(catalog);
    let visible = vec![true; catalog.tools().len()];
    let scores = super::score(&[(&index, &visible)], &SearchQuery::parse(question));
    let first = super::super::slots::rank_best(&scores)[0].0;
    assert_eq!(catalog.tools()[first].name.as_str(), best, "{question}");
}

#[test]
fn the_tool_that_is_meant_comes_first() {
    let catalog = catalog();
    check(&catalog, "remove a file", "files.delete_file");
    check(&catalog, "sending mails", "mail.send_email");
    check(&catalog, "the forecast for this city", "weather.get_forecast");
    check(&catalog, "城市天气", "weather.天气查询");
    check(&catalog, "save it to /tmp/x.txt", "files.write_file");
}

#[test]
fn the_last_of_many_wishes_counts_as_much_as_the_first() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let visible = vec![true; catalog.tools().len()];
    let score = |question: &str, name: &str| {
        let place = catalog
            .tools()
            .iter()
            .position(|tool| tool.name.as_str() == name)
            .unwrap();
        super::score(&[(&index, &visible)], &SearchQuery::parse(question))[place]
    };
    let wishes =
        "Read the file. List the directory. Delete the file. Write the text. How much room is left? Search the inbox. ";
    let late = score(
        &format!("{wishes}Get the weather forecast for a city."),
        "weather.get_forecast",
    );
    let early = score(
        &format!("Get the weather forecast for a city. {wishes}"),
        "weather.get_forecast",
    );
    assert!((late - early).abs() < 0.001, "{late} {early}");
    let lone = score("Get the weather forecast. Finally, send an email.", "mail.send_email");
    let plain = score("Get the weather forecast. Send an email.", "mail.send_email");
    assert!((lone - plain).abs() < 0.001, "{lone} {plain}");
}

#[test]
fn a_tool_described_in_chinese_is_found_like_its_twin_in_english() {
    let chinese = listing(
        "cn",
        &[
            (
                "sc1",
                "查询航班价格，比较不同航空公司的机票价格，按出发城市和到达城市筛选",
            ),
            ("sc2", "绘制流程图"),
        ],
    );
    let english = listing(
        "en",
        &[
            (
                "se1",
                "Query flight prices, compare flight ticket prices of airlines, filter by departure and arrival city",
            ),
            ("se2", "Draw a flowchart diagram"),
        ],
    );
    let catalog = Catalog::new([chinese, english]);
    let index = SearchIndex::new(&catalog);
    for (question, cn, en) in [
        ("compare flight ticket prices", "cn.sc1", "en.se1"),
        ("filter flights by departure city", "cn.sc1", "en.se1"),
        ("draw a flowchart", "cn.sc2", "en.se2"),
    ] {
        let scores = super::score(&[(&index, &[true; 4])], &SearchQuery::parse(question));
        let of = |name: &str| {
            scores[catalog
                .tools()
                .iter()
                .position(|tool| tool.name.as_str() == name)
                .unwrap()]
        };
        assert!(of(cn) > 0.7 * of(en), "{question}: {} {}", of(cn), of(en));
    }
}

#[test]
fn nothing_in_common_is_no_score() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
    let scores = super::score(
        &[(&index, &vec![true; catalog.tools().len()])],
        &SearchQuery::parse("qqqq zzzz"),
    );
    assert!(scores.iter().all(|score| *score == 0.0));
}

#[test]
fn likeness_is_of_what_tools_do() {
    let catalog = catalog();
    let index = SearchIndex::new(&catalog);
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
