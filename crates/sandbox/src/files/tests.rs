use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::*;

const QUOTA: u64 = 32 << 20;

fn workspace(folder: &Path) -> Workspace {
    Workspace {
        root: Some(File::open(folder).unwrap().into()),
        quota: QUOTA,
        is_in_memory: true,
    }
}

fn sparse(path: &Path, length: u64) -> File {
    let file = File::create(path).unwrap();
    file.set_len(length).unwrap();
    file
}

fn collect(workspace: &Workspace, limits: &CollectLimits) -> CollectedFiles {
    workspace.collect(&BTreeMap::new(), &[], &[], limits).unwrap()
}

fn paths(collected: &CollectedFiles) -> Vec<&str> {
    collected.files.iter().map(|file| file.path.as_str()).collect()
}

fn counts(skipped: &SkippedFiles) -> Vec<(SkipReason, u64)> {
    skipped.counts().map(|(reason, count)| (reason, count.count)).collect()
}

fn emit(path: &str) -> EmittedFile {
    EmittedFile::new(path, "text/plain").unwrap()
}

#[test]
fn holes_are_paid_from_a_purse_of_their_own_and_keep_no_file_that_was_written() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..250 {
        sparse(&folder.path().join(format!("hole-{number:03}")), QUOTA - 1);
    }
    sparse(&folder.path().join("endless"), 1 << 40);
    fs::write(folder.path().join("written"), vec![7; 1 << 20]).unwrap();
    let workspace = workspace(folder.path());
    let limits = CollectLimits {
        time: Duration::from_mins(5),
        ..workspace.limits()
    };
    let collected = collect(&workspace, &limits);
    let found = paths(&collected);
    assert!(found.contains(&"written"), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(counts(&collected.skipped), [(SkipReason::Holes, 250)]);
    assert_eq!(collected.skipped.named().len(), 100);
}

#[test]
fn a_file_with_holes_reads_as_it_is_and_comes_out_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse");
    let file = sparse(&path, 8 << 20);
    std::os::unix::fs::FileExt::write_all_at(&file, b"in the middle", 3 << 20).unwrap();
    drop(file);
    let whole = fs::read(&path).unwrap();
    fs::write(folder.path().join("whole"), &whole).unwrap();
    let workspace = workspace(folder.path());
    let collected = collect(&workspace, &workspace.limits());
    let [one, other] = collected.files.as_slice() else {
        panic!("{collected:?}")
    };
    assert_eq!(one.sha256, other.sha256);
    let out = tempfile::tempdir().unwrap();
    let outcomes = workspace
        .copy_out(
            &collected.files,
            out.path(),
            ExistingFileAction::Keep,
            Duration::from_mins(1),
        )
        .unwrap();
    assert_eq!(outcomes, [CopyOutcome::Copied; 2]);
    let copy = out.path().join("sparse");
    assert!(fs::read(&copy).unwrap() == whole);
    assert!(
        fs::metadata(&copy).unwrap().blocks() * 512 < 1 << 20,
        "the holes were written out"
    );
}

#[test]
fn entries_depth_names_and_time_end_a_look_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("a/b/c/d")).unwrap();
    for number in 0..20 {
        fs::create_dir(folder.path().join(format!("folder-{number}"))).unwrap();
    }
    let workspace = workspace(folder.path());
    let usual = workspace.limits();
    for (limits, reason) in [
        (CollectLimits { entries: 10, ..usual }, SkipReason::Entries),
        (CollectLimits { names: 50, ..usual }, SkipReason::Entries),
        (CollectLimits { depth: 3, ..usual }, SkipReason::Depth),
        (
            CollectLimits {
                time: Duration::ZERO,
                ..usual
            },
            SkipReason::Time,
        ),
    ] {
        let collected = collect(&workspace, &limits);
        assert_eq!(counts(&collected.skipped), [(reason, 1)], "{limits:?}");
        assert!(collected.skipped.has_limit());
    }
    assert!(collect(&workspace, &usual).skipped.is_empty());
}

#[test]
fn what_a_program_lets_go_out_is_taken_before_all_else() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..50 {
        fs::write(folder.path().join(format!("junk-{number}")), "x").unwrap();
    }
    fs::create_dir(folder.path().join("out")).unwrap();
    fs::write(folder.path().join("out/report"), "y").unwrap();
    let workspace = workspace(folder.path());
    let limits = CollectLimits {
        entries: 5,
        ..workspace.limits()
    };
    let emitted = [emit("out/report"), emit("out"), emit("none")];
    let collected = workspace.collect(&BTreeMap::new(), &[], &emitted, &limits).unwrap();
    assert_eq!(paths(&collected).first(), Some(&"out/report"), "{collected:?}");
    let withheld = [
        ("out".to_owned(), SkipReason::NotPlain),
        ("none".to_owned(), SkipReason::Gone),
    ];
    assert_eq!(collected.withheld, withheld);
}

#[test]
fn files_that_there_is_no_time_to_copy_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("one"), "x").unwrap();
    let workspace = workspace(folder.path());
    let collected = collect(&workspace, &workspace.limits());
    let out = tempfile::tempdir().unwrap();
    let outcomes = workspace
        .copy_out(&collected.files, out.path(), ExistingFileAction::Keep, Duration::ZERO)
        .unwrap();
    assert_eq!(outcomes, [CopyOutcome::Skipped(SkipReason::Time)]);
    assert!(!out.path().join("one").exists());
}

#[test]
fn a_file_that_is_there_already_stays_unless_it_is_to_be_overwritten() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, there) in [
        ("link", None),
        ("new", None),
        ("other", Some("mine")),
        ("same", Some("made")),
    ] {
        fs::write(folder.path().join(name), "made").unwrap();
        if let Some(there) = there {
            fs::write(out.path().join(name), there).unwrap();
        }
    }
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), out.path().join("link")).unwrap();
    let workspace = workspace(folder.path());
    let mut collected = collect(&workspace, &workspace.limits());
    let time = Duration::from_mins(1);
    let outcomes = workspace
        .copy_out(&collected.files, out.path(), ExistingFileAction::Keep, time)
        .unwrap();
    let exists = CopyOutcome::Skipped(SkipReason::Exists);
    assert_eq!(outcomes, [exists, CopyOutcome::Copied, exists, CopyOutcome::Unchanged]);
    assert_eq!(fs::read_to_string(out.path().join("other")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(elsewhere.path()).unwrap(), "");
    collected.files.remove(0);
    let outcomes = workspace
        .copy_out(&collected.files, out.path(), ExistingFileAction::Overwrite, time)
        .unwrap();
    assert_eq!(outcomes, [CopyOutcome::Copied; 3]);
    assert_eq!(fs::read_to_string(out.path().join("other")).unwrap(), "made");
}

#[test]
fn what_is_in_the_way_of_one_file_keeps_no_other() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a", "b", "c"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("x"), "made").unwrap();
    }
    fs::write(folder.path().join("z"), "made").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    // A link where a folder should be, a file where one should be, a folder where a file should be.
    std::os::unix::fs::symlink(elsewhere.path(), out.path().join("a")).unwrap();
    fs::write(out.path().join("b"), "mine").unwrap();
    fs::create_dir_all(out.path().join("c/x")).unwrap();
    let workspace = workspace(folder.path());
    let collected = collect(&workspace, &workspace.limits());
    let occupied = CopyOutcome::Skipped(SkipReason::Occupied);
    let time = Duration::from_mins(1);
    let outcomes = workspace.copy_out(&collected.files, out.path(), ExistingFileAction::Overwrite, time);
    assert_eq!(outcomes.unwrap(), [occupied, occupied, occupied, CopyOutcome::Copied]);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(out.path().join("b")).unwrap(), "mine");
}

#[test]
fn a_name_that_is_not_utf_8_is_told_as_such_with_its_bytes_escaped() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let name = |bytes: &[u8]| folder.path().join(std::ffi::OsStr::from_bytes(bytes));
    fs::write(name(b"caf\xe9"), "x").unwrap();
    fs::create_dir(name(b"in")).unwrap();
    fs::create_dir(name(b"in/\xff\\")).unwrap();
    fs::write(name(b"in/\xff\\/below"), "x").unwrap();
    fs::write(name("caf\u{e9}".as_bytes()), "x").unwrap();
    let workspace = workspace(folder.path());
    let collected = collect(&workspace, &workspace.limits());
    assert_eq!(paths(&collected), ["caf\u{e9}"]);
    let mut named = collected.skipped.named().to_vec();
    named.sort();
    let expected = [r"caf\xe9", r"in/\xff\\"].map(|name| (name.to_owned(), SkipReason::NotUtf8));
    assert_eq!(named, expected);
}
