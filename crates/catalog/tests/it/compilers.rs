//! The real type checkers, as `cargo xtask test` installs them: binaries below `target/tools`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The type checkers of TypeScript and Python.
pub(crate) struct Compilers {
    typescript: PathBuf,
    python: PathBuf,
}

/// The result of a checker.
pub(crate) struct Verdict {
    /// Everything that the checker printed.
    pub(crate) output: String,
    /// The lines of each file that have errors.
    pub(crate) lines: BTreeSet<(String, usize)>,
}

impl Compilers {
    /// The checkers of this workspace; `None` if they are not installed.
    pub(crate) fn find() -> Option<Compilers> {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let typescript = tools.join(format!("npm/node_modules/@typescript/typescript-linux-{arch}/lib/tsc"));
        let python = tools.join("py/bin/ty");
        (typescript.exists() && python.exists()).then_some(Compilers { typescript, python })
    }

    /// Checks files of TypeScript strictly, with the language's library and nothing else.
    pub(crate) fn typescript(&self, folder: &Path, files: &[&str]) -> Verdict {
        let options = [
            "--noEmit", "--strict", "--target", "es2023", "--lib", "es2023", "--module", "esnext",
        ];
        let more = ["--moduleDetection", "force", "--types", "", "--pretty", "false"];
        verdict(
            Command::new(&self.typescript)
                .current_dir(folder)
                .args(options)
                .args(more)
                .args(files),
        )
    }

    /// Checks files of Python.
    pub(crate) fn python(&self, folder: &Path, files: &[&str]) -> Verdict {
        let options = [
            "check",
            "--output-format",
            "concise",
            "--python-version",
            "3.11",
            "--project",
            ".",
        ];
        verdict(Command::new(&self.python).current_dir(folder).args(options).args(files))
    }
}

fn verdict(command: &mut Command) -> Verdict {
    let done = command.stdin(Stdio::null()).output().expect("a checker starts");
    let mut output = String::from_utf8_lossy(&done.stdout).into_owned();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let lines: BTreeSet<_> = output.lines().filter_map(place).collect();
    // A checker that fails without a position did not check.
    if !done.status.success() && lines.is_empty() {
        output.push_str(&said);
        return Verdict {
            lines: BTreeSet::from([(String::new(), 0)]),
            output,
        };
    }
    Verdict { output, lines }
}

/// Parses `file(12,3): error …` or `file:12:3: error…`.
fn place(line: &str) -> Option<(String, usize)> {
    let (head, _) = line.split_once(": error")?;
    let cut = head.find(['(', ':'])?;
    let number: String = head.get(cut + 1..)?.chars().take_while(char::is_ascii_digit).collect();
    Some((head.get(..cut)?.to_owned(), number.parse().ok()?))
}
