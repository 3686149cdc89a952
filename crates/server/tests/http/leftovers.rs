//! The files that a program leaves delay nobody else: other requests are answered while the host scans them.

use std::time::{Duration, Instant};

use ringfence_engine::storage::AccessScope;

use crate::wire::send;
use crate::world::World;

/// Sparse files, nested folders, and more entries than a quick scan reads.
const LEAVE: &str = "for i in $(seq 250); do truncate -s 15M hole-$i; done; truncate -s 1T endless; \
                     for i in $(seq 2000); do : > entry-$i; done; \
                     d=.; for i in $(seq 100); do d=$d/d; done; mkdir -p $d; echo x > $d/x; echo kept > plain";
/// The limit for every answer, far below the time that reading the leftovers takes.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn others_are_answered_while_what_a_program_left_is_looked_through() {
    let policy = "fs: { mounts: [{ path: /workspace, access: rw, quota: 16MiB }] }";
    let world = World::under(policy, policy).await;
    let holder = world.holder("agent", AccessScope::Agent).await;
    let run = holder.run("shell", LEAVE);
    let others = async {
        let mut slowest = Duration::ZERO;
        loop {
            let asked = Instant::now();
            let answer = send(world.address, "GET", "/healthz", &[], "").await;
            assert_eq!(answer.status, 200);
            slowest = slowest.max(asked.elapsed());
            assert!(slowest < ANSWERED_WITHIN, "an answer took {slowest:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let reply = tokio::select! {
        reply = run => reply,
        () = others => unreachable!("it asks until the run is over"),
    };
    assert_eq!(reply.status, 200, "{reply:?}");
    let execution = reply.json();
    // The file comes after more files than an answer lists, and is kept nevertheless.
    let place = reply.header("location").unwrap();
    let plain = holder.get(&format!("{place}/files/plain")).await;
    assert_eq!((plain.status, plain.body.as_str()), (200, "kept\n"), "{plain:?}");
    let told: Vec<&str> = execution["violations"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["rule"].as_str())
        .collect();
    assert!(
        told.contains(&"fs.mounts.quota") && told.contains(&"fs.collect"),
        "{told:?}"
    );
}
