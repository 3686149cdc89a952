//! The use cases of the front doors: begin an execution, wait for it, end it, read what it left.

use std::sync::{Arc, Weak};
use std::time::Duration;

use ringfence_journal::{ExecutionId, Principal, SessionId};
use ringfence_sandbox::Language;
use tokio::sync::mpsc;

use crate::ask::{Ask, Front, Seat};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::request::{Input, Out, RunCode, Source};
use crate::runs::{Ear, Ends, Part, Progress, Run, WaitError};
use crate::session::{Called, Place, Session};

/// How often what nobody uses any more is looked for.
const SWEEP: Duration = Duration::from_secs(5);

impl Engine {
    fn front(&self) -> Result<&Front, RunError> {
        self.settings.front.as_ref().ok_or(RunError::Closed)
    }

    /// Begins an execution. What is wrong with the request is its result.
    pub fn begin(self: &Arc<Self>, who: Principal, ask: Ask) -> Result<ExecutionId, RunError> {
        let front = self.front()?;
        if self.is_closing() {
            return Err(RunError::Closed);
        }
        let execution = ExecutionId::generate()?;
        let seat = self.seat(front, who, &ask);
        let (mut session, seat) = match seat {
            Ok((policy, Seat::In(open, base))) => {
                let session = open.session(execution, policy, Arc::clone(&base));
                (session, Ok(Seat::In(open, base)))
            }
            Ok((policy, Seat::Alone)) => (self.alone(who, execution, policy)?, Ok(Seat::Alone)),
            Err(refusal) => (self.alone(who, execution, Arc::clone(&front.policy))?, Err(refusal)),
        };
        session.draft.clone_from(&ask.draft);
        let files = self.artifacts(execution);
        let (run, mut stop) = self.runs.add(execution, session.id, who, files)?;
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let ends = Ends(run);
            let request = request(&session, ask, &ends.0);
            let mut ear = Ear(Arc::clone(&ends.0));
            let place = tokio::select! {
                biased;
                () = stop.pulled() => None,
                place = engine.places.acquire() => place.ok(),
            };
            let result = match (place, seat) {
                (_, Err(refusal)) => engine.refuse(session, refusal).await,
                (None, Ok(_)) => engine.taken_back(session).await,
                (Some(_), Ok(Seat::Alone)) => Box::pin(engine.run_alone(session, request, &mut ear, &mut stop)).await,
                (Some(_), Ok(Seat::In(open, _))) => {
                    let ran = Box::pin(engine.run_open(&open, session, request, &mut ear, &mut stop)).await;
                    open.touch();
                    ran
                }
            };
            engine.over(&ends.0, result);
        });
        Ok(execution)
    }

    /// Notes the end of a run, and makes room where too much is kept.
    pub(crate) fn over(&self, run: &Run, result: Result<Execution, RunError>) {
        run.end(result.map(Arc::new).map_err(Arc::new));
        self.runs.ended(run).iter().for_each(|run| self.discard(run));
    }

    /// Waits until an execution is over, for `at_most` so long.
    pub async fn wait(&self, who: Principal, id: ExecutionId, at_most: Duration) -> Result<Progress, WaitError> {
        match self.runs.find(who, id) {
            Some(run) => Ok(run.wait(at_most).await),
            None => Err(self.no_longer(who, id).await),
        }
    }

    /// Ends an execution; how it ended is heard by waiting.
    pub async fn cancel(&self, who: Principal, id: ExecutionId) -> Result<(), WaitError> {
        match self.runs.find(who, id) {
            Some(run) => {
                run.cancel();
                Ok(())
            }
            None => Err(self.no_longer(who, id).await),
        }
    }

    /// A part of what an execution left, while it is kept.
    pub async fn artifact(&self, who: Principal, id: ExecutionId, part: Part) -> Result<Option<Vec<u8>>, WaitError> {
        let Some(run) = self.runs.find(who, id) else {
            return Err(self.no_longer(who, id).await);
        };
        let Progress::Ended(Ok(execution)) = run.wait(Duration::ZERO).await else {
            return Ok(None);
        };
        Ok(match part {
            Part::Stdout => Some(execution.stdout.clone().into_bytes()),
            Part::Stderr => Some(execution.stderr.clone().into_bytes()),
            Part::Value => execution.value.as_ref().map(|value| value.get().as_bytes().to_vec()),
            Part::File(path) => {
                let path = run.files.join(path.as_str());
                match tokio::task::spawn_blocking(move || std::fs::read(path)).await {
                    Ok(Ok(bytes)) => Some(bytes),
                    Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => None,
                    Ok(Err(error)) => return Err(WaitError::Unread(error.to_string())),
                    Err(error) => return Err(WaitError::Unread(error.to_string())),
                }
            }
        })
    }

    /// What the journal knows of an execution whose result is not kept here.
    async fn no_longer(&self, who: Principal, id: ExecutionId) -> WaitError {
        let unread = |error: ringfence_store::ReadError| WaitError::Unread(error.to_string());
        let found = match self.store.execution(id).await {
            Ok(Some(found)) => found,
            Ok(None) => return WaitError::Unknown(id),
            Err(error) => return unread(error),
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

    /// Ends a session of `who`; what runs in it dies now.
    pub async fn end_session(&self, who: Principal, id: SessionId) -> Result<bool, RunError> {
        if self.sessions.find(who, &Called::Id(id)).is_none() {
            return Ok(false);
        }
        self.close_open(id, "ended on request").await?;
        Ok(true)
    }

    /// Takes a session that stays out of use and writes its end down.
    pub(crate) async fn close_open(&self, id: SessionId, reason: &str) -> Result<(), RunError> {
        let Some(open) = self.sessions.take(id) else {
            return Ok(());
        };
        self.runs.under_way(Some(id)).iter().for_each(|run| run.cancel());
        let place = std::mem::replace(&mut *open.place.lock().await, Place::Gone);
        match place {
            Place::New | Place::Gone => Ok(()),
            Place::Bare => self.close_session((id, &open.folders), reason).await,
            Place::Stands(sandbox) => {
                let (gone, written) = tokio::join!(sandbox.end(), self.close_session((id, &open.folders), reason));
                gone?;
                written
            }
        }
    }

    /// No more requests; what runs may end until `patience` is over, then it is ended. Then every session.
    pub async fn drain(&self, patience: Duration) {
        self.close_door();
        let all = async {
            for run in self.runs.under_way(None) {
                run.over().await;
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            for run in self.runs.under_way(None) {
                run.cancel();
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
    }

    /// Ends what nobody used for a while or somebody asked to stop, for as long as there is an engine, and keeps sandboxes
    /// ready.
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

    /// Removes the files that an execution left.
    fn discard(&self, run: &Run) {
        match std::fs::remove_dir_all(&run.files) {
            Ok(()) => self.forget_folder(&run.files),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
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
        args: Vec::new(),
        files: ask.files.into_iter().map(input).collect(),
        stdin: None,
        out: Out::Kept(run.files.clone()),
        require_hard: false,
        timeout: ask.timeout,
        client: ask.trace.as_ref().map(crate::ask::Trace::client),
    }
}
