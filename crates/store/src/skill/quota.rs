//! How much may be kept: of one skill, and of all skills of a scope.

use super::{SkillError, SkillScope};

const MIB: u64 = 1 << 20;

/// The most bytes of one version of a skill, everything counted.
pub(super) const SKILL_BYTES: u64 = MIB;
/// The most files of a skill beside `SKILL.md` and the program.
pub(super) const SKILL_FILES: usize = 64;
/// Versions that are kept; the oldest go.
pub(super) const VERSIONS: usize = 20;

/// What a scope may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Skills.
    pub skills: usize,
    /// Bytes of all their versions.
    pub bytes: u64,
}

impl Quota {
    /// The quota of a scope.
    pub fn of(scope: &SkillScope) -> Quota {
        match scope {
            SkillScope::Session(_) => Quota {
                skills: 20,
                bytes: 2 * MIB,
            },
            SkillScope::User(_) => Quota {
                skills: 200,
                bytes: 16 * MIB,
            },
            SkillScope::Team => Quota {
                skills: 500,
                bytes: 64 * MIB,
            },
        }
    }

    /// Refuses what would be more.
    pub(super) fn admit(self, scope: SkillScope, skills: usize, bytes: u64) -> Result<(), SkillError> {
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
pub(super) fn admit_skill(files: usize, bytes: u64) -> Result<(), SkillError> {
    if files > SKILL_FILES {
        return Err(SkillError::Large {
            what: format!("{files} files"),
            most: SKILL_FILES.to_string(),
        });
    }
    if bytes > SKILL_BYTES {
        return Err(SkillError::Large {
            what: format!("{bytes} bytes"),
            most: SKILL_BYTES.to_string(),
        });
    }
    Ok(())
}
