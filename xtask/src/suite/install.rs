//! Installs what the suites need from the system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{StepOutcome, checks, npm, passed_with};
use crate::program;

/// A Debian package, files of which any shows that it is installed, and what needs it.
struct SystemPackage {
    package: &'static str,
    files: &'static [&'static str],
    why: &'static str,
}

const SYSTEM_PACKAGES: [SystemPackage; 15] = [
    SystemPackage {
        package: "curl",
        files: &["usr/bin/curl", "usr/local/bin/curl"],
        why: "a client of the network in the sandbox",
    },
    SystemPackage {
        package: "python3-pip",
        files: &["usr/lib/python3/dist-packages/pip", "usr/bin/pip3"],
        why: "`pip install` in the sandbox",
    },
    SystemPackage {
        package: "iproute2",
        files: &["usr/sbin/ip", "sbin/ip", "usr/bin/ip"],
        why: "addresses of throw-away network namespaces",
    },
    SystemPackage {
        package: "libsecret-tools",
        files: &["usr/bin/secret-tool"],
        why: "credentials from the system's keyring",
    },
    SystemPackage {
        package: "gnome-keyring",
        files: &["usr/bin/gnome-keyring-daemon"],
        why: "a keyring to ask",
    },
    SystemPackage {
        package: "dbus-daemon",
        files: &["usr/bin/dbus-run-session"],
        why: "the keyring's bus",
    },
    SystemPackage {
        package: "npm",
        files: &["usr/bin/npm", "usr/local/bin/npm"],
        why: "the TypeScript compiler, and the protocol's own suites",
    },
    SystemPackage {
        package: "python3-venv",
        files: &["usr/share/doc/python3-venv", "usr/local/bin/pip3", "usr/bin/pip3"],
        why: "the Python type checker that stubs are tried against",
    },
    SystemPackage {
        package: "bubblewrap",
        files: &["usr/bin/bwrap"],
        why: "the benchmark's neighbour",
    },
    SystemPackage {
        package: "python3",
        files: &["usr/bin/python3", "usr/local/bin/python3"],
        why: "Python programs in the sandbox",
    },
    SystemPackage {
        package: "git",
        files: &["usr/bin/git", "usr/local/bin/git"],
        why: "`exec -- git`, and the list of files",
    },
    SystemPackage {
        package: "gcc",
        files: &["usr/bin/cc", "usr/bin/gcc"],
        why: "the JavaScript engine and SQLite are C",
    },
    SystemPackage {
        package: "libc6-dev",
        files: &[
            "usr/lib/x86_64-linux-gnu/libc.a",
            "usr/lib/aarch64-linux-gnu/libc.a",
            "usr/lib64/libc.a",
            "usr/lib/libc.a",
        ],
        why: "the worker is linked statically",
    },
    SystemPackage {
        package: "util-linux",
        files: &["usr/bin/setpriv"],
        why: "the tests as an ordinary user",
    },
    SystemPackage {
        package: "passwd",
        files: &["usr/sbin/useradd"],
        why: "the ordinary user",
    },
];

/// The type checkers for generated stubs: from npm and from Python's packages, below `target/tools`.
const TYPESCRIPT_PACKAGE: &str = "typescript@7.0.2";
const TY_PACKAGE: &str = "ty==0.0.100";
/// A network client that Python programs use, below `target/tools/requests`.
const REQUESTS_PACKAGE: &str = "requests==2.32.5";
/// A library of tables and numbers whose values Python programs return, below `target/tools/pandas`.
const PANDAS_PACKAGE: &str = "pandas==2.3.3";
/// The Python of sandboxes: the first path that exists.
const PYTHON_PATHS: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];
/// The protocol's Python SDK, as a client of our front doors, below `target/tools/mcp-python`.
const SDK: &str = "mcp==2.3.0";
/// Servers of others that the gateway is tested with, below `target/tools/npm`.
const SERVER_PACKAGES: [&str; 4] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
];

pub(super) fn run(root: &Path) -> Result<StepOutcome> {
    let outcome = install_system_packages()?;
    let tools = root.join("target/tools");
    install_checkers(&tools)?;
    npm::install(&tools)?;
    Ok(outcome)
}

/// Installs the checkers that are missing or of another version.
fn install_checkers(tools: &Path) -> Result<()> {
    let (npm, python) = (tools.join("npm"), tools.join("py"));
    fs::create_dir_all(&npm).with_context(|| format!("cannot make {}", npm.display()))?;
    let (script, snake) = (tools.join("typescript.version"), tools.join("ty.version"));
    if !is_marked(&script, TYPESCRIPT_PACKAGE) {
        eprintln!("installing: {TYPESCRIPT_PACKAGE}");
        let mut install = Command::new("npm");
        install
            .args(["install", "--no-audit", "--no-fund", "--prefix"])
            .arg(&npm)
            .arg(TYPESCRIPT_PACKAGE);
        checks::run_command(&mut install)?;
        write_mark(&script, TYPESCRIPT_PACKAGE)?;
    }
    let (servers, wanted) = (tools.join("servers.version"), SERVER_PACKAGES.join(" "));
    if !is_marked(&servers, &wanted) {
        eprintln!("installing: {wanted}");
        let mut install = Command::new("npm");
        install
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
            .arg(&npm)
            .args(SERVER_PACKAGES);
        checks::run_command(&mut install)?;
        write_mark(&servers, &wanted)?;
    }
    if !is_marked(&snake, TY_PACKAGE) {
        eprintln!("installing: {TY_PACKAGE}");
        checks::run_command(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
        checks::run_command(Command::new(python.join("bin/pip")).args(["install", "--quiet", TY_PACKAGE]))?;
        write_mark(&snake, TY_PACKAGE)?;
    }
    packages(&python, &tools.join("requests"), REQUESTS_PACKAGE)?;
    packages(&python, &tools.join("mcp-python"), SDK)?;
    install_pandas(tools, &python)
}

/// Installs packages for the Python that `pip` runs on, in a folder of their own.
fn packages(python: &Path, folder: &Path, wanted: &str) -> Result<()> {
    let marker = folder.with_extension("version");
    if is_marked(&marker, wanted) {
        return Ok(());
    }
    eprintln!("installing: {wanted}");
    let mut install = Command::new(python.join("bin/pip"));
    install.args(["install", "--quiet", "--upgrade", "--target"]);
    checks::run_command(install.arg(folder).arg(wanted))?;
    write_mark(&marker, wanted)
}

/// Installs pandas, whose C parts fit one version of Python: that of the sandboxes, which need not be the one that `pip` runs on.
fn install_pandas(tools: &Path, python: &Path) -> Result<()> {
    let Some(inside) = PYTHON_PATHS.iter().find(|python| Path::new(python).exists()) else {
        bail!("there is no Python for sandboxes: {}", PYTHON_PATHS.join(" or "));
    };
    let version =
        program::read_stdout(Command::new(inside).args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]))?;
    let version = version.trim();
    let (marker, wanted) = (tools.join("pandas.version"), format!("{PANDAS_PACKAGE} for {version}"));
    if is_marked(&marker, &wanted) {
        return Ok(());
    }
    eprintln!("installing: {wanted}");
    let mut install = Command::new(python.join("bin/pip"));
    install.args(["install", "--quiet", "--upgrade", "--only-binary=:all:"]);
    install.args(["--python-version", version, "--target"]);
    checks::run_command(install.arg(tools.join("pandas")).arg(PANDAS_PACKAGE))?;
    write_mark(&marker, &wanted)
}

fn is_marked(mark: &Path, version: &str) -> bool {
    fs::read_to_string(mark).is_ok_and(|text| text == version)
}

fn write_mark(mark: &Path, version: &str) -> Result<()> {
    fs::write(mark, version).with_context(|| format!("cannot write {}", mark.display()))
}

fn install_system_packages() -> Result<StepOutcome> {
    let system = Path::new("/");
    let missing = missing_packages(system);
    if missing.is_empty() {
        return Ok(passed_with("nothing is missing"));
    }
    for need in &missing {
        eprintln!("missing: {} ({})", need.package, need.why);
    }
    let packages: Vec<_> = missing.iter().map(|need| need.package).collect();
    let line = packages.join(" ");
    if !is_root()? || !system.join("usr/bin/apt-get").exists() {
        bail!(
            "install what is missing, then run this again:\n{}",
            install_advice(&packages)
        );
    }
    eprintln!("installing: {line}");
    checks::run_command(apt_command().arg("update"))?;
    checks::run_command(
        apt_command()
            .args(["install", "-y", "--no-install-recommends"])
            .args(&packages),
    )?;
    let still: Vec<_> = self::missing_packages(system).iter().map(|need| need.package).collect();
    if !still.is_empty() {
        bail!("installed, and still not there: {}", still.join(" "));
    }
    Ok(passed_with(&format!("installed {line}")))
}

/// Whether this process runs as root: a process owns its entry in `/proc`.
pub(super) fn is_root() -> Result<bool> {
    let own = fs::metadata("/proc/self").context("cannot read `/proc/self`")?;
    Ok(own.uid() == 0)
}

fn missing_packages(system: &Path) -> Vec<&'static SystemPackage> {
    let there = |need: &&SystemPackage| need.files.iter().any(|file| system.join(file).exists());
    SYSTEM_PACKAGES.iter().filter(|need| !there(need)).collect()
}

fn install_advice(packages: &[&str]) -> String {
    let install = "apt-get install -y --no-install-recommends";
    format!("  sudo sh -c 'apt-get update && {install} {}'", packages.join(" "))
}

fn apt_command() -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

#[cfg(test)]
mod tests;
