//! Type-checks a program against the tools that it names, where there are a checker and tools.

use ringfence_check::{TypeCheckError, TypeErrorLocation};
use ringfence_policy::SKILLS_SERVER;

use crate::engine::Engine;
use crate::error::OperationError;
use crate::execution::ExecutionReport;
use crate::report;
use crate::request::{ExecutionRequest, RunProgram};
use crate::session::ExecutionContext;

impl Engine {
    /// The type errors of a program. A checker that fails is logged and stops nothing.
    pub(crate) async fn type_errors(&self, session: &ExecutionContext, program: &RunProgram) -> Vec<TypeErrorLocation> {
        let (
            RunProgram::Code {
                language,
                file_name,
                source,
            },
            Some(stubs_in),
        ) = (program, program.stub_language())
        else {
            return Vec::new();
        };
        let is_bare = self.tool_gateway().is_none() && !source.contains(SKILLS_SERVER);
        if is_bare || !self.type_checker(session.principal).covers(*language) {
            return Vec::new();
        }
        let discover = self.discover_in(session, stubs_in);
        let stubs = discover.program_stubs(stubs_in, source).await;
        match self
            .type_checker(session.principal)
            .check_program(*language, file_name, source, &stubs)
            .await
        {
            Ok(found) => found,
            Err(TypeCheckError::Absent) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "the program runs without a type check");
                Vec::new()
            }
        }
    }

    /// Ends an execution whose program has type errors without starting it.
    pub(crate) async fn refuse_ill_typed(
        &self,
        session: &ExecutionContext,
        request: &ExecutionRequest,
        found: Vec<TypeErrorLocation>,
    ) -> Result<ExecutionReport, OperationError> {
        self.record_event(session, report::started_event(session, request))
            .await?;
        let execution = report::type_error_report(session, found);
        // A checker's messages repeat parts of the program.
        let (execution, _) = self
            .render_report(session, &session.policy, request.reader, execution)
            .await?;
        self.record_event(session, report::ended_event(session, &execution, None))
            .await?;
        Ok(execution)
    }
}
