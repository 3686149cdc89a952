//! The probes at the door, with the whole program.

use std::path::Path;

use ringfence_probe::{Field, Outcome, door};

use crate::setting::program;

#[test]
fn nothing_at_the_door_is_broken() {
    let findings = door(Path::new(&program()), Field::Fenced).unwrap();
    for one in &findings {
        eprintln!(
            "{:>3}  {:<8} {:<50} {}",
            one.id,
            one.outcome.name(),
            one.name,
            one.detail
        );
    }
    let broken: Vec<_> = findings.iter().filter(|one| one.outcome != Outcome::Held).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert_eq!(findings.len(), 43);
}
