//! The unfenced controls of the tests: the same attempts without a sandbox. Their targets are copies in a folder and in
//! namespaces that were made for them.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_jail::attack::{self, MountedFilesystem};

use super::{attempts, devices, groups, ipc, network, peers, proc, run_attempt, secrets};
use crate::catalogue::{ProbeMethod, catalogue};
use crate::targets::AttemptTargets;

const MARKER: &str = "ringfence-canary-rehearsed";

/// Sets the stage in `folder`, which is an empty mount of its own, and makes the attempts `ids` there; without `ids`, all
/// that need no sandbox.
pub(super) fn run_unfenced(folder: &str, ids: &[&str]) -> io::Result<()> {
    let folder = Path::new(folder);
    let (targets, _listeners) = set_stage(folder)?;
    std::env::set_current_dir(folder.join("outside"))?;
    let chosen: Vec<u16> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    for probe in catalogue() {
        let wanted = if chosen.is_empty() {
            probe.method == ProbeMethod::Inside || probe.id == 97
        } else {
            chosen.contains(&probe.id)
        };
        if !wanted {
            continue;
        }
        if probe.id == 97 {
            attack::fork_until_refused(1, Duration::ZERO, dial_listeners)?;
        }
        for attempt in attempts(probe.id, &targets) {
            run_attempt(probe.id, attempt)?;
        }
    }
    Ok(())
}

struct UnfencedListeners {
    _tcp: Vec<TcpListener>,
    _unix: Vec<UnixListener>,
}

fn set_stage(folder: &Path) -> io::Result<(AttemptTargets, UnfencedListeners)> {
    let at = |name: &str| folder.join(name);
    let text = |name: &str| at(name).to_string_lossy().into_owned();
    for name in ["outside", "shown", "mask", "shared", "hidden"] {
        fs::create_dir_all(at(name))?;
    }
    for (name, options) in [("shown", ""), ("mask", ""), ("shared", "size=1g")] {
        attack::mount_new(
            &MountedFilesystem {
                kind: "tmpfs".to_owned(),
                options: options.to_owned(),
            },
            &at(name),
        )?;
    }
    for name in ["hidden/canary", "runtime", "shown/shared.txt"] {
        write_copy(&at(name))?;
    }
    write_copy(&at("shared").join(MARKER))?;
    let read = secrets::READ_SECRETS.iter().chain(&secrets::WRITTEN_FILES);
    for name in read.flat_map(|(_, names)| names.iter()) {
        write_copy(&at("shown/home").join(name))?;
    }
    let settings = proc::PROTECTED_SETTINGS.iter().flat_map(|(_, paths)| paths.iter());
    let telling = proc::TELLING_FILES.iter().flat_map(|(_, paths)| paths.iter());
    let files = settings
        .chain(telling)
        .chain(&proc::ABSENT_SYS_PATHS)
        .chain(&devices::DEVICES);
    let files = files
        .chain(&groups::RELEASE)
        .chain(&groups::MEMBERS)
        .chain([&secrets::SERVICE_TOKEN]);
    for path in files {
        write_copy(&PathBuf::from(format!("{}{path}", text("system"))))?;
    }
    let tcp = listen_tcp()?;
    let port = tcp
        .first()
        .map_or(Ok(0), |first| first.local_addr().map(|address| address.port()))?;
    let unix = bind_unix(folder)?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let targets = AttemptTargets {
        marker: MARKER.to_owned(),
        canary: text("hidden/canary"),
        system: text("system"),
        outside: vec![text("outside")],
        shown: text("shown"),
        homes: vec![text("shown/home")],
        scratch: folder.to_string_lossy().into_owned(),
        runtimes: vec![text("runtime")],
        masks: vec![text("mask")],
        victims: vec![(1, peers::start_ticks(1)?)],
        env: Vec::new(),
        leaks: name.into_iter().collect(),
        port,
        addresses: vec![network::OUTSIDE_IPV4.to_owned()],
        abstract_socket: MARKER.to_owned(),
        socket: text("hidden/socket"),
        shared_memory: text("shared"),
    };
    Ok((targets, UnfencedListeners { _tcp: tcp, _unix: unix }))
}

fn write_copy(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    fs::write(path, format!("{MARKER}\n"))
}

/// Listens without accepting connections: being connected is all that an attempt needs.
fn listen_tcp() -> io::Result<Vec<TcpListener>> {
    let mut all = vec![TcpListener::bind("0.0.0.0:0")?];
    all.push(TcpListener::bind((network::OUTSIDE_IPV4, 443))?);
    all.push(TcpListener::bind((network::OUTSIDE_IPV6, 443))?);
    for host in network::METADATA_ADDRESSES {
        all.push(TcpListener::bind((host, 80))?);
    }
    Ok(all)
}

fn bind_unix(folder: &Path) -> io::Result<Vec<UnixListener>> {
    let mut all = vec![UnixListener::bind_addr(&SocketAddr::from_abstract_name(MARKER)?)?];
    let own = ["hidden/socket", "shown/left.sock", "shown/home/project/service.sock"].map(|name| folder.join(name));
    let system = ipc::ENGINE_SOCKETS
        .iter()
        .chain(&ipc::SESSION_SOCKETS)
        .map(|path| folder.join("system").join(path.trim_start_matches('/')));
    // Socket paths are short: the sockets are bound from inside their folder.
    let back = File::open(std::env::current_dir()?)?;
    for path in own.into_iter().chain(system) {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        fs::create_dir_all(above)?;
        std::env::set_current_dir(above)?;
        all.push(UnixListener::bind(name)?);
        rustix::process::fchdir(&back)?;
    }
    Ok(all)
}

/// Dials every listening port, for as long as a listener waits.
fn dial_listeners() {
    for _ in 0..50 {
        let text = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(&"0A")) = (fields.get(1), fields.get(3)) else {
                continue;
            };
            let port = local
                .rsplit(':')
                .next()
                .and_then(|port| u16::from_str_radix(port, 16).ok());
            if let Some(port) = port {
                // A port may refuse the connection.
                drop(std::net::TcpStream::connect(("127.0.0.1", port)));
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
