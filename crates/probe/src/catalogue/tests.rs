use super::catalogue;

#[test]
fn every_number_is_there_once() {
    let ids: Vec<u16> = catalogue().map(|probe| probe.id).collect();
    let once: std::collections::BTreeSet<u16> = ids.iter().copied().collect();
    assert_eq!(once.len(), ids.len(), "{ids:?}");
    assert!((1..=160).all(|id| once.contains(&id)), "{ids:?}");
}
