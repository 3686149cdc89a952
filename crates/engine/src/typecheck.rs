//! Type-checks a program against the tools that it names, where there are a checker and tools.

use std::sync::{Arc, Mutex};

use ringfence_check::{TypeCheck, TypeCheckError, TypeErrorLocation};
use ringfence_journal::Principal;
use ringfence_policy::SKILLS_SERVER;
use ringfence_sandbox::{Backend, RunProgram};

use crate::config::EngineConfig;
use crate::engine::lock;
use crate::error::OperationError;
use crate::records::SessionRecords;
use crate::redact::ResultRenderer;
use crate::report::{self, ExecutionReport};
use crate::request::ExecutionRequest;
use crate::sessions::context::ExecutionContext;
use crate::tools::{Tools, stub_language};

/// Principals with running type checkers at once.
const MAX_CHECKERS: usize = 4;

/// Checks programs against the tools that they name.
pub(crate) struct TypeChecks {
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) checkers: Mutex<Vec<(Principal, Arc<TypeCheck>)>>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) records: Arc<SessionRecords>,
    pub(crate) renderer: Arc<ResultRenderer>,
}

impl TypeChecks {
    pub(crate) fn new(tools: &Arc<Tools>, backend: &Arc<Backend>, renderer: &Arc<ResultRenderer>) -> TypeChecks {
        TypeChecks {
            config: Arc::clone(&tools.config),
            backend: Arc::clone(backend),
            checkers: Mutex::default(),
            tools: Arc::clone(tools),
            records: Arc::clone(&renderer.records),
            renderer: Arc::clone(renderer),
        }
    }

    /// The type checkers of a principal: they run in sandboxes and serve nobody else.
    pub(crate) fn checker(&self, who: Principal) -> Arc<TypeCheck> {
        let mut checks = lock(&self.checkers);
        if let Some((_, check)) = checks.iter().find(|(principal, _)| *principal == who) {
            return Arc::clone(check);
        }
        if checks.len() >= MAX_CHECKERS {
            // Dropped once its last user is done, which ends it.
            checks.remove(0);
        }
        let check = Arc::new(TypeCheck::new(Arc::clone(&self.backend), self.config.checkers.clone()));
        checks.push((who, Arc::clone(&check)));
        check
    }

    /// Ends all type checkers.
    pub(crate) async fn end_all(&self) {
        let checks = std::mem::take(&mut *lock(&self.checkers));
        for (_, check) in checks {
            check.end().await;
        }
    }

    /// The type errors of a program. A checker that fails is logged and stops nothing.
    pub(crate) async fn type_errors(&self, session: &ExecutionContext, program: &RunProgram) -> Vec<TypeErrorLocation> {
        let (
            RunProgram::Code {
                language,
                file_name,
                source,
            },
            Some(stubs_in),
        ) = (program, stub_language(program))
        else {
            return Vec::new();
        };
        let is_bare = self.tools.tool_gateway().is_none() && !source.contains(SKILLS_SERVER);
        if is_bare || !self.checker(session.principal).covers(*language) {
            return Vec::new();
        }
        let discover = self.tools.discover_in(session, stubs_in);
        let stubs = discover.program_stubs(stubs_in, source).await;
        match self
            .checker(session.principal)
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
        self.records
            .record_event(session, report::started_event(session, request))
            .await?;
        let execution = report::type_error_report(session, found);
        // A checker's messages repeat parts of the program.
        let (execution, _) = self
            .renderer
            .render_report(session, &session.policy, request.reader, execution)
            .await?;
        self.records
            .record_event(session, report::ended_event(session, &execution, None))
            .await?;
        Ok(execution)
    }
}
