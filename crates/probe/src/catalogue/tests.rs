use super::catalogue;

#[test]
fn every_number_is_there_once_and_in_order() {
    let ids: Vec<u16> = catalogue().map(|probe| probe.id).collect();
    assert_eq!(ids, (1..=160).collect::<Vec<u16>>());
}
