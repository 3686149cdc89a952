//! The generated types accept what the schema accepts and reject what it rejects, and so does the check at run time.

use std::fs;

use ringfence_catalog::{SchemaChecker, StubLanguage, Tool};
use serde_json::Value;

use crate::cases::cases;
use crate::compilers::Verdict;
use crate::programs::{HEAD, catalog, python, typescript, write_stubs};

/// Calls that must pass and calls that must fail, by the number of their tool.
pub(crate) struct Calls {
    pub(crate) valid: Vec<(usize, Value)>,
    pub(crate) invalid: Vec<(usize, Value)>,
}

/// Both compilers must agree on every call.
pub(crate) fn judge(compilers: &crate::compilers::Compilers, schemas: &[Value], calls: &Calls) {
    let catalog = catalog(schemas);
    let by_number = |number: usize| catalog.get(&format!("s.t{number}"));
    let tools: Vec<&Tool> = (0..schemas.len()).filter_map(by_number).collect();
    assert_eq!(tools.len(), schemas.len());
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    write_stubs(place, &tools, StubLanguage::TypeScript);
    write_stubs(place, &tools, StubLanguage::Python);
    for (name, text) in [
        ("valid.ts", typescript(&calls.valid)),
        ("invalid.ts", typescript(&calls.invalid)),
        ("valid.py", python(&calls.valid)),
        ("invalid.py", python(&calls.invalid)),
    ] {
        fs::write(place.join(name), text).expect("a program is written");
    }
    let stubs = ["ringfence.d.ts", "tools.d.ts"];
    let script = compilers.typescript(place, &[stubs[0], stubs[1], "valid.ts", "invalid.ts"]);
    let snake = compilers.python(place, &["tools", "__builtins__.pyi", "valid.py", "invalid.py"]);
    let mut faults = Vec::new();
    for (verdict, extension) in [(&script, "ts"), (&snake, "py")] {
        faults.extend(misjudged(verdict, extension, calls));
    }
    let first: Vec<String> = faults.iter().take(10).cloned().collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), first.join("\n"));
}

fn misjudged(verdict: &Verdict, extension: &str, calls: &Calls) -> Vec<String> {
    let mut faults = Vec::new();
    let (valid, invalid) = (format!("valid.{extension}"), format!("invalid.{extension}"));
    for (file, line) in &verdict.lines {
        if *file == valid || *file != invalid {
            let said: Vec<&str> = verdict
                .output
                .lines()
                .filter(|text| {
                    text.starts_with(&format!("{file}({line},")) || text.starts_with(&format!("{file}:{line}:"))
                })
                .collect();
            let call = line.checked_sub(HEAD + 1).and_then(|place| calls.valid.get(place));
            faults.push(format!("{file}:{line}: refused: {call:?}: {}", said.join("; ")));
        }
    }
    for (place, call) in calls.invalid.iter().enumerate() {
        if !verdict.lines.contains(&(invalid.clone(), place + HEAD + 1)) {
            faults.push(format!("{invalid}: accepted: {call:?}"));
        }
    }
    faults
}

#[test]
fn types_and_the_check_at_run_time_agree_with_the_schema() {
    let cases = cases();
    let mut calls = Calls {
        valid: Vec::new(),
        invalid: Vec::new(),
    };
    for (number, case) in cases.iter().enumerate() {
        let checker = SchemaChecker::new(&case.schema).expect("a schema compiles");
        for value in &case.valid {
            assert_eq!(
                checker.check_arguments(value),
                Ok(()),
                "{} refuses {value}",
                case.schema
            );
            calls.valid.push((number, value.clone()));
        }
        for value in &case.invalid {
            assert!(
                checker.check_arguments(value).is_err(),
                "{} accepts {value}",
                case.schema
            );
            calls.invalid.push((number, value.clone()));
        }
    }
    let Some(compilers) = crate::compilers() else { return };
    let schemas: Vec<Value> = cases.into_iter().map(|case| case.schema).collect();
    judge(&compilers, &schemas, &calls);
}
