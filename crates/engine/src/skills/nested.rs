//! The nested execution that answers a skill call: it has a sandbox, an id and events of its own, in the session, under the rules and with
//! the history of the calling execution. It ends with the caller at the latest.
//!
//! No deadlock is possible: executions of each depth have permits of their own, and the holder of one waits only for deeper ones. Nor does
//! an execution wait for another principal's, which may wait for approvals.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use ringfence_catalog::SchemaChecker;
use ringfence_gateway::{BuiltinAnswer, BuiltinCall, BuiltinServer, RequestRefusal};
use ringfence_journal::{CallOutcome, ExecutionId, ExecutionStatus, Principal};
use ringfence_policy::SKILLS_SERVER;
use ringfence_sandbox::{JobLanguage, RunProgram, Spec, Stop, fixed_stdin};
use ringfence_store::{Skill, SkillBody, SkillLanguage};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::{MAX_NESTING_DEPTH, SkillLibrary, SkillLookup, skill_tool};
use crate::engine::lock;
use crate::error::OperationError;
use crate::execution::Executions;
use crate::execution::attempt::{ActiveExecution, AttemptOutcome};
use crate::execution::attempts::RunPermit;
use crate::execution::sandbox_source::copy_in;
use crate::report::{self, ExecutionReport};
use crate::request::{ExecutionRequest, InputFile, InputSource, OutputDestination, ResultAudience};
use crate::sessions::context::ExecutionContext;
use crate::workspaces::DiskFolders;

/// Skills that one execution runs at once; further calls wait.
const MAX_CONCURRENT_SKILLS: usize = 8;
/// Executions of one principal and one depth that run at once; further ones wait for a permit.
const MAX_EXECUTIONS_PER_DEPTH: usize = 32;
/// Principals that are tracked before those without nested executions are dropped.
const MAX_TRACKED_PRINCIPALS: usize = 256;
/// Bytes of a message about a failed skill.
const MAX_MESSAGE_BYTES: usize = 4 * 1024;

/// A skill call that waits for its execution.
#[derive(Debug)]
pub(crate) struct SkillCall {
    call: BuiltinCall,
    answer: oneshot::Sender<BuiltinAnswer>,
}

/// The receiver of skill calls.
pub(crate) type SkillCallReceiver = mpsc::UnboundedReceiver<SkillCall>;

/// The permits of nested executions, for each principal.
#[derive(Debug, Default)]
pub(crate) struct NestedPermits(Mutex<HashMap<Principal, Arc<DepthPermits>>>);

/// The permits of one principal, for each depth.
#[derive(Debug)]
struct DepthPermits([Arc<Semaphore>; MAX_NESTING_DEPTH]);

/// A permit for one nested execution.
#[derive(Debug)]
struct NestedPermit {
    _permit: OwnedSemaphorePermit,
    /// Keeps the principal's permits in the map while one is held.
    _of: Arc<DepthPermits>,
}

impl NestedPermits {
    /// Waits for a permit. None: the depth is out of range.
    async fn acquire(&self, who: Principal, depth: usize) -> Option<NestedPermit> {
        let of = self.principal_permits(who);
        let semaphore = Arc::clone(of.0.get(depth.checked_sub(1)?)?);
        // The semaphores are never closed.
        let permit = semaphore.acquire_owned().await.ok()?;
        Some(NestedPermit {
            _permit: permit,
            _of: of,
        })
    }

    fn principal_permits(&self, who: Principal) -> Arc<DepthPermits> {
        let mut all = lock(&self.0);
        if all.len() >= MAX_TRACKED_PRINCIPALS {
            all.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let new = || {
            Arc::new(DepthPermits(std::array::from_fn(|_| {
                Arc::new(Semaphore::new(MAX_EXECUTIONS_PER_DEPTH))
            })))
        };
        Arc::clone(all.entry(who).or_insert_with(new))
    }
}

/// The settings of a nested execution that do not come from its session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NestedSettings {
    pub(crate) require_hard: bool,
    pub(crate) timeout: Option<Duration>,
}

impl NestedSettings {
    /// The settings of the calling request.
    pub(crate) fn from_request(request: &ExecutionRequest) -> NestedSettings {
        NestedSettings {
            require_hard: request.require_hard,
            timeout: request.timeout,
        }
    }
}

/// The server `skills` of one execution, and the receiver of the calls to it.
pub(crate) fn skill_server(library: &SkillLibrary, session: &ExecutionContext) -> (BuiltinServer, SkillCallReceiver) {
    let (orders, taken) = mpsc::unbounded_channel();
    let whose = SkillLookup::for_context(session);
    let (library, depth) = (library.clone(), session.depth);
    let find = move |word: String, policy| -> BoxFuture<'static, _> {
        let library = library.clone();
        Box::pin(async move {
            if depth >= MAX_NESTING_DEPTH {
                return Err(nesting_refusal());
            }
            library.usable_tool(whose, word, &policy).await
        })
    };
    let call = move |call: BuiltinCall| -> BoxFuture<'static, BuiltinAnswer> {
        let orders = orders.clone();
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            // The receiver exists as long as the program runs.
            let _ = orders.send(SkillCall { call, answer });
            answered.await.unwrap_or_else(|_| Err(caller_gone()))
        })
    };
    (BuiltinServer::new(SKILLS_SERVER, find, call), taken)
}

/// Runs the skills that one execution calls.
pub(crate) struct SkillRunner<'a> {
    pub(crate) executions: &'a Executions,
    /// The execution that calls the skills.
    pub(crate) caller: &'a ExecutionContext,
    pub(crate) settings: NestedSettings,
}

impl SkillRunner<'_> {
    /// Runs skill calls, several at once, for as long as the future is polled.
    pub(crate) async fn run_calls(&self, mut orders: SkillCallReceiver) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(order) = orders.recv(), if under_way.len() < MAX_CONCURRENT_SKILLS => {
                    under_way.push(self.handle_call(order));
                }
                Some(()) = under_way.next() => {}
                else => return std::future::pending().await,
            }
        }
    }

    async fn handle_call(&self, order: SkillCall) {
        let SkillCall { call, answer } = order;
        let answered = self.answer_call(call).await;
        // The caller may be gone.
        let _ = answer.send(answered);
    }

    async fn answer_call(&self, call: BuiltinCall) -> BuiltinAnswer {
        let BuiltinCall {
            tool,
            arguments,
            cancelled: mut gone,
        } = call;
        let (executions, caller) = (self.executions, self.caller);
        let depth = caller.depth + 1;
        let place = tokio::select! {
            biased;
            _ = &mut gone => return Err(self::caller_gone()),
            place = executions.nested_permits.acquire(caller.principal, depth) => place,
        };
        if place.is_none() {
            return Err((CallOutcome::Refused, nesting_refusal()));
        }
        let failed = |refusal: RequestRefusal| (CallOutcome::Failed, refusal);
        let found = executions
            .tools
            .library
            .find_skill(SkillLookup::for_context(caller), tool.definition.name.clone())
            .await;
        let (skill, body) = found.map_err(failed)?;
        if skill_tool(&skill).map_err(failed)?.digest != tool.digest {
            let message = format!("skill `{}` was saved again just now", skill.meta.name);
            return Err(failed(
                RequestRefusal::new("skill.stale", message).with_hint("call it again"),
            ));
        }
        let input = Value::Object(arguments).to_string();
        let (switch, mut stop) = Stop::new();
        let mut run = self.run_skill((&skill, body), input, &mut stop);
        let ran = tokio::select! {
            ran = &mut run => ran,
            _ = &mut gone => {
                switch.send_replace(true);
                run.await
            }
        };
        match ran {
            Ok(execution) => skill_value(&skill, execution),
            Err(error) => {
                let message = format!("skill `{}` could not be run: {}", skill.meta.name, error.chain());
                let refusal = RequestRefusal::new("skill.failed", message);
                let hint = error.hint().map(str::to_owned);
                let (refusal, hint) = if let OperationError::Refused(by) = error {
                    (refusal.by_rule(by.rule), by.hint)
                } else {
                    (refusal, hint)
                };
                let refusal = hint.into_iter().fold(refusal, RequestRefusal::with_hint);
                Err((CallOutcome::Broken, refusal))
            }
        }
    }

    /// Runs a skill to its end, in a sandbox of its own. Boxed: its execution may call skills again.
    fn run_skill<'a>(
        &'a self,
        (skill, body): (&'a Skill, SkillBody),
        input: String,
        stop: &'a mut Stop,
    ) -> BoxFuture<'a, Result<ExecutionReport, OperationError>> {
        Box::pin(async move {
            let executions = self.executions;
            let mut session = self.caller.for_nested_call(ExecutionId::generate()?);
            session.folders = executions.records.data.execution_scratch(session.execution);
            let spec = executions.sandboxes.spec(
                &session.policy,
                DiskFolders::scratch_only(&session.folders),
                self.settings.require_hard,
            );
            let spec = spec.map_err(OperationError::Refused)?;
            session.enforcement = executions.sandboxes.enforcement(&spec, &session.policy);
            let request = skill_request(&session, self.settings, skill, body, input);
            if let Some(refusal) = crate::refusal::RunRefusal::check_program(&session.policy, &request.program) {
                return Err(OperationError::Refused(refusal));
            }
            let folders = spec.has_folders().then(|| session.folders.clone());
            if let Some(folders) = &folders {
                executions.records.lease_folder(folders)?;
            }
            let mut nobody = ();
            let execution = ActiveExecution::new(session, request, &mut nobody, stop);
            let ran = self.run_admitted(execution, &spec).await;
            if let Some(folders) = &folders {
                executions.records.remove_scratch(folders).await;
            }
            ran
        })
    }

    /// Runs a skill once the budget admits it.
    async fn run_admitted(
        &self,
        mut execution: ActiveExecution<'_>,
        spec: &Arc<Spec>,
    ) -> Result<ExecutionReport, OperationError> {
        match self.executions.acquire_permit(&mut execution, spec).await? {
            RunPermit::Granted(_permit) => self.run_in_sandbox(execution, spec).await,
            RunPermit::NoCapacity(refusal) => Err(OperationError::Refused(refusal)),
            RunPermit::Cancelled => Err(OperationError::Abandoned),
        }
    }

    async fn run_in_sandbox(
        &self,
        mut execution: ActiveExecution<'_>,
        spec: &Arc<Spec>,
    ) -> Result<ExecutionReport, OperationError> {
        let executions = self.executions;
        let (session, request) = (&execution.session, &execution.request);
        let (language, who) = (request.program.language(), session.principal);
        let mut sandbox = executions.sandboxes.acquire(spec, language, who).await?;
        let before = copy_in(&sandbox, BTreeMap::new(), &request.files)?;
        let started = report::started_event(session, request);
        executions.records.record_event(session, started).await?;
        let ran = executions
            .execute_attempt(&mut execution, &mut sandbox, &before)
            .await?;
        let AttemptOutcome::Finished(finished) = ran else {
            // An execution without a call log is never suspended.
            return Err(OperationError::NotRecorded);
        };
        let (gone, written) = tokio::join!(
            executions.sandboxes.release(sandbox, spec, language, who),
            executions
                .records
                .journal_end(&execution.session, &finished, &execution.attempt, None)
        );
        gone?;
        written?;
        Ok(finished.report)
    }
}

/// The execution request of a skill.
fn skill_request(
    session: &ExecutionContext,
    around: NestedSettings,
    skill: &Skill,
    body: SkillBody,
    input: String,
) -> ExecutionRequest {
    let SkillBody { source, files } = body;
    let file_name = format!("{}/{}", skill.meta.name, skill.meta.language.program_file());
    let language = match skill.meta.language {
        SkillLanguage::TypeScript => Some(JobLanguage::TypeScript),
        SkillLanguage::JavaScript => Some(JobLanguage::JavaScript),
        SkillLanguage::Python => Some(JobLanguage::Python),
        SkillLanguage::Shell => None,
    };
    let (program, stdin) = match language {
        Some(language) => {
            let program = RunProgram::Function {
                language,
                file_name,
                source,
                input,
            };
            (program, None)
        }
        // A script reads its input from standard input.
        None => (
            RunProgram::Shell { file_name, source },
            Some(fixed_stdin(input.into_bytes())),
        ),
    };
    let file = |(name, bytes)| InputFile {
        from: InputSource::Bytes(bytes),
        name,
    };
    ExecutionRequest {
        policy: Arc::clone(&session.policy),
        program,
        args: Vec::new(),
        files: files.into_iter().map(file).collect(),
        stdin,
        out: OutputDestination::ListOnly,
        require_hard: around.require_hard,
        timeout: around.timeout,
        client: None,
        reader: ResultAudience::Program,
        session: None,
    }
}

/// The answer of a skill: its value, if it completed and the value matches its schema.
fn skill_value(skill: &Skill, execution: ExecutionReport) -> BuiltinAnswer {
    let name = &skill.meta.name;
    if execution.status != ExecutionStatus::Completed {
        return Err(skill_failure(skill, execution));
    }
    let value = match (skill.meta.language, execution.value) {
        // The value of a script is its standard output.
        (SkillLanguage::Shell, _) if execution.truncated.stdout => {
            let message = format!("skill `{name}` printed more than its value may have");
            let refusal = RequestRefusal::new("skill.result", message)
                .by_rule("proc.output")
                .with_hint("print less");
            return Err((CallOutcome::Broken, refusal));
        }
        (SkillLanguage::Shell, _) => stdout_as_json(&execution.stdout),
        (_, Some(value)) => value.get().to_owned(),
        (_, None) => "null".to_owned(),
    };
    let Some(outputs) = &skill.meta.outputs else {
        return Ok(value);
    };
    let broken = |why: String| {
        let refusal = RequestRefusal::new(
            "skill.result",
            format!("the value of skill `{name}` is not what it promises: {why}"),
        )
        .by_rule("metadata.outputs")
        .with_hint("the skill has to be mended: its program, or its `outputs`");
        (CallOutcome::Broken, refusal)
    };
    let checker = SchemaChecker::new(outputs).map_err(|error| broken(error.to_string()))?;
    let parsed: Value = serde_json::from_str(&value).map_err(|error| broken(error.to_string()))?;
    checker
        .check_value(&parsed)
        .map_err(|problem| match problem.path.as_str() {
            "" => broken(problem.message),
            path => broken(format!("{path}: {}", problem.message)),
        })?;
    Ok(value)
}

/// The standard output of a script as JSON: unchanged where it is JSON, else as a string.
fn stdout_as_json(stdout: &str) -> String {
    let text = stdout.trim_end_matches('\n');
    if serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok() {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// The failure of a skill, with its own file and lines.
fn skill_failure(skill: &Skill, execution: ExecutionReport) -> (CallOutcome, RequestRefusal) {
    let name = &skill.meta.name;
    let outcome = if execution.status == ExecutionStatus::Cancelled {
        CallOutcome::Unknown
    } else {
        CallOutcome::Failed
    };
    let Some(error) = execution.error else {
        let message = format!("skill `{name}` ended with code {}", execution.exit_code);
        return (outcome, RequestRefusal::new("skill.failed", message));
    };
    let mut message = format!("skill `{name}` failed: {}: {}", error.code, error.message);
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.push('…');
    }
    let mut refusal = RequestRefusal::new("skill.failed", message);
    (refusal.rule, refusal.hint) = (error.rule, error.hint);
    (outcome, refusal)
}

fn nesting_refusal() -> RequestRefusal {
    RequestRefusal::new(
        "skill.depth",
        format!("skills call each other at most {MAX_NESTING_DEPTH} deep"),
    )
    .by_rule("builtin.skills")
    .with_hint("call fewer skills from within skills, or none that calls itself")
}

fn caller_gone() -> (CallOutcome, RequestRefusal) {
    let refusal = RequestRefusal::new("tool.unknown_effect", "the program ended before the skill did");
    (CallOutcome::Unknown, refusal)
}

#[cfg(test)]
mod tests;
