//! A program is checked against the tools it names before it runs, where there is a checker and there are tools.

use ringfence_check::{CheckError, Location};
use ringfence_policy::SKILLS;

use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::report;
use crate::request::{Program, RunCode};
use crate::session::Session;

impl Engine {
    /// What does not fit. A checker that fails holds nothing up, and that is said.
    pub(crate) async fn type_errors(&self, session: &Session, program: &Program) -> Vec<Location> {
        let (
            Program::Code {
                language,
                file_name,
                source,
            },
            Some(stubs_in),
        ) = (program, program.stubs())
        else {
            return Vec::new();
        };
        let is_bare = self.gateway().is_none() && !source.contains(SKILLS);
        if is_bare || !self.check(session.principal).covers(*language) {
            return Vec::new();
        }
        let discover = self.discover_in(session, stubs_in);
        let stubs = discover.stubs(stubs_in, source).await;
        match self
            .check(session.principal)
            .program(*language, file_name, source, &stubs)
            .await
        {
            Ok(found) => found,
            Err(CheckError::Absent) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "the program runs without a type check");
                Vec::new()
            }
        }
    }

    /// A program that would fail is not started.
    pub(crate) async fn not_run(
        &self,
        session: &Session,
        request: &RunCode,
        found: Vec<Location>,
    ) -> Result<Execution, RunError> {
        self.record(session, report::started(session, request)).await?;
        let execution = report::ill_typed(session, found);
        // A checker repeats what a program says.
        let (execution, _) = self.shown(session, &session.policy, request.reader, execution).await?;
        self.record(session, report::ended(session, &execution, None)).await?;
        Ok(execution)
    }
}
