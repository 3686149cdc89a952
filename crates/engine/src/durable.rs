//! Durable executions: what is recorded of them, how they suspend while people decide, and how they resume.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ringfence_gateway::Tape;
use ringfence_journal::{Event, Kind, Principal, Recorder as _, Status};
use ringfence_sandbox::{Admission, Again, BudgetRequest, Spec, Stop};
use ringfence_store::Recording;
use serde::{Deserialize, Serialize};

use crate::asker::{Asker, Code, unread, until};
use crate::attempt::{Attempt, AttemptKind, Company, Unrepeatable};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::refusal::Refusal;
use crate::report;
use crate::request::{Input, Program, RunCode, Source};
use crate::runs::Run;
use crate::script::{self, Around, Script, ScriptError};
use crate::session::Session;
use crate::words::Seen;

/// The longest wait before a retry after a transient error.
const LONGEST: Duration = Duration::from_mins(1);

/// How an execution ended, to compare with when it is run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    pub(crate) exit_code: i32,
    pub(crate) error: Option<String>,
    /// The blake3 digest of the value's JSON text; the outputs below are digests too.
    pub(crate) value: Option<String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn of(execution: &Execution) -> Outcome {
        let hash = |text: &str| ringfence_journal::Hash::of(text.as_bytes()).to_string();
        Outcome {
            status: execution.status,
            exit_code: execution.exit_code,
            error: execution.error.as_ref().map(|error| error.code.clone()),
            value: execution.value.as_ref().map(|value| hash(value.get())),
            stdout: hash(&execution.stdout),
            stderr: hash(&execution.stderr),
        }
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, ScriptError> {
        serde_json::to_vec(self).map_err(|_| ScriptError::Unreadable("its end is not JSON"))
    }
}

impl Engine {
    /// Records that an execution starts, together with the request that runs it again where that can be stored.
    pub(crate) async fn start(
        &self,
        session: &Session,
        request: &RunCode,
        attempt: &mut Attempt,
        there: Result<&BTreeMap<String, Vec<u8>>, &'static str>,
    ) -> Result<(), RunError> {
        let event = Event::host(session.id, Some(session.execution), report::started(session, request));
        let (script, again) = match there.and_then(|there| script_of(session, request, there)) {
            Ok(kept) => kept,
            Err(why) => {
                attempt.unrepeatable.tell(why);
                self.store.record(event).await?;
                return Ok(());
            }
        };
        let recording = Recording {
            execution: session.execution,
            session: session.id,
            request: script,
            stays: session.name.clone(),
        };
        if session.policy.digest() != session.base.digest() {
            // The session has a policy of its own; the execution needs this one to resume.
            let json = session.policy.to_json().to_string();
            self.store
                .keep_policy(session.id, session.policy_ref.clone(), json)
                .await?;
        }
        self.store.record_start(event, recording).await?;
        attempt.again = Some(again);
        attempt.tape = Arc::new(Tape::new());
        Ok(())
    }

    /// Records that an execution resumes.
    pub(crate) async fn go_on(&self, session: &Session, attempt: &mut Attempt) -> Result<(), RunError> {
        let kind = Kind::ExecutionResumed {
            known: attempt.tape.known() as u64,
            unknown: attempt.tape.unknown() as u64,
        };
        self.record(session, kind).await?;
        attempt.kind = AttemptKind::Next;
        Ok(())
    }

    /// Records that an execution suspends and has released its sandbox.
    pub(crate) async fn suspend(
        &self,
        session: &Session,
        attempt: &Attempt,
        due: Option<u64>,
        waiting: usize,
    ) -> Result<(), RunError> {
        let pending = self.store.pending(session.execution).await.map_err(unread)?;
        // Some call was answered just now, so the execution is due at once.
        let until = if pending.len() < waiting {
            Some(Timestamp::now())
        } else {
            due.and_then(moment)
        };
        let kind = Kind::ExecutionSuspended {
            waiting: waiting as u64,
            until,
        };
        let event = Event::host(session.id, Some(session.execution), kind);
        // The session stays with this process: another one resumes it only when this one is gone.
        self.store.suspend(event, until, attempt.tape.rest()).await?;
        Ok(())
    }

    /// Waits without a sandbox until an execution can resume; none if it is cancelled first.
    pub(crate) async fn until_called(
        &self,
        session: &Session,
        company: &mut Company<'_>,
    ) -> Result<Option<(Attempt, Vec<Input>)>, RunError> {
        if let Some(run) = company.run {
            run.rest();
        }
        let (mut claim, mut tries) = (Claim::Nobodys, Tries::default());
        loop {
            match self.called(session, company, &mut claim).await {
                Err(error) if error.may_pass() => {
                    if !self.hold_off(session, &mut tries, &error, company).await? {
                        return Ok(None);
                    }
                }
                called => return called,
            }
        }
    }

    /// Waits the same way, but returns transient errors.
    async fn called(
        &self,
        session: &Session,
        company: &mut Company<'_>,
        claim: &mut Claim,
    ) -> Result<Option<(Attempt, Vec<Input>)>, RunError> {
        let execution = session.execution;
        while *claim == Claim::Nobodys {
            let pending = self.store.pending(execution).await.map_err(unread)?;
            let bell = self.bells.hang(pending);
            let standing = self.store.recording_state(execution).await.map_err(unread)?;
            let due = standing.and_then(|standing| standing.due);
            if due.is_none_or(|due| due <= Timestamp::now()) {
                self.store.resume(&self.lease, execution).await?;
                *claim = Claim::Ours;
                break;
            }
            tokio::select! {
                biased;
                () = company.stop.pulled() => return Ok(None),
                () = self.leaving() => {
                    self.store.release_session(session.id).await?;
                    return Err(RunError::Left);
                }
                () = bell.rings() => {}
                () = nudged(company.run) => {}
                () = tokio::time::sleep(due.map_or(Duration::ZERO, until)) => {}
            }
        }
        self.next_attempt(session).await.map(Some)
    }

    /// Backs off after a transient error, longer each time; false if the execution is cancelled meanwhile.
    pub(crate) async fn hold_off(
        &self,
        session: &Session,
        tries: &mut Tries,
        error: &RunError,
        company: &mut Company<'_>,
    ) -> Result<bool, RunError> {
        let wait = tries.next();
        tracing::warn!(
            execution = %session.execution,
            error = error.chain(),
            again = wait.as_secs(),
            "an execution cannot go on now, and is tried again"
        );
        tokio::select! {
            biased;
            () = company.stop.pulled() => Ok(false),
            () = self.leaving() => {
                self.store.leave_unfinished(&self.lease, session.id).await?;
                Err(RunError::Left)
            }
            () = tokio::time::sleep(wait) => Ok(true),
        }
    }

    /// The next attempt of an execution that resumes, with the files that it started with.
    pub(crate) async fn next_attempt(&self, session: &Session) -> Result<(Attempt, Vec<Input>), RunError> {
        let kept = self.store.recording(session.execution).await.map_err(unread)?;
        let kept = kept.ok_or(RunError::Unkept)?;
        let (script, files) = Script::read(&kept.request)?;
        let (tape, trace) = Tape::read(kept.entries)?;
        let attempt = Attempt {
            again: Some(Again {
                seed: script.seed,
                clock: script.clock,
                trace,
            }),
            tape: Arc::new(tape),
            kind: AttemptKind::Waiting,
            seen: Seen::default(),
            unrepeatable: Unrepeatable::default(),
        };
        Ok((attempt, files))
    }

    /// Acquires a permit to run, unless the request is cancelled first. An execution that started before retries without end; a new one is
    /// refused when the budget has no capacity for too long.
    pub(crate) async fn turn_of(
        &self,
        session: &Session,
        spec: &Spec,
        attempt: &Attempt,
        company: &mut Company<'_>,
    ) -> Result<Turn, RunError> {
        let wanted = BudgetRequest {
            who: session.principal,
            memory: spec.promised_memory(),
            depth: session.depth,
        };
        let mut tries = Tries::default();
        loop {
            let run = company.run;
            let turn = async {
                if let Some(run) = run {
                    run.rise().await;
                }
                self.budget.admit(wanted).await
            };
            let refusal = tokio::select! {
                biased;
                () = company.stop.pulled() => return Ok(Turn::Cancelled),
                turn = turn => match turn {
                    Ok(turn) => return Ok(Turn::Taken(turn)),
                    Err(error) => report::no_place(&error),
                },
            };
            if attempt.is_first() {
                return Ok(Turn::Full(refusal));
            }
            let error = RunError::Refused(refusal);
            if !self.hold_off(session, &mut tries, &error, company).await? {
                return Ok(Turn::Cancelled);
            }
        }
    }

    /// Finishes an execution that was cancelled, or ran out of time, while it had no sandbox.
    pub(crate) async fn given_up(
        &self,
        session: &Session,
        attempt: &Attempt,
        stop: &Stop,
        closed: Option<&str>,
    ) -> Result<Execution, RunError> {
        if attempt.is_first() {
            return self.taken_back(session, stop).await;
        }
        let execution = report::stopped(session, stop);
        let event = Event::host(
            session.id,
            Some(session.execution),
            report::ended(session, &execution, None),
        );
        self.store
            .record_end(event, Outcome::of(&execution).to_bytes()?, attempt.tape.rest())
            .await?;
        if let Some(reason) = closed {
            self.close_session((session.id, &session.folders), reason).await?;
        }
        Ok(execution)
    }

    /// The approval broker of an execution.
    pub(crate) fn asker(&self, session: &Session, program: &str) -> Asker {
        Asker {
            store: Arc::clone(&self.store),
            bells: self.bells.clone(),
            session: session.id,
            execution: session.execution,
            principal: session.principal,
            program: program.to_owned(),
            code: Code::default(),
            standing: self.standing.clone(),
        }
    }
}

/// Whether an execution may run now.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Granted, for as long as the permit is held.
    Taken(Admission<Principal>),
    /// The execution was cancelled first.
    Cancelled,
    /// The machine had no capacity.
    Full(Refusal),
}

/// Whether this process has claimed a suspended execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Nobodys,
    Ours,
}

/// Counts the retries after transient errors.
#[derive(Debug, Default)]
pub(crate) struct Tries(u32);

impl Tries {
    /// The delay before the next retry, twice the one before.
    fn next(&mut self) -> Duration {
        let wait = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(self.0));
        self.0 = self.0.saturating_add(1);
        wait.min(LONGEST)
    }
}

/// Waits for a request to resume; forever where there is no tracked run.
async fn nudged(run: Option<&Run>) {
    match run {
        Some(run) => run.nudged().await,
        None => std::future::pending().await,
    }
}

/// A timestamp of a program's clock, whose ticks are 100 microseconds; none out of range.
fn moment(ticks: u64) -> Option<Timestamp> {
    let microseconds = i64::try_from(ticks).ok()?.checked_mul(100)?;
    Timestamp::from_microsecond(microseconds).ok()
}

/// Why an execution has no recording.
pub(crate) const NO_CODE: &str = "it is no code";
pub(crate) const TOO_MANY_FILES: &str = "its files are more than 16 MiB, or could not be put back as they were";
const UNREADABLE: &str = "its files or arguments cannot be kept";

/// Builds the recorded request and the replay state of an execution; or says why it cannot be recorded.
fn script_of(
    session: &Session,
    request: &RunCode,
    there: &BTreeMap<String, Vec<u8>>,
) -> Result<(Vec<u8>, Again), &'static str> {
    if !matches!(request.program, Program::Code { .. }) {
        return Err(NO_CODE);
    }
    let mut files = there.clone();
    let mut size: u64 = there.values().map(|content| content.len() as u64).sum();
    for file in &request.files {
        size = size.saturating_add(file.from.bytes());
        if size > script::MOST_FILES {
            return Err(TOO_MANY_FILES);
        }
        let content = match &file.from {
            Source::Bytes(bytes) => bytes.clone(),
            Source::Path(path) => std::fs::read(path).map_err(|_| UNREADABLE)?,
        };
        files.insert(file.name.as_str().to_owned(), content);
    }
    let again = Again::fresh();
    let around = Around {
        args: &request.args,
        policy: session.policy.digest(),
        base: session.base.digest(),
        is_asked: session.rules.is_some(),
        require_hard: request.require_hard,
        draft: session.draft.as_ref(),
        timeout: request.timeout,
        client: request.client.as_ref(),
    };
    let script = Script::new(&request.program, around, &again).and_then(|script| script.into_bytes(&files));
    Ok((script.map_err(|_| UNREADABLE)?, again))
}
