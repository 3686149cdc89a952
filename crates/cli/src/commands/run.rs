//! `ringfence run` and `ringfence exec`: run a program once, in a new session or in one that keeps its files.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use ringfence_engine::{Engine, Execution, ExecutionAnswer, Out, Program, Reader, RunCode, Tools};
use ringfence_gateway::Sight;
use ringfence_journal::{Principal, Status};
use ringfence_policy::{Period, Policy};
use ringfence_sandbox::{Existing, Language};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::args::{Exec, Lang, Place, Run};
use crate::commands::changes::Changes;
use crate::commands::policy::Lesson;
use crate::fault::{self, Fault, reason};
use crate::print::Printer;
use crate::print::execution::Around;
use crate::print::hint::for_terminal;
use crate::print::live::Screen;
use crate::settings::Settings;
use crate::settings::config::Config;
use crate::settings::rules;
use crate::settings::servers::{self, Chosen};
use crate::signals::{Interrupt, PATIENCE, Wish};

mod asking;
mod inputs;
mod typed_lines;
mod waiting;

use asking::Desk;
pub(crate) use inputs::inputs;

/// The maximum size of a program's source; larger data belongs in a separate file.
const MOST_SOURCE: u64 = 8 << 20;
/// The most pieces of standard input that wait for the program to read them.
const PIECES: usize = 8;
const PIECE: usize = 32 * 1024;
/// The interval at which a cancel request is repeated, for a run that was only starting when it was made.
const INSIST: Duration = Duration::from_millis(20);

/// Runs the program that `run` names, from a file or standard input.
pub(crate) async fn code(run: Run, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let from_stdin = run.program == Path::new("-");
    let lang = match (run.lang, from_stdin) {
        (Some(lang), _) => lang,
        (None, true) => {
            let message = "a program from standard input needs its language";
            return Err(Fault::ours("language.unknown", message)
                .hint("add `--lang ts`, `js`, `python`, `shell` or `bash`")
                .exit(fault::USAGE));
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
        .then(stdin)
        .flatten();
    let program = match lang {
        Lang::Ts => Program::Code {
            language: Language::TypeScript,
            file_name,
            source,
        },
        Lang::Js => Program::Code {
            language: Language::JavaScript,
            file_name,
            source,
        },
        Lang::Python => Program::Code {
            language: Language::Python,
            file_name,
            source,
        },
        Lang::Shell => Program::Shell { file_name, source },
        Lang::Bash => Program::bash(&file_name, source),
    };
    Task {
        program,
        args: run.args,
        stdin,
        place: run.place,
    }
    .run(settings, printer)
    .await
}

/// Runs the command that `exec` names.
pub(crate) async fn program(exec: Exec, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let mut words = exec.command.into_iter();
    let program = Program::Named(words.next().unwrap_or_default());
    Task {
        program,
        args: words.collect(),
        stdin: stdin(),
        place: exec.place,
    }
    .run(settings, printer)
    .await
}

/// Runs a program that another command built, with the run arguments of the user.
pub(crate) async fn source(
    program: Program,
    place: Place,
    settings: &Settings,
    printer: &Printer,
) -> Result<ExitCode, Fault> {
    Task {
        program,
        args: Vec::new(),
        stdin: None,
        place,
    }
    .run(settings, printer)
    .await
}

struct Task {
    program: Program,
    args: Vec<String>,
    stdin: Option<mpsc::Receiver<Vec<u8>>>,
    place: Place,
}

impl Task {
    async fn run(self, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
        let Task {
            program,
            args,
            stdin,
            place,
        } = self;
        place.backend.available()?;
        let config = Config::find(place.rules.config.as_deref(), settings, printer)?;
        let (mut policy, timeout) = rules_of(&place, &config)?;
        if place.learn.is_some() {
            policy = rules::observing(&policy, &config)?;
        }
        // A user who named the session does not need the notice on how to continue it.
        let keeps = place.session.is_none() && policy.fs().mounts.iter().any(|mount| mount.keep);
        let files = inputs(&place.file)?;
        make_out(place.out.as_deref())?;
        let interrupt = listen()?;
        let chosen = Chosen::of(&place.rules, &config)?;
        chosen.say(printer);
        servers::say_missing(&policy, &config, printer);
        let engine = open(&config, chosen, settings, &interrupt).await?;
        let output_limit = policy.limits().output.get();
        let sight = sight_of(&place, &policy)?;
        let desk = Desk::of(place.json, stdin.is_some());
        let request = RunCode {
            args,
            files,
            stdin,
            out: out_of(&place),
            require_hard: place.require_hard,
            reader: if place.json { Reader::Printed } else { Reader::Owner },
            timeout,
            session: place.session.clone(),
            ..RunCode::new(policy, program)
        };
        let result = if place.json {
            let execution = Box::pin(follow(&engine, request, &mut (), &interrupt, (desk, printer))).await;
            execution.map(|execution| (execution, false))
        } else {
            let mut screen = Screen::start(printer, interrupt.clone())?;
            let execution = Box::pin(follow(&engine, request, &mut screen, &interrupt, (desk, printer))).await;
            let shown = screen.finish();
            execution.and_then(|execution| Ok((execution, shown?)))
        };
        let taught = result.as_ref().ok().filter(|_| place.learn.is_some());
        let lesson = lesson(&engine, taught.map(|(execution, _)| execution), sight.as_ref()).await;
        leave(engine).await;
        let ((execution, open_line), lesson) = (result?, lesson?);
        let file = place.learn.flatten();
        if place.json {
            let learnt = lesson.as_ref().filter(|_| file.is_none()).map(Lesson::to_json);
            printer.json(&Shown {
                execution: ExecutionAnswer::from(&execution).with_hint_in(for_terminal),
                learnt,
            })?;
            printer.truncation(&execution, output_limit);
        } else {
            let around = Around {
                open_line,
                output_limit,
                out: place.out.as_deref(),
            };
            printer.execution(&execution, &around)?;
            say_kept(&execution, keeps, printer);
        }
        if let Some(lesson) = lesson.filter(|_| file.is_some() || !place.json) {
            lesson.hand_over(file.as_deref(), printer)?;
        }
        Ok(exit(&execution))
    }
}

/// The redaction of a learned policy. Printed as JSON it goes to a model; as text or in a file it stays with the user,
/// unredacted.
fn sight_of(place: &Place, policy: &Policy) -> Result<Option<Sight>, Fault> {
    if !place.json || place.learn != Some(None) {
        return Ok(None);
    }
    let sight = Sight::of(policy).map_err(|error| Fault::ours("data.unseen", error.to_string()))?;
    Ok(Some(sight))
}

/// The destination of new and changed files.
fn out_of(place: &Place) -> Out {
    let existing = if place.force {
        Existing::Overwrite
    } else {
        Existing::Keep
    };
    let folder = |path| Out::Folder { path, existing };
    place.out.clone().map_or(Out::Nowhere, folder)
}

/// Creates the destination folder of `--out` if it does not exist.
fn make_out(out: Option<&Path>) -> Result<(), Fault> {
    let Some(out) = out else { return Ok(()) };
    std::fs::create_dir_all(out).map_err(|error| {
        let message = format!("cannot make the folder `{}`: {}", out.display(), reason(&error));
        Fault::ours("files.out", message).hint("name a folder that you can write to")
    })
}

fn say_kept(execution: &Execution, keeps: bool, printer: &Printer) {
    if keeps && execution.status != Status::Refused {
        let id = execution.session_id;
        printer.notice(&format!("its files are kept: go on with `--session {id}`"));
    }
}

/// Learns a policy from a run, unless the run was refused before it began.
async fn lesson(
    engine: &Engine,
    execution: Option<&Execution>,
    sight: Option<&Sight>,
) -> Result<Option<Lesson>, Fault> {
    let Some(execution) = execution.filter(|execution| execution.status != Status::Refused) else {
        return Ok(None);
    };
    Lesson::of(engine.store(), execution.session_id, sight).await.map(Some)
}

/// The result of a run as `--json` prints it.
#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    execution: ExecutionAnswer<'a>,
    /// The least policy; only with `--learn` and without a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    learnt: Option<serde_json::Value>,
}

/// The exit code of the program, or the code that stands for the way it ended.
fn exit(execution: &Execution) -> ExitCode {
    ExitCode::from(u8::try_from(execution.exit_code & 0xff).unwrap_or(fault::OURS))
}

pub(crate) fn listen() -> Result<Interrupt, Fault> {
    listen_for(PATIENCE)
}

/// As [`listen`], with another time until a signal ends this program.
pub(crate) fn listen_for(patience: Duration) -> Result<Interrupt, Fault> {
    Interrupt::listen(patience)
        .map_err(|error| Fault::ours("start.thread", format!("cannot start a thread: {}", reason(&error))))
}

/// Opens the engine. A signal meanwhile ends the command, because nothing has started.
pub(crate) async fn open(
    config: &Config,
    chosen: Chosen,
    settings: &Settings,
    interrupt: &Interrupt,
) -> Result<Engine, Fault> {
    open_at(settings.home()?, config, chosen, interrupt).await
}

pub(crate) async fn open_at(
    home: PathBuf,
    config: &Config,
    chosen: Chosen,
    interrupt: &Interrupt,
) -> Result<Engine, Fault> {
    tokio::select! {
        engine = Engine::open(parts(home, config, chosen)) => Ok(engine?),
        () = interrupt.requested() => Err(cancelled()),
    }
}

/// The configuration of the engine for one command.
pub(crate) fn parts(home: PathBuf, config: &Config, chosen: Chosen) -> ringfence_engine::Settings {
    ringfence_engine::Settings {
        checkers: config.checkers.clone().or(Tools::find(&home)),
        home,
        sinks: config.sinks.clone(),
        principal: principal(),
        python: config.python.clone(),
        servers: chosen.servers,
        server_policies: chosen.policies,
        credentials: config.credentials.clone(),
        environment: servers::environment(),
        front: None,
    }
}

/// The principal of the local user who runs this program.
pub(crate) fn principal() -> Principal {
    Principal::Local(rustix::process::getuid().as_raw())
}

pub(crate) fn cancelled() -> Fault {
    Fault::ours("cancelled", "cancelled before anything started").exit(fault::CANCELLED)
}

/// Shuts the engine down. Everything is written; the next process merges the database's log, so this one does not wait
/// for the disk.
pub(crate) async fn leave(engine: Engine) {
    engine.leave().await;
}

/// Runs `request` to its end, repeats a cancel request until the run ends, and prints each approval request once.
async fn follow(
    engine: &Engine,
    request: RunCode,
    live: &mut dyn ringfence_engine::Live,
    interrupt: &Interrupt,
    (mut desk, printer): (Desk, &Printer),
) -> Result<Execution, Fault> {
    let mut questions = engine.questions();
    let mut changes = Changes::of(engine);
    let run = engine.run(request, live);
    tokio::pin!(run);
    loop {
        tokio::select! {
            result = &mut run => {
                changes.say_rest(printer);
                return Ok(result?);
            }
            never = changes.say(printer) => match never {},
            () = wished(interrupt) => engine.cancel_all(),
            word = questions.recv() => match word {
                Ok(word) => desk.hear(word, engine, printer).await,
                Err(RecvError::Lagged(missed)) => printer.aside(&waiting::missed(missed)),
                // The channel cannot be closed: the engine holds its sender.
                Err(RecvError::Closed) => {}
            },
            typed = desk.line() => desk.answer(&typed, engine, printer).await,
        }
    }
}

/// Waits until the run should be cancelled; after the first cancel request, only until the next repetition.
pub(crate) async fn wished(interrupt: &Interrupt) {
    match interrupt.wished() {
        Wish::None => interrupt.requested().await,
        Wish::Signal | Wish::ReaderGone => tokio::time::sleep(INSIST).await,
    }
}

/// The policy, and the time limit of this run where the policy cannot set it: a session that outlives the command keeps
/// the limits that it was opened with.
fn rules_of(place: &Place, config: &Config) -> Result<(Policy, Option<Duration>), Fault> {
    let policy = rules::in_force(&place.rules, None, config)?;
    let stays = policy.fs().mounts.iter().any(|mount| mount.keep);
    if let Some(session) = place.session.as_deref().filter(|_| !stays) {
        let message = format!("session `{session}` would end with this command: its policy keeps nothing");
        return Err(Fault::refused("session.not_kept", message).rule("fs.mounts.keep").hint(
            "write `keep: true` for a place: `--set 'fs.mounts=[{path: /workspace, access: rw, quota: 128MiB, keep: true}]'`",
        ));
    }
    let Some(timeout) = place.timeout.as_deref() else {
        return Ok((policy, None));
    };
    let asked: Period = timeout.parse().map_err(|error| {
        Fault::refused("arguments.invalid", format!("--timeout {timeout}: {error}"))
            .rule("timeout")
            .hint("write it like `--timeout 30s`")
    })?;
    if !stays {
        // The program gets the whole time, unless a key of the policy sets its own limit.
        return Ok((rules::in_force(&place.rules, Some(timeout), config)?, Some(asked.get())));
    }
    if asked.get() > policy.limits().wall {
        let message = format!("`--timeout {timeout}` is more than the policy of this session allows");
        return Err(Fault::refused("session.fixed", message)
            .rule("proc.wall_timeout")
            .hint("open the session with a longer one: `--set proc.wall_timeout=5m`"));
    }
    Ok((policy, Some(asked.get())))
}

fn language_of(file: &Path) -> Result<Lang, Fault> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("ts" | "mts") => Ok(Lang::Ts),
        Some("js" | "mjs") => Ok(Lang::Js),
        Some("py") => Ok(Lang::Python),
        Some("sh") => Ok(Lang::Shell),
        Some("bash") => Ok(Lang::Bash),
        _ if file.is_dir() => Err(folder(file)),
        _ => {
            let message = format!("cannot tell the language of `{}` by its name", file.display());
            Err(Fault::not_found("language.unknown", message).hint(
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

fn folder(file: &Path) -> Fault {
    Fault::not_found(
        "program.read",
        format!("`{}` is a folder, not a program", file.display()),
    )
    .hint("name a file in it")
}

fn read_file(path: &Path) -> Result<String, Fault> {
    let failed = |error: io::Error| {
        let fault = Fault::not_found(
            "program.read",
            format!("cannot read `{}`: {}", path.display(), reason(&error)),
        );
        if error.kind() == io::ErrorKind::NotFound {
            return fault.hint("look at the path; `-` reads the program from standard input");
        }
        fault
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if found.is_dir() {
        return Err(folder(path));
    }
    if found.len() > MOST_SOURCE {
        return Err(too_long(&path.display().to_string()));
    }
    read_source(file, &path.display().to_string())
}

fn read_source(from: impl io::Read, name: &str) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    from.take(MOST_SOURCE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Fault::not_found("program.read", format!("cannot read `{name}`: {}", reason(&error))))?;
    if bytes.len() as u64 > MOST_SOURCE {
        return Err(too_long(name));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("`{name}` is not a text: byte {at} is not UTF-8");
        Fault::not_found("program.read", message)
            .hint("for a program that is no source text use `ringfence exec -- CMD`")
    })
}

fn too_long(name: &str) -> Fault {
    let most = crate::print::bytes(MOST_SOURCE);
    Fault::ours("program.size", format!("`{name}` is longer than {most}"))
        .hint("put data into a file of its own and bring it in with `--file`")
}

/// The standard input of this program, or `None` if it is a terminal. A separate thread reads it and may still wait for
/// input when the program has ended.
fn stdin() -> Option<mpsc::Receiver<Vec<u8>>> {
    if io::stdin().is_terminal() {
        return None;
    }
    let (sender, receiver) = mpsc::channel(PIECES);
    let reader = thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; PIECE];
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
