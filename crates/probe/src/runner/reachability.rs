//! Probes with two sides: connections from outside, and a sandbox's files as the host sees them.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use super::probe_run::{CollectedOutput, program_task, run_in_sandbox, shell_task};
use super::{ProbeError, ProbeJudgement, ProbeRunner, judge};
use crate::attempt::ATTEMPT_ENTRY;
use crate::attempt::network::ListeningPort;
use crate::stage::{ATTACKER_PATH, ProbeStage};

pub(crate) async fn judge_reach(drive: &ProbeRunner<'_>, id: u16) -> Result<ProbeJudgement, ProbeError> {
    match id {
        97 => Box::pin(judge_listening(drive)).await,
        152 => Box::pin(judge_owner(drive)).await,
        _ => Box::pin(judge_neighbour(drive)).await,
    }
}

/// The host and a neighbour dial the port while a program listens on it.
async fn judge_listening(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let mut sandbox = drive.launch_sandbox(&[]).await?;
    let mut other = drive.launch_sandbox(&[]).await?;
    let hosts: Vec<String> = std::iter::once("127.0.0.1".to_owned())
        .chain(drive.stage.targets.addresses.clone())
        .collect();
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let mut tell = move |so_far: &[u8]| {
        let text = String::from_utf8_lossy(so_far);
        if let Some(port) = text
            .lines()
            .find_map(|line| serde_json::from_str::<ListeningPort>(line).ok())
        {
            // The first report is enough; a full channel already holds it.
            let _ = told.try_send(port.listening);
        }
    };
    let mut kept = CollectedOutput {
        told: Some(&mut tell),
        ..CollectedOutput::new()
    };
    let words = [ATTEMPT_ENTRY, "try", &ProbeStage::targets_inside(), "97"]
        .map(str::to_owned)
        .to_vec();
    let dial = async {
        let Some(port) = heard.recv().await else {
            return Ok(Vec::new());
        };
        let from_host = tokio::task::spawn_blocking(move || dial_all(&hosts, port))
            .await
            .unwrap_or_default();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached");
        let task = program_task("/bin/bash", vec!["-c".to_owned(), script]);
        let from_neighbour = run_in_sandbox(&mut other, task, &mut CollectedOutput::new()).await?;
        let neighbour = from_neighbour
            .stdout
            .contains("reached")
            .then(|| "from a neighbour".to_owned());
        Ok::<_, ProbeError>(from_host.into_iter().chain(neighbour).collect())
    };
    let (shot, reached) = tokio::join!(
        run_in_sandbox(&mut sandbox, program_task(ATTACKER_PATH, words), &mut kept),
        dial
    );
    let (shot, reached): (_, Vec<String>) = (shot?, reached?);
    sandbox.end().await?;
    other.end().await?;
    let lines = shot.attempt_lines();
    let inside = lines.iter().find_map(|line| judge::judge_line(line).err());
    let unheard = lines.is_empty().then(|| "nothing listened".to_owned());
    let outside = (!reached.is_empty()).then(|| format!("reached {}", reached.join(", ")));
    Ok(ProbeJudgement::broken_if(
        outside.or(inside).or(unheard),
        "neither the host nor a neighbour reached it",
    ))
}

fn dial_all(hosts: &[String], port: u16) -> Vec<String> {
    let addresses = hosts
        .iter()
        .filter_map(|host| host.parse().ok())
        .map(|host| SocketAddr::new(host, port));
    let reached = addresses.filter(|to| TcpStream::connect_timeout(to, Duration::from_millis(200)).is_ok());
    reached.map(|to| to.to_string()).collect()
}

/// Judges the owner of a file made inside, as the host sees it.
async fn judge_owner(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let mut sandbox = drive.launch_sandbox(&[]).await?;
    run_in_sandbox(
        &mut sandbox,
        shell_task("echo x > mine; id -u"),
        &mut CollectedOutput::new(),
    )
    .await?;
    let seen = fs::metadata(format!("/proc/{}/root/workspace/mine", sandbox.pid()));
    let user = sandbox.user();
    sandbox.end().await?;
    Ok(match seen {
        Ok(_) if user == 0 => ProbeJudgement::broken("the sandbox's user is root on the host"),
        Ok(found) if found.uid() != user => {
            ProbeJudgement::broken(format!("it belongs to {}, not to {user}", found.uid()))
        }
        Ok(_) => ProbeJudgement::held(format!("it belongs to user {user} of the host")),
        Err(error) if user != 0 => ProbeJudgement::held(format!(
            "the sandbox is user {user} of the host; its files are hidden ({error})"
        )),
        Err(_) => ProbeJudgement::broken("the sandbox's user is root on the host"),
    })
}

/// Looks for one sandbox's file from another.
async fn judge_neighbour(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let mut one = drive.launch_sandbox(&[]).await?;
    let mut other = drive.launch_sandbox(&[]).await?;
    let marker = &drive.stage.targets.marker;
    let leave = format!(
        "for place in /workspace /tmp /dev/shm; do echo {marker} > $place/of-another; done; cat /workspace/of-another"
    );
    let wrote = run_in_sandbox(&mut one, shell_task(&leave), &mut CollectedOutput::new()).await?;
    let look =
        "cat /workspace/of-another /tmp/of-another /dev/shm/of-another /proc/*/root/workspace/of-another 2>/dev/null";
    let found = run_in_sandbox(&mut other, shell_task(look), &mut CollectedOutput::new()).await?;
    one.end().await?;
    other.end().await?;
    let blind = (!wrote.stdout.contains(marker.as_str())).then(|| "the first sandbox could not write".to_owned());
    let leaked = found
        .stdout
        .contains(marker.as_str())
        .then(|| "another sandbox's file was read".to_owned());
    Ok(ProbeJudgement::broken_if(leaked.or(blind), "no place is shared"))
}
