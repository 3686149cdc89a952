//! The end of an execution: its files brought out, its report, and the ends of those that never ran.

use std::sync::Arc;

use ringfence_journal::Event;
use ringfence_policy::Policy;
use ringfence_sandbox::{
    CollectedFiles, ConcludedExecution, EmittedFile, ExistingFileAction, Sandbox, SkipReason, Stop,
};

use super::Executions;
use super::attempt::{ActiveExecution, AttemptOutcome, FinishedExecution};
use crate::error::OperationError;
use crate::host_work::{CollectFilter, Digests};
use crate::outcome;
use crate::records::recording::OutcomeDigest;
use crate::refusal::RunRefusal;
use crate::report::{self, ExecutionReport};
use crate::request::{ExecutionRequest, OutputDestination, ResultAudience};
use crate::runs::refused;
use crate::sessions::context::ExecutionContext;

impl Executions {
    /// Collects new and emitted files from the workspace, and records them before they are copied out.
    pub(crate) async fn collect_output_files(
        &self,
        session: &ExecutionContext,
        (sandbox, before): (&Sandbox, &Arc<Digests>),
        request: &ExecutionRequest,
        emitted: &[EmittedFile],
    ) -> Result<CollectedFiles, OperationError> {
        let wanted = CollectFilter {
            deny: &session.policy.fs().deny,
            emitted,
        };
        let who = session.principal;
        let (workspace, mut collected) = match self.records.host_work.collect_files(who, sandbox, before, wanted).await
        {
            Ok(found) => found,
            // What the program did and said stands, whatever became of its files.
            Err(OperationError::Collect(error)) => {
                let error = OperationError::Collect(error).chain();
                tracing::warn!(execution = %session.execution, error, "the files of an execution could not be read");
                let collected = CollectedFiles::unread(emitted);
                self.records
                    .record_withheld(session, report::withheld_violations(&collected))
                    .await?;
                return Ok(collected);
            }
            Err(error) => return Err(error),
        };
        match &request.out {
            OutputDestination::Folder { .. } => {}
            OutputDestination::Artifacts(_) => {
                let by_name = [SkipReason::Name, SkipReason::NotUtf8, SkipReason::Denied];
                collected.skipped = collected.skipped.missed(&by_name);
            }
            OutputDestination::ListOnly => {
                collected.skipped = collected.skipped.missed(&[SkipReason::Name, SkipReason::NotUtf8]);
            }
        }
        self.records
            .record_withheld(session, report::withheld_violations(&collected))
            .await?;
        let to = match &request.out {
            OutputDestination::Folder { path, existing } => (path.as_path(), *existing),
            OutputDestination::Artifacts(path) if !collected.files.is_empty() => {
                self.records.lease_folder(path)?;
                (path.as_path(), ExistingFileAction::Overwrite)
            }
            OutputDestination::ListOnly | OutputDestination::Artifacts(_) => return Ok(collected),
        };
        self.records.record_files(session, &collected).await?;
        let outcomes = self.records.host_work.copy_out(who, &workspace, &collected, to).await?;
        let (skipped, written) = collected.drop_uncopied(&outcomes);
        if !skipped.is_empty() {
            self.records
                .record_withheld(session, report::left_behind_violations(&skipped, |_| true))
                .await?;
            collected.skipped.add_all(&skipped);
        }
        if request.reader == ResultAudience::Owner {
            self.renderer.reveal_files(session, &written, to.0).await?;
        }
        Ok(collected)
    }

    /// The finished execution, as its reader sees it.
    pub(crate) async fn finish_redacted(
        &self,
        session: &ExecutionContext,
        policy: &Policy,
        request: &ExecutionRequest,
        (ended, mut execution, collected): (ConcludedExecution, ExecutionReport, &CollectedFiles),
    ) -> Result<AttemptOutcome, OperationError> {
        if let OutputDestination::Folder { .. } = &request.out {
            execution.left_behind = collected.uncopied_files();
        }
        let outcome = OutcomeDigest::from_report(&execution);
        let (mut execution, output) = self
            .renderer
            .render_report(session, policy, request.reader, execution)
            .await?;
        if let OutputDestination::Folder { path, .. } = &request.out {
            // Not part of the digest, which describes the program only: a replay has no such folder.
            report::fail_not_overwritten(&mut execution, &collected.skipped, path);
        }
        Ok(AttemptOutcome::Finished(Box::new(FinishedExecution {
            ended,
            digest: outcome,
            report: execution,
            output,
        })))
    }

    /// Finishes an execution that was cancelled, or ran out of time, while it had no sandbox.
    pub(crate) async fn finish_cancelled(
        &self,
        execution: &ActiveExecution<'_>,
        close_reason: Option<&str>,
    ) -> Result<ExecutionReport, OperationError> {
        let (session, stop) = (&execution.session, &*execution.stop);
        if execution.attempt.is_first() {
            return self.finish_unstarted(session, stop).await;
        }
        let report = report::stopped_report(session, stop);
        let ended = report::ended_event(session, &report, None);
        let event = Event::from_host(session.id, Some(session.execution), ended);
        let outcome = OutcomeDigest::from_report(&report).to_bytes()?;
        let trace = execution.attempt.tape.remaining_trace();
        self.records
            .store
            .record_end_with_outcome(event, outcome, trace)
            .await?;
        if let Some(reason) = close_reason {
            self.records
                .close_session((session.id, &session.folders), reason)
                .await?;
        }
        Ok(report)
    }

    /// Finishes a request that was cancelled before it could start.
    pub(crate) async fn finish_unstarted(
        &self,
        session: &ExecutionContext,
        stop: &Stop,
    ) -> Result<ExecutionReport, OperationError> {
        let cancelled = || RunRefusal {
            code: "cancelled",
            message: "cancelled before anything started".to_owned(),
            rule: "cancelled".to_owned(),
            hint: None,
        };
        let refusal = stop
            .is_overdue()
            .then(RunRefusal::deadline_passed)
            .unwrap_or_else(cancelled);
        let outcome::ExecutionEnd { status, exit_code, .. } = outcome::judge_stop(stop);
        let execution = self
            .refuse_in_own_session(session.clone().into_own_session()?, refusal)
            .await?;
        Ok(ExecutionReport {
            status,
            exit_code,
            ..execution
        })
    }

    /// Records a refused request in a session of its own.
    pub(crate) async fn refuse_in_own_session(
        &self,
        session: ExecutionContext,
        refusal: RunRefusal,
    ) -> Result<ExecutionReport, OperationError> {
        let unrecorded = self.runs.refused.take_unrecorded(session.principal);
        let repeated = async {
            match refused::repeated_event(unrecorded) {
                Some(event) => self.records.record_event(&session, event).await,
                None => Ok(()),
            }
        };
        let (opened, written, counted, closed) = tokio::join!(
            self.records.open_session(&session),
            self.records.record_event(&session, refusal.to_event()),
            repeated,
            self.records.close_session((session.id, &session.folders), "done")
        );
        opened?;
        written?;
        counted?;
        closed?;
        Ok(report::refused_report(&session, refusal))
    }
}
