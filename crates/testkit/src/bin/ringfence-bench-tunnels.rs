//! The benchmark of tunnels: the same download, upload and round trip through a plain proxy on loopback and through the pipe of
//! a sandbox, in turns. `--brief` runs it for correctness only.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringfence_policy::{Ceiling, Draft};
use ringfence_sandbox::{
    NETWORK_PORT, Native, Network, Options, Output, Sandbox, Spec, Stop, Task, TaskKind, Verdict, Words,
};
use ringfence_testkit::timing::{Row, middle, table};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::process::Command;
use tokio::sync::mpsc;

const PIECE: usize = 64 * 1024;

/// What every client is: asks for one of the three, and prints how long it took.
const CLIENT: &str = "
import socket, sys, time
port, kind, size = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
s = socket.create_connection(('127.0.0.1', port))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.sendall(kind.encode() + size.to_bytes(8, 'little'))
buffer = bytearray(1 << 20)
began = time.perf_counter()
if kind == 'd':
    got = 0
    while (count := s.recv_into(buffer)): got += count
    assert got == size, got
    took = time.perf_counter() - began
elif kind == 'u':
    left = size
    while left: left -= s.send(memoryview(buffer)[:min(left, 1 << 20)])
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b'k'
    took = time.perf_counter() - began
else:
    times = []
    for _ in range(size):
        began = time.perf_counter(); s.sendall(b'x'); s.recv(1); times.append(time.perf_counter() - began)
    took = sorted(times)[len(times) // 2]
print(took)
";

struct Deaf(Vec<u8>);

impl Words for Deaf {
    fn take(&mut self, _: Output, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

fn main() -> Result<()> {
    let brief = std::env::args().any(|one| one == "--brief");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async move { tokio::spawn(bench(brief)).await? })
}

async fn bench(brief: bool) -> Result<()> {
    let (bytes, trips, rounds) = if brief { (1 << 22, 20, 1) } else { (1 << 30, 2000, 5) };
    let server = serve()?;
    let plain = plain_proxy(server).await?;
    let native = Native::new(&format!("ringfence-bench-{}", std::process::id()))?;
    let settings = [
        ("net.enabled", "true"),
        ("proc.wall_timeout", "10m"),
        ("proc.cpu_time", "10m"),
    ];
    let draft = settings
        .iter()
        .try_fold(Draft::builtin(), |draft, (key, value)| draft.set(key, value))?;
    let policy = draft.under(&Ceiling::own_word())?;
    let spec = Arc::new(Spec::new(&policy, &Options::default())?);
    let mut sandbox = native.launch(&spec).await?;
    let mut rows = Vec::new();
    for (kind, size, what) in [
        ("d", bytes, "download through the pipe"),
        ("u", bytes, "upload through the pipe"),
        ("r", trips, "round trip of one byte through the pipe"),
    ] {
        let (mut direct, mut proxied, mut piped) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            direct.push(outside(server.port(), kind, size).await?);
            proxied.push(outside(plain, kind, size).await?);
            piped.push(inside(&mut sandbox, server, kind, size).await?);
        }
        let (direct, proxied, piped) = (middle(direct), middle(proxied), middle(piped));
        if kind != "r" {
            let mebibytes = f64::from(u32::try_from(size >> 20)?);
            let speed = |time: Duration| mebibytes / time.as_secs_f64();
            println!(
                "{what}: {:.0} MiB/s; plain proxy {:.0} MiB/s; no proxy {:.0} MiB/s; pipe/plain {:.2}",
                speed(piped),
                speed(proxied),
                speed(direct),
                speed(piped) / speed(proxied)
            );
        }
        rows.push(Row {
            what,
            time: piped,
            most: (kind == "r").then_some(Duration::from_millis(1)),
            beside: vec![("plain proxy", proxied), ("no proxy", direct)],
        });
    }
    println!("{}", table(&rows));
    sandbox.end().await?;
    Ok(())
}

/// A server that does what is asked of it, one thread for each connection.
fn serve() -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away early fails by itself.
            std::thread::spawn(move || answer(stream));
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut asked = [0; 9];
    stream.read_exact(&mut asked)?;
    let [kind, size @ ..] = asked;
    let mut piece = vec![0; PIECE];
    match kind {
        b'd' => {
            let mut left = usize::try_from(u64::from_le_bytes(size)).unwrap_or(usize::MAX);
            while left > 0 {
                left -= stream.write(piece.get(..left.min(PIECE)).unwrap_or_default())?;
            }
        }
        b'u' => {
            while stream.read(&mut piece)? > 0 {}
            stream.write_all(b"k")?;
        }
        _ => {
            while stream.read_exact(&mut [0]).is_ok() {
                stream.write_all(b"x")?;
            }
        }
    }
    Ok(())
}

/// What a proxy that decides nothing does with a connection.
async fn relay(mut client: impl AsyncRead + AsyncWrite + Unpin, server: SocketAddr) -> std::io::Result<()> {
    let mut server = tokio::net::TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    copy_bidirectional_with_sizes(&mut client, &mut server, PIECE, PIECE).await?;
    Ok(())
}

async fn plain_proxy(server: SocketAddr) -> Result<u16> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            if client.set_nodelay(true).is_ok() {
                tokio::spawn(relay(client, server));
            }
        }
    });
    Ok(port)
}

fn arguments(port: u16, kind: &str, size: usize) -> Vec<String> {
    ["-c", CLIENT, &port.to_string(), kind, &size.to_string()]
        .map(str::to_owned)
        .to_vec()
}

async fn outside(port: u16, kind: &str, size: usize) -> Result<Duration> {
    let ran = Command::new("python3")
        .args(arguments(port, kind, size))
        .output()
        .await?;
    ensure!(ran.status.success(), "{ran:?}");
    seconds(&ran.stdout)
}

async fn inside(sandbox: &mut Sandbox, server: SocketAddr, kind: &str, size: usize) -> Result<Duration> {
    let (tunnels, mut taken) = mpsc::channel(16);
    let relays = tokio::spawn(async move {
        while let Some(tunnel) = taken.recv().await {
            tokio::spawn(relay(tunnel, server));
        }
    });
    let task = Task {
        kind: TaskKind::Program {
            program: "python3".to_owned(),
        },
        args: arguments(NETWORK_PORT, kind, size),
        stdin: None,
        door: None,
        wall: None,
        network: Some(Network {
            env: Vec::new(),
            trust: String::new(),
            tunnels,
        }),
    };
    let (_switch, mut stop) = Stop::new();
    let mut words = Deaf(Vec::new());
    let ended = sandbox.run(task, &mut words, &mut stop).await?;
    ensure!(
        ended.verdict == Verdict::Finished && ended.outcome.as_ref().is_some_and(|outcome| outcome.exit_code == 0),
        "{ended:?} {}",
        String::from_utf8_lossy(&words.0)
    );
    relays.await?;
    seconds(&words.0)
}

fn seconds(printed: &[u8]) -> Result<Duration> {
    let text = String::from_utf8_lossy(printed);
    let seconds: f64 = text.trim().parse().with_context(|| format!("`{text}` is no number"))?;
    Ok(Duration::from_secs_f64(seconds))
}
