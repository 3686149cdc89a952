use super::super::tree::ProjectTree;
use super::check;

fn found(text: &str) -> Vec<String> {
    let tree = ProjectTree::from_texts(&[("crates/a/src/one.rs", text), ("crates/a/src/tests.rs", text)]);
    check(&tree).iter().map(ToString::to_string).collect()
}

fn repeated(line: impl Fn(usize) -> String, count: usize) -> String {
    (0..count).map(line).collect()
}

#[test]
fn a_struct_of_sixteen_fields_is_found() {
    let with = |count| {
        let fields = repeated(
            |n| format!("    /// A field: of many.\n    pub(crate) field{n}: u8,\n"),
            count,
        );
        format!("pub struct Wide<'a> {{\n{fields}}}\n")
    };
    assert_eq!(found(&with(15)), [""; 0]);
    let message = "error[shapes]: crates/a/src/one.rs:1: `Wide` has 16 fields; at most 15, give a part of them to a type that owns the idea";
    assert_eq!(found(&with(16)), [message]);
}

#[test]
fn methods_count_over_all_blocks_of_a_type_and_those_of_traits_do_not() {
    let own = |count| {
        let methods = repeated(
            |n| format!("    pub(crate) async fn method{n}(&self) {{\n        fn inner() {{}}\n    }}\n"),
            count,
        );
        format!("impl<T: Clone> Busy<T> {{\n{methods}}}\nimpl Clone for Busy<u8> {{\n{methods}}}\n")
    };
    assert_eq!(found(&format!("{}{}", own(15), own(15))), [""; 0]);
    let message = "error[shapes]: crates/a/src/one.rs:1: `Busy` has 31 methods; at most 30, give a part of them to a type that owns the idea";
    assert_eq!(found(&format!("{}{}", own(15), own(16))), [message]);
}

#[test]
fn a_type_that_became_smaller_leaves_its_place_in_the_list() {
    let tree = ProjectTree::from_texts(&[(
        "crates/engine/src/report/types.rs",
        "struct ExecutionReport {\n    a: u8,\n}\n",
    )]);
    let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("`ExecutionReport` has 1 fields"), "{}", found[0]);
}
