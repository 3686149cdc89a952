//! Measures egress: the same client in a sandbox and behind a plain proxy, in a private test internet.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts its peers itself")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ringfence_probe::internet::{ALLOWED, FakeWorld, Internet};
use serde_json::json;
use tempfile::TempDir;

use crate::timing;

const INSIDE_VARIABLE: &str = "RINGFENCE_BENCH_INTERNET";
const ROOT: &str = "root";
const USER: &str = "user";
const PLAIN_PROXY_ADDRESS: &str = "127.0.0.1:3129";

/// The route of the client to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressRoute {
    /// From a sandbox, over its pipe, through the gateway.
    Pipe,
    /// Through a process that only copies bytes.
    Plain,
}

/// Whether this process runs inside the test internet; outside it runs itself inside, to the end.
pub fn enter_internet() -> Result<bool> {
    if std::env::var_os(INSIDE_VARIABLE).is_some() {
        return Ok(true);
    }
    let root = rustix::process::geteuid().is_root();
    let mut unshare = Command::new("unshare");
    if !root {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(["--net", "--mount", "--"]).arg(std::env::current_exe()?);
    unshare
        .args(std::env::args_os().skip(1))
        .env(INSIDE_VARIABLE, if root { ROOT } else { USER });
    let status = unshare.status().context("cannot start `unshare`")?;
    ensure!(status.success(), "the benchmark failed in its own internet: {status}");
    Ok(false)
}

/// Runs a proxy that copies bytes both ways and checks nothing.
pub fn run_plain_proxy() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(PLAIN_PROXY_ADDRESS).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            // A broken connection ends its task.
            tokio::spawn(async move { relay_connection(stream).await.ok() });
        }
    })
}

async fn relay_connection(mut stream: tokio::net::TcpStream) -> Result<()> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8(head)?;
    let target = text.split(' ').nth(1).context("no target")?;
    let mut other = tokio::net::TcpStream::connect(target).await?;
    other.set_nodelay(true)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut stream, &mut other).await?;
    Ok(())
}

/// Both routes, ready for clients.
#[derive(Debug)]
pub struct EgressRoutes {
    program: PathBuf,
    proxy: Child,
    folder: TempDir,
    _internet: Internet,
}

impl Drop for EgressRoutes {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

impl EgressRoutes {
    /// Opens the test internet and the proxy, with the `ringfence` program beside this one.
    pub fn open() -> Result<EgressRoutes> {
        let own = std::env::current_exe()?;
        let folder = tempfile::tempdir()?;
        let world = FakeWorld::new("not for us").with_name("allowed.example.com", ALLOWED);
        let internet = Internet::open(folder.path(), world)?;
        let policy = json!({
            "version": 1,
            "net": {
                "enabled": true,
                "allowlist": ["allowed.example.com", { "host": "allowed.example.com", "scheme": "http" }],
                "limits": { "bytes": "100GiB", "rate": "1000000/min" },
            },
            "proc": { "wall_timeout": "5m", "cpu_time": "5m", "open_files": 1024 },
        });
        fs::write(folder.path().join("policy.json"), policy.to_string())?;
        let mut proxy = Command::new(&own);
        let proxy = proxy.arg("--plain-proxy").stdin(Stdio::null()).spawn()?;
        let roads = EgressRoutes {
            program: own.with_file_name("ringfence"),
            proxy,
            folder,
            _internet: internet,
        };
        let until = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(PLAIN_PROXY_ADDRESS).is_err() {
            ensure!(Instant::now() < until, "the plain proxy does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(roads)
    }

    /// The command of the client on a route.
    fn client(&self, road: EgressRoute, words: &[&str]) -> Command {
        let mut command = match road {
            EgressRoute::Plain => {
                let mut command = Command::new("curl");
                command.args(["-p", "-x", &format!("http://{PLAIN_PROXY_ADDRESS}")]);
                command
            }
            EgressRoute::Pipe => self.sandboxed(&["curl"]),
        };
        command.args(["-sS", "--http1.1"]).args(words);
        command
    }

    fn sandboxed(&self, words: &[&str]) -> Command {
        let mut command = if std::env::var_os(INSIDE_VARIABLE).is_some_and(|who| who == USER) {
            let mut command = Command::new("unshare");
            command
                .args(["--user", "--map-user=1000", "--map-group=1000", "--"])
                .arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        command
            .args(["exec", "--policy"])
            .arg(self.folder.path().join("policy.json"));
        command.arg("--").args(words).stdin(Stdio::null());
        command
            .current_dir(self.folder.path())
            .env("RINGFENCE_HOME", self.folder.path().join("home"));
        command
    }

    fn run_client(mut command: Command) -> Result<String> {
        let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(text)
    }

    /// The speed of a download in bytes per second.
    pub fn download(&self, road: EgressRoute, scheme: &str, bytes: u64) -> Result<f64> {
        let url = format!("{scheme}://allowed.example.com/bytes/{bytes}");
        let words = ["-o", "/dev/null", "-w", "%{size_download} %{time_total}", &url];
        let said = Self::run_client(self.client(road, &words))?;
        let (size, time) = said.trim().split_once(' ').context("no figures")?;
        ensure!(size.parse::<u64>()? == bytes, "{size} of {bytes} bytes came");
        Ok(size.parse::<f64>()? / time.parse::<f64>()?)
    }

    /// The median time to the first byte of a small answer on an open connection.
    pub fn small_answer_time(&self, road: EgressRoute, scheme: &str, count: usize) -> Result<Duration> {
        let url = format!("{scheme}://allowed.example.com/page?[1-{count}]");
        let words = ["-w", "%{stderr}%{time_starttransfer}\n", "-o", "/dev/null", &url];
        let mut command = self.client(road, &words);
        let output = command.output()?;
        ensure!(output.status.success(), "{command:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let times: Vec<Duration> = text
            .lines()
            .filter_map(|line| line.trim().parse::<f64>().ok())
            .map(Duration::from_secs_f64)
            .collect();
        ensure!(times.len() == count, "{} of {count} answers: {text}", times.len());
        Ok(timing::median_of(times))
    }

    /// The time until so many concurrent requests are all answered.
    pub fn concurrent_time(&self, count: usize) -> Result<Duration> {
        let url = format!("https://allowed.example.com/slow/1000?[1-{count}]");
        let most = count.to_string();
        let words = [
            "-Z",
            "--parallel-immediate",
            "--parallel-max",
            &most,
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}\n",
            &url,
        ];
        let started = Instant::now();
        let said = Self::run_client(self.client(EgressRoute::Pipe, &words))?;
        let good = said.lines().filter(|line| *line == "200").count();
        ensure!(good == count, "{good} of {count} were answered");
        Ok(started.elapsed())
    }

    /// Processor ticks of the program and its children in four idle seconds: with an open tunnel, and without a network.
    pub fn idle_ticks(&self) -> Result<(u64, u64)> {
        let script = "exec 3<>/dev/tcp/127.0.0.1/3128; \
                      printf 'CONNECT allowed.example.com:443 HTTP/1.1\\r\\nHost: allowed.example.com:443\\r\\n\\r\\n' >&3; \
                      read -r line <&3; exec sleep 8";
        let with = quiet_ticks(self.sandboxed(&["/bin/bash", "-c", script]))?;
        let mut without = Command::new(&self.program);
        without
            .args(["exec", "--", "sleep", "8"])
            .current_dir(self.folder.path().join("home"))
            .env("RINGFENCE_HOME", self.folder.path().join("home"));
        Ok((with, quiet_ticks(without)?))
    }
}

/// The ticks of a command in four idle seconds, from two seconds after its start.
fn quiet_ticks(mut command: Command) -> Result<u64> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_secs(2));
    let before = tree_ticks(child.id())?;
    std::thread::sleep(Duration::from_secs(4));
    let after = tree_ticks(child.id())?;
    child.wait()?;
    Ok(after - before)
}

/// The processor ticks of a process and all its descendants.
fn tree_ticks(pid: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(')').context("no name")?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let mut all = number(11) + number(12);
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            all += tree_ticks(child).unwrap_or(0);
        }
    }
    Ok(all)
}
