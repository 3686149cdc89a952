use super::*;

#[test]
fn the_ending_of_a_name_says_what_a_file_is() {
    for (path, expected) in [
        ("report.csv", "text/csv"),
        ("out/Report.CSV", "text/csv"),
        ("plot.v2.png", "image/png"),
        ("data.tar.gz", "application/gzip"),
        ("README", UNKNOWN_TYPE),
        ("folder.csv/file", UNKNOWN_TYPE),
        ("archive.unheard", UNKNOWN_TYPE),
        ("dot.", UNKNOWN_TYPE),
    ] {
        assert_eq!(media_type(path), expected, "{path}");
    }
}

#[test]
fn every_type_of_the_table_can_be_said() {
    for (ending, media_type) in MEDIA_TYPES {
        assert!(EmittedFile::new("a", media_type).is_ok(), "{ending}");
    }
}

#[test]
fn what_was_named_may_be_named_again_and_nothing_more_than_fits() {
    let emit = |number: usize| EmittedFile::new(&format!("{number}.txt"), "text/plain").unwrap();
    let mut emitted = EmitLog::default();
    for number in 0..MAX_EMITTED_FILES {
        assert!(emitted.accepts(&emit(number)) && emitted.add(&emit(number)));
    }
    assert!(emitted.accepts(&emit(3)) && !emitted.add(&emit(3)));
    assert!(!emitted.accepts(&emit(MAX_EMITTED_FILES)));
}
