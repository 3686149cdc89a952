//! The stage on the host: secrets that must not be reached, and a folder that is shown.

use std::fs::{self, Permissions};
use std::io::{self, Read as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener as PlainUnixListener};
use std::path::{Path, PathBuf};

use ringfence_policy::{Policy, RelPath};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

use crate::attempt::peers::start_ticks;
use crate::attempt::secrets::{READ_SECRETS, WRITTEN_FILES};
use crate::targets::AttemptTargets;

/// The path of the shown folder in the sandbox.
pub(crate) const SHOWN_FOLDER: &str = "/probe";
/// The path of the attacker's program in the sandbox.
pub(crate) const ATTACKER_PATH: &str = "/probe/ringfence-probe";
const TARGETS_FILE: &str = "targets.json";
/// Folders that programs must not write to.
const OUTSIDE_FOLDERS: [&str; 14] = [
    "/", "/usr", "/usr/bin", "/etc", "/bin", "/lib", "/proc", "/dev", "/home", "/root", "/var", "/run", "/sys", "/boot",
];
const MASKED_PATHS: [&str; 4] = ["/proc/kcore", "/proc/sysrq-trigger", "/proc/sys", "/"];

/// Why the stage could not be set.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// A file or folder could not be made.
    #[error("cannot make `{}` for the probes", path.display())]
    Make {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A temporary folder could not be made.
    #[error("cannot make a temporary folder for the probes")]
    Folder(#[source] io::Error),
    /// The attacker's program could not be copied.
    #[error("cannot copy `{}` for the probes", path.display())]
    Program {
        /// The path of the program.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A listener that must not be reached could not be started.
    #[error("cannot listen for the probes")]
    Listen(#[source] io::Error),
    /// A secret could not be generated.
    #[error("cannot make a secret for the probes")]
    Secret(#[source] io::Error),
}

/// The stage. Dropping it removes everything on it.
#[derive(Debug)]
pub(crate) struct ProbeStage {
    /// What the attacker knows about its targets.
    pub(crate) targets: AttemptTargets,
    /// The host folder that is shown.
    pub(crate) shown: TempDir,
    /// A folder of the host for what the probes write themselves.
    pub(crate) work: TempDir,
    /// Secrets that the policy does not deny by name.
    pub(crate) undenied: Vec<&'static str>,
    hidden: TempDir,
    secret: String,
    shared: Option<PathBuf>,
    _listeners: JoinSet<()>,
}

impl ProbeStage {
    pub(crate) fn new(policy: &Policy, exe: &Path) -> Result<ProbeStage, StageError> {
        let marker = format!("ringfence-canary-{}", random_hex().map_err(StageError::Secret)?);
        let secret = format!("{marker}\n");
        let [hidden, shown, work] = [new_folder()?, new_folder()?, new_folder()?];
        write_file(&hidden.path().join("canary"), &secret)?;
        let undenied = fill_shown_folder(shown.path(), policy, &secret)?;
        let program = shown.path().join("ringfence-probe");
        let failed = |source| StageError::Program {
            path: exe.to_owned(),
            source,
        };
        fs::copy(exe, &program).map_err(failed)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755)).map_err(failed)?;
        let mut listeners = JoinSet::new();
        let port =
            listen_for_attempts(&mut listeners, &marker, hidden.path(), shown.path()).map_err(StageError::Listen)?;
        let shared = Path::new("/dev/shm").join(&marker);
        // A machine without shared memory has nothing to share.
        let shared = fs::write(&shared, &secret).is_ok().then_some(shared);
        let targets = build_targets(policy, &marker, hidden.path(), port);
        let described = serde_json::to_vec(&targets).map_err(|error| StageError::Secret(error.into()))?;
        write_file(&shown.path().join(TARGETS_FILE), &described)?;
        Ok(ProbeStage {
            targets,
            shown,
            work,
            undenied,
            hidden,
            secret,
            shared,
            _listeners: listeners,
        })
    }

    /// The path of the targets file in the sandbox.
    pub(crate) fn targets_inside() -> String {
        format!("{SHOWN_FOLDER}/{TARGETS_FILE}")
    }

    /// The path of the file outside every mount.
    pub(crate) fn canary(&self) -> PathBuf {
        self.hidden.path().join("canary")
    }

    /// Whether the host's files are unchanged.
    pub(crate) fn is_untouched(&self) -> bool {
        let same = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text == self.secret);
        same(&self.canary()) && same(&self.shown.path().join("shared.txt"))
    }
}

impl Drop for ProbeStage {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            // A few bytes in memory are all that can be left behind.
            let _ = fs::remove_file(shared);
        }
    }
}

fn new_folder() -> Result<TempDir, StageError> {
    let folder = tempfile::Builder::new()
        .prefix("ringfence-probe-")
        .tempdir()
        .map_err(StageError::Folder)?;
    // Every user may read it: only the fence may keep an attacker out.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).map_err(StageError::Folder)?;
    Ok(folder)
}

pub(crate) fn random_hex() -> io::Result<String> {
    let mut bytes = [0u8; 12];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!(
        "{:024x}",
        bytes.iter().fold(0u128, |all, byte| all << 8 | u128::from(*byte))
    ))
}

fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Result<(), StageError> {
    let make = || -> io::Result<()> {
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        fs::write(path, content)?;
        fs::set_permissions(path, Permissions::from_mode(0o644))
    };
    make().map_err(|source| StageError::Make {
        path: path.to_owned(),
        source,
    })
}

/// Fills the shown folder. A secret that the policy does not deny would be shown on purpose: it is left out and reported.
fn fill_shown_folder(folder: &Path, policy: &Policy, secret: &str) -> Result<Vec<&'static str>, StageError> {
    let mut undenied = Vec::new();
    let denied = |name: &str| {
        let path = format!("home/{name}").parse::<RelPath>();
        path.is_ok_and(|path| policy.fs().deny.iter().any(|glob| glob.hides(&path)))
    };
    write_file(&folder.join("shared.txt"), secret)?;
    for name in READ_SECRETS.iter().flat_map(|(_, names)| names.iter().copied()) {
        if denied(name) {
            write_file(&folder.join("home").join(name), secret)?;
        } else {
            undenied.push(name);
        }
    }
    for name in WRITTEN_FILES.iter().flat_map(|(_, names)| names.iter()) {
        write_file(&folder.join("home").join(name), secret)?;
    }
    Ok(undenied)
}

/// Listens where no program in a sandbox may connect; every client receives the secret.
fn listen_for_attempts(set: &mut JoinSet<()>, marker: &str, hidden: &Path, shown: &Path) -> io::Result<u16> {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = tcp.local_addr()?.port();
    tcp.set_nonblocking(true)?;
    let tcp = TcpListener::from_std(tcp)?;
    let secret = format!("{marker}\n");
    let said = secret.clone();
    set.spawn(async move {
        while let Ok((mut stream, _)) = tcp.accept().await {
            // A client that disconnects early has received nothing, which is fine.
            let _ = stream.write_all(said.as_bytes()).await;
        }
    });
    let paths = [
        hidden.join("socket"),
        shown.join("left.sock"),
        shown.join("home/project/service.sock"),
    ];
    let mut sockets = vec![PlainUnixListener::bind_addr(&SocketAddr::from_abstract_name(marker)?)?];
    for path in paths {
        sockets.push(PlainUnixListener::bind(&path)?);
        fs::set_permissions(&path, Permissions::from_mode(0o777))?;
    }
    for socket in sockets {
        socket.set_nonblocking(true)?;
        let socket = UnixListener::from_std(socket)?;
        let said = secret.clone();
        set.spawn(async move {
            while let Ok((mut stream, _)) = socket.accept().await {
                let _ = stream.write_all(said.as_bytes()).await;
            }
        });
    }
    Ok(port)
}

fn build_targets(policy: &Policy, marker: &str, hidden: &Path, port: u16) -> AttemptTargets {
    let own = |path: &Path| path.to_string_lossy().into_owned();
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let name = hidden.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut outside = words(&OUTSIDE_FOLDERS);
    outside.push(own(hidden));
    AttemptTargets {
        marker: marker.to_owned(),
        canary: own(&hidden.join("canary")),
        system: String::new(),
        outside,
        shown: SHOWN_FOLDER.to_owned(),
        homes: vec![
            format!("{SHOWN_FOLDER}/home"),
            "/root".to_owned(),
            "/home/user".to_owned(),
        ],
        scratch: "/workspace".to_owned(),
        runtimes: words(&["/proc/1/exe", "/proc/self/exe", ATTACKER_PATH]),
        masks: words(&MASKED_PATHS),
        victims: victim_processes(),
        env: words(&["PATH", "HOME", "TMPDIR", "RINGFENCE"])
            .into_iter()
            .chain(policy.env().keys().cloned())
            .collect(),
        leaks: name.into_iter().collect(),
        port,
        addresses: own_addresses(),
        abstract_socket: marker.to_owned(),
        socket: own(&hidden.join("socket")),
        shared_memory: "/dev/shm".to_owned(),
    }
}

/// This process and its parent.
fn victim_processes() -> Vec<(i32, u64)> {
    let parent = rustix::process::getppid().filter(|pid| !pid.is_init());
    let both = std::iter::once(rustix::process::getpid())
        .chain(parent)
        .map(|pid| pid.as_raw_nonzero().get());
    both.filter_map(|pid| start_ticks(pid).ok().map(|start| (pid, start)))
        .collect()
}

/// The addresses of this machine that are not loopback.
pub(crate) fn own_addresses() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    let mut last = "";
    for line in text.lines() {
        if let Some(address) = line.trim().strip_prefix("|-- ") {
            last = address;
        } else if line.contains("host LOCAL") && !last.starts_with("127.") && !found.iter().any(|known| known == last) {
            found.push(last.to_owned());
        }
    }
    found
}
