//! Skills are saved, found and refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ringfence_journal::{Principal, SessionId};
use ringfence_store::{
    RequiredTool, SkillBody, SkillError, SkillLanguage, SkillMeta, SkillName, SkillRepository, SkillScope,
};
use serde_json::json;

const USER: SkillScope = SkillScope::User(Principal::Local(1000));

fn name(text: &str) -> SkillName {
    SkillName::parse(text).unwrap()
}

fn meta(text: &str) -> SkillMeta {
    SkillMeta::new(name(text), "Adds two numbers.", SkillLanguage::TypeScript)
}

fn body(source: &str) -> SkillBody {
    SkillBody {
        source: source.to_owned(),
        files: Vec::new(),
    }
}

struct World {
    skills: SkillRepository,
    folder: tempfile::TempDir,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    World {
        skills: SkillRepository::open(folder.path()),
        folder,
    }
}

impl World {
    fn version(&self, name: &str, version: u32) -> PathBuf {
        self.folder
            .path()
            .join(format!("skills/user/local-1000/{name}/{version}"))
    }
}

/// Changes a file of a saved version.
fn tamper(path: &Path, content: &[u8]) {
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    let _ = fs::remove_file(path);
    fs::write(path, content).unwrap();
}

#[test]
fn a_skill_is_found_as_it_was_saved() {
    let world = world();
    let meta = SkillMeta {
        tools: vec![RequiredTool {
            name: "crm.list_orders".to_owned(),
            digest: "0".repeat(64),
        }],
        policy: Some("1".repeat(64)),
        inputs: Some(json!({"type": "object", "properties": {"a": {"type": "number"}}})),
        outputs: Some(json!({"type": "number"})),
        needs: Some(json!({"net": {"enabled": true}})),
        ..meta("monthly-report")
    };
    let body = SkillBody {
        source: "export default async ({a}) => a\n".to_owned(),
        files: vec![
            ("data/a.csv".parse().unwrap(), b"a,b\n".to_vec()),
            ("SKILL.md".parse().unwrap(), vec![0xff, 0]),
        ],
    };
    assert_eq!(world.skills.generation().unwrap(), 0);
    let saved = world.skills.save(USER, meta.clone(), body.clone()).unwrap();
    assert_eq!((saved.version, &saved.meta, saved.scope), (1, &meta, USER));
    assert_eq!(world.skills.generation().unwrap(), 1);
    assert_eq!(world.skills.list(&[USER]).unwrap(), vec![saved.clone()]);
    for said in ["monthly-report", "monthly_report"] {
        let (skill, found) = world.skills.find(&[USER], said, None).unwrap().unwrap();
        assert_eq!(skill, saved);
        assert_eq!(found.source, body.source);
        let mut files = found.files;
        files.sort();
        let mut expected = body.files.clone();
        expected.sort();
        assert_eq!(files, expected);
    }
    assert_eq!(world.skills.find(&[USER], "other", None).unwrap(), None);
    assert_eq!(
        world.skills.find(&[SkillScope::Team], "monthly-report", None).unwrap(),
        None
    );
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = world.version("monthly-report", 1);
    assert_eq!((mode(&folder), mode(&folder.join("program.ts"))), (0o500, 0o400));
}

#[test]
fn the_same_content_is_the_same_version_and_another_the_next() {
    let world = world();
    let save = |source: &str| world.skills.save(USER, meta("sum"), body(source)).unwrap().version;
    assert_eq!([save("1"), save("1"), save("2"), save("2"), save("1")], [1, 1, 2, 2, 3]);
    let found = |version| {
        world
            .skills
            .find(&[USER], "sum", version)
            .unwrap()
            .map(|(skill, body)| (skill.version, body.source))
    };
    assert_eq!(found(None), Some((3, "1".to_owned())));
    assert_eq!(found(Some(2)), Some((2, "2".to_owned())));
    assert_eq!(found(Some(4)), None);
    for source in 10..40 {
        save(&source.to_string());
    }
    let versions = world.skills.versions(USER, &name("sum")).unwrap();
    assert_eq!(versions, (14..=33).collect::<Vec<u32>>());
    assert_eq!(found(Some(1)), None);
}

#[test]
fn of_one_name_the_first_scope_wins() {
    let world = world();
    let session = SkillScope::Session(SessionId::generate().unwrap());
    for (scope, source) in [(SkillScope::Team, "team"), (USER, "user"), (session, "session")] {
        world.skills.save(scope, meta("sum"), body(source)).unwrap();
    }
    world
        .skills
        .save(SkillScope::Team, meta("other"), body("other"))
        .unwrap();
    let scopes = [session, USER, SkillScope::Team];
    let (skill, found) = world.skills.find(&scopes, "sum", None).unwrap().unwrap();
    assert_eq!((skill.scope, found.source.as_str()), (session, "session"));
    let listed = world.skills.list(&scopes).unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|skill| (skill.meta.name.as_str(), skill.scope))
        .collect();
    assert_eq!(listed, [("other", SkillScope::Team), ("sum", session)]);
    let others = SkillScope::User(Principal::Local(1001));
    assert_eq!(world.skills.list(&[others]).unwrap(), Vec::new());
}

#[test]
fn what_was_changed_by_hand_is_said_and_never_given() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 7] = [
        ("program", |at| tamper(&at.join("program.ts"), b"evil()")),
        ("same size", |at| tamper(&at.join("program.ts"), b"2")),
        ("front matter", |at| {
            tamper(&at.join("SKILL.md"), b"---\nname: sum\ndescription: x\n---\n");
        }),
        ("list", |at| tamper(&at.join(".ringfence.json"), b"{}")),
        ("more", |at| tamper(&at.join("more.ts"), b"")),
        ("gone", |at| {
            fs::set_permissions(at, fs::Permissions::from_mode(0o700)).unwrap();
            fs::remove_file(at.join("program.ts")).unwrap();
        }),
        ("link", |at| {
            fs::set_permissions(at, fs::Permissions::from_mode(0o700)).unwrap();
            fs::remove_file(at.join("program.ts")).unwrap();
            fs::write(at.join("../p"), b"1").unwrap();
            std::os::unix::fs::symlink("../p", at.join("program.ts")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let world = world();
        world.skills.save(SkillScope::Team, meta("sum"), body("team")).unwrap();
        world.skills.save(USER, meta("sum"), body("1")).unwrap();
        change(&world.version("sum", 1));
        let error = world.skills.find(&[USER, SkillScope::Team], "sum", None).unwrap_err();
        assert_eq!(error.code(), "skill.damaged", "{what}: {error}");
        // Saving again creates a complete version.
        let saved = world.skills.save(USER, meta("sum"), body("1")).unwrap();
        assert_eq!(saved.version, 2, "{what}");
        assert_eq!(world.skills.find(&[USER], "sum", None).unwrap().unwrap().1.source, "1");
    }
}

#[test]
fn a_damaged_skill_is_named_beside_the_whole_ones() {
    let world = world();
    world.skills.save(USER, meta("sum"), body("1")).unwrap();
    world.skills.save(SkillScope::Team, meta("sum"), body("1")).unwrap();
    world.skills.save(USER, meta("whole"), body("1")).unwrap();
    tamper(&world.version("sum", 1).join("SKILL.md"), b"evil");
    let survey = world.skills.survey(&[USER, SkillScope::Team]).unwrap();
    let names: Vec<_> = survey.skills.iter().map(|skill| skill.meta.name.as_str()).collect();
    assert_eq!(names, ["whole"]);
    assert_eq!(
        (survey.damaged[0].name.as_str(), survey.damaged[0].scope),
        ("sum", USER)
    );
}

#[test]
fn a_complete_survey_names_a_skill_whose_program_was_changed() {
    let world = world();
    world.skills.save(USER, meta("sum"), body("1")).unwrap();
    world.skills.save(USER, meta("whole"), body("1")).unwrap();
    tamper(&world.version("sum", 1).join("program.ts"), b"evil");
    assert_eq!(world.skills.survey(&[USER]).unwrap().damaged, []);
    let survey = world.skills.survey_complete(&[USER]).unwrap();
    let names: Vec<_> = survey.skills.iter().map(|skill| skill.meta.name.as_str()).collect();
    assert_eq!(names, ["whole"]);
    let damaged = &survey.damaged[0];
    assert_eq!((damaged.name.as_str(), damaged.version), ("sum", 1));
    assert_eq!(damaged.why, "`program.ts` was changed");
}

#[test]
fn what_a_dead_process_left_half_made_is_never_seen_and_goes() {
    let world = world();
    world.skills.save(USER, meta("sum"), body("1")).unwrap();
    let half = world.version("sum", 1).with_file_name(".new-2");
    fs::create_dir_all(half.join("files")).unwrap();
    fs::write(half.join("program.ts"), "half").unwrap();
    let gone = world.version("gone", 1).parent().unwrap().with_file_name(".gone-old");
    fs::create_dir_all(&gone).unwrap();
    assert_eq!(world.skills.find(&[USER], "sum", None).unwrap().unwrap().0.version, 1);
    assert_eq!(world.skills.list(&[USER]).unwrap().len(), 1);
    assert_eq!(world.skills.save(USER, meta("sum"), body("2")).unwrap().version, 2);
    assert!(!half.exists() && !gone.exists());
}

#[test]
fn quotas_hold_for_a_skill_and_for_a_scope() {
    let world = world();
    let session = SkillScope::Session(SessionId::generate().unwrap());
    let many = |count: usize, bytes: usize| SkillBody {
        source: String::new(),
        files: (0..count)
            .map(|n| (format!("f{n}").parse().unwrap(), vec![0; bytes]))
            .collect(),
    };
    let refused = |result: Result<_, SkillError>| result.map(|_| ()).unwrap_err();
    assert_eq!(
        refused(world.skills.save(USER, meta("a"), many(65, 1))).code(),
        "skill.quota"
    );
    assert_eq!(
        refused(world.skills.save(USER, meta("a"), many(1, 1 << 20))).code(),
        "skill.quota"
    );
    world.skills.save(USER, meta("a"), many(64, 16_000)).unwrap();
    // Three versions of almost one MiB exceed the two MiB of a session.
    for n in 0..2 {
        world.skills.save(session, meta("a"), many(1, 1_000_000 + n)).unwrap();
    }
    let error = refused(world.skills.save(session, meta("a"), many(1, 900_000)));
    assert_eq!(error.code(), "skill.quota");
    assert!(error.to_string().contains("session scope"), "{error}");
    assert_eq!(world.skills.versions(session, &name("a")).unwrap(), [1, 2]);
    world.skills.remove(session, &name("a")).unwrap();
    for n in 0..20 {
        world.skills.save(session, meta(&format!("s{n}")), body("1")).unwrap();
    }
    assert_eq!(
        refused(world.skills.save(session, meta("more"), body("1"))).code(),
        "skill.quota"
    );
    world.skills.save(session, meta("s3"), body("2")).unwrap();
}

#[test]
fn what_is_removed_is_gone_and_a_session_takes_its_own_with_it() {
    let world = world();
    let id = SessionId::generate().unwrap();
    let session = SkillScope::Session(id);
    world.skills.save(session, meta("sum"), body("1")).unwrap();
    world.skills.save(USER, meta("sum"), body("1")).unwrap();
    assert_eq!(world.skills.sessions().unwrap(), [id]);
    let before = world.skills.generation().unwrap();
    world.skills.forget_session(id).unwrap();
    world.skills.forget_session(id).unwrap();
    assert_eq!(world.skills.generation().unwrap(), before + 1);
    assert_eq!(world.skills.sessions().unwrap(), []);
    // A process died while it removed them.
    let half = world.folder.path().join(format!("skills/session/.gone-{id}/sum/1"));
    fs::create_dir_all(&half).unwrap();
    assert_eq!(world.skills.sessions().unwrap(), [id]);
    world.skills.forget_session(id).unwrap();
    assert!(!half.exists());
    assert_eq!(world.skills.find(&[session], "sum", None).unwrap(), None);
    world.skills.remove(USER, &name("sum")).unwrap();
    assert_eq!(world.skills.list(&[session, USER]).unwrap(), []);
    assert_eq!(
        world.skills.remove(USER, &name("sum")).unwrap_err().code(),
        "skill.unknown"
    );
    assert_eq!(world.skills.save(USER, meta("sum"), body("2")).unwrap().version, 1);
}

#[test]
fn names_that_differ_only_in_their_letters_case_and_files_that_are_folders_are_refused() {
    let world = world();
    for pair in [["a.txt", "A.txt"], ["a", "a/b"], ["a", "a"]] {
        let body = SkillBody {
            source: String::new(),
            files: pair.iter().map(|path| (path.parse().unwrap(), Vec::new())).collect(),
        };
        let error = world.skills.save(USER, meta("sum"), body).unwrap_err();
        assert_eq!(error.code(), "skill.format", "{pair:?}");
    }
    assert_eq!(world.skills.list(&[USER]).unwrap(), []);
}

#[test]
fn many_who_save_at_once_get_a_version_each() {
    let world = world();
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let skills = world.skills.clone();
            std::thread::spawn(move || {
                for round in 0..5 {
                    skills.save(USER, meta("sum"), body(&format!("{n} {round}"))).unwrap();
                    skills.find(&[USER], "sum", None).unwrap().unwrap();
                    assert_eq!(skills.list(&[USER]).unwrap().len(), 1);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(
        world.skills.versions(USER, &name("sum")).unwrap(),
        (21..=40).collect::<Vec<u32>>()
    );
    assert_eq!(world.skills.generation().unwrap(), 40);
}
