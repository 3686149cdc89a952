//! Many large calls at once: calls must not wait for replies, nor replies for calls.

use ringfence_sandbox::{Answered, Door, Language, RunError, Task, TaskKind, Verdict};

use super::shot::{Kept, run_in};
use super::{Drive, Judged, ProbeError};

/// More calls than the host holds arguments of at once, in both directions.
const CALLS: usize = 24;
const SOURCES: [(Language, &str, &str); 2] = [
    (
        Language::JavaScript,
        "probe.js",
        "const text = 'x'.repeat(2 ** 20); \
         const all = await Promise.all(Array.from({ length: CALLS }, (_, n) => tools.probe.echo({ n, text }))); \
         all.filter((one, n) => one.n === n && one.text === text).length",
    ),
    (
        Language::Python,
        "probe.py",
        "import asyncio\nfrom tools import probe\ntext = 'x' * 2 ** 20\n\
         all = await asyncio.gather(*(probe.echo(n=n, text=text) for n in range(CALLS)))\n\
         sum(one == dict(n=n, text=text) for n, one in enumerate(all))",
    ),
];

pub(crate) async fn probe(drive: &Drive<'_>) -> Result<Judged, ProbeError> {
    let mut answered = Vec::new();
    for (language, file_name, source) in SOURCES {
        let shot = match all_at_once(drive, language, file_name, source).await {
            Err(ProbeError::Run(RunError::NoPython)) => continue,
            shot => shot?,
        };
        let (verdict, value) = (shot.ended.verdict, String::from_utf8_lossy(&shot.ended.value));
        if verdict != Verdict::Finished || value != CALLS.to_string() {
            let why = format!("{language:?}: {verdict:?} with {value} of {CALLS} answers");
            return Ok(Judged::broken(why));
        }
        answered.push(format!("{language:?} in {} ms", shot.took.as_millis()));
    }
    let words = format!(
        "{CALLS} calls of 1 MiB are answered with as much: {}",
        answered.join(", ")
    );
    Ok(Judged::held(words))
}

async fn all_at_once(
    drive: &Drive<'_>,
    language: Language,
    file_name: &str,
    source: &str,
) -> Result<super::shot::Shot, ProbeError> {
    const ROOM: usize = 64;
    let mut sandbox = drive.launch(&[]).await?;
    let (door, mut calls, answers, _held) = Door::new(ROOM);
    let behind = tokio::spawn(async move {
        while let Some(asked) = calls.recv().await {
            let answer = Answered {
                number: asked.number,
                answer: Ok(asked.body),
            };
            // An execution that is over takes no replies.
            if answers.send(answer).await.is_err() {
                return;
            }
        }
    });
    let kind = TaskKind::Code {
        language,
        file_name: file_name.to_owned(),
        source: source.replace("CALLS", &CALLS.to_string()),
    };
    let task = Task {
        kind,
        args: Vec::new(),
        stdin: None,
        door: Some(door),
        wall: None,
        network: None,
        again: None,
    };
    let shot = run_in(&mut sandbox, task, &mut Kept::new()).await;
    behind.abort();
    sandbox.end().await?;
    shot
}
