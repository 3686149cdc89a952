//! Files of the host that a jail shows, and places whose mounts a program changes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use ringfence_sandbox::{JobLanguage, Spec, SpecOptions, Verdict};

use crate::files::{collect, name};
use crate::harness::{code, policy, run_in, shell};
use crate::jail::{backend, run};

#[tokio::test]
async fn a_host_folder_is_seen_without_what_the_policy_hides() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (path, text) in [
        ("lib.py", "X = 41"),
        (".env", "SECRET=1"),
        (".ssh/id_rsa", "key"),
        ("sub/key.pem", "key"),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mounts = format!("[{{ path: /deps, access: ro, from: {} }}]", folder.path().display());
    let script = "cat /deps/lib.py /deps/.env /deps/sub/key.pem; ls -A /deps/.ssh; echo no > /deps/x; rm /deps/lib.py; \
                  ls -A /deps /deps/sub >&2; cat /proc/self/mountinfo >&2";
    let ran = run(shell(script), &[("fs.mounts", &mounts)]).await;
    assert_eq!(ran.stdout, "X = 41", "{ran:?}");
    assert!(ran.stderr.contains("Read-only file system"), "{ran:?}");
    // Hidden names do not exist, and nothing shows where the folder is on the host.
    assert!(ran.stderr.contains("/deps:\nlib.py\nsub\n\n/deps/sub:\n"), "{ran:?}");
    assert!(!ran.stderr.contains(&*folder.path().to_string_lossy()), "{ran:?}");
    let ran = run(
        code(JobLanguage::Python, "import lib\nlib.X + 1"),
        &[("fs.mounts", &mounts)],
    )
    .await;
    assert_eq!(ran.value(), "42", "{ran:?}");
    assert_eq!(fs::read_to_string(folder.path().join(".env")).unwrap(), "SECRET=1");
}

#[tokio::test]
async fn a_workspace_that_its_program_closed_is_read_and_opened_again() {
    for settings in [
        &[][..],
        &[("fs.mounts", "[{path: /workspace, access: rw, quota: 300MiB}]")][..],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = SpecOptions {
            folders: Some(folder.path().to_owned()),
            ..SpecOptions::default()
        };
        let spec = Arc::new(Spec::new(&policy(settings), &options).unwrap());
        let backend = backend();
        let mut sandbox = backend.launch(&spec).await.unwrap();
        for mode in ["000", "300"] {
            let script = format!("echo {mode} > made-{mode}; chmod {mode} /workspace");
            let ran = run_in(&mut sandbox, shell(&script)).await;
            assert_eq!(
                (ran.ended.verdict, ran.stderr.as_str()),
                (Verdict::Finished, ""),
                "{ran:?}"
            );
            let collected = collect(&sandbox, &BTreeMap::new(), &[], &[]);
            let made = format!("made-{mode}");
            assert!(
                collected.files.iter().any(|file| file.path.as_str() == made),
                "{collected:?}"
            );
            assert!(collected.skipped.is_empty(), "{collected:?}");
            let ran = run_in(
                &mut sandbox,
                shell("stat -c %A /workspace | cut -c1-4; chmod 000 /workspace"),
            )
            .await;
            assert_eq!(ran.stdout, "drwx\n", "{ran:?}");
            sandbox.put_bytes(b"in", &name("brought")).unwrap();
            let ran = run_in(&mut sandbox, shell("cat brought")).await;
            assert_eq!(ran.stdout, "in", "{ran:?}");
        }
        sandbox.end().await.unwrap();
    }
}
