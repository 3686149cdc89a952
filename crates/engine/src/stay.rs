//! An execution in a session that stays open: its turn, its sandbox, and what becomes of both.

use std::sync::Arc;

use ringfence_journal::{Kind, Principal, SessionId, Text};
use ringfence_sandbox::{Language, Sandbox, Spec, Stop};

use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::refusal::Refusal;
use crate::report;
use crate::request::RunCode;
use crate::run::bring_in;
use crate::session::{Open, Place, Session};
use crate::words::Live;

impl Engine {
    /// Waits for the session's turn, and runs in its sandbox.
    pub(crate) async fn run_open(
        &self,
        open: &Open,
        session: Session,
        mut request: RunCode,
        live: &mut dyn Live,
        stop: &mut Stop,
    ) -> Result<Execution, RunError> {
        let mut place = tokio::select! {
            biased;
            () = stop.pulled() => return self.taken_back(session).await,
            place = open.place.lock() => place,
        };
        if matches!(*place, Place::Gone) {
            return self.refuse(session.elsewhere()?, gone(open.id)).await;
        }
        if matches!(*place, Place::New) {
            self.open_session(&session).await?;
            *place = Place::Bare;
        }
        let found = Box::pin(self.type_errors(&session, &request.program)).await;
        if !found.is_empty() {
            return self.not_run(&session, &request, found).await;
        }
        let mut sandbox = match std::mem::replace(&mut *place, Place::Bare) {
            Place::Stands(sandbox) if sandbox.is_sound() => sandbox,
            Place::Stands(sandbox) => return self.lost_place(open, session, *sandbox, &mut place).await,
            Place::New | Place::Bare | Place::Gone => {
                if open.spec.has_folders() {
                    self.note_folder(&open.folders)?;
                }
                Box::new(
                    self.place(&open.spec, request.program.language(), open.principal)
                        .await?,
                )
            }
        };
        let ran = self.turn(&session, &mut sandbox, &mut request, live, stop).await;
        if sandbox.is_sound() {
            *place = Place::Stands(sandbox);
            return ran;
        }
        *place = Place::Gone;
        drop(place);
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
        session: &Session,
        sandbox: &mut Sandbox,
        request: &mut RunCode,
        live: &mut dyn Live,
        stop: &mut Stop,
    ) -> Result<Execution, RunError> {
        let before = bring_in(sandbox, sandbox.snapshot()?, &request.files)?;
        self.record(session, report::started(session, request)).await?;
        let (ended, execution) = self.execute(session, sandbox, request, &before, live, stop).await?;
        self.journal_end(session, &ended, &execution, None).await?;
        Ok(execution)
    }

    /// The sandbox lived as long as it may, or died: its files are gone, so the session is over.
    async fn lost_place(
        &self,
        open: &Open,
        session: Session,
        sandbox: Sandbox,
        place: &mut Place,
    ) -> Result<Execution, RunError> {
        *place = Place::Gone;
        self.sessions.take(open.id);
        let refusal = gone(open.id);
        let refused = Kind::Refused {
            code: Text::clean(refusal.code),
            rule: Text::clean(&refusal.rule),
            hint: refusal.hint.as_deref().map(Text::clean),
        };
        self.record(&session, refused).await?;
        let close = self.close_session((open.id, &open.folders), "its sandbox ended");
        let (ended, closed) = tokio::join!(sandbox.end(), close);
        ended?;
        closed?;
        Ok(report::refused(&session, refusal))
    }

    /// A sandbox that is ready for `language`: a warm one where some are kept.
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

    /// Ends a sandbox, or has it made ready again in the background, for the same principal only.
    pub(crate) async fn put_back(
        &self,
        sandbox: Sandbox,
        spec: &Arc<Spec>,
        language: Language,
        who: Principal,
    ) -> Result<(), RunError> {
        // A client could ask for as many other places as it likes: those end.
        if !self.is_usual(spec) || self.is_closing() {
            return Ok(sandbox.end().await?);
        }
        let pool = Arc::clone(&self.pool);
        tokio::spawn(async move { pool.give_back(sandbox, language, &who.to_string()).await });
        Ok(())
    }
}

fn gone(id: SessionId) -> Refusal {
    Refusal {
        code: "session.ended",
        message: format!("session `{id}` ended with its sandbox, and its files are gone"),
        rule: "proc.lifetime".to_owned(),
        hint: Some("begin again in a new session".to_owned()),
    }
}
