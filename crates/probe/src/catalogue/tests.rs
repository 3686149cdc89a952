use super::catalogue;

#[test]
fn every_number_of_the_built_classes_is_there_once_and_in_order() {
    let ids: Vec<u16> = catalogue().map(|probe| probe.id).collect();
    assert_eq!(ids, (1..=97).chain(141..=160).collect::<Vec<u16>>());
}
