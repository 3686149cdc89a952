use super::*;

#[test]
fn the_ending_of_a_name_says_what_a_file_is() {
    for (path, expected) in [
        ("report.csv", "text/csv"),
        ("out/Report.CSV", "text/csv"),
        ("plot.v2.png", "image/png"),
        ("data.tar.gz", "application/gzip"),
        ("README", UNKNOWN),
        ("folder.csv/file", UNKNOWN),
        ("archive.unheard", UNKNOWN),
        ("dot.", UNKNOWN),
    ] {
        assert_eq!(media_type(path), expected, "{path}");
    }
}

#[test]
fn every_type_of_the_table_can_be_said() {
    for (ending, media_type) in TYPES {
        assert!(Emit::new("a", media_type).is_ok(), "{ending}");
    }
}

#[test]
fn what_was_named_may_be_named_again_and_nothing_more_than_fits() {
    let emit = |number: usize| Emit::new(&format!("{number}.txt"), "text/plain").unwrap();
    let mut emitted = Emitted::default();
    for number in 0..EMITS_MAX {
        assert!(emitted.takes(&emit(number)) && emitted.note(&emit(number)));
    }
    assert!(emitted.takes(&emit(3)) && !emitted.note(&emit(3)));
    assert!(!emitted.takes(&emit(EMITS_MAX)));
}
