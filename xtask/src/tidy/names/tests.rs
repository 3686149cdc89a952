use super::super::tree::ProjectTree;
use super::check;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    check(&ProjectTree::from_texts(files))
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_type_that_three_files_declare_is_found_and_one_in_tests_is_not() {
    let files = [
        ("crates/a/src/one.rs", "pub(crate) struct Answer;\n"),
        ("crates/a/src/two.rs", "enum Answer {}\n"),
        ("crates/a/src/tests.rs", "struct Answer;\n"),
        (
            "crates/b/src/text.rs",
            "// struct Answer;\nconst TEXT: &str = \"struct Answer;\";\n",
        ),
    ];
    assert_eq!(found(&files), [""; 0]);
    let mut files = files.to_vec();
    files.push(("crates/c/src/three.rs", "\npub type Answer = u8;\n"));
    assert_eq!(
        found(&files),
        [
            "error[names]: crates/a/src/one.rs:1: a type `Answer` is declared in crates/a/src/two.rs:1, crates/c/src/three.rs:2 \
             too; one name, one thing"
        ]
    );
}

#[test]
fn types_of_a_traits_implementation_do_not_count() {
    let file = "impl Iterator for A {\n    type Item = u8;\n}\nimpl Iterator for B {\n    type Item = u8;\n}\nimpl Iterator for C {\n    type Item = u8;\n}\n";
    assert_eq!(found(&[("crates/a/src/one.rs", file)]), [""; 0]);
}

#[test]
fn names_that_say_nothing_are_found() {
    let file = "struct SessionManager;\nconst MOST_OPEN: usize = 3;\npub(crate) const PATIENCE: u8 = 1;\nconst MAX_OPEN: usize = 3;\nfn take() {}\nfn take_all() {}\n";
    let found = found(&[("crates/a/src/one.rs", file)]);
    let places: Vec<&str> = found.iter().map(|line| &line[..line.find('`').unwrap_or(0)]).collect();
    assert_eq!(
        places,
        [
            "error[names]: crates/a/src/one.rs:1: ",
            "error[names]: crates/a/src/one.rs:2: ",
            "error[names]: crates/a/src/one.rs:3: ",
            "error[names]: crates/a/src/one.rs:5: "
        ]
    );
}

#[test]
fn a_doc_comment_of_three_words_is_found() {
    let file = "//! Why.\n\n/// Why it is.\nfn a() {}\n\n/// Why it\n/// is so.\nfn b() {}\n//// Not one.\n";
    assert_eq!(
        found(&[("crates/a/src/one.rs", file)]),
        [
            "error[names]: crates/a/src/one.rs:3: a doc comment of 3 words says less than a name; say more or leave it out"
        ]
    );
}
