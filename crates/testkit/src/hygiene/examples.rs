//! The savings of the examples for a model. Each example runs as a reader would run it, with a wrapper in place of `ringfence` that runs
//! every program once more over MCP, and counts the full answer and the calls of its tools.
#![expect(clippy::disallowed_methods, reason = "a benchmark runs the examples itself")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use ringfence_catalog::tokens;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::front_clients::{self, ClientEra};

/// The flag that makes the benchmark the wrapper of `ringfence`.
pub const RECORD_FLAG: &str = "--record";

/// The flag that makes it the proxy between a tool server and its client.
pub const TEE_FLAG: &str = "--tee";

/// An example and the cost of its runs for a model.
#[derive(Debug)]
pub struct ExampleSavings {
    /// The file name of the example.
    pub name: String,
    /// Whether any run of it has tool servers.
    pub tools: bool,
    /// Calls that reached a tool, in all its runs.
    pub calls: u64,
    /// Tokens of the answers that a model got.
    pub returned: u64,
    /// Tokens of the same calls made one by one: arguments and results.
    pub direct: u64,
}

impl ExampleSavings {
    /// The share of tokens that is saved; none where no tools are called.
    pub fn share(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
        (self.calls > 0 && self.direct > 0).then(|| 1.0 - self.returned as f64 / self.direct as f64)
    }
}

/// The measurements of one run.
#[derive(Default, Serialize, Deserialize)]
struct MeasuredRun {
    tools: bool,
    calls: u64,
    returned: u64,
    direct: u64,
}

/// Runs every example with this `ringfence`.
pub fn run_examples(ringfence: &Path, examples: &Path) -> Result<Vec<ExampleSavings>> {
    let mut scripts = Vec::new();
    for entry in fs::read_dir(examples).context("cannot list the examples")? {
        let path = entry.context("cannot list the examples")?.path();
        scripts.extend(path.extension().is_some_and(|one| one == "sh").then_some(path));
    }
    scripts.sort();
    scripts.iter().map(|script| run_example(ringfence, script)).collect()
}

fn run_example(ringfence: &Path, script: &Path) -> Result<ExampleSavings> {
    let name = script.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = tempfile::tempdir().context("cannot make a folder for the example")?;
    let runs = folder.path().join("runs");
    fs::create_dir(&runs).context("cannot make a folder for the example")?;
    let between = write_wrapper(folder.path(), ringfence, &runs)?;
    let mut bash = Command::new("bash");
    bash.arg(script)
        .current_dir(folder.path())
        .env("RINGFENCE", &between)
        .env("RINGFENCE_HOME", folder.path().join("home"))
        .stdin(Stdio::null());
    let output = bash.output().context("cannot start bash")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`{name}` failed: {}",
        errors.lines().last().unwrap_or("nothing was said")
    );
    let mut spared = ExampleSavings {
        name,
        tools: false,
        calls: 0,
        returned: 0,
        direct: 0,
    };
    for entry in fs::read_dir(&runs).context("cannot list the runs")? {
        let text = fs::read_to_string(entry.context("cannot list the runs")?.path()).context("cannot read a run")?;
        let run: MeasuredRun = serde_json::from_str(&text).context("a run said something else")?;
        spared.tools |= run.tools;
        if run.calls > 0 {
            spared.calls += run.calls;
            spared.returned += run.returned;
            spared.direct += run.direct;
        }
    }
    Ok(spared)
}

/// Writes a script that replaces `ringfence run` and passes on all other commands.
fn write_wrapper(folder: &Path, ringfence: &Path, runs: &Path) -> Result<PathBuf> {
    let here = std::env::current_exe().context("cannot find this program")?;
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = run ]; then exec '{}' {RECORD_FLAG} '{}' '{}' \"$@\"; fi\nexec '{}' \"$@\"\n",
        here.display(),
        ringfence.display(),
        runs.display(),
        ringfence.display()
    );
    let place = folder.join("ringfence");
    fs::write(&place, text).context("cannot write the program in between")?;
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).context("cannot write the program in between")?;
    Ok(place)
}

/// Runs the real program, and records what a model would have got from it over MCP.
pub fn record(given: &[String]) -> Result<ExitCode> {
    let [ringfence, runs, rest @ ..] = given else {
        anyhow::bail!("{RECORD_FLAG} needs the program, a folder and a command");
    };
    let output = Command::new(ringfence).args(rest).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start `{ringfence}`"))?;
    std::io::stdout().write_all(&output.stdout)?;
    let run = match flag_value(rest, "--servers") {
        Some(servers) => run_over_mcp(ringfence, rest, Path::new(servers))?,
        None => MeasuredRun::default(),
    };
    let mut file = tempfile::Builder::new().suffix(".json").tempfile_in(runs)?;
    serde_json::to_writer(&mut file, &run)?;
    file.keep().context("cannot keep the result")?;
    let code = output.status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// The value of a flag in a command.
fn flag_value<'w>(words: &'w [String], flag: &str) -> Option<&'w str> {
    let at = words.iter().position(|word| word == flag)?;
    words.get(at + 1).map(String::as_str)
}

/// Runs the same program once more over MCP, as a model would, in a data folder of its own, and counts the tokens of the answer and of its
/// calls.
fn run_over_mcp(ringfence: &str, words: &[String], servers: &Path) -> Result<MeasuredRun> {
    let program = words.get(1).context("a run without a program")?;
    let code = fs::read_to_string(program).with_context(|| format!("cannot read `{program}`"))?;
    let language = match Path::new(program).extension().and_then(|end| end.to_str()) {
        Some("py") => "python",
        Some("sh") => "shell",
        Some("js") => "javascript",
        _ => "typescript",
    };
    let folder = tempfile::tempdir().context("cannot make a folder for the run")?;
    let heard = folder.path().join("heard");
    fs::create_dir(&heard).context("cannot make a folder for the run")?;
    let mut command = Command::new(ringfence);
    command
        .args(["serve", "--stdio", "--servers"])
        .arg(wrap_servers(servers, &heard)?);
    if let Some(policy) = flag_value(words, "--policy") {
        command.args(["--policy", policy]);
    }
    command.env("RINGFENCE_HOME", folder.path().join("home"));
    let mut client = front_clients::StdioClient::start(&mut command, ClientEra::Legacy)?;
    let result = client.call("sandboxed_code_run", &json!({ "code": code, "language": language }))?;
    let status = front_clients::structured_content(&result)?
        .get("status")
        .and_then(Value::as_str);
    ensure!(
        status == Some("completed"),
        "`{program}` did not complete over MCP: {result}"
    );
    client.close();
    client.wait()?;
    let mut run = MeasuredRun {
        tools: true,
        returned: result_tokens(&result).into_iter().max().unwrap_or_default(),
        ..MeasuredRun::default()
    };
    for entry in fs::read_dir(&heard).context("cannot list what was heard")? {
        let path = entry.context("cannot list what was heard")?.path();
        let text = fs::read_to_string(path).context("cannot read what was heard")?;
        count_calls(&text, &mut run)?;
    }
    Ok(run)
}

/// The tokens of a tool result: its texts, and its structured content. A client shows its model one of them.
fn result_tokens(result: &Value) -> Vec<u64> {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let texts = blocks.filter_map(|block| block.get("text")?.as_str());
    let texts: usize = texts.map(tokens::count_tokens).sum();
    let structured = result
        .get("structuredContent")
        .map(|value| tokens::count_tokens(&value.to_string()));
    [Some(texts), structured]
        .into_iter()
        .flatten()
        .map(|size| size as u64)
        .collect()
}

/// Adds the calls of one tool server, with the shorter form of each result.
fn count_calls(heard: &str, run: &mut MeasuredRun) -> Result<()> {
    let mut open = BTreeSet::new();
    for line in heard.lines() {
        let message: Value = serde_json::from_str(line).context("a tool server said something else")?;
        let id = message.get("id").map(Value::to_string);
        let Some(id) = id else { continue };
        if message.get("method").and_then(Value::as_str) == Some("tools/call") {
            let arguments = message.pointer("/params/arguments").unwrap_or(&Value::Null);
            run.calls += 1;
            run.direct += tokens::count_tokens(&arguments.to_string()) as u64;
            open.insert(id);
        } else if let Some(result) = message.get("result").filter(|_| open.remove(&id)) {
            run.direct += result_tokens(result)
                .into_iter()
                .filter(|size| *size > 0)
                .min()
                .unwrap_or_default();
        }
    }
    Ok(())
}

/// Wraps each tool server in this program, which logs its messages.
fn wrap_servers(servers: &Path, heard: &Path) -> Result<PathBuf> {
    let here = std::env::current_exe().context("cannot find this program")?;
    let text = fs::read_to_string(servers).context("cannot read the tool servers")?;
    let mut file: Value = serde_json::from_str(&text).context("the tool servers are not JSON")?;
    let all = file.get_mut("mcpServers").and_then(Value::as_object_mut);
    for (name, server) in all.into_iter().flatten() {
        let program = server
            .get("command")
            .cloned()
            .context("a tool server without a program")?;
        let mut words = vec![json!(TEE_FLAG), json!(heard.join(format!("{name}.jsonl"))), program];
        words.extend(
            server
                .get("args")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .cloned(),
        );
        server["command"] = json!(here);
        server["args"] = Value::Array(words);
    }
    let place = heard.with_extension("json");
    fs::write(&place, file.to_string()).context("cannot write the tool servers")?;
    Ok(place)
}

/// Runs a tool server, and logs what it receives and sends.
pub fn tee(given: &[String]) -> Result<ExitCode> {
    let [log, program, rest @ ..] = given else {
        anyhow::bail!("{TEE_FLAG} needs a file and a program");
    };
    let log = fs::OpenOptions::new().create(true).append(true).open(log);
    let log = Mutex::new(log.context("cannot open the file")?);
    let mut command = Command::new(program);
    let mut child = command
        .args(rest)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{program}`"))?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let (input, output) = input.zip(output).context("no pipes")?;
    std::thread::scope(|scope| {
        let told = scope.spawn(|| copy_logged(std::io::stdin().lock(), input, &log));
        copy_logged(BufReader::new(output), std::io::stdout(), &log)?;
        told.join().map_err(|_| anyhow::anyhow!("the listener failed"))?
    })?;
    child.wait().context("cannot wait for the tool server")?;
    Ok(ExitCode::SUCCESS)
}

fn copy_logged(mut from: impl BufRead, mut to: impl Write, log: &Mutex<fs::File>) -> Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        if let Ok(mut log) = log.lock() {
            log.write_all(&line)?;
        }
        // The reader may be gone: then there is nothing more to pass on.
        if to.write_all(&line).and_then(|()| to.flush()).is_err() {
            return Ok(());
        }
        line.clear();
    }
    Ok(())
}
