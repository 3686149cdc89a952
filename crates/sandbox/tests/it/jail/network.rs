//! Programs reach the caller's handler through a port of their own loopback interface, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ringfence_sandbox::{Backend, BackendKind, ExecutionTask, NETWORK_PORT, NetworkAccess, ProgramTunnel, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::harness::{Ran, program, run_in, shell, spec};
use crate::jail::backend;

const NET: &[(&str, &str)] = &[("net.enabled", "true"), ("proc.open_files", "1024")];

/// The beginning of every script.
const PRELUDE: &str = "
import socket, sys, os, threading, time
def connect():
    s = socket.create_connection(('127.0.0.1', 3128)); s.settimeout(20); return s
def all(s):
    parts = []
    while True:
        part = s.recv(1 << 20)
        if not part: return b''.join(parts)
        parts.append(part)
";

fn python(source: &str) -> ExecutionTask {
    program(&["python3", "-c", &format!("{PRELUDE}{source}")])
}

fn with_network(mut task: ExecutionTask, room: usize) -> (ExecutionTask, mpsc::Receiver<ProgramTunnel>) {
    let (tunnels, taken) = mpsc::channel(room);
    task.network = Some(NetworkAccess {
        env: vec![("HTTP_PROXY".to_owned(), format!("http://127.0.0.1:{NETWORK_PORT}"))],
        trust: "-----BEGIN OURS-----\n".to_owned(),
        tunnels,
    });
    (task, taken)
}

/// Runs `task` and calls `each` for every connection.
async fn run<F>(
    task: ExecutionTask,
    settings: &[(&str, &str)],
    each: impl Fn(ProgramTunnel) -> F + Send + 'static,
) -> Ran
where
    F: Future<Output = ()> + Send + 'static,
{
    let (task, mut taken) = with_network(task, 8);
    let keeper = tokio::spawn(async move {
        let mut all = JoinSet::new();
        while let Some(tunnel) = taken.recv().await {
            all.spawn(each(tunnel));
        }
        all.join_all().await;
    });
    let backend = backend();
    let mut sandbox = backend.launch(&spec(settings)).await.unwrap();
    let ran = run_in(&mut sandbox, task).await;
    sandbox.end().await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), keeper)
        .await
        .unwrap()
        .unwrap();
    ran
}

/// Sends back what arrives until the stream ends, then ends too.
async fn echo(mut tunnel: ProgramTunnel) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match tunnel.read(&mut buffer).await {
            Ok(0) => break,
            Ok(count) => {
                if tunnel.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
    tunnel.shutdown().await.unwrap();
}

#[track_caller]
fn check(ran: &Ran, stdout: &str) {
    assert_eq!(
        (ran.ended.verdict, ran.stdout.as_str()),
        (Verdict::Finished, stdout),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a_program_speaks_through_its_port_and_half_closes() {
    let source = "s = connect(); s.sendall(b'hello'); s.shutdown(socket.SHUT_WR); print(all(s).decode())";
    check(&run(python(source), NET, echo).await, "hello\n");
}

#[tokio::test]
async fn the_host_may_speak_first_and_end_first() {
    let source = "s = connect(); print(all(s).decode()); s.sendall(b'after'); s.close(); time.sleep(.2)";
    let heard = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&heard);
    let ran = run(python(source), NET, move |mut tunnel| {
        let heard = Arc::clone(&counter);
        async move {
            tunnel.write_all(b"welcome").await.unwrap();
            tunnel.shutdown().await.unwrap();
            let mut rest = String::new();
            tunnel.read_to_string(&mut rest).await.unwrap();
            heard.store(rest.len(), Ordering::Relaxed);
        }
    })
    .await;
    check(&ran, "welcome\n");
    assert_eq!(heard.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn much_goes_both_ways_at_once_and_unchanged() {
    let source = "
data = os.urandom(1 << 20) * 16
s = connect()
threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR))).start()
print(all(s) == data)
";
    check(&run(python(source), NET, echo).await, "True\n");
}

#[tokio::test]
async fn the_program_finds_its_variables_and_its_certificates() {
    let usual = std::fs::read("/etc/ssl/certs/ca-certificates.crt").map_or(0, |bytes| bytes.len());
    let task = shell("echo $HTTP_PROXY $HOME; tail -n 1 /run/ringfence/ca.pem; wc -c < /run/ringfence/ca.pem");
    let ran = run(task, NET, echo).await;
    let bytes = usual + "-----BEGIN OURS-----\n".len();
    check(
        &ran,
        &format!("http://127.0.0.1:3128 /workspace\n-----BEGIN OURS-----\n{bytes}\n"),
    );
}

/// The file of certificates is the same, whatever the previous program left in its place.
#[tokio::test]
async fn one_execution_after_the_other_finds_the_same() {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(NET)).await.unwrap();
    for _ in 0..3 {
        let source =
            "rm /run/ringfence/ca.pem && mkfifo /run/ringfence/ca.pem; echo | nc -w1 127.0.0.1 3128; echo left";
        let (task, mut taken) = with_network(shell(source), 1);
        let keeper = tokio::spawn(async move {
            while let Some(tunnel) = taken.recv().await {
                echo(tunnel).await;
            }
        });
        let ran = run_in(&mut sandbox, task).await;
        assert!(ran.stdout.ends_with("left\n"), "{ran:?}");
        keeper.await.unwrap();
    }
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn a_program_without_a_network_has_no_port() {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(NET)).await.unwrap();
    let source = "
try: connect(); print('connected')
except OSError as e: print(type(e).__name__)
print(os.environ.get('HTTP_PROXY'))";
    check(
        &run_in(&mut sandbox, python(source)).await,
        "ConnectionRefusedError\nNone\n",
    );
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn a_place_without_a_network_gives_none() {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
    let ran = run_in(&mut sandbox, shell("ls /run 2>&1; true")).await;
    assert!(ran.stdout.contains("No such file"), "{ran:?}");
    let (task, _taken) = with_network(shell("true"), 1);
    let (_switch, mut stop) = ringfence_sandbox::Stop::new();
    let refused = sandbox.run(task, &mut crate::harness::Kept::default(), &mut stop).await;
    assert!(
        matches!(refused, Err(ringfence_sandbox::ExecutionError::NoNetwork)),
        "{refused:?}"
    );
    assert_ne!(spec(NET).digest(), spec(&[("proc.open_files", "1024")]).digest());
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn a_program_inherits_neither_the_port_nor_the_pipe() {
    let source = "
s = connect()
fds = sorted(os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in os.listdir('/proc/self/fd') if os.path.islink(f'/proc/self/fd/{n}'))
print([name for name in fds if name == 'socket'])";
    check(&run(python(source), NET, echo).await, "['socket']\n");
}

#[tokio::test]
async fn a_tunnel_that_the_host_drops_is_a_reset_inside() {
    let source = "
try: s = connect(); s.sendall(b'x'); print(s.recv(1))
except ConnectionResetError: print('reset')";
    let ran = run(python(source), NET, |mut tunnel| async move {
        tunnel.read_u8().await.unwrap();
    })
    .await;
    check(&ran, "reset\n");
    // The handler takes no tunnel at all.
    let (task, taken) = with_network(python(source), 1);
    drop(taken);
    let backend = backend();
    let mut sandbox = backend.launch(&spec(NET)).await.unwrap();
    check(&run_in(&mut sandbox, task).await, "reset\n");
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn a_reset_of_the_program_is_an_error_outside() {
    let source = "
import struct
s = connect(); s.sendall(b'x'); s.recv(1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); s.close(); time.sleep(.3)";
    let ran = run(python(source), NET, |mut tunnel| async move {
        tunnel.write_u8(1).await.unwrap();
        assert_eq!(tunnel.read_u8().await.unwrap(), b'x');
        let error = tunnel.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    })
    .await;
    check(&ran, "");
}

/// The host receives what the program sent before it ended; an announced end is an end, and everything else is a reset.
#[tokio::test]
async fn the_end_of_a_program_ends_its_tunnels() {
    let source = "
a = connect(); b = connect()
a.recv(1); b.recv(1)
a.sendall(b'a' * 100000); a.shutdown(socket.SHUT_WR)
b.sendall(b'b')
os._exit(0)";
    let ends = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&ends);
    let ran = run(python(source), NET, move |mut tunnel| {
        let ends = Arc::clone(&kept);
        async move {
            // Both tunnels are open before any byte is sent.
            tunnel.write_u8(0).await.unwrap();
            let mut all = Vec::new();
            let end = tunnel.read_to_end(&mut all).await.is_ok();
            ends.lock().unwrap().push((all.len(), end));
        }
    })
    .await;
    check(&ran, "");
    let mut ends = ends.lock().unwrap().clone();
    ends.sort_unstable();
    assert_eq!(ends, [(1, true), (100_000, true)]);
}

#[tokio::test]
async fn a_hundred_connections_at_once() {
    let source = "
ss = [connect() for _ in range(100)]
for i, s in enumerate(ss): s.sendall(bytes([i]) * 10000); s.shutdown(socket.SHUT_WR)
print(sum(all(s) == bytes([i]) * 10000 for i, s in enumerate(ss)))";
    check(&run(python(source), NET, echo).await, "100\n");
}

/// One connection after the other, many more than there are numbers.
#[tokio::test]
async fn numbers_are_used_again() {
    let source = "
for i in range(1000):
    s = connect(); s.sendall(b'x')
    if i % 3 == 0: s.close(); continue
    s.shutdown(socket.SHUT_WR)
    assert all(s) == b'x'
print('done')";
    check(&run(python(source), NET, echo).await, "done\n");
}

/// Connections above the maximum wait until others are over.
#[tokio::test]
async fn more_than_the_most_wait() {
    let source = "
ss = []
for _ in range(300):
    s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', 3128)); ss.append(s)
for s in ss: s.setblocking(True); s.settimeout(20)
done = 0
for s in ss:
    s.sendall(b'x'); s.shutdown(socket.SHUT_WR)
    done += all(s) == b'x'; s.close()
print(done)";
    let most = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    // No connection gets a reply before all are open, however slow the machine is.
    let (counted, all_here) = (Arc::clone(&most), Arc::new(Semaphore::new(0)));
    let ran = run(python(source), NET, move |tunnel| {
        let (most, all_here) = (Arc::clone(&counted), Arc::clone(&all_here));
        async move {
            let now = most.0.fetch_add(1, Ordering::SeqCst) + 1;
            most.1.fetch_max(now, Ordering::SeqCst);
            if now == 256 {
                all_here.add_permits(300);
            }
            let _ = tokio::time::timeout(Duration::from_secs(10), all_here.acquire()).await;
            echo(tunnel).await;
            most.0.fetch_sub(1, Ordering::SeqCst);
        }
    })
    .await;
    check(&ran, "300\n");
    let most = most.1.load(Ordering::SeqCst);
    assert!((256..=257).contains(&most), "{most} at once");
}

/// With few descriptors for the program there are few for its connections, and still all of them are served.
#[tokio::test]
async fn connections_wait_for_descriptors_too() {
    let source = "
import subprocess
code = '''%s
ss = [connect() for _ in range(20)]
for s in ss: s.sendall(b\"x\"); s.shutdown(socket.SHUT_WR)
print(sum(all(s) == b\"x\" for s in ss))
''' % open('/workspace/prelude').read()
ps = [subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE) for _ in range(3)]
print(sum(int(p.communicate()[0]) for p in ps))";
    let source = format!("open('/workspace/prelude', 'w').write({PRELUDE:?})\n{source}");
    let few = [("net.enabled", "true"), ("proc.open_files", "40")];
    check(&run(python(&source), &few, echo).await, "60\n");
}

/// Ten thousand connections without an end, and a flood that nothing reads, cost neither memory nor the execution.
#[tokio::test]
async fn a_flood_is_held_where_it_is() {
    let source = "
for _ in range(10000):
    s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', 3128)); s.close()
flood = connect(); flood.setblocking(False)
sent = 0
until = time.time() + 2
while time.time() < until:
    try: sent += flood.send(b'x' * 65536)
    except BlockingIOError: time.sleep(.01)
print('bounded' if sent < 20 << 20 else sent)
print('output goes on')";
    let ran = run(python(source), NET, |tunnel| async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        drop(tunnel);
    })
    .await;
    check(&ran, "bounded\noutput goes on\n");
    assert!(ran.ended.usage.peak_memory < 200 << 20, "{ran:?}");
}

/// A program that does not read what it receives stops its own writer and no other.
#[tokio::test]
async fn a_program_that_does_not_read_stops_its_writer_only() {
    let source = "
slow = connect(); slow.sendall(b's')
s = connect(); s.sendall(b'e'); s.sendall(b'hello'); s.shutdown(socket.SHUT_WR)
print(all(s).decode())
time.sleep(.5)";
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    let ran = run(python(source), NET, move |mut tunnel| {
        let written = Arc::clone(&counter);
        async move {
            if tunnel.read_u8().await.unwrap() == b'e' {
                return echo(tunnel).await;
            }
            let piece = vec![0; 1 << 16];
            while let Ok(count) = tunnel.write(&piece).await {
                written.fetch_add(count, Ordering::Relaxed);
            }
        }
    })
    .await;
    check(&ran, "hello\n");
    let written = written.load(Ordering::Relaxed);
    assert!(
        written < 16 << 20,
        "{written} bytes ahead of a reader that reads nothing"
    );
}

#[tokio::test]
async fn a_hop_takes_less_than_a_millisecond() {
    let source = "
s = connect(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range(300):
    t = time.perf_counter(); s.sendall(b'x'); s.recv(1); times.append(time.perf_counter() - t)
print(sorted(times)[150])";
    let ran = run(python(source), NET, echo).await;
    let median: f64 = ran.stdout.trim().parse().unwrap();
    assert!(median < 0.001, "{median} s");
}

/// Waiting for the network counts as time, and an end that comes meanwhile is not late.
#[tokio::test]
async fn waiting_for_the_network_is_time() {
    let settings = [NET[0], ("proc.wall_timeout", "500ms")];
    let started = Instant::now();
    let ran = run(python("s = connect(); s.recv(1)"), &settings, |mut tunnel| async move {
        assert!(tunnel.read_u8().await.is_err());
    })
    .await;
    assert_eq!(
        ran.ended.verdict,
        Verdict::Limit(ringfence_sandbox::ExecutionLimit::Wall),
        "{ran:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_network_needs_no_control_groups() {
    let backend = Backend::without_groups(BackendKind::default(), "ringfence-test-none").unwrap();
    let mut sandbox = backend.launch(&spec(NET)).await.unwrap();
    let source = "s = connect(); s.sendall(b'hello'); s.shutdown(socket.SHUT_WR); print(all(s).decode())";
    let (task, mut taken) = with_network(python(source), 1);
    let keeper = tokio::spawn(async move { echo(taken.recv().await.unwrap()).await });
    check(&run_in(&mut sandbox, task).await, "hello\n");
    keeper.await.unwrap();
    sandbox.end().await.unwrap();
}
