use super::*;

const GIB: u64 = 1 << 30;

fn machine() -> MachineMemory {
    MachineMemory {
        total: 8 * GIB,
        available: 6 * GIB,
    }
}

#[test]
fn a_group_of_our_own_counts_where_it_has_less_than_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    for (version, limit, used, stat) in [
        (
            CgroupVersion::V1,
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
        (CgroupVersion::V2, "memory.max", "memory.current", "inactive_file"),
    ] {
        let group = folder.path().join(limit);
        fs::create_dir(&group).unwrap();
        assert!(!has_limit(&group, version));
        assert_eq!(machine().within(&group, version), machine());
        fs::write(group.join(limit), format!("{}\n", 2 * GIB)).unwrap();
        fs::write(group.join(used), format!("{GIB}\n")).unwrap();
        fs::write(group.join("memory.stat"), format!("rss 5\n{stat} {}\n", GIB / 2)).unwrap();
        assert!(has_limit(&group, version));
        let within = MachineMemory {
            total: 2 * GIB,
            available: GIB + GIB / 2,
        };
        assert_eq!(machine().within(&group, version), within);
        fs::write(group.join(limit), "max\n").unwrap();
        assert!(!has_limit(&group, version));
    }
}

#[test]
fn this_machine_says_what_it_has() {
    let memory = MemorySource::find().read().unwrap();
    assert!(memory.total > 0 && memory.available <= memory.total, "{memory:?}");
}
