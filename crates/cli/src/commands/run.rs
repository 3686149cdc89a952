//! `ringfence run` and `ringfence exec`: run a program once, in a new session or in one that keeps its files.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use ringfence_engine::{
    CheckerTools, Engine, ExecutionAnswer, ExecutionReport, ExecutionRequest, OutputDestination, ResultAudience,
    RunProgram,
};
use ringfence_gateway::RedactionRules;
use ringfence_journal::{ExecutionStatus, Principal};
use ringfence_policy::{Period, Policy};
use ringfence_sandbox::{ExistingFileAction, JobLanguage};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::args::{ExecArgs, Lang, RunArgs, RunFileArgs};
use crate::commands::policy::LearnedPolicy;
use crate::commands::server_events::ServerEvents;
use crate::fault::{self, CliFault, io_error_text};
use crate::print::Printer;
use crate::print::execution::PrintContext;
use crate::print::hint::for_terminal;
use crate::print::live::LiveOutput;
use crate::settings::CliSettings;
use crate::settings::config::Config;
use crate::settings::policy_layers;
use crate::settings::servers::{self, ResolvedServers};
use crate::signals::{CancelReason, Interrupt, SHUTDOWN_TIMEOUT};

mod approval_notices;
mod approval_prompt;
mod inputs;
mod typed_lines;

use approval_prompt::ApprovalPrompt;
pub(crate) use inputs::parse_inputs;

/// The maximum size of a program's source; larger data belongs in a separate file.
const MAX_SOURCE_BYTES: u64 = 8 << 20;
/// The most pieces of standard input that wait for the program to read them.
const STDIN_CAPACITY: usize = 8;
const STDIN_PIECE_BYTES: usize = 32 * 1024;
/// The interval at which a cancel request is repeated, for a run that was only starting when it was made.
const CANCEL_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the program that `run` names, from a file or standard input.
pub(crate) async fn run_file(
    run: RunFileArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let from_stdin = run.program == Path::new("-");
    let lang = match (run.lang, from_stdin) {
        (Some(lang), _) => lang,
        (None, true) => {
            let message = "a program from standard input needs its language";
            return Err(CliFault::internal("language.unknown", message)
                .with_hint("add `--lang ts`, `js`, `python`, `shell` or `bash`")
                .with_exit(fault::EXIT_USAGE));
        }
        (None, false) => language_of(&run.program)?,
    };
    let source = if from_stdin {
        read_source(io::stdin().lock(), "-")?
    } else {
        read_file(&run.program)?
    };
    let name = run.program.file_name().map(|name| name.to_string_lossy().into_owned());
    let file_name = if from_stdin {
        stdin_name(lang).to_owned()
    } else {
        name.unwrap_or_default()
    };
    let stdin = (matches!(lang, Lang::Shell | Lang::Bash) && !from_stdin)
        .then(stdin_pieces)
        .flatten();
    let program = match lang {
        Lang::Ts => RunProgram::Code {
            language: JobLanguage::TypeScript,
            file_name,
            source,
        },
        Lang::Js => RunProgram::Code {
            language: JobLanguage::JavaScript,
            file_name,
            source,
        },
        Lang::Python => RunProgram::Code {
            language: JobLanguage::Python,
            file_name,
            source,
        },
        Lang::Shell => RunProgram::Shell { file_name, source },
        Lang::Bash => RunProgram::bash(&file_name, source),
    };
    ProgramRun {
        program,
        args: run.args,
        stdin,
        place: run.place,
    }
    .run(settings, printer)
    .await
}

/// Runs the command that `exec` names.
pub(crate) async fn run_command_line(
    exec: ExecArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let mut words = exec.command.into_iter();
    let program = RunProgram::Named(words.next().unwrap_or_default());
    ProgramRun {
        program,
        args: words.collect(),
        stdin: stdin_pieces(),
        place: exec.place,
    }
    .run(settings, printer)
    .await
}

/// Runs a program that another command built, with the run arguments of the user.
pub(crate) async fn run_source(
    program: RunProgram,
    place: RunArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    ProgramRun {
        program,
        args: Vec::new(),
        stdin: None,
        place,
    }
    .run(settings, printer)
    .await
}

struct ProgramRun {
    program: RunProgram,
    args: Vec<String>,
    stdin: Option<mpsc::Receiver<Vec<u8>>>,
    place: RunArgs,
}

impl ProgramRun {
    async fn run(self, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
        let ProgramRun {
            program,
            args,
            stdin,
            place,
        } = self;
        place.backend.kind()?;
        let config = Config::find(place.rules.config.as_deref(), settings, printer)?;
        let (mut policy, timeout) = policy_and_timeout(&place, &config)?;
        if place.learn.is_some() {
            policy = policy_layers::observing_policy(&policy, &config)?;
        }
        // A user who named the session does not need the notice on how to continue it.
        let keeps = place.session.is_none() && policy.fs().mounts.iter().any(|mount| mount.keep);
        let files = parse_inputs(&place.file)?;
        create_output_folder(place.out.as_deref())?;
        let interrupt = listen_for_signals()?;
        let chosen = ResolvedServers::resolve(&place.rules, &config)?;
        // Only code calls tools.
        chosen.print_notices(|_| matches!(program, RunProgram::Code { .. }), printer);
        servers::say_missing(&policy, &config, printer);
        let engine = open_engine(&config, chosen, settings, &interrupt).await?;
        let output_limit = policy.limits().output.get();
        let sight = redaction_for(&place, &policy)?;
        let console = RunConsole::new(place.json, stdin.is_some(), printer, &interrupt);
        let request = ExecutionRequest {
            args,
            files,
            stdin,
            out: output_destination(&place),
            require_hard: place.require_hard,
            reader: audience_of(&place),
            timeout,
            session: place.session.clone(),
            ..ExecutionRequest::new(policy, program)
        };
        let result = if place.json {
            let execution = Box::pin(follow_run(&engine, request, &mut (), console)).await;
            execution.map(|execution| (execution, false))
        } else {
            let mut screen = LiveOutput::start(printer, interrupt.clone())?;
            let execution = Box::pin(follow_run(&engine, request, &mut screen, console)).await;
            let shown = screen.finish();
            execution.and_then(|execution| Ok((execution, shown?)))
        };
        let taught = result.as_ref().ok().filter(|_| place.learn.is_some());
        let lesson = learn_from_run(&engine, taught.map(|(execution, _)| execution), sight.as_ref()).await;
        shutdown_engine(engine).await;
        let ((execution, open_line), lesson) = (result?, lesson?);
        let file = place.learn.flatten();
        if place.json {
            let learnt = lesson.as_ref().filter(|_| file.is_none()).map(LearnedPolicy::to_json);
            printer.print_json(&RunJson {
                execution: ExecutionAnswer::from(&execution).map_hint(for_terminal),
                learnt,
            })?;
            printer.print_truncation(&execution, output_limit);
        } else {
            let around = PrintContext {
                is_line_open: open_line,
                output_limit,
                out: place.out.as_deref(),
            };
            printer.print_execution(&execution, &around)?;
            print_kept_session(&execution, keeps, printer);
        }
        if let Some(lesson) = lesson.filter(|_| file.is_some() || !place.json) {
            lesson.write_or_print(file.as_deref(), printer)?;
        }
        Ok(exit_code(&execution))
    }
}

/// What is printed as JSON may go to a model; text stays with the user.
fn audience_of(place: &RunArgs) -> ResultAudience {
    if place.json {
        ResultAudience::CommandModel
    } else {
        ResultAudience::Owner
    }
}

/// The redaction of a learned policy. Printed as JSON it goes to a model; as text or in a file it stays with the user,
/// unredacted.
fn redaction_for(place: &RunArgs, policy: &Policy) -> Result<Option<RedactionRules>, CliFault> {
    if !place.json || place.learn != Some(None) {
        return Ok(None);
    }
    let sight =
        RedactionRules::from_policy(policy).map_err(|error| CliFault::internal("data.unseen", error.to_string()))?;
    Ok(Some(sight))
}

/// The destination of new and changed files.
fn output_destination(place: &RunArgs) -> OutputDestination {
    let existing = if place.force {
        ExistingFileAction::Overwrite
    } else {
        ExistingFileAction::Keep
    };
    let folder = |path| OutputDestination::Folder { path, existing };
    place.out.clone().map_or(OutputDestination::ListOnly, folder)
}

/// Creates the destination folder of `--out` if it does not exist.
fn create_output_folder(out: Option<&Path>) -> Result<(), CliFault> {
    let Some(out) = out else { return Ok(()) };
    std::fs::create_dir_all(out).map_err(|error| {
        let message = format!("cannot make the folder `{}`: {}", out.display(), io_error_text(&error));
        CliFault::internal("files.out", message).with_hint("name a folder that you can write to")
    })
}

fn print_kept_session(execution: &ExecutionReport, keeps: bool, printer: &Printer) {
    if keeps && execution.status != ExecutionStatus::Refused {
        let id = execution.session_id;
        printer.notice(&format!("its files are kept: go on with `--session {id}`"));
    }
}

/// Learns a policy from a run, unless the run was refused before it began.
async fn learn_from_run(
    engine: &Engine,
    execution: Option<&ExecutionReport>,
    sight: Option<&RedactionRules>,
) -> Result<Option<LearnedPolicy>, CliFault> {
    let Some(execution) = execution.filter(|execution| execution.status != ExecutionStatus::Refused) else {
        return Ok(None);
    };
    LearnedPolicy::from_session(engine.store(), execution.session_id, sight)
        .await
        .map(Some)
}

/// The result of a run as `--json` prints it.
#[derive(serde::Serialize)]
struct RunJson<'a> {
    #[serde(flatten)]
    execution: ExecutionAnswer<'a>,
    /// The least policy; only with `--learn` and without a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    learnt: Option<serde_json::Value>,
}

/// The exit code of the program, or the code that stands for the way it ended.
fn exit_code(execution: &ExecutionReport) -> ExitCode {
    ExitCode::from(u8::try_from(execution.exit_code & 0xff).unwrap_or(fault::EXIT_INTERNAL))
}

pub(crate) fn listen_for_signals() -> Result<Interrupt, CliFault> {
    listen_with_timeout(SHUTDOWN_TIMEOUT)
}

/// As [`listen_for_signals`], with another time until a signal ends this program.
pub(crate) fn listen_with_timeout(patience: Duration) -> Result<Interrupt, CliFault> {
    Interrupt::listen(patience).map_err(|error| {
        CliFault::internal(
            "start.thread",
            format!("cannot start a thread: {}", io_error_text(&error)),
        )
    })
}

/// Opens the engine. A signal meanwhile ends the command, because nothing has started.
pub(crate) async fn open_engine(
    config: &Config,
    chosen: ResolvedServers,
    settings: &CliSettings,
    interrupt: &Interrupt,
) -> Result<Engine, CliFault> {
    open_engine_at(settings.home()?, config, chosen, interrupt).await
}

pub(crate) async fn open_engine_at(
    home: PathBuf,
    config: &Config,
    chosen: ResolvedServers,
    interrupt: &Interrupt,
) -> Result<Engine, CliFault> {
    tokio::select! {
        engine = Engine::open(engine_config(home, config, chosen)) => Ok(engine?),
        () = interrupt.requested() => Err(cancelled_fault()),
    }
}

/// The configuration of the engine for one command.
pub(crate) fn engine_config(home: PathBuf, config: &Config, chosen: ResolvedServers) -> ringfence_engine::EngineConfig {
    ringfence_engine::EngineConfig {
        checkers: config.checkers.clone().with_fallback(CheckerTools::find(&home)),
        home,
        sinks: config.sinks.clone(),
        principal: local_principal(),
        python: config.python.clone(),
        servers: chosen.servers,
        server_policies: chosen.policies,
        credentials: config.credentials.clone(),
        environment: servers::environment(),
        serve: None,
    }
}

/// The principal of the local user who runs this program.
pub(crate) fn local_principal() -> Principal {
    Principal::Local(rustix::process::getuid().as_raw())
}

pub(crate) fn cancelled_fault() -> CliFault {
    CliFault::internal("cancelled", "cancelled before anything started").with_exit(fault::EXIT_CANCELLED)
}

/// Shuts the engine down. Everything is written; the next process merges the database's log, so this one does not wait
/// for the disk.
pub(crate) async fn shutdown_engine(engine: Engine) {
    engine.shutdown().await;
}

/// The person at the terminal during a run: what they are shown, what they answer, and when they want it to end.
struct RunConsole<'a> {
    desk: ApprovalPrompt,
    printer: &'a Printer,
    interrupt: &'a Interrupt,
}

impl<'a> RunConsole<'a> {
    fn new(json: bool, has_stdin: bool, printer: &'a Printer, interrupt: &'a Interrupt) -> RunConsole<'a> {
        RunConsole {
            desk: ApprovalPrompt::for_run(json, has_stdin),
            printer,
            interrupt,
        }
    }
}

/// Runs `request` to its end, repeats a cancel request until the run ends, and prints each approval request once.
async fn follow_run(
    engine: &Engine,
    request: ExecutionRequest,
    live: &mut dyn ringfence_engine::OutputObserver,
    console: RunConsole<'_>,
) -> Result<ExecutionReport, CliFault> {
    let RunConsole {
        mut desk,
        printer,
        interrupt,
    } = console;
    let mut questions = engine.approvals().events();
    let mut changes = ServerEvents::from_engine(engine);
    let run = engine.run(request, live);
    tokio::pin!(run);
    loop {
        tokio::select! {
            result = &mut run => {
                changes.print_pending(printer);
                return Ok(result?);
            }
            never = changes.print_forever(printer) => match never {},
            () = wait_for_cancel(interrupt) => engine.cancel_all(),
            word = questions.recv() => match word {
                Ok(word) => desk.handle_event(word, engine, printer).await,
                Err(RecvError::Lagged(missed)) => printer.print_to_stderr(&approval_notices::missed_text(missed)),
                // The channel cannot be closed: the engine holds its sender.
                Err(RecvError::Closed) => {}
            },
            typed = desk.next_line() => desk.handle_answer(&typed, engine, printer).await,
        }
    }
}

/// Waits until the run should be cancelled; after the first cancel request, only until the next repetition.
pub(crate) async fn wait_for_cancel(interrupt: &Interrupt) {
    match interrupt.reason() {
        CancelReason::None => interrupt.requested().await,
        CancelReason::Signal | CancelReason::ReaderGone => tokio::time::sleep(CANCEL_RETRY_INTERVAL).await,
    }
}

/// The policy, and the time limit of this run where the policy cannot set it: a session that outlives the command keeps
/// the limits that it was opened with.
fn policy_and_timeout(place: &RunArgs, config: &Config) -> Result<(Policy, Option<Duration>), CliFault> {
    let policy = policy_layers::policy_in_force(&place.rules, None, config)?;
    let stays = policy.fs().mounts.iter().any(|mount| mount.keep);
    if let Some(session) = place.session.as_deref().filter(|_| !stays) {
        let message = format!("session `{session}` would end with this command: its policy keeps nothing");
        return Err(CliFault::refused("session.not_kept", message).with_rule("fs.mounts.keep").with_hint(
            "write `keep: true` for a place: `--set 'fs.mounts=[{path: /workspace, access: rw, quota: 128MiB, keep: true}]'`",
        ));
    }
    let Some(timeout) = place.timeout.as_deref() else {
        return Ok((policy, None));
    };
    let asked: Period = timeout.parse().map_err(|error| {
        CliFault::refused("arguments.invalid", format!("--timeout {timeout}: {error}"))
            .with_rule("timeout")
            .with_hint("write it like `--timeout 30s`")
    })?;
    if !stays {
        // The program gets the whole time, unless a key of the policy sets its own limit.
        return Ok((
            policy_layers::policy_in_force(&place.rules, Some(timeout), config)?,
            Some(asked.get()),
        ));
    }
    if asked.get() > policy.limits().wall {
        let message = format!("`--timeout {timeout}` is more than the policy of this session allows");
        return Err(CliFault::refused("session.fixed", message)
            .with_rule("proc.wall_timeout")
            .with_hint("open the session with a longer one: `--set proc.wall_timeout=5m`"));
    }
    Ok((policy, Some(asked.get())))
}

fn language_of(file: &Path) -> Result<Lang, CliFault> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("ts" | "mts") => Ok(Lang::Ts),
        Some("js" | "mjs") => Ok(Lang::Js),
        Some("py") => Ok(Lang::Python),
        Some("sh") => Ok(Lang::Shell),
        Some("bash") => Ok(Lang::Bash),
        _ if file.is_dir() => Err(folder_fault(file)),
        _ => {
            let message = format!("cannot tell the language of `{}` by its name", file.display());
            Err(CliFault::not_found("language.unknown", message).with_hint(
                "add `--lang ts`, `js`, `python`, `shell` or `bash`; for another program use `ringfence exec -- CMD`",
            ))
        }
    }
}

fn stdin_name(lang: Lang) -> &'static str {
    match lang {
        Lang::Ts => "stdin.ts",
        Lang::Js => "stdin.js",
        Lang::Python => "stdin.py",
        Lang::Shell => "stdin.sh",
        Lang::Bash => "stdin.bash",
    }
}

fn folder_fault(file: &Path) -> CliFault {
    CliFault::not_found(
        "program.read",
        format!("`{}` is a folder, not a program", file.display()),
    )
    .with_hint("name a file in it")
}

fn read_file(path: &Path) -> Result<String, CliFault> {
    let failed = |error: io::Error| {
        let fault = CliFault::not_found(
            "program.read",
            format!("cannot read `{}`: {}", path.display(), io_error_text(&error)),
        );
        if error.kind() == io::ErrorKind::NotFound {
            return fault.with_hint("look at the path; `-` reads the program from standard input");
        }
        fault
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if found.is_dir() {
        return Err(folder_fault(path));
    }
    if found.len() > MAX_SOURCE_BYTES {
        return Err(source_too_long(&path.display().to_string()));
    }
    read_source(file, &path.display().to_string())
}

fn read_source(from: impl io::Read, name: &str) -> Result<String, CliFault> {
    let mut bytes = Vec::new();
    from.take(MAX_SOURCE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| {
            CliFault::not_found(
                "program.read",
                format!("cannot read `{name}`: {}", io_error_text(&error)),
            )
        })?;
    if bytes.len() as u64 > MAX_SOURCE_BYTES {
        return Err(source_too_long(name));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("`{name}` is not a text: byte {at} is not UTF-8");
        CliFault::not_found("program.read", message)
            .with_hint("for a program that is no source text use `ringfence exec -- CMD`")
    })
}

fn source_too_long(name: &str) -> CliFault {
    let most = crate::print::byte_text(MAX_SOURCE_BYTES);
    CliFault::internal("program.size", format!("`{name}` is longer than {most}"))
        .with_hint("put data into a file of its own and bring it in with `--file`")
}

/// The standard input of this program, or `None` if it is a terminal. A separate thread reads it and may still wait for
/// input when the program has ended.
fn stdin_pieces() -> Option<mpsc::Receiver<Vec<u8>>> {
    if io::stdin().is_terminal() {
        return None;
    }
    let (sender, receiver) = mpsc::channel(STDIN_CAPACITY);
    let reader = thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; STDIN_PIECE_BYTES];
        loop {
            match stdin.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    let piece = buffer.get(..count).unwrap_or_default().to_vec();
                    if sender.blocking_send(piece).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return tracing::warn!(%error, "standard input ended early"),
            }
        }
    });
    reader.is_ok().then_some(receiver)
}
