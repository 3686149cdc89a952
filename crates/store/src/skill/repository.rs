//! The skill repository of a data folder: saves, lists, finds and removes skills.
//!
//! Several processes share it. A change needs the lock of the owner's folder; a read needs no lock, because versions appear and disappear
//! as a whole. All operations block on files.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use ringfence_disk::FileLock;
use ringfence_journal::SessionId;

use super::folder::{self, SkillDamage, SkillFiles, SkillManifest, io_failure};
use super::layout::{self, VersionOpener};
use super::quota::{self, MAX_VERSIONS, SkillQuota};
use super::{Skill, SkillBody, SkillError, SkillMeta, SkillName, SkillScope};
use crate::home::private_folder;

const LOCK_FILE: &str = ".lock";
const GENERATION_FILE: &str = "generation";
/// How long a change waits for another process's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a version that disappears while it is read is looked up again.
const MAX_READ_ATTEMPTS: u32 = 3;

/// The skill repository of a data folder.
#[derive(Debug, Clone)]
pub struct SkillRepository {
    root: PathBuf,
}

/// The skills of some scopes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SkillSurvey {
    /// Usable skills, sorted by name.
    pub skills: Vec<Skill>,
    /// Skills that have changed since they were saved.
    pub damaged: Vec<DamagedSkill>,
}

/// A skill that has changed since it was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedSkill {
    /// The owner of the skill.
    pub scope: SkillScope,
    /// The name of the skill.
    pub name: SkillName,
    /// The number of its newest version.
    pub version: u32,
    /// What has changed in it.
    pub why: String,
}

impl SkillRepository {
    /// The skills of this data folder; nothing is created before the first skill is saved.
    pub fn open(home: &Path) -> SkillRepository {
        SkillRepository {
            root: home.join("skills"),
        }
    }

    /// Saves a skill as its next version, unless its newest version is the same.
    pub fn save(&self, scope: SkillScope, meta: SkillMeta, body: SkillBody) -> Result<Skill, SkillError> {
        let parts = layout::to_files(&meta, body)?;
        let list = SkillManifest::new(&parts, Timestamp::now());
        quota::check_skill_size(parts.len() - 2, list.bytes())?;
        let (version, list) = self.save_version(scope, &meta.name, list, &parts)?;
        Ok(Skill {
            scope,
            version,
            digest: list.digest,
            bytes: list.bytes(),
            saved: list.saved,
            meta,
        })
    }

    fn save_version(
        &self,
        scope: SkillScope,
        name: &SkillName,
        list: SkillManifest,
        parts: &SkillFiles,
    ) -> Result<(u32, SkillManifest), SkillError> {
        private_folder(&self.root)?;
        let owner = self.owner_path(scope);
        let _lock = lock_owner(&owner)?;
        folder::delete_leftovers(&owner)?;
        let place = owner.join(name.as_str());
        let mut versions = folder::versions(&place)?;
        if let Some(newest) = versions.last() {
            let at = place.join(newest.to_string());
            if let Ok(kept) = folder::read_manifest(&at)
                && kept.digest == list.digest
                && folder::read_all(&at, &kept).is_ok()
            {
                return Ok((*newest, kept));
            }
        }
        let version = versions.last().map_or(1, |newest| newest.saturating_add(1));
        let goes = versions.len().saturating_sub(MAX_VERSIONS - 1);
        let goes: Vec<u32> = versions.drain(..goes).collect();
        self.check_quota(scope, name, &goes, list.bytes())?;
        private_folder(&place)?;
        folder::delete_leftovers(&place)?;
        folder::create_version(&place, version, &list, parts)?;
        for old in goes {
            folder::remove_folder(&place, &old.to_string())?;
        }
        self.bump_generation()?;
        Ok((version, list))
    }

    /// Checks that a scope has space for one more version, after its oldest versions are removed.
    fn check_quota(&self, scope: SkillScope, name: &SkillName, goes: &[u32], bytes: u64) -> Result<(), SkillError> {
        let owner = self.owner_path(scope);
        let mut all = BTreeSet::from([name.clone()]);
        let mut used = bytes;
        for other in skill_names(&owner)? {
            let place = owner.join(other.as_str());
            let versions = folder::versions(&place)?;
            for version in &versions {
                if other != *name || !goes.contains(version) {
                    used = used.saturating_add(folder::folder_size(&place.join(version.to_string()))?);
                }
            }
            if !versions.is_empty() {
                all.insert(other);
            }
        }
        SkillQuota::for_scope(&scope).check(scope, all.len(), used)
    }

    /// The newest version of every skill in these scopes, by name; the first scope with a name wins.
    pub fn list(&self, scopes: &[SkillScope]) -> Result<Vec<Skill>, SkillError> {
        self.survey(scopes).map(|survey| survey.skills)
    }

    /// As [`SkillRepository::list`], with the damaged skills. Programs and files are checked only when a skill is found.
    pub fn survey(&self, scopes: &[SkillScope]) -> Result<SkillSurvey, SkillError> {
        self.survey_with(scopes, layout::open_meta)
    }

    /// As [`SkillRepository::survey`], with programs and files checked too, so that every skill it lists can run.
    pub fn survey_complete(&self, scopes: &[SkillScope]) -> Result<SkillSurvey, SkillError> {
        self.survey_with(scopes, layout::open_checked)
    }

    fn survey_with(&self, scopes: &[SkillScope], open: VersionOpener<()>) -> Result<SkillSurvey, SkillError> {
        let mut survey = SkillSurvey::default();
        let mut seen = BTreeSet::new();
        for scope in scopes {
            for name in skill_names(&self.owner_path(*scope))? {
                if seen.contains(&name) {
                    continue;
                }
                match self.newest(*scope, &name, open) {
                    Ok(Some((skill, ()))) => survey.skills.push(skill),
                    Ok(None) => continue,
                    Err(SkillError::Damaged { version, why, .. }) => survey.damaged.push(DamagedSkill {
                        scope: *scope,
                        name: name.clone(),
                        version,
                        why,
                    }),
                    Err(error) => return Err(error),
                }
                seen.insert(name);
            }
        }
        survey.skills.sort_by(|one, other| one.meta.name.cmp(&other.meta.name));
        Ok(survey)
    }

    /// Finds a skill by its name, in the form of people or of programs: its newest version, or the requested one. The first scope that has
    /// the name wins. A damaged version is refused.
    pub fn find(
        &self,
        scopes: &[SkillScope],
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<(Skill, SkillBody)>, SkillError> {
        let Some(name) = SkillName::parse_lenient(name) else {
            return Ok(None);
        };
        for scope in scopes {
            let versions = self.versions(*scope, &name)?;
            if versions.is_empty() {
                continue;
            }
            return match version {
                None => self.newest(*scope, &name, layout::open_complete),
                Some(version) if versions.contains(&version) => self
                    .open_version(*scope, &name, version, layout::open_complete)
                    .map(Some),
                Some(_) => Ok(None),
            };
        }
        Ok(None)
    }

    /// The saved versions of a skill, oldest first; empty if there is no such skill.
    pub fn versions(&self, scope: SkillScope, name: &SkillName) -> Result<Vec<u32>, SkillError> {
        folder::versions(&self.owner_path(scope).join(name.as_str()))
    }

    /// Removes a skill with all its versions.
    pub fn remove(&self, scope: SkillScope, name: &SkillName) -> Result<(), SkillError> {
        let owner = self.owner_path(scope);
        let unknown = || SkillError::Unknown { name: name.to_string() };
        if self.versions(scope, name)?.is_empty() {
            return Err(unknown());
        }
        let _lock = lock_owner(&owner)?;
        folder::delete_leftovers(&owner)?;
        if self.versions(scope, name)?.is_empty() {
            return Err(unknown());
        }
        folder::remove_folder(&owner, name.as_str())?;
        self.bump_generation()
    }

    /// Removes all skills of a closed session.
    pub fn forget_session(&self, session: SessionId) -> Result<(), SkillError> {
        let owner = self.owner_path(SkillScope::Session(session));
        let (parent, name) = (self.sessions_folder(), session.to_string());
        if !owner.exists() {
            // A process may have died during the removal.
            return folder::delete_removed(&parent, &name);
        }
        let _lock = lock_owner(&owner)?;
        folder::remove_folder(&parent, &name)?;
        self.bump_generation()
    }

    /// The sessions that have skills, or whose skills were not completely removed.
    pub fn sessions(&self) -> Result<Vec<SessionId>, SkillError> {
        let names = folder::entry_names(&self.sessions_folder())?;
        let id = |name: &String| folder::plain_name(name).parse().ok();
        let sessions: BTreeSet<SessionId> = names.iter().filter_map(id).collect();
        Ok(sessions.into_iter().collect())
    }

    fn sessions_folder(&self) -> PathBuf {
        self.root.join("session")
    }

    /// A number that grows with every change by any process.
    pub fn generation(&self) -> Result<u64, SkillError> {
        let path = self.root.join(GENERATION_FILE);
        match fs::metadata(&path) {
            Ok(data) => Ok(data.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(io_failure("look at", &path)(error)),
        }
    }

    /// Counts a change by appending one byte, which needs no lock.
    fn bump_generation(&self) -> Result<(), SkillError> {
        let path = self.root.join(GENERATION_FILE);
        let counted = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(b"."));
        counted.map_err(io_failure("write", &path))
    }

    fn owner_path(&self, scope: SkillScope) -> PathBuf {
        self.root.join(scope.name()).join(scope.owner_folder())
    }

    /// Opens the newest version; retries if it disappears meanwhile.
    fn newest<T>(
        &self,
        scope: SkillScope,
        name: &SkillName,
        open: VersionOpener<T>,
    ) -> Result<Option<(Skill, T)>, SkillError> {
        let mut tries = MAX_READ_ATTEMPTS;
        loop {
            let Some(version) = self.versions(scope, name)?.last().copied() else {
                return Ok(None);
            };
            tries -= 1;
            let opened = self.open_version(scope, name, version, open);
            let newer = || {
                self.versions(scope, name)
                    .map(|versions| versions.last() != Some(&version))
            };
            if opened.is_err() && tries > 0 && newer()? {
                continue;
            }
            return opened.map(Some);
        }
    }

    fn open_version<T>(
        &self,
        scope: SkillScope,
        name: &SkillName,
        version: u32,
        open: VersionOpener<T>,
    ) -> Result<(Skill, T), SkillError> {
        let folder = self.owner_path(scope).join(name.as_str()).join(version.to_string());
        let damaged = |why| SkillError::Damaged {
            name: name.to_string(),
            version,
            why,
        };
        let (list, meta, rest) = open(&folder).map_err(|SkillDamage(why)| damaged(why))?;
        if meta.name != *name {
            return Err(damaged(format!("it calls itself `{}`", meta.name)));
        }
        let skill = Skill {
            scope,
            version,
            digest: list.digest,
            bytes: list.bytes(),
            saved: list.saved,
            meta,
        };
        Ok((skill, rest))
    }
}

/// The skill names in an owner's folder.
fn skill_names(owner: &Path) -> Result<Vec<SkillName>, SkillError> {
    let names = folder::entry_names(owner)?;
    Ok(names.iter().filter_map(|name| SkillName::parse(name).ok()).collect())
}

/// Acquires the lock of an owner's folder; waits up to the lock timeout.
fn lock_owner(owner: &Path) -> Result<FileLock, SkillError> {
    private_folder(owner)?;
    let path = owner.join(LOCK_FILE);
    FileLock::acquire_within(&path, LOCK_TIMEOUT)
        .map_err(io_failure("lock", &path))?
        .ok_or(SkillError::Busy { path })
}
