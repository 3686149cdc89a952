//! The probe runner on the host: it sets the stage, runs the attacker in sandboxes, and judges the results.

mod abuse;
mod calls;
mod code;
mod crash;
mod files;
mod hidden_files;
pub(crate) mod judge;
mod leftovers;
mod orchestrator;
mod policy_input;
mod probe_run;
mod reachability;
mod stopping;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_policy::{Ceiling, DraftRejection, ParseError, Policy};
use ringfence_sandbox::{Backend, ExecutionError, ExecutionTask, Spec, SpecError, SpecOptions};

use crate::attempt::{ATTEMPT_ENTRY, AttemptLine};
use crate::catalogue::{Probe, ProbeMethod, catalogue};
use crate::report::{ProbeFinding, ProbeOutcome, ProbeReport};
use crate::stage::{ATTACKER_PATH, ProbeStage, SHOWN_FOLDER, StageError};
use probe_run::{CollectedOutput, ProbeRun, program_task, run_in_sandbox};

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
    Policy(#[from] DraftRejection),
    /// The policy cannot become a sandbox on this machine.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A sandbox could not be made.
    #[error(transparent)]
    Launch(#[from] ringfence_sandbox::BackendLaunchError),
    /// An execution could not run.
    #[error(transparent)]
    Run(#[from] ExecutionError),
    /// The files of a sandbox could not be collected.
    #[error(transparent)]
    Collect(#[from] ringfence_sandbox::CollectError),
}

/// The judgement on one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeJudgement {
    pub(crate) outcome: ProbeOutcome,
    pub(crate) detail: String,
}

impl ProbeJudgement {
    pub(crate) fn held(detail: impl Into<String>) -> ProbeJudgement {
        ProbeJudgement {
            outcome: ProbeOutcome::Held,
            detail: detail.into(),
        }
    }

    pub(crate) fn broken(detail: impl Into<String>) -> ProbeJudgement {
        ProbeJudgement {
            outcome: ProbeOutcome::Broken,
            detail: detail.into(),
        }
    }

    pub(crate) fn unenforceable(detail: impl Into<String>) -> ProbeJudgement {
        ProbeJudgement {
            outcome: ProbeOutcome::Unenforceable,
            detail: detail.into(),
        }
    }

    /// `Broken` if `why` is given, else `Held`.
    pub(crate) fn broken_if(why: Option<String>, held: impl Into<String>) -> ProbeJudgement {
        why.map_or_else(|| ProbeJudgement::held(held), ProbeJudgement::broken)
    }
}

/// What every probe needs: the backend, the policy and the stage.
pub(crate) struct ProbeRunner<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) policy: &'a Policy,
    pub(crate) stage: &'a ProbeStage,
    pub(crate) exe: PathBuf,
}

/// Makes every probe that needs nothing but sandboxes, on those that `backend` makes from `policy`. `exe` is this program,
/// which is its own attacker: it must call [`crate::attempt_main`] when its first argument is [`crate::ATTEMPT_ENTRY`]. Reports each
/// finding as soon as it is made.
pub async fn run_sandbox_probes(
    backend: &Backend,
    policy: &Policy,
    exe: &Path,
    progress: &mut dyn FnMut(&ProbeFinding),
) -> Result<ProbeReport, ProbeError> {
    let stage = ProbeStage::new(policy, exe)?;
    let drive = ProbeRunner {
        backend,
        policy,
        stage: &stage,
        exe: exe.to_owned(),
    };
    let mut findings: BTreeMap<u16, ProbeFinding> = BTreeMap::new();
    let mut tell = |probe: &Probe, judged: ProbeJudgement| {
        let finding = drive.to_finding(probe, judged);
        progress(&finding);
        findings.insert(probe.id, finding);
    };
    let mut lines = drive.run_attempts().await?;
    lines.extend(code::run_code_attempts(&drive).await?);
    for probe in catalogue().filter(Probe::is_sandbox) {
        let judged = match probe.method {
            ProbeMethod::NotApplicable(why) => ProbeJudgement {
                outcome: ProbeOutcome::NotApplicable,
                detail: why.to_owned(),
            },
            ProbeMethod::Inside => judge::judge_lines(&probe, &lines, &stage),
            ProbeMethod::Abuse => Box::pin(abuse::judge_abuse(&drive, probe.id, &lines)).await,
            ProbeMethod::Outside | ProbeMethod::Egress | ProbeMethod::Records => {
                Box::pin(drive.judge_outside(probe.id)).await
            }
        };
        tell(&probe, judged);
    }
    if !stage.is_untouched() {
        for probe in catalogue().filter(|probe| [3, 4].contains(&probe.id)) {
            tell(&probe, ProbeJudgement::broken("a file of the host was changed"));
        }
    }
    Ok(ProbeReport {
        probes: findings.into_values().collect(),
    })
}

impl ProbeRunner<'_> {
    fn to_finding(&self, probe: &Probe, judged: ProbeJudgement) -> ProbeFinding {
        let by = if probe.by.contains('.') {
            self.enforcing_mechanism(probe.by)
        } else {
            probe.by.to_owned()
        };
        ProbeFinding {
            id: probe.id,
            class: probe.class,
            name: probe.name,
            outcome: judged.outcome,
            by,
            detail: judged.detail,
        }
    }

    /// The mechanism that enforces a rule of the policy on this machine.
    fn enforcing_mechanism(&self, rule: &str) -> String {
        let enforced = self
            .build_spec(&[])
            .map(|spec| self.backend.enforcement(&spec))
            .unwrap_or_default();
        let found = enforced.into_iter().find(|one| one.rule == rule);
        found.map_or_else(|| "none".to_owned(), |one| one.mechanism.name().to_owned())
    }

    /// A spec of the policy under test with the shown folder and with `settings` that override it.
    pub(crate) fn build_spec(&self, settings: &[(&str, &str)]) -> Result<Arc<Spec>, ProbeError> {
        self.build_spec_with_kept(settings, None)
    }

    /// Such a spec, with a folder for places that are kept.
    fn build_spec_with_kept(&self, settings: &[(&str, &str)], kept: Option<PathBuf>) -> Result<Arc<Spec>, ProbeError> {
        let mounts =
            serde_json::json!([{ "path": SHOWN_FOLDER, "access": "ro", "from": self.stage.shown.path() }]).to_string();
        let mut draft = self.policy.to_draft().set("fs.mounts", &mounts)?;
        for (key, value) in settings {
            draft = draft.set(key, value)?;
        }
        let policy = draft.under(&Ceiling::unlimited())?;
        let options = SpecOptions {
            folders: Some(self.stage.work.path().join("places")),
            kept,
            ..SpecOptions::default()
        };
        Ok(Arc::new(Spec::new(&policy, &options)?))
    }

    /// Runs all attempts that can share one execution.
    async fn run_attempts(&self) -> Result<Vec<AttemptLine>, ProbeError> {
        let ids = catalogue()
            .filter(|probe| probe.method == ProbeMethod::Inside)
            .map(|probe| probe.id.to_string());
        let mut words = vec![ATTEMPT_ENTRY.to_owned(), "try".to_owned(), ProbeStage::targets_inside()];
        words.extend(ids);
        // Time and output are not what these probes are about.
        let settings = [
            ("proc.wall_timeout", "2m"),
            ("proc.cpu_time", "2m"),
            ("proc.output", "4MiB"),
        ];
        let shot = self.run_task(&settings, program_task(ATTACKER_PATH, words)).await?;
        Ok(shot.attempt_lines())
    }

    /// Runs one hog in a sandbox of its own.
    pub(crate) async fn run_hog(&self, settings: &[(&str, &str)], words: &[&str]) -> Result<ProbeRun, ProbeError> {
        self.run_task(settings, hog_task(words)).await
    }

    /// Runs one hog in a sandbox of its own whose kept places lie below `kept`.
    async fn run_hog_on_disk(
        &self,
        settings: &[(&str, &str)],
        words: &[&str],
        kept: PathBuf,
    ) -> Result<ProbeRun, ProbeError> {
        let mut sandbox = self
            .backend
            .launch(&self.build_spec_with_kept(settings, Some(kept))?)
            .await?;
        let shot = run_in_sandbox(&mut sandbox, hog_task(words), &mut CollectedOutput::new()).await;
        sandbox.end().await?;
        shot
    }

    async fn judge_outside(&self, id: u16) -> ProbeJudgement {
        let judged = match id {
            15 | 17 | 20 | 23 | 24 => files::judge_files(self, id).await,
            221 => Box::pin(leftovers::judge_leftovers(self)).await,
            222 => Box::pin(calls::probe(self)).await,
            223 => Box::pin(stopping::probe(self)).await,
            86 | 160 => crash::judge_crash(self, id).await,
            181..=186 => Box::pin(hidden_files::judge_hiding(self, id)).await,
            97 | 152 | 154 => Box::pin(reachability::judge_reach(self, id)).await,
            211 => Ok(policy_input::judge_paths()),
            212 => Ok(policy_input::judge_numbers()),
            _ => orchestrator::judge_orchestrator(self, id).await,
        };
        judged.unwrap_or_else(|error| ProbeJudgement::broken(format!("could not be tried: {}", error_chain(&error))))
    }
}

fn hog_task(words: &[&str]) -> ExecutionTask {
    let words = [ATTEMPT_ENTRY, "hog"]
        .iter()
        .chain(words)
        .map(|word| (*word).to_owned());
    program_task(ATTACKER_PATH, words.collect())
}

/// An error and its causes, on one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
