//! What the host does after the end, where a program left as much as it could.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringfence_sandbox::CollectLimits;

use super::shot::{Kept, run_in, shell};
use super::{Drive, Judged, ProbeError};

const LEAVE: &str = "for i in $(seq 250); do truncate -s 15M hole-$i; done; truncate -s 1T endless; \
                     for i in $(seq 2000); do : > entry-$i; done; \
                     d=.; for i in $(seq 100); do d=$d/d; done; mkdir -p $d; echo x > $d/x; echo ok > plain";
/// What the workspace may store.
const QUOTA: u64 = 16 << 20;
/// Longer than the host gives itself, and far shorter than reading everything takes.
const HELD_UP: Duration = Duration::from_secs(30);

pub(crate) async fn probe(drive: &Drive<'_>) -> Result<Judged, ProbeError> {
    let mounts = format!("[{{ path: /workspace, access: rw, quota: {}MiB }}]", QUOTA >> 20);
    let mut sandbox = drive.launch(&[("fs.mounts", &mounts)]).await?;
    run_in(&mut sandbox, shell(LEAVE), &mut Kept::new()).await?;
    let workspace = sandbox.workspace()?;
    let limits = CollectLimits {
        // As in a place of which little is left for holes.
        holes: 1 << 20,
        ..workspace.limits()
    };
    let started = Instant::now();
    let collected = workspace.collect(&BTreeMap::new(), &drive.policy.fs().deny, &[], &limits)?;
    let took = started.elapsed();
    sandbox.end().await?;
    let read: u64 = collected.files.iter().map(|file| file.bytes).sum();
    let wrong = if took > HELD_UP {
        Some(format!("the host was held up for {} ms", took.as_millis()))
    } else if read > QUOTA * 2 {
        Some(format!("{read} bytes were read"))
    } else if !collected.files.iter().any(|file| file.path.as_str() == "plain") {
        Some("the plain file did not come out".to_owned())
    } else if !collected.skipped.has_limit() {
        Some("nothing is said of what was left behind".to_owned())
    } else {
        None
    };
    let left = collected.skipped.total();
    Ok(Judged::unless(
        wrong,
        format!(
            "{read} bytes read in {} ms, {left} left behind and named",
            took.as_millis()
        ),
    ))
}
