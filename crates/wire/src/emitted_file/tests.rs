use super::*;

#[track_caller]
fn check(path: &str, media_type: &str, expected: Result<(), InvalidMessage>) {
    let made = EmittedFile::new(path, media_type).map(drop);
    assert_eq!(made, expected, "{path:?} {media_type:?}");
}

#[test]
fn a_path_stays_below_the_workspace_and_is_plain_text() {
    for path in ["a", "a/b.csv", "ä b/…", "..a/b..", ".hidden"] {
        check(path, "text/csv", Ok(()));
    }
    check(&"a".repeat(MAX_EMIT_PATH + 1), "text/csv", Err(InvalidMessage::Path));
    for path in [
        "", "/a", "a/", "a//b", ".", "..", "../x", "a/../b", "a/./b", "a\nb", "a\0", "a\u{7f}", "a\u{85}b",
    ] {
        check(path, "text/csv", Err(InvalidMessage::Path));
    }
}

#[test]
fn a_media_type_is_two_plain_names() {
    for media_type in ["text/csv", "application/vnd.ms-excel", "image/svg+xml", "a/b", "x/1"] {
        check("a", media_type, Ok(()));
    }
    let long = format!("a/{}", "b".repeat(MAX_MEDIA_TYPE - 2));
    check("a", &long, Ok(()));
    check("a", &format!("{long}b"), Err(InvalidMessage::MediaType));
    for media_type in [
        "",
        "text",
        "text/",
        "/csv",
        "text/csv/x",
        "Text/csv",
        "text/csv; charset=utf-8",
        "text/csv\n",
        " text/csv",
        "text/ csv",
        "-/a",
        "a/.b",
        "text/\"x\"",
        "tëxt/csv",
    ] {
        check("a", media_type, Err(InvalidMessage::MediaType));
    }
}

#[test]
fn so_many_files_and_no_more() {
    let mut emits = EmitQuota::for_code();
    for _ in 0..MAX_EMITTED_FILES {
        assert_eq!(emits.count_file(), Ok(()));
    }
    assert_eq!(emits.count_file(), Err(ProtocolViolation::TooManyEmits));
    assert_eq!(EmitQuota::none().count_file(), Err(ProtocolViolation::TooManyEmits));
}
