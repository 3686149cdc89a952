use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use super::*;

fn folder_with(files: &[(&str, u32)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, mode) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
    }
    folder
}

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// What is hidden below `from` when `ceiling` is the folder that is shown.
fn look_below(ceiling: &Path, from: &Path, deny: &[&str]) -> Result<HostEntry, ScanError> {
    let real = fs::canonicalize(from).unwrap();
    HostScanner::new(&globs(deny), std::iter::once(ceiling)).inspect(&real)
}

/// The names below `folder` that exist and are hidden.
fn hidden(folder: &Path, deny: &[&str]) -> Result<Vec<String>, ScanError> {
    match look_below(folder, folder, deny)? {
        HostEntry::File => panic!("a folder was looked at"),
        HostEntry::Folder { hidden } => {
            let there = |path: &String| folder.join(path).symlink_metadata().is_ok();
            Ok(hidden.into_iter().filter(there).collect())
        }
    }
}

#[test]
fn what_the_policy_names_is_hidden_folders_whole() {
    let folder = folder_with(&[
        ("a.py", 0o644),
        (".env", 0o644),
        (".ssh/id", 0o644),
        ("deep/er/key.pem", 0o644),
        ("keys/a/b", 0o644),
    ]);
    std::os::unix::fs::symlink("a.py", folder.path().join(".env.link")).unwrap();
    let found = hidden(folder.path(), &["**/.env*", "**/.ssh/**", "**/*.pem", "keys/*"]).unwrap();
    assert_eq!(found, [".env", ".env.link", ".ssh", "deep/er/key.pem", "keys"]);
}

#[test]
fn sockets_and_pipes_are_no_way_out() {
    let folder = folder_with(&[("a.py", 0o644)]);
    let socket = folder.path().join("host.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    assert_eq!(hidden(folder.path(), &[]).unwrap(), ["host.sock"]);
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let error = look_below(folder.path(), &socket, &[]).unwrap_err();
    assert!(
        matches!(&error, ScanError::Kind { path } if path.ends_with("host.sock")),
        "{error:?}"
    );
}

#[test]
fn a_file_that_the_sandbox_could_not_read_is_named() {
    let folder = folder_with(&[("fine", 0o644), ("locked", 0o000)]);
    let error = hidden(folder.path(), &[]).unwrap_err();
    assert!(
        matches!(&error, ScanError::Unreadable { path } if path.ends_with("locked")),
        "{error:?}"
    );
    assert_eq!(hidden(folder.path(), &["locked"]).unwrap(), ["locked"]);
}

#[test]
fn what_is_hidden_is_hidden_by_its_whole_real_path() {
    let folder = folder_with(&[
        ("work/.ssh/keys/id", 0o644),
        ("work/svc/.aws/credentials", 0o644),
        ("work/.env", 0o644),
        ("work/server.pem", 0o644),
        ("work/.config/gcloud/key", 0o644),
        ("work/.config/other", 0o644),
        ("work/vault/a/b", 0o644),
    ]);
    let work = folder.path().join("work");
    std::os::unix::fs::symlink(work.join(".ssh/keys"), work.join("plain")).unwrap();
    let deny = [
        "**/.ssh/**",
        "**/.aws/**",
        "**/.env*",
        "**/*.pem",
        "**/.config/gcloud/**",
        "vault/a",
    ];
    for name in [
        ".ssh",
        ".ssh/keys",
        ".ssh/keys/id",
        "svc/.aws",
        "svc/.aws/credentials",
        ".env",
        "server.pem",
        ".config/gcloud",
        "plain",
        "vault/a",
        "vault/a/b",
    ] {
        let error = look_below(&work, &work.join(name), &deny).unwrap_err();
        assert!(matches!(&error, ScanError::Denied { .. }), "{name}: {error:?}");
    }
    let shown = look_below(&work, &work.join(".config"), &deny).unwrap();
    assert!(
        matches!(&shown, HostEntry::Folder { hidden } if hidden.contains("gcloud")),
        "{shown:?}"
    );
    let shown = look_below(&work, &work.join("vault"), &deny).unwrap();
    assert!(
        matches!(&shown, HostEntry::Folder { hidden } if hidden.contains("a")),
        "{shown:?}"
    );
    // A glob without `**` is relative to what is shown and to nothing else.
    let shown = look_below(&work.join("vault"), &work.join("vault"), &deny).unwrap();
    assert!(
        matches!(&shown, HostEntry::Folder { hidden } if !hidden.contains("a")),
        "{shown:?}"
    );
}

#[test]
fn what_is_hidden_in_one_shown_folder_is_not_shown_through_another() {
    let folder = folder_with(&[("proj/private/x", 0o644), ("proj/open", 0o644)]);
    let real = fs::canonicalize(folder.path()).unwrap();
    let inner = real.join("proj");
    let deny = globs(&["private"]);
    let shown = HostScanner::new(&deny, [inner.as_path(), real.as_path()].into_iter()).inspect(&real);
    let Ok(HostEntry::Folder { hidden }) = shown else {
        panic!("{shown:?}")
    };
    assert!(
        hidden.contains("proj/private") && !hidden.contains("proj/open"),
        "{hidden:?}"
    );
    // Where the inner folder is not shown by a mount of its own, the glob applies to the top only.
    let shown = HostScanner::new(&deny, std::iter::once(real.as_path())).inspect(&real);
    let Ok(HostEntry::Folder { hidden }) = shown else {
        panic!("{shown:?}")
    };
    assert!(!hidden.contains("proj/private"), "{hidden:?}");
}

#[test]
fn another_name_of_a_hidden_file_is_hidden_too() {
    let folder = folder_with(&[(".env", 0o644), (".ssh/id", 0o644), ("own", 0o644)]);
    let at = |name: &str| folder.path().join(name);
    fs::hard_link(at(".env"), at("copy")).unwrap();
    fs::hard_link(at(".ssh/id"), at("z")).unwrap();
    fs::hard_link(at("own"), at("own2")).unwrap();
    let found = hidden(folder.path(), &["**/.env*", "**/.ssh/**"]).unwrap();
    assert_eq!(found, [".env", ".ssh", "copy", "z"]);
}

#[test]
fn names_that_are_written_out_are_hidden_before_they_are_there() {
    let folder = folder_with(&[("a/b/c/d/e/f", 0o644)]);
    let HostEntry::Folder { hidden } = look_below(folder.path(), folder.path(), &["**/.env*", "**/*.pem"]).unwrap()
    else {
        panic!("a folder was looked at");
    };
    let expected = [".env", "a/.env", "a/b/.env", "a/b/c/.env"];
    assert_eq!(hidden, expected.map(str::to_owned).into());
}

#[test]
fn a_deep_folder_is_refused_at_once() {
    let folder = folder_with(&[]);
    let mut at = fs::File::open(folder.path()).map(OwnedFd::from).unwrap();
    for _ in 0..400 {
        rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, "d", FOLDER, Mode::empty()).unwrap();
    }
    let started = Instant::now();
    let error = hidden(folder.path(), &["**/.ssh/**", "**/.env*", "**/a/**/b"]).unwrap_err();
    assert!(matches!(&error, ScanError::TooDeep { .. }), "{error:?}");
    assert!(started.elapsed() < SCAN_TIMEOUT, "{:?}", started.elapsed());
}

#[test]
fn a_look_that_takes_too_long_ends() {
    let folder = folder_with(&[("a", 0o644)]);
    let deny = globs(&["**/.env*"]);
    let mut scanner = HostScanner::new(&deny, std::iter::empty());
    scanner.budget.deadline = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let error = scanner.inspect(&fs::canonicalize(folder.path()).unwrap()).unwrap_err();
    assert!(matches!(&error, ScanError::TooSlow { .. }), "{error:?}");
}

#[test]
fn a_look_through_what_is_hidden_ends_in_time_too() {
    let names: Vec<String> = (0..100).map(|number| format!("hidden/{number}")).collect();
    let files: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 0o644)).collect();
    let folder = folder_with(&files);
    let root = openat(CWD, folder.path(), FOLDER, Mode::empty()).unwrap();
    let entries_looked_at = |deadline: Instant| {
        let mut budget = ScanBudget { entries: 0, deadline };
        HardLinks::default().deny_below(&root, "hidden", &mut budget);
        budget.entries
    };
    let now = Instant::now();
    assert_eq!(entries_looked_at(now + SCAN_TIMEOUT), 100);
    assert_eq!(entries_looked_at(now.checked_sub(Duration::from_secs(1)).unwrap()), 1);
}

#[test]
fn mounts_below_a_folder_are_found() {
    let table = b"22 1 8:1 / / rw - ext4 /dev/sda rw\n23 22 0:5 / /srv/da\\040ta/in\\134ner rw - tmpfs x rw\n";
    let below = |folder: &str| mount_below(table, Path::new(folder));
    let inner = Some(PathBuf::from("/srv/da ta/in\\ner"));
    assert_eq!(below("/srv"), inner);
    assert_eq!(below("/srv/da ta"), inner);
    assert_eq!(below("/srv/da ta/in\\ner"), None);
    assert_eq!(below("/srv/da"), None);
}

#[test]
fn data_and_keys_of_our_own_are_shown_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for (place, file) in [
        ("share/rf", "ringfence.db"),
        ("config/ringfence", "vault.key"),
        ("config/other", "vault.key"),
    ] {
        fs::create_dir_all(root.join(place)).unwrap();
        fs::write(root.join(place).join(file), "x").unwrap();
        fs::set_permissions(root.join(place).join(file), fs::Permissions::from_mode(0o644)).unwrap();
    }
    fs::create_dir(root.join("share/rf/workspaces")).unwrap();
    for name in ["share/rf", "share/rf/workspaces", "config/ringfence"] {
        let refused = HostScanner::new(&[], std::iter::empty()).inspect(&root.join(name));
        assert!(matches!(refused, Err(ScanError::Private { .. })), "{name}: {refused:?}");
    }
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    let shown = HostScanner::new(&[], std::iter::empty()).inspect(&root).unwrap();
    let hidden = ["config/ringfence", "share/rf"].map(str::to_owned).into();
    assert_eq!(shown, HostEntry::Folder { hidden });
}

#[test]
fn type_checkers_in_a_data_folder_are_shown_and_nothing_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for inside in ["tools/npm/lib", "tools.old", "workspaces/tools"] {
        fs::create_dir_all(root.join(inside)).unwrap();
    }
    fs::write(root.join("ringfence.db"), "x").unwrap();
    std::os::unix::fs::symlink(&root, root.join("tools/up")).unwrap();
    let look = |inside: &str| {
        let real = root.join(inside).canonicalize().unwrap();
        HostScanner::new(&[], std::iter::empty()).inspect(&real)
    };
    assert!(matches!(look("tools/npm/lib"), Ok(HostEntry::Folder { .. })));
    for inside in ["tools.old", "workspaces/tools", "tools/up", "tools/up/workspaces"] {
        let refused = look(inside);
        assert!(
            matches!(refused, Err(ScanError::Private { .. })),
            "{inside}: {refused:?}"
        );
    }
}
