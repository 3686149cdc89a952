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
use ringfence_catalog::Checker;
use ringfence_gateway::{Own, OwnAnswer, OwnCall, Refusal};
use ringfence_journal::{CallOutcome, ExecutionId, Principal, Status};
use ringfence_policy::SKILLS;
use ringfence_sandbox::{Language, Spec, Stop, known_stdin};
use ringfence_store::{Skill, SkillBody, SkillLanguage};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::{DEPTH, Library, Whose, tool_of};
use crate::attempt::{Attempt, Company, Ran};
use crate::durable::Turn;
use crate::engine::{Engine, lock};
use crate::error::RunError;
use crate::execution::Execution;
use crate::report;
use crate::request::{Input, Out, Program, Reader, RunCode, Source};
use crate::run::bring_in;
use crate::session::Session;
use crate::workspace::Disk;

/// Skills that one execution runs at once; further calls wait.
const AT_ONCE: usize = 8;
/// Executions of one principal and one depth that run at once; further ones wait for a permit.
const PLACES: usize = 32;
/// Principals that are tracked before those without nested executions are dropped.
const MANY: usize = 256;
/// Bytes of a message about a failed skill.
const MESSAGE: usize = 4 * 1024;

/// A skill call that waits for its execution.
#[derive(Debug)]
pub(crate) struct Order {
    call: OwnCall,
    answer: oneshot::Sender<OwnAnswer>,
}

/// The receiver of skill calls.
pub(crate) type Orders = mpsc::UnboundedReceiver<Order>;

/// The permits of nested executions, for each principal.
#[derive(Debug, Default)]
pub(crate) struct Nests(Mutex<HashMap<Principal, Arc<Places>>>);

/// The permits of one principal, for each depth.
#[derive(Debug)]
struct Places([Arc<Semaphore>; DEPTH]);

/// A permit for one nested execution.
#[derive(Debug)]
struct Taken {
    _permit: OwnedSemaphorePermit,
    /// Keeps the principal's permits in the map while one is held.
    _of: Arc<Places>,
}

impl Nests {
    /// Waits for a permit. None: the depth is out of range.
    async fn place(&self, who: Principal, depth: usize) -> Option<Taken> {
        let of = self.of(who);
        let semaphore = Arc::clone(of.0.get(depth.checked_sub(1)?)?);
        // The semaphores are never closed.
        let permit = semaphore.acquire_owned().await.ok()?;
        Some(Taken {
            _permit: permit,
            _of: of,
        })
    }

    fn of(&self, who: Principal) -> Arc<Places> {
        let mut all = lock(&self.0);
        if all.len() >= MANY {
            all.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let new = || Arc::new(Places(std::array::from_fn(|_| Arc::new(Semaphore::new(PLACES)))));
        Arc::clone(all.entry(who).or_insert_with(new))
    }
}

/// The settings of a nested execution that do not come from its session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around {
    pub(crate) require_hard: bool,
    pub(crate) timeout: Option<Duration>,
}

impl Around {
    /// The settings of the calling request.
    pub(crate) fn of(request: &RunCode) -> Around {
        Around {
            require_hard: request.require_hard,
            timeout: request.timeout,
        }
    }
}

/// The server `skills` of one execution, and the receiver of the calls to it.
pub(crate) fn server(library: &Library, session: &Session) -> (Own, Orders) {
    let (orders, taken) = mpsc::unbounded_channel();
    let whose = Whose::of(session);
    let (library, depth) = (library.clone(), session.depth);
    let find = move |word: String, policy| -> BoxFuture<'static, _> {
        let library = library.clone();
        Box::pin(async move {
            if depth >= DEPTH {
                return Err(too_deep());
            }
            library.usable(whose, word, &policy).await
        })
    };
    let call = move |call: OwnCall| -> BoxFuture<'static, OwnAnswer> {
        let orders = orders.clone();
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            // The receiver exists as long as the program runs.
            let _ = orders.send(Order { call, answer });
            answered.await.unwrap_or_else(|_| Err(gone()))
        })
    };
    (Own::new(SKILLS, find, call), taken)
}

impl Engine {
    /// Runs skill calls, several at once, for as long as the future is polled.
    pub(crate) async fn nest(&self, outer: &Session, around: Around, mut orders: Orders) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(order) = orders.recv(), if under_way.len() < AT_ONCE => {
                    under_way.push(self.ordered(outer, around, order));
                }
                Some(()) = under_way.next() => {}
                else => return std::future::pending().await,
            }
        }
    }

    async fn ordered(&self, outer: &Session, around: Around, order: Order) {
        let Order { call, answer } = order;
        let answered = self.answer_skill(outer, around, call).await;
        // The caller may be gone.
        let _ = answer.send(answered);
    }

    async fn answer_skill(&self, outer: &Session, around: Around, call: OwnCall) -> OwnAnswer {
        let OwnCall {
            tool,
            arguments,
            mut gone,
        } = call;
        let depth = outer.depth + 1;
        let place = tokio::select! {
            biased;
            _ = &mut gone => return Err(self::gone()),
            place = self.nests.place(outer.principal, depth) => place,
        };
        if place.is_none() {
            return Err((CallOutcome::Refused, too_deep()));
        }
        let failed = |refusal: Refusal| (CallOutcome::Failed, refusal);
        let found = self.library.find(Whose::of(outer), tool.definition.name.clone()).await;
        let (skill, body) = found.map_err(failed)?;
        if tool_of(&skill).map_err(failed)?.digest != tool.digest {
            let message = format!("skill `{}` was saved again just now", skill.meta.name);
            return Err(failed(Refusal::new("skill.stale", message).hint("call it again")));
        }
        let input = Value::Object(arguments).to_string();
        let (switch, mut stop) = Stop::new();
        let mut run = self.run_skill(outer, around, (&skill, body), input, &mut stop);
        let ran = tokio::select! {
            ran = &mut run => ran,
            _ = &mut gone => {
                switch.send_replace(true);
                run.await
            }
        };
        match ran {
            Ok(execution) => value_of(&skill, execution),
            Err(error) => {
                let message = format!("skill `{}` could not be run: {}", skill.meta.name, error.chain());
                let refusal = Refusal::new("skill.failed", message);
                let hint = error.hint().map(str::to_owned);
                let (refusal, hint) = if let RunError::Refused(by) = error {
                    (refusal.by(by.rule), by.hint)
                } else {
                    (refusal, hint)
                };
                let refusal = hint.into_iter().fold(refusal, Refusal::hint);
                Err((CallOutcome::Broken, refusal))
            }
        }
    }

    /// Runs a skill to its end, in a sandbox of its own. Boxed: its execution may call skills again.
    fn run_skill<'a>(
        &'a self,
        outer: &'a Session,
        around: Around,
        (skill, body): (&'a Skill, SkillBody),
        input: String,
        stop: &'a mut Stop,
    ) -> BoxFuture<'a, Result<Execution, RunError>> {
        Box::pin(async move {
            let mut session = outer.called(ExecutionId::generate()?);
            session.folders = self.folders_of(session.execution);
            let spec = self.spec(&session.policy, Disk::passing(&session.folders), around.require_hard);
            let spec = spec.map_err(RunError::Refused)?;
            session.enforcement = self.enforcement(&spec, &session.policy);
            let mut request = request(&session, around, skill, body, input);
            if let Some(refusal) = crate::refusal::Refusal::of_program(&session.policy, &request.program) {
                return Err(RunError::Refused(refusal));
            }
            if spec.has_folders() {
                self.note_folder(&session.folders)?;
            }
            let ran = self.in_its_turn(&session, &spec, &mut request, stop).await;
            if spec.has_folders() {
                self.remove_scratch(&session.folders).await;
            }
            ran
        })
    }

    /// Runs a skill once the budget admits it.
    async fn in_its_turn(
        &self,
        session: &Session,
        spec: &Arc<Spec>,
        request: &mut RunCode,
        stop: &mut Stop,
    ) -> Result<Execution, RunError> {
        let mut company = Company {
            live: &mut (),
            stop,
            run: None,
        };
        match self.turn_of(session, spec, &Attempt::first(), &mut company).await? {
            Turn::Taken(_turn) => self.in_a_nested_place(session, spec, request, company.stop).await,
            Turn::Full(refusal) => Err(RunError::Refused(refusal)),
            Turn::Cancelled => Err(RunError::Abandoned),
        }
    }

    async fn in_a_nested_place(
        &self,
        session: &Session,
        spec: &Arc<Spec>,
        request: &mut RunCode,
        stop: &mut Stop,
    ) -> Result<Execution, RunError> {
        let (language, who) = (request.program.language(), session.principal);
        let mut sandbox = self.place(spec, language, who).await?;
        let before = bring_in(&sandbox, BTreeMap::new(), &request.files)?;
        self.record(session, report::started(session, request)).await?;
        let attempt = Attempt::first();
        let mut company = Company {
            live: &mut (),
            stop,
            run: None,
        };
        let ran = self
            .execute(session, (&mut sandbox, &before), request, &attempt, &mut company)
            .await?;
        let Ran::Over(over) = ran else {
            // An execution without a call log is never suspended.
            return Err(RunError::Unkept);
        };
        let (gone, written) = tokio::join!(
            self.put_back(sandbox, spec, language, who),
            self.journal_end(session, &over, &attempt, None)
        );
        gone?;
        written?;
        Ok(over.execution)
    }
}

/// The execution request of a skill.
fn request(session: &Session, around: Around, skill: &Skill, body: SkillBody, input: String) -> RunCode {
    let SkillBody { source, files } = body;
    let file_name = format!("{}/{}", skill.meta.name, skill.meta.language.program());
    let language = match skill.meta.language {
        SkillLanguage::TypeScript => Some(Language::TypeScript),
        SkillLanguage::JavaScript => Some(Language::JavaScript),
        SkillLanguage::Python => Some(Language::Python),
        SkillLanguage::Shell => None,
    };
    let (program, stdin) = match language {
        Some(language) => {
            let program = Program::Function {
                language,
                file_name,
                source,
                input,
            };
            (program, None)
        }
        // A script reads its input from standard input.
        None => (
            Program::Shell { file_name, source },
            Some(known_stdin(input.into_bytes())),
        ),
    };
    let file = |(name, bytes)| Input {
        from: Source::Bytes(bytes),
        name,
    };
    RunCode {
        policy: Arc::clone(&session.policy),
        program,
        args: Vec::new(),
        files: files.into_iter().map(file).collect(),
        stdin,
        out: Out::Nowhere,
        require_hard: around.require_hard,
        timeout: around.timeout,
        client: None,
        reader: Reader::Program,
        session: None,
    }
}

/// The answer of a skill: its value, if it completed and the value matches its schema.
fn value_of(skill: &Skill, execution: Execution) -> OwnAnswer {
    let name = &skill.meta.name;
    if execution.status != Status::Completed {
        return Err(failure(skill, execution));
    }
    let value = match (skill.meta.language, execution.value) {
        // The value of a script is its standard output.
        (SkillLanguage::Shell, _) if execution.truncated.stdout => {
            let message = format!("skill `{name}` printed more than its value may have");
            let refusal = Refusal::new("skill.result", message)
                .by("proc.output")
                .hint("print less");
            return Err((CallOutcome::Broken, refusal));
        }
        (SkillLanguage::Shell, _) => printed(&execution.stdout),
        (_, Some(value)) => value.get().to_owned(),
        (_, None) => "null".to_owned(),
    };
    let Some(outputs) = &skill.meta.outputs else {
        return Ok(value);
    };
    let broken = |why: String| {
        let refusal = Refusal::new(
            "skill.result",
            format!("the value of skill `{name}` is not what it promises: {why}"),
        )
        .by("metadata.outputs")
        .hint("the skill has to be mended: its program, or its `outputs`");
        (CallOutcome::Broken, refusal)
    };
    let checker = Checker::new(outputs).map_err(|error| broken(error.to_string()))?;
    let parsed: Value = serde_json::from_str(&value).map_err(|error| broken(error.to_string()))?;
    checker.fits(&parsed).map_err(|problem| match problem.path.as_str() {
        "" => broken(problem.message),
        path => broken(format!("{path}: {}", problem.message)),
    })?;
    Ok(value)
}

/// The standard output of a script as JSON: unchanged where it is JSON, else as a string.
fn printed(stdout: &str) -> String {
    let text = stdout.trim_end_matches('\n');
    if serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok() {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// The failure of a skill, with its own file and lines.
fn failure(skill: &Skill, execution: Execution) -> (CallOutcome, Refusal) {
    let name = &skill.meta.name;
    let outcome = if execution.status == Status::Cancelled {
        CallOutcome::Unknown
    } else {
        CallOutcome::Failed
    };
    let Some(error) = execution.error else {
        let message = format!("skill `{name}` ended with code {}", execution.exit_code);
        return (outcome, Refusal::new("skill.failed", message));
    };
    let mut message = format!("skill `{name}` failed: {}: {}", error.code, error.message);
    if message.len() > MESSAGE {
        message.truncate(message.floor_char_boundary(MESSAGE));
        message.push('…');
    }
    let mut refusal = Refusal::new("skill.failed", message);
    (refusal.rule, refusal.hint) = (error.rule, error.hint);
    (outcome, refusal)
}

fn too_deep() -> Refusal {
    Refusal::new("skill.depth", format!("skills call each other at most {DEPTH} deep"))
        .by("builtin.skills")
        .hint("call fewer skills from within skills, or none that calls itself")
}

fn gone() -> (CallOutcome, Refusal) {
    let refusal = Refusal::new("tool.unknown_effect", "the program ended before the skill did");
    (CallOutcome::Unknown, refusal)
}

#[cfg(test)]
mod tests;
