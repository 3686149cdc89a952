use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use rawzip::path::EntryPath;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use tar::{Builder, EntryType, Header};

use super::*;
use crate::skill::SkillName;

const FRONT: &str = "---\nname: sum\ndescription: Adds.\n---\n";

fn parcel() -> SkillArchive {
    let mut meta = SkillMeta::new(SkillName::parse("sum").unwrap(), "Adds.", SkillLanguage::Python);
    meta.extra.text = "# Text\n".to_owned();
    SkillArchive {
        meta,
        body: SkillBody {
            source: "1 + 1\n".to_owned(),
            files: vec![
                ("data/ü b.csv".parse().unwrap(), vec![0, 255]),
                ("empty".parse().unwrap(), Vec::new()),
            ],
        },
        left_out: Vec::new(),
    }
}

/// One name in an archive: what it is, and what it holds.
struct Part<'a> {
    name: &'a [u8],
    kind: EntryType,
    content: &'a [u8],
}

fn file<'a>(name: &'a [u8], content: &'a [u8]) -> Part<'a> {
    Part {
        name,
        kind: EntryType::Regular,
        content,
    }
}

fn skill<'a>() -> Vec<Part<'a>> {
    vec![file(b"SKILL.md", FRONT.as_bytes()), file(b"program.py", b"1")]
}

/// A tar archive that no regular tool would write.
fn tar_gz(parts: &[Part<'_>]) -> Vec<u8> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for part in parts {
        let mut header = Header::new_gnu();
        header.set_entry_type(part.kind);
        header.set_mode(0o644);
        header.set_size(part.content.len() as u64);
        header.as_old_mut().name[..part.name.len()].copy_from_slice(part.name);
        if part.kind == EntryType::Symlink || part.kind == EntryType::Link {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        archive.append(&header, part.content).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

fn zipped(parts: &[Part<'_>]) -> Vec<u8> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    for part in parts {
        let modes = [
            (EntryType::Symlink, 0o120_777),
            (EntryType::Char, 0o020_666),
            (EntryType::Fifo, 0o010_666),
        ];
        let mode = modes.iter().find(|(kind, _)| *kind == part.kind);
        let mode = mode.map_or(0o100_644, |(_, mode)| *mode);
        let (mut entry, config) = archive
            .new_file(EntryPath::verbatim(part.name))
            .compression_method(CompressionMethod::DEFLATE)
            .unix_permissions(mode)
            .start()
            .unwrap();
        let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::best()));
        writer.write_all(part.content).unwrap();
        let (encoder, descriptor) = writer.finish().unwrap();
        encoder.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap()
}

fn opened(bytes: &[u8]) -> Result<SkillArchive, SkillError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    fs::write(&path, bytes).unwrap();
    SkillArchive::open(&path, None)
}

#[track_caller]
fn refused(parts: Vec<Part<'_>>, why: &str) {
    let mut all = skill();
    all.extend(parts);
    for (form, bytes) in [("tar", tar_gz(&all)), ("zip", zipped(&all))] {
        let error = opened(&bytes).unwrap_err();
        assert_eq!(error.code(), "skill.archive", "{form}: {error}");
        assert!(error.to_string().contains(why), "{form}: {error}");
    }
}

#[test]
fn a_skill_goes_out_and_comes_in_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for to in ["a.tar.gz", "b.zip", "c"] {
        let to = folder.path().join(to);
        let place = parcel().write(&to, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(place, to);
        let mut again = SkillArchive::open(&to, None).unwrap();
        again.body.files.sort();
        assert_eq!(again, parcel(), "{}", to.display());
        let error = parcel().write(&to, Timestamp::UNIX_EPOCH);
        // An existing folder gets the skill in it, once; an existing file is never overwritten.
        assert_eq!(error.is_ok(), to.is_dir());
        assert!(parcel().write(&to, Timestamp::UNIX_EPOCH).is_err());
    }
}

#[test]
fn the_same_skill_is_packed_as_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for end in ["tar.gz", "zip"] {
        let pack = |n: u8| {
            let to = folder.path().join(format!("{n}.{end}"));
            fs::read(parcel().write(&to, Timestamp::UNIX_EPOCH).unwrap()).unwrap()
        };
        assert_eq!(pack(1), pack(2));
    }
}

#[test]
fn one_folder_around_everything_is_no_part_of_it() {
    for around in ["", "./", "top/", "./top/"] {
        let names: Vec<String> = [
            "SKILL.md",
            "program.py",
            "files/a",
            "scripts/b",
            ".git/config",
            ".DS_Store",
        ]
        .iter()
        .map(|name| format!("{around}{name}"))
        .collect();
        let mut parts: Vec<Part<'_>> = names.iter().map(|name| file(name.as_bytes(), b"1")).collect();
        parts[0].content = FRONT.as_bytes();
        for bytes in [tar_gz(&parts), zipped(&parts)] {
            let parcel = opened(&bytes).unwrap();
            let files: Vec<&str> = parcel.body.files.iter().map(|(path, _)| path.as_str()).collect();
            assert_eq!(files.len(), 2, "{files:?}");
            assert!(files.contains(&"a") && files.contains(&"scripts/b"), "{files:?}");
            assert_eq!(parcel.left_out, [".DS_Store", ".git"]);
        }
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in [
        "../evil",
        "a/../../evil",
        "a/./b",
        "a//b",
        "/etc/passwd",
        "//x",
        "..",
        "a\\..\\b",
        "C:evil",
        "a\nb",
        "a\u{1b}[31m",
    ] {
        refused(vec![file(name.as_bytes(), b"x")], "the name");
    }
    refused(vec![file(b"a\xff\xfe", b"x")], "UTF-8");
}

#[test]
fn links_devices_and_pipes_are_refused() {
    for kind in [EntryType::Symlink, EntryType::Char, EntryType::Fifo] {
        let part = Part {
            name: b"evil",
            kind,
            content: b"",
        };
        refused(vec![part], "`evil` is");
    }
    for kind in [
        EntryType::Link,
        EntryType::Block,
        EntryType::GNUSparse,
        EntryType::new(b'V'),
    ] {
        let mut parts = skill();
        parts.push(Part {
            name: b"evil",
            kind,
            content: b"",
        });
        assert_eq!(opened(&tar_gz(&parts)).unwrap_err().code(), "skill.archive", "{kind:?}");
    }
}

#[test]
fn a_name_that_is_there_twice_is_refused() {
    refused(vec![file(b"program.py", b"2")], "twice");
    refused(vec![file(b"a.txt", b"1"), file(b"A.TXT", b"2")], "twice");
    refused(vec![file(b"./SKILL.md", b"2")], "twice");
}

#[test]
fn bombs_are_refused_before_they_unfold() {
    let zeros = vec![0; 16 << 20];
    refused(vec![file(b"bomb", &zeros)], "more than");
    let names: Vec<String> = (0..600).map(|n| format!("f{n}")).collect();
    refused(
        names.iter().map(|name| file(name.as_bytes(), b"")).collect(),
        "files and folders",
    );
    // The file is skipped, but its bytes are unpacked.
    refused((0..600).map(|_| file(b".git/x", b"")).collect(), "files and folders");
    let mut parts = skill();
    parts.push(file(b".git/bomb", &zeros));
    assert_eq!(opened(&tar_gz(&parts)).unwrap_err().code(), "skill.archive");
    let long = Part {
        name: b"././@LongLink",
        kind: EntryType::GNULongName,
        content: &zeros,
    };
    parts.pop();
    parts.push(long);
    assert_eq!(opened(&tar_gz(&parts)).unwrap_err().code(), "skill.archive");
    assert_eq!(opened(&vec![0x1f; 5 << 20]).unwrap_err().code(), "skill.archive");
}

#[test]
fn what_is_cut_or_changed_anywhere_never_panics_and_never_passes_for_whole() {
    let parts = skill();
    for bytes in [tar_gz(&parts), zipped(&parts)] {
        assert!(opened(&bytes).is_ok());
        for cut in 0..bytes.len() {
            if let Ok(parcel) = opened(&bytes[..cut]) {
                assert_eq!(
                    (parcel.body.source.as_str(), parcel.meta.name.as_str()),
                    ("1", "sum"),
                    "{cut}"
                );
            }
        }
        for at in 0..bytes.len() {
            for bit in [1, 0x80] {
                let mut bytes = bytes.clone();
                bytes[at] ^= bit;
                // Whatever still reads equals what was packed.
                if let Ok(parcel) = opened(&bytes) {
                    assert_eq!(
                        (parcel.body.source.as_str(), parcel.meta.name.as_str()),
                        ("1", "sum"),
                        "{at}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_folder_with_links_or_pipes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("SKILL.md", FRONT);
    write("program.py", "1");
    assert!(SkillArchive::open(folder.path(), None).is_ok());
    let evil = folder.path().join("evil");
    std::os::unix::fs::symlink("/etc/passwd", &evil).unwrap();
    assert_eq!(
        SkillArchive::open(folder.path(), None).unwrap_err().code(),
        "skill.archive"
    );
    fs::remove_file(&evil).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&evil).unwrap();
    assert_eq!(
        SkillArchive::open(folder.path(), None).unwrap_err().code(),
        "skill.archive"
    );
    fs::remove_file(&evil).unwrap();
    let mut deep = folder.path().to_owned();
    for _ in 0..20 {
        deep.push("d");
    }
    fs::create_dir_all(deep).unwrap();
    assert_eq!(
        SkillArchive::open(folder.path(), None).unwrap_err().code(),
        "skill.archive"
    );
}

#[test]
fn what_is_no_skill_says_what_is_missing() {
    let check = |parts: Vec<Part<'_>>, why: &str| {
        let error = opened(&zipped(&parts)).unwrap_err();
        assert_eq!(error.code(), "skill.format");
        assert!(error.to_string().contains(why), "{error}");
    };
    check(vec![], "SKILL.md");
    check(vec![file(b"readme.txt", b"x")], "SKILL.md");
    check(vec![file(b"SKILL.md", FRONT.as_bytes())], "--program");
    check(
        vec![
            file(b"SKILL.md", FRONT.as_bytes()),
            file(b"program.py", b""),
            file(b"program.ts", b""),
        ],
        "one program",
    );
    check(vec![file(b"SKILL.md", b"\xff"), file(b"program.py", b"")], "UTF-8");
    check(
        vec![file(b"SKILL.md", FRONT.as_bytes()), file(b"program.py", b"\xff")],
        "UTF-8",
    );
    assert_eq!(opened(b"hello").unwrap_err().code(), "skill.archive");
    assert_eq!(opened(b"").unwrap_err().code(), "skill.archive");
    let none = SkillArchive::open(Path::new("/no/such/thing"), None).unwrap_err();
    assert_eq!(none.code(), "skill.archive");
}

#[test]
fn a_skill_of_another_program_is_taken_with_the_program_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("scripts")).unwrap();
    fs::write(folder.path().join("SKILL.md"), FRONT).unwrap();
    fs::write(folder.path().join("scripts/run.py"), "2").unwrap();
    fs::write(folder.path().join("scripts/help.txt"), "h").unwrap();
    let parcel = SkillArchive::open(folder.path(), Some("scripts/run.py")).unwrap();
    assert_eq!(
        (parcel.body.source.as_str(), parcel.meta.language),
        ("2", SkillLanguage::Python)
    );
    assert_eq!(
        parcel.body.files,
        [("scripts/help.txt".parse().unwrap(), b"h".to_vec())]
    );
    for wrong in ["scripts/help.txt", "none.py", "../x.py"] {
        let error = SkillArchive::open(folder.path(), Some(wrong)).unwrap_err();
        assert_eq!(error.code(), "skill.format", "{wrong}");
    }
}
