//! Resumes executions without a process: those that were suspended when theirs ended, and those whose process died.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ringfence_gateway::{Past, Screen};
use ringfence_journal::{
    ApprovalAnswer, ApprovalId, ApprovalScope, AskReason, ExecutionId, Kind, LeaseId, Principal, SessionId, Status,
};
use ringfence_policy::{Ceiling, Policy};
use ringfence_store::{AdoptError, ApprovalState, Approvals, Grounds, Question, RecordingState, Retention};

use crate::approvals::Inquiry;
use crate::ask::{Seat, asked_policy, over_ceiling};
use crate::asker::{unread, until};
use crate::engine::Engine;
use crate::error::RunError;
use crate::request::{Out, Reader, RunCode};
use crate::runs::{Run, Running, WaitError};
use crate::script::Script;
use crate::session::{Opening, Place, Session};
use crate::sweep;
use crate::tidy::Share;
use crate::workspace::Disk;

/// Ready executions that one poll resumes at most.
const AT_ONCE: u32 = 64;
/// How often ready executions are looked for, even without a notification.
const LOOK: Duration = Duration::from_secs(5);

/// How long this process waits for another one that sweeps.
const SWEPT: Duration = Duration::from_secs(5);

/// How often an execution is looked up again when another process adopts or releases it in between.
const LOOKS: usize = 3;

/// How often abandoned recordings are swept.
const SWEEP: Duration = Duration::from_mins(1);

/// The policies that an execution resumes under.
struct Now {
    /// The policy of its session.
    base: Arc<Policy>,
    /// The policy of the execution itself.
    policy: Arc<Policy>,
}

/// An execution of another process that a client asked for.
pub(crate) enum Taken {
    /// The execution runs in this process now.
    Up(Arc<Run>),
    /// The execution is suspended and waits for approvals.
    Waits(Box<Running>),
}

/// Where an execution was found.
enum Found {
    /// The execution runs here, or waits for approvals.
    Taken(Taken),
    /// The process that had the execution is gone.
    Orphan(LeaseId),
    /// Another process changed its state meanwhile.
    Changed,
}

impl Engine {
    /// Spawns the task that resumes suspended executions without a process as soon as they are ready, for as long as the engine exists.
    pub(crate) fn attend_waiting(engine: &Arc<Engine>, idle: Duration) {
        let (bells, engine): (_, Weak<Engine>) = (engine.bells.clone(), Arc::downgrade(engine));
        tokio::spawn(async move {
            let born = Instant::now();
            let mut swept: Option<Instant> = None;
            loop {
                let wait = {
                    let Some(engine) = engine.upgrade() else { return };
                    if engine.is_closing() {
                        return;
                    }
                    let wait = engine.resume_ready().await;
                    if swept.is_none_or(|swept| swept.elapsed() > SWEEP) {
                        // Clients get the time to ask for an interrupted execution first.
                        engine.sweep_recordings(idle, born.elapsed() > idle).await;
                        swept = Some(Instant::now());
                    }
                    wait
                };
                tokio::select! {
                    () = bells.others() => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        });
    }

    /// Resumes all executions that are ready; returns the time until the next look.
    async fn resume_ready(self: &Arc<Self>) -> Duration {
        let ready = match self.store.ready(Timestamp::now(), AT_ONCE).await {
            Ok(ready) => ready,
            Err(error) => {
                tracing::error!(%error, "cannot look for executions that may go on");
                return LOOK;
            }
        };
        let mut is_stuck = false;
        for (execution, _) in ready {
            if let Some(run) = self.runs.here(execution) {
                // The task that waits for it here looks again, in case it missed the notification.
                run.nudge();
                is_stuck = true;
                continue;
            }
            if self.is_closing() {
                return LOOK;
            }
            match self.resume(execution).await {
                Ok(_) => {}
                Err(RunError::Adopt(_)) => is_stuck = true,
                Err(error) if error.may_pass() => {
                    is_stuck = true;
                    tracing::warn!(%execution, error = error.chain(), "an execution cannot go on now, and is tried again");
                }
                Err(error) => {
                    is_stuck = true;
                    tracing::error!(%execution, error = error.chain(), "an execution cannot go on");
                }
            }
        }
        match self.store.next_due().await {
            Ok(Some(due)) if !is_stuck => until(due).clamp(Duration::from_millis(1), LOOK),
            Ok(_) | Err(_) => LOOK,
        }
    }

    /// Ends interrupted executions that nobody asked for, and deletes recordings that are too old or too large.
    pub(crate) async fn sweep_recordings(&self, idle: Duration, ends: bool) {
        if let Err(error) = sweep::after_the_dead(&self.store).await {
            tracing::warn!(%error, "what a neighbour left could not be swept");
        }
        self.sweep_workspaces(Share::MINUTE).await;
        if let Err(error) = self
            .store
            .trim_recordings(Retention::of_a_server(), Timestamp::now())
            .await
        {
            tracing::warn!(%error, "what past executions kept could not be trimmed");
        }
        sweep::old_records(self).await;
        if !ends {
            return;
        }
        let interrupted = match self.store.interrupted(AT_ONCE).await {
            Ok(interrupted) => interrupted,
            Err(error) => return tracing::warn!(%error, "cannot look for executions that were interrupted"),
        };
        for (execution, session) in interrupted {
            if let Err(error) = self.give_up(execution, session, idle).await {
                tracing::warn!(%execution, error = error.chain(), "an execution that was interrupted could not be ended");
            }
        }
    }

    async fn give_up(&self, execution: ExecutionId, session: SessionId, idle: Duration) -> Result<(), RunError> {
        let row = self.store.session(session).await.map_err(unread)?;
        let is_old = row.is_some_and(|row| Timestamp::now().duration_since(row.used).unsigned_abs() > idle);
        if !is_old {
            return Ok(());
        }
        match self.store.resume(&self.lease, execution).await {
            Ok(()) => self.lose(execution, &RunError::Abandoned).await,
            // Another process resumed it, or its session also waits for approvals.
            Err(_) => Ok(()),
        }
    }

    /// Resumes an execution that has no process.
    pub(crate) async fn resume(self: &Arc<Self>, execution: ExecutionId) -> Result<Arc<Run>, RunError> {
        // Clients that look the execution up meanwhile wait until it is here.
        let _taking = self.taking.lock().await;
        self.resume_alone(execution).await
    }

    /// Resumes an execution while the caller holds the lock.
    async fn resume_alone(self: &Arc<Self>, execution: ExecutionId) -> Result<Arc<Run>, RunError> {
        let standing = self.store.recording_state(execution).await.map_err(unread)?;
        let session = standing.ok_or(RunError::Unkept)?.session;
        self.store.resume(&self.lease, execution).await?;
        match self.take_over(execution).await {
            Ok(run) => Ok(run),
            Err(error) if error.may_pass() => {
                self.put_down(session).await;
                Err(error)
            }
            Err(error) => {
                self.lose(execution, &error).await?;
                Err(error)
            }
        }
    }

    /// Releases an adopted session to the next process, as soon as that can be recorded.
    async fn put_down(self: &Arc<Self>, session: SessionId) {
        let Err(error) = self.store.leave_unfinished(&self.lease, session).await else {
            return;
        };
        tracing::warn!(%session, %error, "what cannot go on now is left to the next in a while");
        let engine = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                let Some(engine) = engine.upgrade() else { return };
                if engine.store.leave_unfinished(&engine.lease, session).await.is_ok() {
                    return;
                }
            }
        });
    }

    async fn take_over(self: &Arc<Self>, execution: ExecutionId) -> Result<Arc<Run>, RunError> {
        let kept = self.store.recording(execution).await.map_err(unread)?;
        let kept = kept.ok_or(RunError::Unkept)?;
        let (script, _) = Script::read(&kept.request)?;
        let id = kept.standing.session;
        let row = self.store.session(id).await.map_err(unread)?.ok_or(RunError::Unkept)?;
        let Now { base, policy } = self.rules_now(&script, &row.policy_digest).await?;
        let (past, generation) = self.remembered((id, row.principal), &policy).await?;
        let screen = self.screen_of(id).await?;
        let session = Session {
            screen: Arc::clone(&screen),
            draft: script.draft.clone(),
            base: Arc::clone(&base),
            ..Session::new((id, execution), row.principal, Arc::clone(&policy), self.folders(id))
        };
        let (attempt, files) = self.next_attempt(&session).await?;
        let artifacts = self.artifacts(execution);
        let request = RunCode {
            args: script.args.clone(),
            files,
            out: Out::Kept(artifacts.clone()),
            require_hard: script.require_hard,
            timeout: script.timeout(),
            client: script.client.clone(),
            reader: Reader::Client,
            policy: Arc::clone(&policy),
            ..RunCode::new((*policy).clone(), script.program())
        };
        let (seat, session) = match kept.standing.stays {
            None if row.workspace.is_none() => {
                let rules = Some(self.ruled(id, policy, generation));
                let past = Arc::new(past);
                (Seat::Alone, Session { past, rules, ..session })
            }
            name => {
                let works = row.workspace.is_some().then(|| self.kept_of(&row, &base));
                let works = works.transpose().map_err(RunError::Refused)?;
                let disk = Disk {
                    folders: &session.folders,
                    kept: works.as_ref(),
                };
                let spec = self.spec(&base, disk, false).map_err(RunError::Refused)?;
                let opening = Opening {
                    id,
                    enforcement: self.enforcement(&spec, &base),
                    rules: self.ruled(id, Arc::clone(&base), generation),
                    spec,
                    folders: session.folders.clone(),
                    screen,
                    kept: works,
                    place: Place::Packed(request.files.clone()),
                };
                let open = self.sessions.take_over(row.principal, name.as_deref(), opening, past);
                let in_it = open.session(execution, policy, Arc::clone(&base));
                let draft = session.draft;
                (Seat::In(open, base), Session { draft, ..in_it })
            }
        };
        let through = session.through();
        let (run, stop) = self.runs.take_over(execution, through, row.principal, artifacts);
        let passed = Timestamp::now().duration_since(execution.created()).unsigned_abs();
        let stop = stop.within(script.timeout().map(|timeout| timeout.saturating_sub(passed)));
        self.set_off((Arc::clone(&run), stop), Ok(seat), session, request, attempt);
        Ok(run)
    }

    /// The policies of an execution that resumes: those that it began with, or those that replaced them, but never more than the operator
    /// allows by now.
    async fn rules_now(&self, script: &Script, digest: &str) -> Result<Now, RunError> {
        let base = self.restored(digest).await?;
        let policy = if digest == script.base {
            self.restored(&script.policy).await?
        } else {
            let own = asked_policy(&Ceiling::of(&base), &base, script.draft.as_ref());
            own.unwrap_or_else(|_| Arc::clone(&base))
        };
        if let Some(front) = self.settings.front.as_ref().filter(|_| script.is_asked) {
            for rules in [&base, &policy] {
                let allowed = rules.to_draft().under(&front.ceiling);
                allowed.map_err(|error| RunError::Refused(over_ceiling(&error)))?;
            }
        }
        Ok(Now { base, policy })
    }

    /// The call history of a session from before this process had it, under the policy that applies now, and the generation of its rules.
    /// Grants end with the policy that asked for them.
    pub(crate) async fn remembered(
        &self,
        (id, who): (SessionId, Principal),
        policy: &Policy,
    ) -> Result<(Past, u64), RunError> {
        let past = self.tenants.past(who);
        let mut generations = 1;
        let mut yes = HashSet::new();
        let now = Timestamp::now();
        for record in self.store.show(id).await.map_err(unread)? {
            let Ok(event) = record.event() else { continue };
            if let Kind::CallStarted { tool, rule, .. } = &event.kind {
                // A call in the future, by a clock that was set back, counts as made just now.
                let ago = Duration::try_from(now.duration_since(event.at)).unwrap_or_default();
                past.called(policy, (tool.as_str(), rule.as_str()), ago);
            } else if let Kind::PolicyChanged { generation, .. } = &event.kind {
                generations = *generation;
                yes.clear();
            } else if let Kind::ApprovalAnswered {
                id,
                answer: ApprovalAnswer::Approved,
                scope: Some(ApprovalScope::Session),
                ..
            } = &event.kind
            {
                yes.insert(*id);
            }
        }
        past.ruled(generations);
        for question in self.granted(id, &yes).await? {
            // A policy that is no longer known cannot be the one that asks now.
            if let Grounds {
                policy: Some(policy),
                grantee: Some(grantee),
                ..
            } = &question.grounds
            {
                past.grant(grantee, &question.rule, policy);
            }
        }
        Ok((past, generations))
    }

    /// The redactor of a session, with the aliases from before this process had it.
    pub(crate) async fn screen_of(&self, id: SessionId) -> Result<Arc<Screen>, RunError> {
        let parts = self.store.aliases(id).await.map_err(unread)?;
        let screen = Screen::restore(parts.iter().map(|part| part.as_slice()));
        Ok(Arc::new(screen.map_err(RunError::Aliases)?))
    }

    /// Loads a policy by its digest.
    pub(crate) async fn restored(&self, digest: &str) -> Result<Arc<Policy>, RunError> {
        let json = self.store.policy(digest).await.map_err(unread)?;
        let json = json.and_then(|json| serde_json::from_str(&json).ok());
        let policy = json.as_ref().and_then(Policy::restore).ok_or(RunError::Unkept)?;
        Ok(Arc::new(policy))
    }

    /// The approval requests among these that people approved for the session.
    async fn granted(&self, session: SessionId, yes: &HashSet<ApprovalId>) -> Result<Vec<Question>, RunError> {
        if yes.is_empty() {
            return Ok(Vec::new());
        }
        let which = Approvals {
            session: Some(session),
            state: Some(ApprovalState::Approved),
            ..Approvals::default()
        };
        let granted = self.store.approvals(which).await.map_err(unread)?;
        let questions = granted.into_iter().map(|approval| approval.question);
        let for_long = |question: &Question| question.why == AskReason::Rule && yes.contains(&question.id);
        Ok(questions.filter(for_long).collect())
    }

    /// Marks an execution that cannot resume as lost, and closes its session.
    async fn lose(&self, execution: ExecutionId, error: &RunError) -> Result<(), RunError> {
        let standing = self.store.recording_state(execution).await.map_err(unread)?;
        let Some(session) = standing.map(|standing| standing.session) else {
            return Ok(());
        };
        if self.store.keeps(session).await.map_err(unread)? {
            // The files of the session stay.
            self.store.end_unfinished(session, Status::Lost).await?;
            return Ok(self.store.park_session(session).await?);
        }
        let reason = format!("an execution in it cannot go on: {error}");
        self.close_session((session, &self.folders(session)), &reason).await
    }

    /// Closes a session that no process has; where its files stay, only ends what waits in it.
    pub async fn close_orphan(&self, session: SessionId) -> Result<(), RunError> {
        self.store.adopt_session(&self.lease, session).await?;
        if self.store.keeps(session).await.map_err(unread)? {
            self.store.end_unfinished(session, Status::Cancelled).await?;
            return Ok(self.store.park_session(session).await?);
        }
        self.close_session((session, &self.folders(session)), "stopped").await
    }

    /// Adopts an execution that a client asks for and that is not here, if its process died and it can resume.
    pub(crate) async fn take_up(self: &Arc<Self>, who: Principal, id: ExecutionId) -> Result<Taken, WaitError> {
        for _ in 0..LOOKS {
            match self.look_for(who, id).await? {
                Found::Taken(taken) => return Ok(taken),
                Found::Changed => {}
                Found::Orphan(lease) => {
                    // Another process sweeps it and has not yet recorded that it can resume; this one waits only for a limited time.
                    let swept = tokio::time::timeout(SWEPT, self.store.swept_by_others(lease)).await;
                    tracing::debug!(%lease, in_time = swept.is_ok(), "an execution has no process");
                    if let Err(error) = sweep::after_the_dead(&self.store).await {
                        tracing::warn!(%error, "what a neighbour left could not be swept");
                    }
                }
            }
        }
        Err(WaitError::Elsewhere(id))
    }

    /// Where an execution is: in this process, in the store, or in another process. The lock keeps it from moving between the first two
    /// during the lookup.
    async fn look_for(self: &Arc<Self>, who: Principal, id: ExecutionId) -> Result<Found, WaitError> {
        let unread = |error: ringfence_store::ReadError| WaitError::Unread(error.to_string());
        let _taking = self.taking.lock().await;
        if let Some(run) = self.runs.find(who, id) {
            return Ok(Found::Taken(Taken::Up(run)));
        }
        let Some(standing) = self.store.recording_state(id).await.map_err(unread)? else {
            return Err(self.no_longer(who, id).await);
        };
        let row = self.store.session(standing.session).await.map_err(unread)?;
        let Some(row) = row.filter(|row| row.principal == who) else {
            return Err(WaitError::Unknown(id));
        };
        match (standing.state, standing.spoiled) {
            (RecordingState::Over, _) => Err(self.no_longer(who, id).await),
            (_, Some(why)) => Err(WaitError::Spoiled { id, why }),
            (RecordingState::Running, None) => self.owned(id, &row).await,
            (RecordingState::Waiting, None) => Ok(Found::Taken(Taken::Waits(Box::new(Running {
                execution_id: id,
                session_id: standing.session,
                status: Status::WaitingApproval,
                stdout: String::new(),
                stderr: String::new(),
                elapsed_ms: u64::try_from(Timestamp::now().duration_since(id.created()).as_millis()).unwrap_or(0),
                approvals: self.inquiries(id).await?,
                unrepeatable: None,
                waits_behind: None,
            })))),
            (RecordingState::Interrupted, None) => match self.resume_alone(id).await {
                Ok(run) => Ok(Found::Taken(Taken::Up(run))),
                // Another process adopted it first.
                Err(RunError::Adopt(AdoptError::Owned { .. })) => Ok(Found::Changed),
                Err(error) => Err(cannot_go_on(id, &error)),
            },
        }
    }

    /// An execution that a process has, and that this one does not track.
    async fn owned(&self, id: ExecutionId, row: &ringfence_store::Session) -> Result<Found, WaitError> {
        match row.lease {
            Some(lease) if lease == self.lease.id() => {
                if !self.runs.under_way(Some(row.id)).is_empty() {
                    // A nested skill execution: clients see it through its caller.
                    return Err(WaitError::Elsewhere(id));
                }
                // It could not resume, and that could not be recorded yet.
                match self.store.leave_unfinished(&self.lease, row.id).await {
                    Ok(_) => Ok(Found::Changed),
                    Err(error) => Err(WaitError::Unread(error.to_string())),
                }
            }
            Some(lease) if !self.store.lives(lease) => Ok(Found::Orphan(lease)),
            Some(_) => Err(WaitError::Elsewhere(id)),
            // It ended or was released after its recording was read.
            None => Ok(Found::Changed),
        }
    }

    /// Adopts an execution that has no process, in order to cancel it.
    pub(crate) async fn take_back(self: &Arc<Self>, who: Principal, id: ExecutionId) -> Result<Arc<Run>, WaitError> {
        for _ in 0..LOOKS {
            match self.take_up(who, id).await? {
                Taken::Up(run) => return Ok(run),
                Taken::Waits(_) => match self.resume(id).await {
                    Ok(run) => return Ok(run),
                    // It runs here by now, or another process has it.
                    Err(RunError::Adopt(AdoptError::Owned { .. } | AdoptError::Closed { .. })) => {}
                    Err(error) => return Err(cannot_go_on(id, &error)),
                },
            }
        }
        Err(WaitError::Elsewhere(id))
    }

    /// The approval requests that an execution waits for.
    pub(crate) async fn inquiries(&self, execution: ExecutionId) -> Result<Vec<Inquiry>, WaitError> {
        let pending = Approvals {
            execution: Some(execution),
            state: Some(ApprovalState::Pending),
            ..Approvals::default()
        };
        let pending = self.store.approvals(pending).await;
        let pending = pending.map_err(|error| WaitError::Unread(error.to_string()))?;
        Ok(pending.iter().map(Inquiry::of).collect())
    }
}

/// Why an execution does not resume, for good or for now.
fn cannot_go_on(id: ExecutionId, error: &RunError) -> WaitError {
    let why = error.chain();
    if error.may_pass() {
        WaitError::Unread(why)
    } else {
        WaitError::Spoiled { id, why }
    }
}
