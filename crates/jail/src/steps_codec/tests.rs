use std::ffi::CString;

use super::*;

fn every_kind() -> ConfinementSteps<'static> {
    let text = |text: &str| Cow::Owned(CString::new(text).unwrap());
    ConfinementSteps {
        inside: 1000,
        drop_groups: true,
        sources: vec![text("/dev/null"), text("/usr")],
        root_options: text("size=512k"),
        build: vec![
            BuildStep::Folder { path: text("usr") },
            BuildStep::Bind {
                source: 1,
                to: text("usr"),
                attributes: 7,
            },
            BuildStep::Touch { path: text("etc/x") },
            BuildStep::Memory {
                to: text("tmp"),
                options: text("size=1"),
                flags: 6,
            },
            BuildStep::Link {
                target: text("usr/bin"),
                to: text("bin"),
            },
            BuildStep::Write {
                to: text("etc/passwd"),
                content: vec![0, 1, 255].into(),
            },
            BuildStep::Proc,
            BuildStep::ReadOnlyAgain { path: text("proc/sys") },
            BuildStep::Device {
                from: text("/dev/zero"),
                to: text("dev/zero"),
            },
            BuildStep::CoverOfProc {
                path: text("proc/keys"),
                kind: HiddenKind::File,
            },
            BuildStep::Layer {
                source: 1,
                to: text("deps"),
                options: text("size=64k"),
                folders: vec![text("a"), text("a/b")],
                hidden: vec![text(".git"), text("a/b/c")],
            },
        ],
        uses: LANDLOCK_ACCESSES
            .into_iter()
            .map(|purpose| (text("/usr"), purpose))
            .collect(),
        handles: vec![text("/workspace")],
        limits: ProcessLimits {
            open_files: 64,
            processes: None,
            file_bytes: u64::MAX,
            processors: Some(2),
        },
    }
}

#[test]
fn what_is_packed_is_unpacked_the_same() {
    let packed = every_kind().encode();
    assert_eq!(ConfinementSteps::decode(&packed), Some(every_kind()));
}

#[test]
fn a_part_or_more_than_all_is_nothing() {
    let packed = every_kind().encode();
    for end in 0..packed.len() {
        assert_eq!(
            ConfinementSteps::decode(&packed[..end]),
            None,
            "{end} of {} bytes",
            packed.len()
        );
    }
    let longer = [packed, vec![0]].concat();
    assert_eq!(ConfinementSteps::decode(&longer), None);
}

#[test]
fn an_enormous_count_is_no_enormous_list() {
    let mut packed = every_kind().encode();
    packed[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(ConfinementSteps::decode(&packed), None);
}
