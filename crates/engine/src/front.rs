//! The client API of the engine: begin an execution, wait for it, cancel it, read what it left.

use std::sync::{Arc, Weak};
use std::time::Duration;

use ringfence_journal::{ApprovalId, ExecutionId, Principal, SessionId, Status};
use ringfence_policy::RelPath;
use ringfence_sandbox::{Language, Stop, known_stdin};
use ringfence_store::{ApprovalState, Approvals, Claim, Promise};
use tokio::sync::mpsc;

use crate::ask::{Ask, Front, Seat};
use crate::attempt::{Attempt, Company};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::refusal::Refusal;
use crate::request::{Input, Out, Reader, RunCode, Source};
use crate::resume::Taken;
use crate::runs::{Ear, Ends, OutputFrom, Part, Patience, Progress, Run, RunPlace, WaitError};
use crate::session::{Called, Open, Place, Session};
use crate::tidy::{Share, throw_away, trash_of};
use crate::workspace::NoSeat;

/// How often the engine looks for idle sessions and old results.
const SWEEP: Duration = Duration::from_secs(5);

impl Engine {
    fn front(&self) -> Result<&Front, RunError> {
        self.settings.front.as_ref().ok_or(RunError::Closed)
    }

    /// Begins an execution. A request that is refused has the refusal as its result. The id is recorded first, so that the execution is
    /// found again even if this process dies.
    pub async fn begin(self: &Arc<Self>, who: Principal, ask: Ask) -> Result<ExecutionId, RunError> {
        self.open_front()?;
        let place = self.runs.place(who)?;
        let execution = ExecutionId::generate()?;
        let claim = Claim {
            principal: who,
            execution,
            key: None,
        };
        self.store.claim(&self.lease, claim).await?;
        Box::pin(self.begin_as(execution, (who, place), ask)).await?;
        Ok(execution)
    }

    /// The serve configuration, as long as the engine takes requests.
    pub(crate) fn open_front(&self) -> Result<&Front, RunError> {
        let front = self.front()?;
        if self.is_closing() {
            return Err(RunError::Closed);
        }
        Ok(front)
    }

    /// Begins a run whose id was promised before.
    pub(crate) async fn begin_as(
        self: &Arc<Self>,
        execution: ExecutionId,
        (who, place): (Principal, RunPlace),
        ask: Ask,
    ) -> Result<(), RunError> {
        let front = self.open_front()?;
        let seat = Box::pin(self.seat(front, who, &ask)).await;
        let (mut session, seat) = match seat {
            Ok((policy, Seat::In(open, base))) => {
                let session = open.session(execution, policy, Arc::clone(&base));
                (session, Ok(Seat::In(open, base)))
            }
            Ok((policy, Seat::Alone)) => (self.alone(who, execution, policy)?, Ok(Seat::Alone)),
            Err(NoSeat::Failed(error)) => return Err(error),
            Err(NoSeat::Refused(refusal)) => (self.alone(who, execution, Arc::clone(&front.policy))?, Err(refusal)),
        };
        session.draft.clone_from(&ask.draft);
        let files = self.artifacts(execution);
        let (run, stop) = self.runs.add(execution, session.through(), (who, place), files);
        let request = request(&session, ask, &run);
        let stop = stop.within(request.timeout);
        self.set_off((run, stop), seat, session, request, Attempt::first());
        Ok(())
    }

    /// Spawns the task that sees a run to its end.
    pub(crate) fn set_off(
        self: &Arc<Self>,
        (run, mut stop): (Arc<Run>, Stop),
        seat: Result<Seat, Refusal>,
        session: Session,
        request: RunCode,
        attempt: Attempt,
    ) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let ends = Ends(run);
            let mut ear = Ear(Arc::clone(&ends.0));
            let mut company = Company {
                live: &mut ear,
                stop: &mut stop,
                run: Some(&*ends.0),
            };
            let result = match seat {
                Err(refusal) => engine.refuse(session, refusal).await,
                Ok(Seat::Alone) => Box::pin(engine.run_alone(session, request, attempt, &mut company)).await,
                Ok(Seat::In(open, _)) => {
                    let ran = Box::pin(engine.run_open(&open, session, request, attempt, &mut company)).await;
                    open.touch();
                    if matches!(ran, Err(RunError::Left)) {
                        // Another process resumes the session: it does not end here.
                        engine.sessions.take(open.id);
                    } else if open.kept.is_some() && open.name.is_none() {
                        // Nobody can name this session again; its files stay for whoever has its id.
                        engine.close_or_say(open.id, "done").await;
                    }
                    ran
                }
            };
            match result {
                Err(RunError::Left) => {
                    engine.runs.let_go(ends.0.id);
                    ends.0.end(Err(Arc::new(RunError::Left)));
                }
                result => engine.over(&ends.0, result),
            }
        });
    }

    /// Finishes a run, and forgets old ones where too much is kept.
    pub(crate) fn over(&self, run: &Run, result: Result<Execution, RunError>) {
        run.end(result.map(Arc::new).map_err(Arc::new));
        self.runs.ended(run).iter().for_each(|run| self.discard(run));
    }

    /// Waits until an execution has ended, for `at_most` this long.
    pub async fn wait(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
        at_most: Duration,
    ) -> Result<Progress, WaitError> {
        self.wait_until(who, id, at_most, Patience::End, OutputFrom::LastAsked)
            .await
    }

    /// Waits until an execution has ended or, on request, needs approvals; the caller chooses which output it gets.
    pub async fn wait_until(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
        at_most: Duration,
        patience: Patience,
        from: OutputFrom,
    ) -> Result<Progress, WaitError> {
        let run = match self.runs.find(who, id) {
            Some(run) => run,
            None => match Box::pin(self.take_up(who, id)).await? {
                Taken::Up(run) => run,
                Taken::Waits(running) => return Ok(Progress::Running(*running)),
            },
        };
        let mut progress = run.wait(at_most, patience == Patience::People).await;
        if let Progress::Running(running) = &mut progress {
            let told = Box::pin(self.told(&run, from)).await?;
            (running.stdout, running.stderr) = (told.stdout, told.stderr);
            running.approvals = self.inquiries(id).await?;
            let standing = self.store.recording_state(id).await;
            let standing = standing.map_err(|error| WaitError::Unread(error.to_string()))?;
            let spoiled = standing.and_then(|standing| standing.spoiled);
            running.unrepeatable = running.unrepeatable.take().or(spoiled);
            let turn = self.sessions.turn_in(run.session).filter(|turn| *turn != id);
            running.waits_behind = turn.filter(|turn| self.runs.here(*turn).is_some());
        }
        Ok(progress)
    }

    /// The approval requests that an execution of `who` waits for.
    pub async fn waits_for(&self, who: Principal, id: ExecutionId) -> Result<Vec<ApprovalId>, WaitError> {
        let pending = Approvals {
            principal: Some(who),
            execution: Some(id),
            state: Some(ApprovalState::Pending),
            ..Approvals::default()
        };
        let pending = self.store.approvals(pending).await;
        let pending = pending.map_err(|error| WaitError::Unread(error.to_string()))?;
        Ok(pending.iter().map(|approval| approval.question.id).collect())
    }

    /// Cancels an execution; its end comes through waiting.
    pub async fn cancel(self: &Arc<Self>, who: Principal, id: ExecutionId) -> Result<(), WaitError> {
        let run = match self.runs.find(who, id) {
            Some(run) => run,
            None => self.take_back(who, id).await?,
        };
        run.cancel();
        Ok(())
    }

    /// Reads a part of what an execution left, while its result is kept; none where there is no such part.
    pub async fn artifact(&self, who: Principal, id: ExecutionId, part: Part) -> Result<Option<Vec<u8>>, WaitError> {
        let Some(run) = self.runs.find(who, id) else {
            return Err(self.no_longer(who, id).await);
        };
        let Progress::Ended(Ok(execution)) = run.wait(Duration::ZERO, false).await else {
            return Ok(None);
        };
        let whole = execution.whole.as_deref().cloned().unwrap_or_default();
        Ok(match part {
            Part::Stdout => Some(whole.stdout.unwrap_or_else(|| execution.stdout.clone()).into_bytes()),
            Part::Stderr => Some(whole.stderr.unwrap_or_else(|| execution.stderr.clone()).into_bytes()),
            Part::Value => {
                let shown = || execution.value.as_ref().map(|value| value.get().to_owned());
                whole.value.or_else(shown).map(String::into_bytes)
            }
            Part::File(path) => {
                let path = run.files.join(path.as_str());
                match tokio::task::spawn_blocking(move || std::fs::read(path)).await {
                    Ok(Ok(bytes)) => {
                        let shown = self.shown_file(&run.through, bytes).await;
                        let shown = shown.map_err(|error| WaitError::Unread(error.to_string()))?;
                        Some(shown.map_err(WaitError::HeldBack)?)
                    }
                    // The path names a folder, or goes through a file: there is no such file, which is no fault of the engine.
                    Ok(Err(error))
                        if matches!(
                            error.kind(),
                            std::io::ErrorKind::NotFound
                                | std::io::ErrorKind::IsADirectory
                                | std::io::ErrorKind::NotADirectory
                        ) =>
                    {
                        None
                    }
                    Ok(Err(error)) => return Err(WaitError::Unread(error.to_string())),
                    Err(error) => return Err(WaitError::Unread(error.to_string())),
                }
            }
        })
    }

    /// The media type that the program gave an emitted file; none where it gave none.
    pub async fn media_type(&self, who: Principal, id: ExecutionId, path: &RelPath) -> Option<String> {
        let run = self.runs.find(who, id)?;
        let Progress::Ended(Ok(execution)) = run.wait(Duration::ZERO, false).await else {
            return None;
        };
        let file = execution.files.iter().find(|file| file.path == path.as_str())?;
        file.media_type.clone()
    }

    /// Why this process has no result of an execution, according to the store.
    pub(crate) async fn no_longer(&self, who: Principal, id: ExecutionId) -> WaitError {
        let unread = |error: ringfence_store::ReadError| WaitError::Unread(error.to_string());
        // Read first: the promise is deleted as soon as the execution exists.
        let promise = match self.store.promise(id).await {
            Ok(promise) => promise.filter(|promise| promise.principal == who),
            Err(error) => return unread(error),
        };
        let found = match (self.store.execution(id).await, promise) {
            (Ok(Some(found)), _) => found,
            (Ok(None), Some(promise)) => return self.never_started(id, promise),
            (Ok(None), None) => return WaitError::Unknown(id),
            (Err(error), _) => return unread(error),
        };
        match self.store.session(found.session).await {
            Ok(Some(session)) if session.principal == who => WaitError::Forgotten {
                id,
                status: found.status,
            },
            Ok(_) => WaitError::Unknown(id),
            Err(error) => unread(error),
        }
    }

    /// Why a promised execution has not started and is not in this process.
    fn never_started(&self, id: ExecutionId, promise: Promise) -> WaitError {
        let is_anothers = promise.lease != self.lease.id() && self.store.lives(promise.lease);
        match promise.status {
            None if is_anothers => WaitError::Elsewhere(id),
            status => WaitError::Forgotten {
                id,
                status: status.unwrap_or(Status::Lost),
            },
        }
    }

    /// Ends a session of `who` and everything that runs in it. False: there is no such session here.
    pub async fn end_session(&self, who: Principal, id: SessionId) -> Result<bool, RunError> {
        if self.sessions.find(who, &Called::Id(id)).is_none() {
            return Ok(false);
        }
        self.close_open(id, "ended on request").await?;
        Ok(true)
    }

    /// Closes an open session and records its end.
    pub(crate) async fn close_open(&self, id: SessionId, reason: &str) -> Result<(), RunError> {
        let Some(open) = self.sessions.take(id) else {
            return Ok(());
        };
        self.runs.under_way(Some(id)).iter().for_each(|run| run.cancel());
        let place = std::mem::replace(&mut *open.place.lock().await, Place::Gone);
        open.rest(None);
        if open.kept.is_some() {
            return self.leave_kept(&open, place).await;
        }
        match place {
            Place::New | Place::Gone => Ok(()),
            Place::Bare | Place::Packed(_) => self.close_session((id, &open.folders), reason).await,
            Place::Stands(sandbox) => {
                let (gone, written) = tokio::join!(sandbox.end(), self.close_session((id, &open.folders), reason));
                gone?;
                written
            }
        }
    }

    /// Parks a closed session whose files stay.
    async fn leave_kept(&self, open: &Open, place: Place) -> Result<(), RunError> {
        match place {
            Place::New | Place::Gone => Ok(()),
            Place::Bare | Place::Packed(_) => self.park(open).await,
            Place::Stands(sandbox) => {
                let gone = sandbox.end().await;
                self.park(open).await?;
                Ok(gone?)
            }
        }
    }

    /// Takes no more requests, lets runs end until `patience` is over, cancels the rest, and closes every session.
    pub async fn drain(&self, patience: Duration) {
        self.close_door();
        let all = async {
            for run in self.runs.under_way(None) {
                run.over().await;
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            let under_way = self.runs.under_way(None);
            for run in &under_way {
                run.cancel();
            }
            for run in under_way {
                run.over().await;
            }
        }
        for id in self.sessions.all() {
            self.close_or_say(id, "the server ended").await;
        }
        self.runs
            .forget(Duration::ZERO)
            .iter()
            .for_each(|run| self.discard(run));
        if let Err(error) = self.take_out_trash(Share::MINUTE.entries).await {
            tracing::warn!(
                error = error.chain(),
                "what is kept no longer is removed at the next start"
            );
        }
    }

    /// Spawns the maintenance task: it closes idle and stopped sessions and keeps sandboxes warm, for as long as the engine exists.
    pub(crate) fn attend(engine: &Arc<Engine>, front: &Front, stopped: Option<mpsc::UnboundedReceiver<SessionId>>) {
        let (idle, warm) = (front.idle, front.warm);
        let engine: Weak<Engine> = Arc::downgrade(engine);
        let ready = Weak::clone(&engine);
        tokio::spawn(async move {
            let Some(engine) = ready.upgrade() else { return };
            if let Err(error) = engine.warm(Language::TypeScript, warm).await {
                tracing::warn!(%error, "no sandbox could be made ready ahead of time");
            }
        });
        let Some(mut stopped) = stopped else { return };
        tokio::spawn(async move {
            loop {
                let asked = tokio::time::timeout(SWEEP.min(idle / 2), stopped.recv()).await;
                let Some(engine) = engine.upgrade() else { return };
                if let Ok(Some(id)) = asked {
                    engine.close_or_say(id, "stopped").await;
                }
                for id in engine.sessions.idle(idle) {
                    // A direct call has no sandbox and may wait for an approval.
                    if !engine.runs.under_way(Some(id)).is_empty() {
                        continue;
                    }
                    engine.close_or_say(id, "idle").await;
                }
                engine.runs.forget(idle).iter().for_each(|run| engine.discard(run));
            }
        });
    }

    async fn close_or_say(&self, id: SessionId, reason: &str) {
        if let Err(error) = self.close_open(id, reason).await {
            tracing::error!(%error, session = %id, "the end of a session could not be written down");
        }
    }

    /// Moves the files that an execution left out of the way. The program decides how many there are, so they are removed in the
    /// background.
    fn discard(&self, run: &Run) {
        if !run.files.exists() {
            return;
        }
        match throw_away(&run.files, &trash_of(&self.settings.home)) {
            Ok(()) => self.forget_folder(&run.files),
            Err(error) => {
                tracing::warn!(folder = %run.files.display(), %error, "files of an execution could not be removed");
            }
        }
    }
}

fn request(session: &Session, ask: Ask, run: &Run) -> RunCode {
    let input = |(name, bytes)| Input {
        from: Source::Bytes(bytes),
        name,
    };
    RunCode {
        policy: Arc::clone(&session.policy),
        program: ask.program,
        args: ask.args,
        files: ask.files.into_iter().map(input).collect(),
        stdin: ask.stdin.map(known_stdin),
        out: Out::Kept(run.files.clone()),
        require_hard: false,
        timeout: ask.timeout,
        client: ask.trace.as_ref().map(crate::ask::Trace::client),
        reader: Reader::Client,
        session: None,
    }
}
