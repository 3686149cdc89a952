//! Checks programs with real compilers, each in its sandbox.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use ringfence_catalog::{Catalog, OfferedTool, ServerHints, ServerListing, StubNotes, ToolDefinition};
use ringfence_check::{CheckerSandboxError, CheckerTools, TypeCheck, TypeCheckError, TypeErrorLocation};
use ringfence_sandbox::{Backend, BackendKind, JobLanguage};
use serde_json::json;

const TS_STUBS: &str = r#"declare const args: string[];
declare const console: { log(...values: unknown[]): void };
declare const tools: {
  github: {
    list_issues(args: { owner: string; labels?: ("bug" | "feature")[] }): Promise<{ title: string; number: number }[]>;
  };
};
declare module "tools" {
  const all: typeof tools;
  export default all;
  export const github: typeof tools.github;
}
"#;
const PY_BUILTINS: &str = "args: list[str]\n";
const PY_GITHUB: &str = "from typing import Literal, TypedDict

class Issue(TypedDict):
    title: str
    number: int

async def list_issues(*, owner: str, labels: list[Literal['bug', 'feature']] = ...) -> list[Issue]: ...
";

fn ts_stubs() -> Vec<(String, String)> {
    vec![("tools.d.ts".to_owned(), TS_STUBS.to_owned())]
}

fn py_stubs() -> Vec<(String, String)> {
    [
        ("__builtins__.pyi", PY_BUILTINS),
        ("tools/__init__.pyi", "from . import github as github\n"),
        ("tools/github.pyi", PY_GITHUB),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .to_vec()
}

fn stubs(language: JobLanguage) -> Vec<(String, String)> {
    if language == JobLanguage::Python {
        py_stubs()
    } else {
        ts_stubs()
    }
}

fn backend() -> Arc<Backend> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    Arc::new(
        Backend::new(
            BackendKind::default(),
            &format!("ringfence-check-{}-{number}", std::process::id()),
        )
        .unwrap(),
    )
}

fn tools() -> CheckerTools {
    CheckerTools::find_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools"))
}

/// The checkers of this machine; `None`, with a message on standard error, where the one for `language` is not installed.
#[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
fn checker(language: JobLanguage) -> Option<TypeCheck> {
    let check = TypeCheck::new(backend(), tools());
    if check.covers(language) {
        return Some(check);
    }
    assert!(
        std::env::var_os("RINGFENCE_REQUIRE_TOOLS").is_none(),
        "the checker of {language:?} is missing below target/tools"
    );
    eprintln!("skipped: the checker of {language:?} is missing below target/tools");
    None
}

async fn errors(check: &TypeCheck, language: JobLanguage, source: &str) -> Vec<TypeErrorLocation> {
    check
        .check_program(language, "main", source, &stubs(language))
        .await
        .unwrap()
}

fn short(found: &[TypeErrorLocation]) -> Vec<(u32, u32, &str)> {
    found
        .iter()
        .map(|one| (one.line, one.column, one.code.as_str()))
        .collect()
}

#[tokio::test]
async fn typescript_is_checked_against_its_stubs() {
    let Some(check) = checker(JobLanguage::TypeScript) else {
        return;
    };
    let source = "import { github } from \"tools\";\n\
        const issues = await github.list_issues({ owner: 1 });\n\
        /* 😀 */ await tools.github.list_isues({ owner: \"a\" });\n\
        issues[0].titel;\n\
        await tools.github.list_issues({ owner: \"a\", labels: [\"bugs\"] });\n";
    let found = errors(&check, JobLanguage::TypeScript, source).await;
    let expected = [
        (2, 43, "TS2322"),
        (3, 28, "TS2551"),
        (4, 11, "TS2551"),
        (5, 55, "TS2820"),
    ];
    assert_eq!(short(&found), expected, "{found:#?}");
    assert!(found.iter().all(|one| one.file == "main"));
    let first = &found[0].message;
    assert!(
        first.contains("Type 'number' is not assignable to type 'string'"),
        "{first}"
    );
    assert!(
        first.contains("The expected type comes from property 'owner'"),
        "{first}"
    );
    assert!(found[3].message.contains("\"bug\" | \"feature\""), "{:?}", found[3]);
    check.end().await;
}

#[tokio::test]
async fn python_is_checked_against_its_stubs() {
    let Some(check) = checker(JobLanguage::Python) else {
        return;
    };
    let source = "from tools import github\n\
        issues = await github.list_issues(owner=1)\n\
        '😀'; await github.list_isues(owner='a')\n\
        issues[0]['titel']\n\
        await github.list_issues()\n\
        from tools import gitlab\n";
    let found = errors(&check, JobLanguage::Python, source).await;
    let lines: Vec<u32> = found.iter().map(|one| one.line).collect();
    assert_eq!(lines, [2, 3, 4, 5, 6], "{found:#?}");
    assert_eq!(
        (found[1].column, found[1].code.as_str()),
        (12, "missing-attribute"),
        "{found:#?}"
    );
    assert!(
        found[0].message.contains("Expected `str`, found `Literal[1]`"),
        "{found:#?}"
    );
    assert!(found[3].message.contains("`owner`"), "{found:#?}");
    assert!(
        found.iter().all(|one| !one.message.contains("/workspace")),
        "{found:#?}"
    );
    check.end().await;
}

#[tokio::test]
async fn what_a_program_may_be_passes() {
    let typescript = [
        "const issues = await tools.github.list_issues({ owner: 'a' });\nissues.map((issue) => issue.title)",
        "({ a: 1 })",
        "export default args.length;",
        "import tools from 'tools'; await tools.github.list_issues({ owner: args[0] })",
        "const rows = []; for (const arg of args) rows.push({ arg }); rows",
        "const groups = {}; for (const arg of args) (groups[arg] ??= []).push(1); groups",
        "function twice(value) { return value * 2 }\ntwice(2)",
        "try { JSON.parse('') } catch (error) { console.log(error.message) }",
        "let unused = 1; if (false) { console.log('never') }",
        "const args = 1; const tools = 2; const name = 'shadows are fine'; [args, tools, name]",
        "",
    ];
    let python = [
        "from tools import github\nissues = await github.list_issues(owner='a', labels=['bug'])\n[one['title'] for one in issues]",
        "import asyncio\nfrom tools import github\nawait asyncio.gather(*(github.list_issues(owner=name) for name in args))",
        "import tools.github\n[await tools.github.list_issues(owner=o) for o in args]",
        "import numpy as np\nimport json, re\n{'a': np.zeros(3), 'b': json.loads('1')}",
        "async def nothing():\n    pass\nasync with something() as x: x\n"
            .replace("something()", "__import__('x').y()")
            .leak(),
        "rows = []\nfor arg in args: rows.append({'arg': arg})\nrows",
        "",
    ];
    for (language, programs) in [
        (JobLanguage::TypeScript, &typescript[..]),
        (JobLanguage::Python, &python[..]),
    ] {
        let Some(check) = checker(language) else { continue };
        for source in programs {
            let found = errors(&check, language, source).await;
            assert!(found.is_empty(), "{source}\n{found:#?}");
        }
        check.end().await;
    }
}

#[tokio::test]
async fn other_stubs_replace_the_former_ones() {
    for language in [JobLanguage::TypeScript, JobLanguage::Python] {
        let Some(check) = checker(language) else { continue };
        let (uses_github, uses_slack, slack) = if language == JobLanguage::Python {
            let slack = (
                "tools/slack.pyi".to_owned(),
                "async def post(*, text: str) -> None: ...\n".to_owned(),
            );
            let package = (
                "tools/__init__.pyi".to_owned(),
                "from . import slack as slack\n".to_owned(),
            );
            let github = "from tools import github\nawait github.list_issues(owner='a')";
            (
                github,
                "from tools import slack\nawait slack.post(text='a')",
                vec![package, slack],
            )
        } else {
            let slack = "declare const tools: { slack: { post(args: { text: string }): Promise<void> } };";
            let slack = ("tools.d.ts".to_owned(), slack.to_owned());
            let github = "await tools.github.list_issues({ owner: 'a' })";
            (github, "await tools.slack.post({ text: 'a' })", vec![slack])
        };
        for _ in 0..2 {
            let github = stubs(language);
            let ask = |source, stubs| check.check_program(language, "main", source, stubs);
            assert!(ask(uses_github, &github).await.unwrap().is_empty());
            assert!(!ask(uses_slack, &github).await.unwrap().is_empty());
            assert!(ask(uses_slack, &slack).await.unwrap().is_empty());
            assert!(!ask(uses_github, &slack).await.unwrap().is_empty());
        }
        check.end().await;
    }
}

#[tokio::test]
async fn a_program_learns_nothing_of_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "SECRET_OF_THE_HOST";
    std::fs::write(folder.path().join("secret.ts"), format!("export type {secret} = 1;")).unwrap();
    let there = folder.path().display();
    let typescript = [
        "/// <reference path=\"/etc/passwd\" />\n1".to_owned(),
        "/// <reference path=\"/etc/shadow.ts\" />\n1".to_owned(),
        "import '/etc/passwd'".to_owned(),
        format!("import * as stolen from '{there}/secret.ts'; const it: typeof stolen = 1 as never; stolen.x"),
        format!("/// <reference path=\"{there}/secret.ts\" />\nlet x: {secret}"),
        "import stolen from '../../../../../../../etc/hostname'".to_owned(),
    ];
    let Some(check) = checker(JobLanguage::TypeScript) else {
        return;
    };
    for source in &typescript {
        let found = errors(&check, JobLanguage::TypeScript, source).await;
        let told = found
            .iter()
            .any(|one| one.message.contains("root:") || one.message.contains("daemon"));
        assert!(!found.is_empty() && !told, "{source}\n{found:#?}");
    }
    // A file that exists and one that does not give the same errors.
    for (source, other) in [
        (&typescript[3], "nowhere"),
        (&typescript[4], "nowhere"),
        (&typescript[1], "nothing"),
    ] {
        let gone = source
            .replace("/secret.ts", &format!("/{other}.ts"))
            .replace("/shadow.ts", &format!("/{other}.ts"));
        let existing = errors(&check, JobLanguage::TypeScript, source).await;
        let missing = errors(&check, JobLanguage::TypeScript, &gone).await;
        let codes = |found: &[TypeErrorLocation]| found.iter().map(|one| one.code.clone()).collect::<Vec<_>>();
        assert_eq!(codes(&existing), codes(&missing), "{source}");
        assert!(
            existing
                .iter()
                .all(|one| !one.message.contains(secret) || source.contains(secret))
        );
    }
    check.end().await;
}

#[tokio::test]
async fn several_programs_at_once_get_their_own_answers() {
    for language in [JobLanguage::TypeScript, JobLanguage::Python] {
        let Some(check) = checker(language) else { continue };
        let check = Arc::new(check);
        let mut asked = tokio::task::JoinSet::new();
        for number in 1..=20u32 {
            let check = Arc::clone(&check);
            asked.spawn(async move {
                let source = format!("{}nothing_{number}", "\n".repeat(number as usize - 1));
                let found = errors(&check, language, &source).await;
                assert_eq!(found.len(), 1, "{found:#?}");
                assert_eq!(found[0].line, number);
                assert!(found[0].message.contains(&format!("nothing_{number}")), "{found:#?}");
            });
        }
        while let Some(one) = asked.join_next().await {
            one.unwrap();
        }
    }
}

#[tokio::test]
async fn a_checker_that_is_none_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let broken = [
        ("ends", "#!/bin/sh\nexit 3\n"),
        ("lies", "#!/bin/sh\necho 'Content-Length: 999999999'; echo; cat\n"),
        ("floods", "#!/bin/sh\nyes\n"),
    ];
    for (name, script) in broken {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        let (program, library) = (place.join("tsc"), place.join("lib.es2023.d.ts"));
        std::fs::write(&library, "").unwrap();
        std::fs::write(&program, script).unwrap();
        for path in [folder.path(), &place, &program, &library] {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let check = TypeCheck::new(
            backend(),
            CheckerTools {
                tsc: Some(program),
                ty: None,
            },
        );
        let began = Instant::now();
        for turn in 0..3 {
            let error = check
                .check_program(JobLanguage::TypeScript, "main.ts", "1", &[])
                .await
                .unwrap_err();
            let rests = matches!(error, TypeCheckError::BackingOff { .. });
            assert_eq!(rests, turn == 2, "{name}, turn {turn}: {error}");
            assert!(rests || matches!(error, TypeCheckError::Ended), "{name}: {error}");
        }
        assert!(began.elapsed().as_secs() < 5, "{name}");
        check.end().await;
    }
}

#[tokio::test]
async fn what_is_no_checker_is_told_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("script"), "#!/usr/bin/env node").unwrap();
    let check = |name: &str| {
        let tsc = Some(folder.path().join(name));
        TypeCheck::new(backend(), CheckerTools { tsc, ty: None })
    };
    let (missing, script) = (check("nowhere"), check("script"));
    let cases = [
        (&missing, JobLanguage::TypeScript, "main.ts"),
        (&script, JobLanguage::TypeScript, "main.ts"),
        (&script, JobLanguage::Python, "main.py"),
    ];
    let mut errors = Vec::new();
    for (check, language, file_name) in cases {
        errors.push(check.check_program(language, file_name, "1", &[]).await.unwrap_err());
    }
    assert!(
        matches!(
            errors[..],
            [
                TypeCheckError::Sandbox(CheckerSandboxError::Program { .. }),
                TypeCheckError::Sandbox(CheckerSandboxError::NoLibrary { .. }),
                TypeCheckError::Absent,
            ]
        ),
        "{errors:?}"
    );
}

#[tokio::test]
async fn a_program_that_takes_too_long_to_check_is_given_up_and_the_next_is_checked() {
    let Some(check) = checker(JobLanguage::TypeScript) else {
        return;
    };
    assert!(errors(&check, JobLanguage::TypeScript, "1").await.is_empty());
    let endless = "type Grow<T extends any[], N> = T['length'] extends N ? T : Grow<[...T, 0], N>;\n\
        type Pairs = { [A in Grow<[], 900>['length']]: 0 };\n\
        type P<A extends string> = `${A}${A}`;\n\
        type D = '0'|'1'|'2'|'3'|'4'|'5'|'6'|'7'|'8'|'9';\n\
        type U = `${D}${D}${D}${D}`;\n\
        declare function f<T extends U>(a: T, b: U): void;\n";
    let many: Vec<String> = (0..4000)
        .map(|n| format!("let a{n}: `${{U}}{n}` = '' as U; let b{n}: U = a{n};\n"))
        .collect();
    let source = format!("{endless}{}", many.concat());
    let began = Instant::now();
    let answer = check
        .check_program(JobLanguage::TypeScript, "main.ts", &source, &ts_stubs())
        .await;
    assert!(began.elapsed().as_secs() < 8, "{:?}", began.elapsed());
    assert!(
        matches!(answer, Err(TypeCheckError::TimedOut { .. } | TypeCheckError::Ended)),
        "{answer:?}"
    );
    let found = errors(&check, JobLanguage::TypeScript, "nowhere").await;
    assert_eq!(found.len(), 1);
    check.end().await;
}

#[tokio::test]
async fn a_resident_checker_answers_at_once() {
    for language in [JobLanguage::TypeScript, JobLanguage::Python] {
        let Some(check) = checker(language) else { continue };
        let line = if language == JobLanguage::Python {
            "from tools import github\nissues = await github.list_issues(owner='a')\nprint([one['title'] for one in issues])\n"
        } else {
            "{ const issues = await tools.github.list_issues({ owner: 'a' });\nconsole.log(issues.map((one) => one.title)); }\n"
        };
        let program = line.repeat(10);
        let began = Instant::now();
        errors(&check, language, &program).await;
        let cold = began.elapsed();
        let mut times = Vec::new();
        for number in 0..30 {
            let began = Instant::now();
            let found = errors(&check, language, &format!("{program}\n{number}")).await;
            assert!(found.is_empty(), "{found:#?}");
            times.push(began.elapsed());
        }
        times.sort();
        eprintln!(
            "{language:?}: first {cold:?}, then {:?} in the middle, {:?} at worst",
            times[15], times[29]
        );
        assert!(times[15].as_millis() < 200, "{times:?}");
        check.end().await;
    }
}

#[tokio::test]
async fn programs_are_checked_against_the_stubs_of_the_catalog() {
    let input = json!({
        "type": "object",
        "properties": { "owner": { "type": "string" }, "state": { "enum": ["open", "closed"] } },
        "required": ["owner"],
    });
    let output = json!({
        "type": "object",
        "properties": { "issues": { "type": "array", "items": { "type": "object", "properties": { "title": { "type": "string" } }, "required": ["title"] } } },
        "required": ["issues"],
    });
    let listing = ServerListing {
        server: "git-hub".to_owned(),
        description: String::new(),
        tools: vec![ToolDefinition {
            name: "list-issues".to_owned(),
            title: None,
            description: "Lists. */ \"\"\" issues".to_owned(),
            input,
            output: Some(output),
            hints: ServerHints::default(),
            tags: Vec::new(),
        }],
    };
    let catalog = Catalog::new([listing]);
    let offers: Vec<OfferedTool<'_>> = catalog
        .tools()
        .iter()
        .map(|tool| OfferedTool {
            tool,
            notes: StubNotes::default(),
            observed: None,
        })
        .collect();
    let tool = &catalog.tools()[0];
    let (server, ident) = (&tool.server_ident, &tool.ident);
    let typescript =
        format!("const found = await tools.{server}.{ident}({{ owner: 'a', state: 'open' }});\nfound.issues[0].title");
    let python = format!(
        "from tools import {server}\nfound = await {server}.{ident}(owner='a', state='open')\nfound['issues'][0]['title'], args, files.list()"
    );
    let cases = [
        (
            JobLanguage::TypeScript,
            ringfence_catalog::StubLanguage::TypeScript,
            typescript,
        ),
        (JobLanguage::Python, ringfence_catalog::StubLanguage::Python, python),
    ];
    for (language, of_stubs, good) in cases {
        let Some(check) = checker(language) else { continue };
        let stubs = ringfence_catalog::stub_files(&offers, of_stubs);
        let none = ringfence_catalog::stub_files(&[], of_stubs);
        let ask = async |source: String, stubs| check.check_program(language, "main", &source, stubs).await.unwrap();
        let found = ask(good.clone(), &stubs).await;
        assert!(found.is_empty(), "{good}\n{found:#?}\n{stubs:#?}");
        assert_eq!(ask(good.replace("'open'", "'opened'"), &stubs).await.len(), 1);
        assert_eq!(ask(good.replace("title", "titel"), &stubs).await.len(), 1);
        assert!(!ask(good, &none).await.is_empty());
        check.end().await;
    }
}
