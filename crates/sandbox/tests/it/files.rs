//! Files in and out: only plain ones, only with plain names, without following links.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use ringfence_policy::{Glob, RelPath};
use ringfence_sandbox::{
    CollectError, CollectedFiles, CopyOutcome, EmittedFile, ExecutionLimit, ExecutionTask, ExistingFileAction,
    FileChange, JobLanguage, Sandbox, SkipReason, Verdict,
};

use crate::harness::{backend, code, policy, run, run_in, shell, spec};

pub(crate) fn name(text: &str) -> RelPath {
    text.parse().unwrap()
}

pub(crate) fn collect(
    sandbox: &Sandbox,
    before: &BTreeMap<String, String>,
    deny: &[Glob],
    emitted: &[EmittedFile],
) -> CollectedFiles {
    let workspace = sandbox.workspace().unwrap();
    workspace.collect(before, deny, emitted, &workspace.limits()).unwrap()
}

fn copy_out(sandbox: &Sandbox, collected: &CollectedFiles, to: &Path) -> Result<Vec<CopyOutcome>, CollectError> {
    let workspace = sandbox.workspace().unwrap();
    workspace.copy_out(&collected.files, to, ExistingFileAction::Keep, Duration::from_mins(1))
}

#[tokio::test]
async fn what_is_brought_in_can_be_read_and_what_is_made_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input.csv");
    fs::write(&input, "a,b\n1,2\n").unwrap();
    let backend = backend();
    let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
    let digest = sandbox.put_file(&input, &name("data/input.csv")).unwrap();
    let before = [("data/input.csv".to_owned(), digest)].into();
    let source = "const text = files.read('data/input.csv');\nfiles.write('out/report.txt', text.toUpperCase());\nfiles.write('data/new.csv', 'x');\ntext.length";
    let ran = run_in(&mut sandbox, code(JobLanguage::TypeScript, source)).await;
    assert_eq!((ran.ended.verdict, ran.value()), (Verdict::Finished, "8"), "{ran:?}");
    let collected = collect(&sandbox, &before, &policy(&[]).fs().deny, &[]);
    let found: Vec<(&str, u64, FileChange)> = collected
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.bytes, file.change))
        .collect();
    assert_eq!(
        found,
        [
            ("data/new.csv", 1, FileChange::Created),
            ("out/report.txt", 8, FileChange::Created)
        ]
    );
    let out = folder.path().join("out");
    copy_out(&sandbox, &collected, &out).unwrap();
    assert_eq!(fs::read_to_string(out.join("out/report.txt")).unwrap(), "A,B\n1,2\n");
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn only_plain_files_leave_and_without_their_modes() {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
    let script = "echo x > plain; chmod 6777 plain; ln -s /etc/passwd link; ln -s .. up; mkfifo pipe; \
                  mkdir -p .ssh deep; echo k > .ssh/id; echo s > deep/.env; echo y > deep/ok; ln plain hard";
    let ran = run_in(&mut sandbox, shell(script)).await;
    assert_eq!(ran.stderr, "", "{ran:?}");
    let collected = collect(&sandbox, &BTreeMap::new(), &policy(&[]).fs().deny, &[]);
    let mut found: Vec<&str> = collected.files.iter().map(|file| file.path.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["deep/ok", "hard", "plain"]);
    let skipped = collected.skipped.named().iter();
    let mut skipped: Vec<(&str, &str)> = skipped.map(|(path, why)| (path.as_str(), why.description())).collect();
    skipped.sort_unstable();
    let expected = [
        (".ssh", "fs.deny"),
        ("deep/.env", "fs.deny"),
        ("link", "a link"),
        ("pipe", "not a plain file"),
        ("up", "a link"),
    ];
    assert_eq!(skipped, expected);
    let out = tempfile::tempdir().unwrap();
    copy_out(&sandbox, &collected, out.path()).unwrap();
    let mode = fs::metadata(out.path().join("plain")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7111, 0, "{mode:o}");
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn what_a_program_lets_go_out_comes_first_and_what_is_no_plain_file_is_withheld() {
    for (language, source) in [
        (
            JobLanguage::TypeScript,
            "files.write('z.txt', 'z'); files.write('a.txt', 'a'); emit([1], { name: 'out/z.json' }); emit('z.txt', { type: 'x/y' }); \
             emit('old.csv'); emit('.env'); emit('gone'); emit('z.txt')",
        ),
        (
            JobLanguage::Python,
            "import os\nfiles.write('z.txt', 'z')\nfiles.write('a.txt', 'a')\nemit([1], name='out/z.json')\nemit('z.txt', type='x/y')\n\
             emit('old.csv')\nemit('.env')\nemit('gone')\nemit('z.txt')\nos.remove('gone')\nos.symlink('/etc/passwd', 'gone')",
        ),
    ] {
        let backend = backend();
        let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
        let mut before = BTreeMap::new();
        for there in ["old.csv", ".env", "gone"] {
            before.insert(there.to_owned(), sandbox.put_bytes(b"x", &name(there)).unwrap());
        }
        let ran = run_in(&mut sandbox, code(language, source)).await;
        assert_eq!(ran.ended.verdict, Verdict::Finished, "{ran:?}");
        let deny = policy(&[]).fs().deny.clone();
        let collected = collect(&sandbox, &before, &deny, &ran.ended.emitted);
        let found: Vec<(&str, FileChange, Option<&str>)> = collected
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.change, file.emitted.as_deref()))
            .collect();
        let mut expected = vec![
            ("out/z.json", FileChange::Created, Some("application/json")),
            ("z.txt", FileChange::Created, Some("text/plain")),
            ("old.csv", FileChange::Unchanged, Some("text/csv")),
            ("gone", FileChange::Unchanged, Some("application/octet-stream")),
            ("a.txt", FileChange::Created, None),
        ];
        let mut withheld = vec![(".env".to_owned(), SkipReason::Denied)];
        if language == JobLanguage::Python {
            expected.remove(3);
            withheld.push(("gone".to_owned(), SkipReason::Link));
        }
        assert_eq!(
            (found, collected.withheld.clone()),
            (expected, withheld),
            "{language:?}"
        );
        let out = tempfile::tempdir().unwrap();
        copy_out(&sandbox, &collected, out.path()).unwrap();
        assert_eq!(fs::read_to_string(out.path().join("old.csv")).unwrap(), "x");
        sandbox.end().await.unwrap();
    }
}

#[tokio::test]
async fn what_was_to_go_out_counts_also_when_its_program_is_killed() {
    let source = "emit('said', { name: 'early.txt' }); for (;;);";
    let task = ExecutionTask {
        wall: Some(std::time::Duration::from_secs(1)),
        ..code(JobLanguage::TypeScript, source)
    };
    let ran = run(task, &[]).await;
    assert_eq!(ran.ended.verdict, Verdict::Limit(ExecutionLimit::Wall), "{ran:?}");
    let named: Vec<&str> = ran.ended.emitted.iter().map(|emit| emit.path.as_str()).collect();
    assert_eq!(named, ["early.txt"]);
}

#[tokio::test]
async fn a_link_where_files_go_out_is_not_followed() {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
    run_in(&mut sandbox, shell("mkdir a; echo x > a/b; echo y > c")).await;
    let collected = collect(&sandbox, &BTreeMap::new(), &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let (out, elsewhere) = (folder.path().join("out"), folder.path().join("elsewhere"));
    fs::create_dir_all(&out).unwrap();
    fs::create_dir_all(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, out.join("a")).unwrap();
    let occupied = CopyOutcome::Skipped(SkipReason::Occupied);
    assert_eq!(
        copy_out(&sandbox, &collected, &out).unwrap(),
        [occupied, CopyOutcome::Copied]
    );
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    sandbox.end().await.unwrap();
}

#[test]
fn a_workspace_that_cannot_be_read_is_left_behind_with_a_reason() {
    let emitted = [EmittedFile {
        path: "plot.png".try_into().unwrap(),
        media_type: "image/png".try_into().unwrap(),
    }];
    let collected = CollectedFiles::unread(&emitted);
    assert_eq!(collected.files, []);
    assert_eq!(collected.withheld, [("plot.png".to_owned(), SkipReason::Unreadable)]);
    assert_eq!(
        collected.skipped.named(),
        [("/workspace".to_owned(), SkipReason::Unreadable)]
    );
}
