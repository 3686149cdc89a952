//! Many large calls at once: calls must not wait for replies, nor replies for calls.

use ringfence_sandbox::{CallPort, ExecutionError, ExecutionTask, JobLanguage, RunProgram, ToolReply, Verdict};

use super::probe_run::{CollectedOutput, run_in_sandbox};
use super::{ProbeError, ProbeJudgement, ProbeRunner};

/// More calls than the host holds arguments of at once, in both directions.
const CALL_COUNT: usize = 24;
const SOURCES: [(JobLanguage, &str, &str); 2] = [
    (
        JobLanguage::JavaScript,
        "probe.js",
        "const text = 'x'.repeat(2 ** 20); \
         const all = await Promise.all(Array.from({ length: CALLS }, (_, n) => tools.probe.echo({ n, text }))); \
         all.filter((one, n) => one.n === n && one.text === text).length",
    ),
    (
        JobLanguage::Python,
        "probe.py",
        "import asyncio\nfrom tools import probe\ntext = 'x' * 2 ** 20\n\
         all = await asyncio.gather(*(probe.echo(n=n, text=text) for n in range(CALLS)))\n\
         sum(one == dict(n=n, text=text) for n, one in enumerate(all))",
    ),
];

pub(crate) async fn probe(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let mut answered = Vec::new();
    for (language, file_name, source) in SOURCES {
        let shot = match all_at_once(drive, language, file_name, source).await {
            Err(ProbeError::Run(ExecutionError::NoPython)) => continue,
            shot => shot?,
        };
        let (verdict, value) = (shot.ended.verdict, String::from_utf8_lossy(&shot.ended.value));
        if verdict != Verdict::Finished || value != CALL_COUNT.to_string() {
            let why = format!("{language:?}: {verdict:?} with {value} of {CALL_COUNT} answers");
            return Ok(ProbeJudgement::broken(why));
        }
        answered.push(format!("{language:?} in {} ms", shot.took.as_millis()));
    }
    let words = format!(
        "{CALL_COUNT} calls of 1 MiB are answered with as much: {}",
        answered.join(", ")
    );
    Ok(ProbeJudgement::held(words))
}

async fn all_at_once(
    drive: &ProbeRunner<'_>,
    language: JobLanguage,
    file_name: &str,
    source: &str,
) -> Result<super::probe_run::ProbeRun, ProbeError> {
    const DOOR_CAPACITY: usize = 64;
    let mut sandbox = drive.launch_sandbox(&[]).await?;
    let (door, mut handler) = CallPort::new(DOOR_CAPACITY);
    let behind = tokio::spawn(async move {
        while let Some(asked) = handler.calls.recv().await {
            let answer = ToolReply {
                number: asked.number,
                answer: Ok(asked.body),
            };
            // An execution that is over takes no replies.
            if handler.replies.send(answer).await.is_err() {
                return;
            }
        }
    });
    let kind = RunProgram::Code {
        language,
        file_name: file_name.to_owned(),
        source: source.replace("CALLS", &CALL_COUNT.to_string()),
    };
    let task = ExecutionTask {
        call_port: Some(door),
        ..ExecutionTask::new(kind)
    };
    let shot = run_in_sandbox(&mut sandbox, task, &mut CollectedOutput::new()).await;
    behind.abort();
    sandbox.end().await?;
    shot
}
