use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::landlock::Use;
use crate::plan::{Access, Limits, Place, Programs};
use crate::program::Program;

fn plan(program: &str) -> Plan {
    let host = |path: &str| Place::Host {
        from: path.into(),
        to: path.into(),
        access: Access::Read,
    };
    let mut places = vec![host("/usr")];
    for name in ["bin", "lib", "lib64"] {
        let path = format!("/{name}");
        if Path::new(&path).is_symlink() {
            places.push(Place::Link {
                target: format!("usr/{name}"),
                to: path,
            });
        } else if Path::new(&path).exists() {
            places.push(host(&path));
        }
    }
    places.extend([
        Place::Memory {
            to: "/workspace".into(),
            bytes: 1 << 20,
            inodes: 100,
            programs: Programs::Run,
        },
        Place::Proc,
        Place::Device { name: "null".into() },
    ]);
    Plan {
        ids: Ids::choose().unwrap(),
        places,
        uses: vec![
            ("/".into(), Use::Programs),
            ("/workspace".into(), Use::Write),
            ("/dev/null".into(), Use::Device),
        ],
        limits: Limits {
            open_files: 64,
            processes: None,
            file_bytes: 1 << 20,
            processors: None,
        },
        program: Arc::new(Program::new(&fs::read(program).unwrap()).unwrap()),
        handles: vec!["/workspace".into()],
    }
}

#[test]
fn a_program_becomes_the_first_process_of_a_jail() {
    let launcher = Launcher::start().unwrap();
    let jailed = launcher.launch(plan("/bin/true")).unwrap();
    assert_eq!(jailed.handles().len(), 1);
    assert!(jailed.landlock_version() > 0);
    let space = crate::space(jailed.handles()[0].as_fd()).unwrap();
    assert_eq!((space.bytes, space.inodes), (1 << 20, 100));
    let deadline = Instant::now() + Duration::from_secs(5);
    while jailed.is_alive() {
        assert!(Instant::now() < deadline, "`true` must end by itself");
        thread::yield_now();
    }
    assert_eq!(jailed.end().unwrap(), Some(crate::Ending::Exited(0)));
}

#[test]
fn a_missing_folder_of_the_host_is_named() {
    let launcher = Launcher::start().unwrap();
    let mut plan = plan("/bin/true");
    plan.places.push(Place::Host {
        from: "/nowhere/at/all".into(),
        to: "/deps".into(),
        access: Access::Read,
    });
    let error = launcher.launch(plan).unwrap_err();
    assert!(
        matches!(&error, LaunchError::Source { path, .. } if path == "/nowhere/at/all"),
        "{error:?}"
    );
}

#[test]
fn a_number_for_a_sandbox_is_never_root() {
    let check = |map: &str, expected: Option<u32>| assert_eq!(spare_number(map, 7), expected, "{map}");
    check("0 0 4294967295", Some(0x4000_0007));
    check("0 100000 65536", Some(8));
    check("0 1000 1", Some(0));
    check("0 0 1", None);
    check("", None);
}
