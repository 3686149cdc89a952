//! Quotas: the limits of one skill, and of all skills of a scope.

use super::{SkillError, SkillScope};

const MIB: u64 = 1 << 20;

/// The most bytes of one version of a skill, all files included.
pub(super) const MAX_SKILL_BYTES: u64 = MIB;
/// The most files of a skill beside `SKILL.md` and the program.
pub(super) const MAX_SKILL_FILES: usize = 64;
/// The most versions that are kept; the oldest are removed.
pub(super) const MAX_VERSIONS: usize = 20;

/// The limits of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillQuota {
    /// The most skills of the scope.
    pub skills: usize,
    /// The most bytes of all their versions.
    pub bytes: u64,
}

impl SkillQuota {
    /// The quota of a scope.
    pub fn for_scope(scope: &SkillScope) -> SkillQuota {
        match scope {
            SkillScope::Session(_) => SkillQuota {
                skills: 20,
                bytes: 2 * MIB,
            },
            SkillScope::User(_) => SkillQuota {
                skills: 200,
                bytes: 16 * MIB,
            },
            SkillScope::Team => SkillQuota {
                skills: 500,
                bytes: 64 * MIB,
            },
        }
    }

    /// Refuses a scope that would exceed its limits.
    pub(super) fn check(self, scope: SkillScope, skills: usize, bytes: u64) -> Result<(), SkillError> {
        let refuse = |what, most| Err(SkillError::Quota { scope, what, most });
        if skills > self.skills {
            return refuse(format!("it would have {skills} skills"), self.skills.to_string());
        }
        if bytes > self.bytes {
            return refuse(
                format!("all versions together would have {bytes} bytes"),
                self.bytes.to_string(),
            );
        }
        Ok(())
    }
}

/// Refuses a skill that is too large by itself.
pub(super) fn check_skill_size(files: usize, bytes: u64) -> Result<(), SkillError> {
    if files > MAX_SKILL_FILES {
        return Err(SkillError::Large {
            what: format!("{files} files"),
            most: MAX_SKILL_FILES.to_string(),
        });
    }
    if bytes > MAX_SKILL_BYTES {
        return Err(SkillError::Large {
            what: format!("{bytes} bytes"),
            most: MAX_SKILL_BYTES.to_string(),
        });
    }
    Ok(())
}
