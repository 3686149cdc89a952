use super::{MAX_SLOT_TOOLS, SlotFiller, rank_best};
use crate::testdata::listing;
use crate::{Catalog, SearchIndex};

#[test]
fn equals_come_in_the_order_of_the_catalog() {
    assert_eq!(rank_best(&[0.5, 0.0, 1.0, 0.5]), [(2, 1.0), (0, 0.5), (3, 0.5)]);
}

#[test]
fn twins_share_a_slot_of_at_most_five_and_pages_lose_nobody() {
    let twins: Vec<_> = (0..12)
        .map(|n| listing(&format!("s{n:02}"), &[("get_time", "Get the current time.")]))
        .collect();
    let catalog = Catalog::new(twins);
    let index = SearchIndex::new(&catalog);
    let ranking: Vec<(usize, f32)> = (0..12).map(|tool| (tool, 1.0)).collect();
    let rankings = [ranking];
    let likeness = |one, other| index.likeness(one, other);
    let mut filler = SlotFiller::new(&likeness, &rankings);
    let first = filler.next_page(2);
    assert_eq!(
        first.iter().map(|slot| slot.tools.len()).collect::<Vec<_>>(),
        [MAX_SLOT_TOOLS, MAX_SLOT_TOOLS]
    );
    assert!(filler.has_more());
    let second = filler.next_page(2);
    assert_eq!(
        second.iter().map(|slot| slot.tools.clone()).collect::<Vec<_>>(),
        [[10, 11]]
    );
    assert!(!filler.has_more());
}

#[test]
fn questions_take_turns() {
    let catalog = crate::testdata::catalog();
    let index = SearchIndex::new(&catalog);
    let rankings = [vec![(0, 9.0), (1, 8.0)], vec![(0, 9.0), (6, 1.0)]];
    let likeness = |one, other| index.likeness(one, other);
    let slots = SlotFiller::new(&likeness, &rankings).next_page(2);
    assert_eq!(slots.iter().map(|slot| slot.question).collect::<Vec<_>>(), [0, 1]);
}
