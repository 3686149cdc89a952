use ringfence_engine::{NewSkillScope, SkillProgram};
use serde_json::{Value, json};

use super::parse_new_skill;

fn given(arguments: Value) -> Result<ringfence_engine::NewSkill, String> {
    let Value::Object(map) = arguments else { panic!() };
    parse_new_skill(Some(map)).map_err(|fault| format!("{}: {}", fault.code, fault.message))
}

#[test]
fn a_program_comes_as_code_or_from_a_run() {
    let code = given(json!({ "name": "a", "description": "b", "code": "1", "language": "ts" })).unwrap();
    assert!(matches!(code.program, SkillProgram::Code { source, .. } if source == "1"));
    assert_eq!(code.scope, NewSkillScope::User);
    let neither = given(json!({ "name": "a", "description": "b" })).unwrap_err();
    assert_eq!(neither, "arguments.missing: `code` or `execution_id` is needed");
    let unspoken = given(json!({ "name": "a", "description": "b", "code": "1" })).unwrap_err();
    assert_eq!(unspoken, "arguments.missing: `language` is missing");
    let both = json!({ "name": "a", "description": "b", "code": "1", "language": "py", "execution_id": "x" });
    assert_eq!(
        given(both).unwrap_err(),
        "arguments.missing: `code` or `execution_id` is needed"
    );
}

#[test]
fn what_is_saved_for_bash_says_so_in_its_first_line() {
    let source = |language: &str, code: &str| {
        let new = json!({ "name": "a", "description": "b", "code": code, "language": language });
        match given(new).unwrap().program {
            SkillProgram::Code { source, language, .. } => (source, language.name()),
            SkillProgram::Run(_) => panic!(),
        }
    };
    assert_eq!(
        source("bash", "a=(1)"),
        ("#!/usr/bin/env bash\na=(1)".to_owned(), "shell")
    );
    let said = "#!/bin/bash -e\na=(1)";
    assert_eq!(source("bash", said), (said.to_owned(), "shell"));
    assert_eq!(source("bash", "#!/bin/sh\n:").0, "#!/usr/bin/env bash\n#!/bin/sh\n:");
    assert_eq!(source("shell", "a=1").0, "a=1");
}

#[test]
fn an_agent_saves_for_itself_or_a_session_only() {
    let scoped = |scope: &str| {
        let arguments = json!({
            "name": "a", "description": "b", "code": "1", "language": "python", "scope": scope, "session_id": "work",
        });
        given(arguments).map(|new| new.scope)
    };
    assert_eq!(scoped("user").unwrap(), NewSkillScope::User);
    assert_eq!(
        scoped("session").unwrap(),
        NewSkillScope::Session(Some("work".to_owned()))
    );
    assert_eq!(
        scoped("team").unwrap_err(),
        "arguments.invalid: `scope` cannot be `team`"
    );
}

#[test]
fn schemas_may_come_as_their_text() {
    let new = |inputs: Value| {
        let arguments = json!({ "name": "a", "description": "b", "code": "1", "language": "js", "inputs": inputs });
        given(arguments).map(|new| new.inputs)
    };
    assert_eq!(
        new(json!("{\"type\":\"object\"}")).unwrap(),
        Some(json!({ "type": "object" }))
    );
    assert!(new(json!([1])).unwrap_err().starts_with("arguments.invalid"));
}
