//! The probe runner on the host: it sets the stage, runs the attacker in sandboxes, and judges the results.

mod abuse;
mod calls;
mod code;
mod crash;
mod files;
mod hiding;
pub(crate) mod judge;
mod leftovers;
mod orchestrator;
mod reach;
mod shot;
mod stopping;
mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_policy::{Ceiling, ParseError, Policy, TooMuch};
use ringfence_sandbox::{Native, Options, RunError, Spec, SpecError, Task};

use crate::attempt::{ENTRY, Line};
use crate::catalogue::{How, Probe, catalogue};
use crate::report::{Finding, Outcome, Report};
use crate::stage::{PROGRAM, SHOWN, Stage, StageError};
use shot::{Kept, Shot, program, run_in};

/// Why the probes could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The stage could not be set.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The policy of a probe could not be parsed.
    #[error("cannot make the policy of a probe")]
    Draft(#[from] ParseError),
    /// The policy of a probe exceeds a ceiling.
    #[error(transparent)]
    Policy(#[from] TooMuch),
    /// The policy cannot become a sandbox on this machine.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A sandbox could not be made.
    #[error(transparent)]
    Launch(#[from] ringfence_sandbox::LaunchError),
    /// An execution could not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The files of a sandbox could not be collected.
    #[error(transparent)]
    Collect(#[from] ringfence_sandbox::CollectError),
}

/// The judgement on one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) outcome: Outcome,
    pub(crate) detail: String,
}

impl Judged {
    pub(crate) fn held(detail: impl Into<String>) -> Judged {
        Judged {
            outcome: Outcome::Held,
            detail: detail.into(),
        }
    }

    pub(crate) fn broken(detail: impl Into<String>) -> Judged {
        Judged {
            outcome: Outcome::Broken,
            detail: detail.into(),
        }
    }

    pub(crate) fn unenforceable(detail: impl Into<String>) -> Judged {
        Judged {
            outcome: Outcome::Unenforceable,
            detail: detail.into(),
        }
    }

    /// `Broken` if `why` is given, else `Held`.
    pub(crate) fn unless(why: Option<String>, held: impl Into<String>) -> Judged {
        why.map_or_else(|| Judged::held(held), Judged::broken)
    }
}

/// What every probe needs: the backend, the policy and the stage.
pub(crate) struct Drive<'a> {
    pub(crate) native: &'a Native,
    pub(crate) policy: &'a Policy,
    pub(crate) stage: &'a Stage,
    pub(crate) exe: PathBuf,
}

/// Makes every probe that needs nothing but sandboxes, on those that `native` makes from `policy`. `exe` is this program,
/// which is its own attacker: it must call [`crate::attempt_main`] when its first argument is [`crate::ENTRY`]. Reports each
/// finding as soon as it is made.
pub async fn run(
    native: &Native,
    policy: &Policy,
    exe: &Path,
    progress: &mut dyn FnMut(&Finding),
) -> Result<Report, ProbeError> {
    let stage = Stage::new(policy, exe)?;
    let drive = Drive {
        native,
        policy,
        stage: &stage,
        exe: exe.to_owned(),
    };
    let mut findings: BTreeMap<u16, Finding> = BTreeMap::new();
    let mut tell = |probe: &Probe, judged: Judged| {
        let finding = drive.finding(probe, judged);
        progress(&finding);
        findings.insert(probe.id, finding);
    };
    let mut lines = drive.attempts().await?;
    lines.extend(code::lines(&drive).await?);
    for probe in catalogue().filter(Probe::is_of_sandbox) {
        let judged = match probe.how {
            How::Never(why) => Judged {
                outcome: Outcome::NotApplicable,
                detail: why.to_owned(),
            },
            How::Inside => judge::lines(&probe, &lines, &stage),
            How::Abuse => Box::pin(abuse::probe(&drive, probe.id, &lines)).await,
            How::Outside | How::Door | How::Records => Box::pin(drive.outside(probe.id)).await,
        };
        tell(&probe, judged);
    }
    if !stage.is_untouched() {
        for probe in catalogue().filter(|probe| [3, 4].contains(&probe.id)) {
            tell(&probe, Judged::broken("a file of the host was changed"));
        }
    }
    Ok(Report {
        probes: findings.into_values().collect(),
    })
}

impl Drive<'_> {
    fn finding(&self, probe: &Probe, judged: Judged) -> Finding {
        let by = if probe.by.contains('.') {
            self.mechanism(probe.by)
        } else {
            probe.by.to_owned()
        };
        Finding {
            id: probe.id,
            class: probe.class,
            name: probe.name,
            outcome: judged.outcome,
            by,
            detail: judged.detail,
        }
    }

    /// The mechanism that enforces a rule of the policy on this machine.
    fn mechanism(&self, rule: &str) -> String {
        let enforced = self
            .spec(&[])
            .map(|spec| self.native.enforcement(&spec))
            .unwrap_or_default();
        let found = enforced.into_iter().find(|one| one.rule == rule);
        found.map_or_else(|| "none".to_owned(), |one| one.by.name().to_owned())
    }

    /// A spec of the policy under test with the shown folder and with `settings` that override it.
    pub(crate) fn spec(&self, settings: &[(&str, &str)]) -> Result<Arc<Spec>, ProbeError> {
        self.spec_kept(settings, None)
    }

    /// Such a spec, with a folder for places that are kept.
    fn spec_kept(&self, settings: &[(&str, &str)], kept: Option<PathBuf>) -> Result<Arc<Spec>, ProbeError> {
        let mounts =
            serde_json::json!([{ "path": SHOWN, "access": "ro", "from": self.stage.shown.path() }]).to_string();
        let mut draft = self.policy.to_draft().set("fs.mounts", &mounts)?;
        for (key, value) in settings {
            draft = draft.set(key, value)?;
        }
        let policy = draft.under(&Ceiling::own_word())?;
        let options = Options {
            folders: Some(self.stage.work.path().join("places")),
            kept,
            ..Options::default()
        };
        Ok(Arc::new(Spec::new(&policy, &options)?))
    }

    /// Runs all attempts that can share one execution.
    async fn attempts(&self) -> Result<Vec<Line>, ProbeError> {
        let ids = catalogue()
            .filter(|probe| probe.how == How::Inside)
            .map(|probe| probe.id.to_string());
        let mut words = vec![ENTRY.to_owned(), "try".to_owned(), Stage::targets_inside()];
        words.extend(ids);
        // Time and output are not what these probes are about.
        let settings = [
            ("proc.wall_timeout", "2m"),
            ("proc.cpu_time", "2m"),
            ("proc.output", "4MiB"),
        ];
        let shot = self.shoot(&settings, program(PROGRAM, words)).await?;
        Ok(shot.lines())
    }

    /// Runs one hog in a sandbox of its own.
    pub(crate) async fn hog(&self, settings: &[(&str, &str)], words: &[&str]) -> Result<Shot, ProbeError> {
        self.shoot(settings, hog_task(words)).await
    }

    /// Runs one hog in a sandbox of its own whose kept places lie below `kept`.
    async fn hog_on_disk(&self, settings: &[(&str, &str)], words: &[&str], kept: PathBuf) -> Result<Shot, ProbeError> {
        let mut sandbox = self.native.launch(&self.spec_kept(settings, Some(kept))?).await?;
        let shot = run_in(&mut sandbox, hog_task(words), &mut Kept::new()).await;
        sandbox.end().await?;
        shot
    }

    async fn outside(&self, id: u16) -> Judged {
        let judged = match id {
            15 | 17 | 20 | 23 | 24 => files::probe(self, id).await,
            221 => Box::pin(leftovers::probe(self)).await,
            222 => Box::pin(calls::probe(self)).await,
            223 => Box::pin(stopping::probe(self)).await,
            86 | 160 => crash::probe(self, id).await,
            181..=186 => Box::pin(hiding::probe(self, id)).await,
            97 | 152 | 154 => Box::pin(reach::probe(self, id)).await,
            211 => Ok(written::paths()),
            212 => Ok(written::numbers()),
            _ => orchestrator::probe(self, id).await,
        };
        judged.unwrap_or_else(|error| Judged::broken(format!("could not be tried: {}", chain(&error))))
    }
}

fn hog_task(words: &[&str]) -> Task {
    let words = [ENTRY, "hog"].iter().chain(words).map(|word| (*word).to_owned());
    program(PROGRAM, words.collect())
}

/// An error and its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
