use crate::ceiling::Ceiling;
use crate::draft::Draft;

use super::*;

#[track_caller]
fn refused(text: &str) -> crate::ceiling::DraftRejection {
    let draft = Draft::parse(text, "draft").expect("parses");
    draft.under(&Ceiling::unlimited()).expect_err("is out of bounds")
}

#[track_caller]
fn allowed(text: &str) {
    let draft = Draft::parse(text, "draft").expect("parses");
    draft.under(&Ceiling::unlimited()).expect("is within bounds");
}

#[test]
fn too_few_open_files_are_a_fault_of_the_draft() {
    let error = refused("proc: { open_files: 3 }");
    assert_eq!(
        error.to_string(),
        "policy `draft` is refused: `proc.open_files` is 3, the least is 16"
    );
    assert_eq!(
        (error.code(), error.rule().as_str()),
        ("policy.bounds", "proc.open_files")
    );
    assert!(error.hint().contains("raise `proc.open_files`"), "{}", error.hint());
    allowed("proc: { open_files: 16 }");
}

#[test]
fn an_environment_has_a_size() {
    let error = refused(&format!("env: {{ BIG: {} }}", "x".repeat(800 << 10)));
    assert_eq!(
        error.to_string(),
        "policy `draft` is refused: `env` has 819218 bytes, the most is 32768"
    );
    assert_eq!((error.code(), error.rule().as_str()), ("policy.bounds", "env"));
    let many: Vec<String> = (0..600).map(|number| format!("V{number}: x")).collect();
    let error = refused(&format!("env: {{ {} }}", many.join(", ")));
    assert!(error.to_string().contains("variables, the most is 512"), "{error}");
    let error = refused(&format!("env: {{ {}: x }}", "N".repeat(256)));
    assert!(
        error.to_string().contains("a name of 256 bytes, the most is 255"),
        "{error}"
    );
    allowed(&format!("env: {{ LANG: x, BIG: {} }}", "x".repeat((32 << 10) - 12 - 5)));
}

#[test]
fn bounds_hold_for_what_layers_make_together() {
    let base = Draft::parse(&format!("env: {{ A: {} }}", "x".repeat(20 << 10)), "base").expect("parses");
    let over = Draft::parse(&format!("env: {{ B: {} }}", "x".repeat(20 << 10)), "over").expect("parses");
    let error = base
        .layer(&over)
        .under(&Ceiling::unlimited())
        .expect_err("too large together");
    assert_eq!(error.rule(), "env");
}

#[test]
fn a_key_over_the_ceiling_is_told_as_such() {
    let top = Draft::parse("proc: { mem_limit: 64MiB }", "top").expect("parses");
    let draft = Draft::parse("proc: { mem_limit: 1GiB, open_files: 3 }", "draft").expect("parses");
    let error = draft.under(&Ceiling::from_draft(top)).expect_err("too much");
    assert_eq!(
        (error.code(), error.rule().as_str()),
        ("policy.ceiling", "proc.mem_limit, proc.open_files")
    );
}

#[test]
fn input_files_have_a_number() {
    let many = vec!["f"; MAX_INPUT_FILES + 1];
    let error = check_input_files(many.into_iter()).expect_err("too many");
    assert_eq!(error.to_string(), "`files` has 10001 entries, the most is 10000");
    let long = "n".repeat(4_000);
    let error = check_input_files(vec![long.as_str(); 200].into_iter()).expect_err("names too long");
    assert!(error.to_string().contains("bytes of names"), "{error}");
    assert_eq!(check_input_files(["a", "b"].into_iter()), Ok(()));
}
