//! Runs the tests once more as an ordinary user, when they ran as root: this shows that they need no privilege.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::install::is_root;
use super::test_tally::TestTally;
use super::{StepOutcome, checks, passed_with};
use crate::program::{self, BuiltProgram};

const USER_NAME: &str = "ringfence-test";

/// The packages whose tests make sandboxes, or files of their own.
const PACKAGES: [&str; 6] = [
    "ringfence-jail",
    "ringfence-sandbox",
    "ringfence-engine",
    "ringfence-cli",
    "ringfence-store",
    "ringfence-probe",
];

pub(super) fn run(root: &Path) -> Result<StepOutcome> {
    if !is_root()? {
        return Ok(StepOutcome::Absent(
            "the tests ran as an ordinary user already".to_owned(),
        ));
    }
    let user = OrdinaryUser::find_or_make()?;
    let built = program::build_programs(root, &["test", "--workspace", "--no-run"])?;
    let ringfence = program::ringfence(root)?;
    let place = UserFolder::make(root, user, &ringfence)?;
    // The test step before built the program; some of these tests start it.
    place.copy_program(&ringfence.with_file_name("ringfence-upstream"))?;
    let mut tally = TestTally::default();
    let mut tested = BTreeSet::new();
    for test in built
        .iter()
        .filter(|built| built.test && PACKAGES.contains(&built.package.as_str()))
    {
        eprintln!("-- {} {} as {USER_NAME}", test.package, test.name);
        tally.add(&checks::run_counted_with_retry(&mut place.command(root, test, user)?)?);
        tested.insert(test.package.as_str());
    }
    if tally.passed == 0 {
        bail!("no test ran as an ordinary user");
    }
    let packages: Vec<_> = tested.into_iter().collect();
    Ok(passed_with(&format!(
        "as {USER_NAME}: {tally} ({})",
        packages.join(", ")
    )))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OrdinaryUser {
    id: u32,
    group: u32,
}

impl OrdinaryUser {
    fn find_or_make() -> Result<Self> {
        if let Some(user) = Self::find()? {
            return Ok(user);
        }
        eprintln!("making the user `{USER_NAME}`");
        let mut useradd = Command::new("/usr/sbin/useradd");
        useradd.args([
            "--system",
            "--user-group",
            "--no-create-home",
            "--shell",
            "/usr/sbin/nologin",
            USER_NAME,
        ]);
        checks::run_command(&mut useradd)?;
        Self::find()?.with_context(|| format!("the user `{USER_NAME}` was made and is not in `/etc/passwd`"))
    }

    fn find() -> Result<Option<Self>> {
        let passwd = fs::read_to_string("/etc/passwd").context("cannot read `/etc/passwd`")?;
        Ok(Self::parse(&passwd))
    }

    fn parse(passwd: &str) -> Option<Self> {
        let fields = |line: &'_ str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        let found = passwd
            .lines()
            .map(fields)
            .find(|fields| fields.first().is_some_and(|name| name == USER_NAME))?;
        Some(Self {
            id: found.get(2)?.parse().ok()?,
            group: found.get(3)?.parse().ok()?,
        })
    }
}

/// A folder that the user can read: the programs, the sources that tests read, and a home and a temporary folder that belong to the user.
/// The workspace itself may be closed to others.
struct UserFolder {
    folder: TempDir,
    ringfence: PathBuf,
}

impl UserFolder {
    fn make(root: &Path, user: OrdinaryUser, ringfence: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("ringfence-test-")
            .tempdir()
            .context("cannot make a folder")?;
        open_to_all(folder.path())?;
        for own in ["home", "tmp"] {
            let own = folder.path().join(own);
            fs::create_dir(&own).with_context(|| format!("cannot create `{}`", own.display()))?;
            chown(&own, Some(user.id), Some(user.group)).with_context(|| format!("cannot give `{}`", own.display()))?;
        }
        let mut place = Self {
            folder,
            ringfence: PathBuf::new(),
        };
        place.ringfence = place.copy_program(ringfence)?;
        place.copy_sources(root)?;
        Ok(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Copies a program so that the user may run it.
    fn copy_program(&self, from: &Path) -> Result<PathBuf> {
        let name = from
            .file_name()
            .with_context(|| format!("`{}` has no name", from.display()))?;
        let to = self.path("bin").join(name);
        copy_readable(from, &to)?;
        open_to_all(&to)?;
        Ok(to)
    }

    /// Copies the project's files so that the user may read them.
    fn copy_sources(&self, root: &Path) -> Result<()> {
        for path in program::project_files(root)? {
            let to = self.path("source").join(&path);
            copy_readable(&root.join(&path), &to)?;
            open_to_all(&to)?;
        }
        Ok(())
    }

    /// The command of one test program as the user, in an environment without anything of the caller's.
    fn command(&self, root: &Path, test: &BuiltProgram, user: OrdinaryUser) -> Result<Command> {
        let program = self.copy_program(&test.path)?;
        let inside = test
            .folder
            .strip_prefix(root)
            .with_context(|| format!("`{}` is elsewhere", test.package))?;
        let source = self.path("source").join(inside);
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={}", user.id))
            .arg(format!("--regid={}", user.group));
        command
            .args(["--clear-groups", "--inh-caps=-all", "--"])
            .arg(program)
            .arg("--show-output");
        command.current_dir(&source).env_clear();
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("USER", USER_NAME);
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command
            .env("CARGO_MANIFEST_DIR", &source)
            .env("RINGFENCE_TEST_BIN", &self.ringfence);
        if let Some(backtrace) = env::var_os("RUST_BACKTRACE") {
            command.env("RUST_BACKTRACE", backtrace);
        }
        Ok(command)
    }
}

fn copy_readable(from: &Path, to: &Path) -> Result<()> {
    let folder = to
        .parent()
        .with_context(|| format!("`{}` has no folder", to.display()))?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    fs::copy(from, to).with_context(|| format!("cannot copy `{}`", from.display()))?;
    Ok(())
}

fn open_to_all(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot open `{}`", path.display()))
}

#[cfg(test)]
mod tests;
