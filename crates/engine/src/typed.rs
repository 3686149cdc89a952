//! Type-checks a program against the tools that it names, where there are a checker and tools.

use ringfence_check::{CheckError, Location};
use ringfence_policy::SKILLS;

use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::Execution;
use crate::report;
use crate::request::{Program, RunCode};
use crate::session::Session;

impl Engine {
    /// The type errors of a program. A checker that fails is logged and stops nothing.
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

    /// Ends an execution whose program has type errors without starting it.
    pub(crate) async fn not_run(
        &self,
        session: &Session,
        request: &RunCode,
        found: Vec<Location>,
    ) -> Result<Execution, RunError> {
        self.record(session, report::started(session, request)).await?;
        let execution = report::ill_typed(session, found);
        // A checker's messages repeat parts of the program.
        let (execution, _) = self.shown(session, &session.policy, request.reader, execution).await?;
        self.record(session, report::ended(session, &execution, None)).await?;
        Ok(execution)
    }
}
