//! Finds the type checkers of this machine and tells how to install the missing ones.

use std::path::{Path, PathBuf};

/// The release of the TypeScript compiler that is known to work; the installation command asks for it.
const TYPESCRIPT_VERSION: &str = "7.0.2";
/// The release of ty that is known to work; the installation command asks for it.
const TY_VERSION: &str = "0.0.100";

/// The type checkers of this machine; programs of a language without one are not checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckerTools {
    /// The native TypeScript compiler with its libraries beside it; `None` where it is not installed.
    pub tsc: Option<PathBuf>,
    /// The Python type checker ty; `None` where it is not installed.
    pub ty: Option<PathBuf>,
}

impl CheckerTools {
    /// Looks below `home`, where the commands of [`CheckerTools::advice`] install them.
    pub fn find(home: &Path) -> CheckerTools {
        CheckerTools::find_in(&home.join("tools"))
    }

    /// Looks in a folder that holds an npm tree in `npm` and a Python environment in `py`.
    pub fn find_in(folder: &Path) -> CheckerTools {
        let npm = folder
            .join("npm/node_modules/@typescript")
            .join(compiler_package())
            .join("lib/tsc");
        let plain = |path: PathBuf| path.is_file().then_some(path);
        CheckerTools {
            tsc: plain(npm),
            ty: plain(folder.join("py/bin/ty")),
        }
    }

    /// Fills the checkers that are missing here from `found`; a path that the operator configured wins.
    #[must_use]
    pub fn with_fallback(self, found: CheckerTools) -> CheckerTools {
        CheckerTools {
            tsc: self.tsc.or(found.tsc),
            ty: self.ty.or(found.ty),
        }
    }

    /// For each missing checker, the consequence and the command that installs it.
    pub fn advice(&self, home: &Path) -> Vec<InstallAdvice> {
        let tools = home.join("tools");
        let npm = shell_quoted(&tools.join("npm"));
        let py = tools.join("py");
        let mut advice = Vec::new();
        if self.tsc.is_none() {
            advice.push(InstallAdvice {
                what: "TypeScript programs run without a type check",
                command: format!("npm install --prefix {npm} typescript@{TYPESCRIPT_VERSION}"),
                key: "runtimes.tsc",
            });
        }
        if self.ty.is_none() {
            let pip = shell_quoted(&py.join("bin/pip"));
            advice.push(InstallAdvice {
                what: "Python programs run without a type check",
                command: format!(
                    "python3 -m venv {} && {pip} install ty=={TY_VERSION}",
                    shell_quoted(&py)
                ),
                key: "runtimes.ty",
            });
        }
        advice
    }
}

/// How to install one missing checker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallAdvice {
    /// The consequence of the missing checker, as a sentence.
    pub what: &'static str,
    /// The shell command that installs the checker below the data folder.
    pub command: String,
    /// The configuration key that names a checker installed elsewhere.
    pub key: &'static str,
}

/// The name of the compiler's npm package for this machine.
fn compiler_package() -> String {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64",
        "loongarch64" => "loong64",
        other => other,
    };
    format!("typescript-linux-{machine}")
}

/// Quotes a path for a shell where it needs quotes.
fn shell_quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |one: char| one.is_alphanumeric() || "/._-+".contains(one);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
