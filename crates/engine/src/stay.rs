//! Runs an execution in an open session: waits for its turn, gets a sandbox, and keeps or closes that afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfence_journal::{Kind, Principal, SessionId, Text};
use ringfence_policy::{Policy, RelPath};
use ringfence_sandbox::{Language, Sandbox, Spec};

use crate::attempt::{Attempt, AttemptKind, Company, Ran};
use crate::durable::{NO_CODE, TOO_MANY_FILES, Tries, Turn};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::host_work::Digests;
use crate::refusal::Refusal;
use crate::report;
use crate::request::{Input, Program, RunCode, Source};
use crate::run::bring_in;
use crate::script::{self, ScriptError};
use crate::session::{Open, Place, Session};
use crate::workspace::name_taken;

impl Engine {
    /// Opens a session in which nothing has run; refused where it is closed, or its workspace belongs to another user.
    async fn open_if_new(
        &self,
        open: &Open,
        session: &Session,
        place: &mut Place,
    ) -> Result<Option<Refusal>, RunError> {
        match place {
            Place::Gone => return Ok(Some(gone(open.id))),
            Place::Bare | Place::Packed(_) | Place::Stands(_) => return Ok(None),
            Place::New => {}
        }
        let Err(error) = self.open_session(session).await else {
            *place = Place::Bare;
            return Ok(None);
        };
        let Some(other) = name_taken(&error, open.id) else {
            return Err(error);
        };
        *place = Place::Gone;
        self.sessions.take(open.id);
        self.busy(other).await.map(Some)
    }

    /// Runs an execution in the session's sandbox, once it is its turn.
    pub(crate) async fn run_open(
        &self,
        open: &Open,
        session: Session,
        mut request: RunCode,
        mut attempt: Attempt,
        company: &mut Company<'_>,
    ) -> Result<Execution, RunError> {
        let mut place = tokio::select! {
            biased;
            () = company.stop.pulled() => return self.given_up(&session, &attempt, company.stop, None).await,
            place = open.place.lock() => place,
        };
        open.has_turn(session.execution);
        if let Some(refusal) = self.open_if_new(open, &session, &mut place).await? {
            return self.refuse(session.elsewhere()?, refusal).await;
        }
        if let Some(refusal) = Refusal::of_program(&session.policy, &request.program) {
            return self.no_turn(&session, refusal).await;
        }
        if attempt.is_first() {
            let found = Box::pin(self.type_errors(&session, &request.program)).await;
            if !found.is_empty() {
                return self.not_run(&session, &request, found).await;
            }
        }
        let mut tries = Tries::default();
        loop {
            // The session's turn comes first: the holder of a permit never waits for it.
            let turn = match self.turn_of(&session, &open.spec, &attempt, company).await? {
                Turn::Taken(turn) => turn,
                Turn::Full(refusal) => return self.no_turn(&session, refusal).await,
                Turn::Cancelled => return self.given_up(&session, &attempt, company.stop, None).await,
            };
            open.rest(None);
            let ran = match self.stand(open, &session, &mut place, &request).await {
                Ok(Ok(mut sandbox)) => {
                    let ran = self
                        .turn(open, &session, &mut sandbox, &mut request, &mut attempt, company)
                        .await;
                    self.leave_place(open, &mut place, *sandbox, ran, &mut request).await
                }
                Ok(Err(refusal)) => return Ok(report::refused(&session, refusal)),
                Err(error) => Err(error),
            };
            // The memory of its files stays admitted as long as the sandbox exists.
            open.rest(match &*place {
                Place::Stands(sandbox) => Some(turn.at_rest(sandbox.held_memory())),
                Place::New | Place::Bare | Place::Packed(_) | Place::Gone => None,
            });
            let ran = match ran {
                Err(error) if attempt.is_waiting() && error.may_pass() => {
                    if self.hold_off(&session, &mut tries, &error, company).await? {
                        continue;
                    }
                    return self.given_up(&session, &attempt, company.stop, None).await;
                }
                ran => ran?,
            };
            match ran {
                Ran::Over(over) => return Ok(over.execution),
                Ran::Released { seen, .. } => match self.until_called(&session, company).await? {
                    Some((next, files)) => {
                        attempt = Attempt { seen, ..next };
                        request.files = files;
                    }
                    None => return self.given_up(&session, &attempt, company.stop, None).await,
                },
            }
        }
    }

    async fn no_turn(&self, session: &Session, refusal: Refusal) -> Result<Execution, RunError> {
        self.record_refusal(session, &refusal).await?;
        Ok(report::refused(session, refusal))
    }

    /// The session's sandbox: the ready one, or a new one with its files. Refused: the sandbox and with it the session are gone, or the
    /// workspace is over its quota.
    async fn stand(
        &self,
        open: &Open,
        session: &Session,
        place: &mut Place,
        request: &RunCode,
    ) -> Result<Result<Box<Sandbox>, Refusal>, RunError> {
        let files = match std::mem::replace(place, Place::Bare) {
            Place::Stands(sandbox) if sandbox.is_sound() => return Ok(Ok(sandbox)),
            Place::Stands(sandbox) if open.kept.is_some() => {
                // The files that the session keeps are not in the sandbox.
                sandbox.end().await?;
                None
            }
            Place::Stands(sandbox) => {
                self.lost_place(open, session, *sandbox, place).await?;
                return Ok(Err(gone(open.id)));
            }
            Place::Packed(files) => Some(files),
            Place::New | Place::Bare | Place::Gone => None,
        };
        let Some(files) = files else {
            if let Some(refusal) = self.too_full(open).await? {
                self.record_refusal(session, &refusal).await?;
                return Ok(Err(refusal));
            }
            return Ok(Ok(Box::new(self.empty_place(open, request).await?)));
        };
        let unpacked = self.unpack(open, request, &files).await;
        if unpacked.is_err() {
            // The next execution gets these files.
            *place = Place::Packed(files);
        }
        Ok(Ok(Box::new(unpacked?)))
    }

    async fn empty_place(&self, open: &Open, request: &RunCode) -> Result<Sandbox, RunError> {
        if open.spec.has_folders() {
            self.note_folder(&open.folders)?;
        }
        self.place(&open.spec, request.program.language(), open.principal).await
    }

    /// A new sandbox with the files as they were when the execution began, not as it left them.
    async fn unpack(&self, open: &Open, request: &RunCode, files: &[Input]) -> Result<Sandbox, RunError> {
        let sandbox = self.empty_place(open, request).await?;
        // Emptied last: an error before this leaves the workspace unchanged.
        self.start_over(&open.spec).await?;
        bring_in(&sandbox, BTreeMap::new(), files)?;
        Ok(sandbox)
    }

    /// Keeps or closes the sandbox after an attempt. A suspended execution leaves the files that it began with.
    async fn leave_place(
        &self,
        open: &Open,
        place: &mut Place,
        sandbox: Sandbox,
        ran: Result<Ran, RunError>,
        request: &mut RunCode,
    ) -> Result<Ran, RunError> {
        if matches!(ran, Ok(Ran::Released { .. })) {
            *place = Place::Packed(request.files.clone());
            sandbox.end().await?;
            return ran;
        }
        if sandbox.is_sound() {
            *place = Place::Stands(Box::new(sandbox));
            return ran;
        }
        if open.kept.is_some() {
            *place = Place::Bare;
            sandbox.end().await?;
            return ran;
        }
        *place = Place::Gone;
        self.sessions.take(open.id);
        let (ended, closed) = tokio::join!(
            sandbox.end(),
            self.close_session((open.id, &open.folders), "its sandbox ended")
        );
        ended?;
        closed?;
        ran
    }

    async fn turn(
        &self,
        open: &Open,
        session: &Session,
        sandbox: &mut Sandbox,
        request: &mut RunCode,
        attempt: &mut Attempt,
        company: &mut Company<'_>,
    ) -> Result<Ran, RunError> {
        let there = self.host_work.snapshot(session.principal, sandbox).await?;
        if attempt.is_first() {
            let contents = self.contents(open, session, (sandbox, &there), request).await?;
            let before = bring_in(sandbox, there, &request.files)?;
            self.start(session, request, attempt, contents.as_ref().map_err(|why| *why))
                .await?;
            if let (Ok(contents), true) = (contents, attempt.is_kept()) {
                // The execution is repeated with the files that it began with.
                request.files.splice(..0, inputs(contents)?);
            }
            attempt.kind = AttemptKind::Next;
            return self
                .ran(open, session, (sandbox, &before), request, attempt, company)
                .await;
        }
        // The files came with the sandbox.
        self.go_on(session, attempt).await?;
        self.ran(open, session, (sandbox, &Arc::new(there)), request, attempt, company)
            .await
    }

    async fn ran(
        &self,
        open: &Open,
        session: &Session,
        place: (&mut Sandbox, &Arc<Digests>),
        request: &mut RunCode,
        attempt: &Attempt,
        company: &mut Company<'_>,
    ) -> Result<Ran, RunError> {
        let ran = self.execute(session, place, request, attempt, company).await?;
        match &ran {
            Ran::Over(over) => {
                self.journal_end(session, over, attempt, None).await?;
                self.after_run(open, session, over.execution.status).await?;
            }
            Ran::Released { due, waiting, .. } => self.suspend(session, attempt, *due, *waiting).await?,
        }
        Ok(ran)
    }

    /// The files in the workspace when an execution begins, where a repetition may need them; or why they are not recorded: they are too
    /// large, or no call can need an approval.
    async fn contents(
        &self,
        open: &Open,
        session: &Session,
        (sandbox, there): (&Sandbox, &Digests),
        request: &RunCode,
    ) -> Result<Result<BTreeMap<String, Vec<u8>>, &'static str>, RunError> {
        if !matches!(request.program, Program::Code { .. }) {
            return Ok(Err(NO_CODE));
        }
        if open.kept.is_some() && !self.can_be_put_back(open).await? {
            return Ok(Err(TOO_MANY_FILES));
        }
        if there.is_empty() {
            return Ok(Ok(BTreeMap::new()));
        }
        if !self.may_ask(&session.policy) {
            return Ok(Err("nobody was to be asked when it began"));
        }
        let workspace = sandbox.workspace()?;
        let read = move || {
            let collected = workspace.collect(&BTreeMap::new(), &[], &[], &workspace.limits())?;
            let size: u64 = collected.files.iter().map(|file| file.bytes).sum();
            // A file that is not a regular one could not be restored.
            if size > script::MOST_FILES || !collected.skipped.is_empty() {
                return Ok(Err(TOO_MANY_FILES));
            }
            workspace.read_all(&collected.files).map(Ok)
        };
        let read = self.host_work.run(session.principal, read).await?;
        read.map_err(RunError::Collect)
    }

    /// Whether calls under a policy can need an approval. Only tools of servers change.
    fn may_ask(&self, policy: &Policy) -> bool {
        policy.may_ask() || self.gateway().is_some() && policy.may_ask_for_drift()
    }

    /// Closes a session whose sandbox reached its lifetime or died: its files are gone.
    async fn lost_place(
        &self,
        open: &Open,
        session: &Session,
        sandbox: Sandbox,
        place: &mut Place,
    ) -> Result<(), RunError> {
        *place = Place::Gone;
        self.sessions.take(open.id);
        self.record_refusal(session, &gone(open.id)).await?;
        let close = self.close_session((open.id, &open.folders), "its sandbox ended");
        let (ended, closed) = tokio::join!(sandbox.end(), close);
        ended?;
        closed
    }

    async fn record_refusal(&self, session: &Session, refusal: &Refusal) -> Result<(), RunError> {
        let refused = Kind::Refused {
            code: Text::clean(refusal.code),
            rule: Text::clean(&refusal.rule),
            hint: refusal.hint.as_deref().map(Text::clean),
        };
        self.record(session, refused).await
    }

    /// Acquires a sandbox for `language`: a warm one where the pool keeps some.
    pub(crate) async fn place(
        &self,
        spec: &Arc<Spec>,
        language: Language,
        who: Principal,
    ) -> Result<Sandbox, RunError> {
        if self.is_usual(spec) {
            return Ok(self.pool.take(spec, language, &who.to_string()).await?);
        }
        Ok(self.native.launch(spec).await?)
    }

    /// Ends a sandbox, or resets it in the background for the same principal.
    pub(crate) async fn put_back(
        &self,
        sandbox: Sandbox,
        spec: &Arc<Spec>,
        language: Language,
        who: Principal,
    ) -> Result<(), RunError> {
        // Only sandboxes of the default spec are reused: clients could ask for any number of others.
        if !self.is_usual(spec) || self.is_closing() {
            return Ok(sandbox.end().await?);
        }
        let pool = Arc::clone(&self.pool);
        tokio::spawn(async move { pool.give_back(sandbox, language, &who.to_string()).await });
        Ok(())
    }
}

fn inputs(contents: BTreeMap<String, Vec<u8>>) -> Result<Vec<Input>, RunError> {
    let input = |(name, bytes): (String, Vec<u8>)| {
        let name = name
            .parse::<RelPath>()
            .map_err(|_| ScriptError::Unreadable("a file has no name"))?;
        Ok(Input {
            from: Source::Bytes(bytes),
            name,
        })
    };
    contents.into_iter().map(input).collect()
}

fn gone(id: SessionId) -> Refusal {
    Refusal {
        code: "session.ended",
        message: format!("session `{id}` ended with its sandbox, and its files are gone"),
        rule: "proc.lifetime".to_owned(),
        hint: Some("begin again in a new session".to_owned()),
    }
}
