use super::super::tree::ProjectTree;
use super::check;

#[track_caller]
fn judge(path: &str, text: &str, expected: &[&str]) {
    let found = check(&ProjectTree::from_texts(&[(path, text)]));
    let found: Vec<_> = found
        .into_iter()
        .map(|finding| format!("{}: {}", finding.place, finding.message))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn unsafe_stays_at_home() {
    let block = "// SAFETY: takes no pointer.\nlet x = unsafe { call() };\n";
    judge("crates/jail/src/sys/fd.rs", block, &[]);
    judge("crates/jail/src/sys.rs", block, &[]);
    judge(
        "crates/jail/src/system.rs",
        block,
        &["crates/jail/src/system.rs:2: `unsafe` outside crates/jail/src/sys/"],
    );
    judge(
        "crates/wire/src/lib.rs",
        "unsafe impl Send for X {}\n",
        &["crates/wire/src/lib.rs:1: `unsafe` outside crates/jail/src/sys/"],
    );
}

#[test]
fn the_word_elsewhere_is_no_code() {
    judge(
        "crates/wire/src/lib.rs",
        "#![forbid(unsafe_code)]\n// unsafe { }\nlet a = \"unsafe {\";\n",
        &[],
    );
}

#[test]
fn a_block_has_its_proof_above_it() {
    let home = "crates/jail/src/sys/fd.rs";
    let missing = "no `// SAFETY:` comment above this block";
    judge(
        home,
        "// SAFETY: one\n// and more.\nlet x =\n    unsafe { call() };\n",
        &[],
    );
    judge(home, "let x = unsafe { call() };\n", &[&format!("{home}:1: {missing}")]);
    judge(
        home,
        "// safe because\nlet x = unsafe { call() };\n",
        &[&format!("{home}:2: {missing}")],
    );
    judge(
        home,
        "// SAFETY: for the first.\nlet x = unsafe { one() };\nlet y = unsafe { two() };\n",
        &[&format!("{home}:3: {missing}")],
    );
    judge(
        home,
        "// SAFETY: far away.\n\nlet x = unsafe { one() };\n",
        &[&format!("{home}:3: {missing}")],
    );
    judge(home, "unsafe extern \"C\" {\n", &[]);
}
