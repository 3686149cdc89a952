//! What is hidden in a host folder stays hidden while the host changes it, and links that a program leaves lead nowhere.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_sandbox::{BackendLaunchError, Spec, SpecOptions};

use crate::harness::{policy, run_in, shell, spec};
use crate::jail::backend;

fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn shown(folder: &Path) -> String {
    format!("[{{ path: /data, access: ro, from: {} }}]", folder.display())
}

#[tokio::test]
async fn what_the_host_replaces_stays_hidden() {
    let folder = open_folder();
    let at = |name: &str| folder.path().join(name);
    write(&at(".env"), "OLD");
    write(&at(".ssh/id"), "OLD");
    write(&at("sub/key.pem"), "OLD");
    write(&at("plain"), "plain");
    let backend = backend();
    let mut sandbox = backend
        .launch(&spec(&[("fs.mounts", &shown(folder.path()))]))
        .await
        .unwrap();
    let read = "cat /data/.env /data/.ssh/id /data/sub/key.pem /data/.netrc /data/sub/.env /data/plain 2>/dev/null";
    assert_eq!(run_in(&mut sandbox, shell(read)).await.stdout, "plain");
    // The host saves as editors do, makes a folder anew, and adds a name that did not exist.
    write(&at("new"), "NEW");
    fs::rename(at("new"), at(".env")).unwrap();
    fs::remove_dir_all(at(".ssh")).unwrap();
    write(&at(".ssh/id"), "NEW");
    fs::remove_file(at("sub/key.pem")).unwrap();
    write(&at("sub/key.pem"), "NEW");
    write(&at(".netrc"), "NEW");
    write(&at("sub/.env"), "NEW");
    assert_eq!(run_in(&mut sandbox, shell(read)).await.stdout, "plain");
    // The sandbox sees what the host writes into a file.
    fs::write(at("plain"), "newer").unwrap();
    assert_eq!(run_in(&mut sandbox, shell(read)).await.stdout, "newer");
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn a_socket_or_pipe_that_appears_later_leads_nowhere() {
    let folder = open_folder();
    write(&folder.path().join("plain"), "plain");
    let backend = backend();
    let mut sandbox = backend
        .launch(&spec(&[("fs.mounts", &shown(folder.path()))]))
        .await
        .unwrap();
    let socket = folder.path().join("late.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    let fifo = folder.path().join("late.fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    fs::set_permissions(&fifo, fs::Permissions::from_mode(0o666)).unwrap();
    let reader = rustix::fs::open(
        &fifo,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    let script = "python3 - <<'END'\nimport os, socket\n\
        for attempt in (lambda: socket.socket(socket.AF_UNIX).connect('/data/late.sock'),\n\
                        lambda: os.write(os.open('/data/late.fifo', os.O_WRONLY | os.O_NONBLOCK), b'out')):\n\
        \x20   try:\n\x20       attempt()\n\x20       print('reached')\n\
        \x20   except OSError as error:\n\x20       print(type(error).__name__)\nEND";
    let ran = run_in(&mut sandbox, shell(script)).await;
    assert!(!ran.stdout.contains("reached"), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 2, "{ran:?}");
    assert!(listener.accept().is_err(), "nobody came");
    assert!(
        !matches!(fs::File::from(reader).read(&mut [0; 8]), Ok(1..)),
        "nothing came"
    );
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn links_in_a_kept_place_are_not_followed_when_something_is_mounted_below_it() {
    let (kept, outside, data) = (open_folder(), open_folder(), open_folder());
    // The sandbox's user could write there, whoever it is on the host.
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(kept.path(), fs::Permissions::from_mode(0o777)).unwrap();
    write(&data.path().join("plain"), "plain");
    let workspace = kept.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    let options = SpecOptions {
        kept: Some(kept.path().to_owned()),
        ..SpecOptions::default()
    };
    for (link, below) in [("a", "a/b"), ("c", "c"), ("d", "d/e/f")] {
        symlink(outside.path(), workspace.join(link)).unwrap();
        let mounts = format!(
            "[{{ path: /workspace, access: rw, quota: 1MiB, keep: true }}, \
             {{ path: /workspace/{below}, access: ro, from: {0} }}]",
            data.path().display()
        );
        let spec = Spec::new(&policy(&[("fs.mounts", &mounts)]), &options).unwrap();
        let error = backend().launch(&Arc::new(spec)).await.unwrap_err();
        let BackendLaunchError::Jail(ringfence_jail::LauncherError::Link { path, .. }) = &error else {
            panic!("{below}: {error:?}");
        };
        assert!(format!("/workspace/{below}").starts_with(path.as_str()), "{path}");
        fs::remove_file(workspace.join(link)).unwrap();
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{below}");
    }
}

#[tokio::test]
async fn many_names_are_hidden_soon() {
    let folder = open_folder();
    for number in 0..2_000 {
        write(&folder.path().join(format!("d{}/{number}.pem", number % 50)), "secret");
    }
    let started = Instant::now();
    let backend = backend();
    let mut sandbox = backend
        .launch(&spec(&[("fs.mounts", &shown(folder.path()))]))
        .await
        .unwrap();
    let ran = run_in(
        &mut sandbox,
        shell("find /data -type f | wc -l; find /data -type d | wc -l"),
    )
    .await;
    assert_eq!(ran.stdout, "0\n51\n", "{ran:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    sandbox.end().await.unwrap();
}
