use std::fs;

use super::{StepOutcome, example_scripts, run};

#[test]
fn scripts_run_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["two.sh", "one.sh", "data.json", "README.md"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let found = example_scripts(folder.path()).unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, ["one.sh", "two.sh"]);
}

#[test]
fn without_examples_the_step_does_not_count() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(
        run(root.path()).unwrap(),
        StepOutcome::Absent("no examples/*.sh".to_owned())
    );
}
