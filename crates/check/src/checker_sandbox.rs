//! The sandbox of a checker: no network, no tools, only the checker's own program and libraries.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_policy::{Ceiling, Draft, DraftRejection, ParseError};
use ringfence_sandbox::{RunProgram, Spec, SpecError, SpecOptions};
use serde_json::json;

use crate::CheckerKind;

/// The folder in the sandbox that holds the checker's configuration and the files it checks.
pub(crate) const WORKSPACE: &str = "/workspace";
const PROGRAM_PATH: &str = "/checker";
/// One of the compiler's libraries; all of them are in the same folder.
const LIBRARY_FILE: &str = "lib.es2023.d.ts";
/// The most bytes that a checker may print during its life; the checker is replaced long before it reaches this limit.
pub(crate) const MAX_OUTPUT_BYTES: u64 = 1 << 30;

/// Creates the files that must be on disk, then executes the checker; files opened later only replace their contents.
const START_SCRIPT: &str = r#"program=$1 mode=$2; shift 2
printf %s "$2" > "$1"; shift 2
for name; do
  case $name in */*) mkdir -p "${name%/*}" ;; esac
  : > "$name"
done
case $mode in
  typescript) exec "$program" --lsp --stdio ;;
  *) exec "$program" server ;;
esac"#;

/// Why the sandbox of a checker cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum CheckerSandboxError {
    /// The checker's program cannot be resolved to a file.
    #[error("cannot use `{}` as a type checker", path.display())]
    Program {
        /// The path where the checker's program was expected.
        path: PathBuf,
        /// The error that resolving the path gave.
        source: io::Error,
    },
    /// The program is a wrapper script, or a compiler that was moved away from its libraries.
    #[error("`{}` is not the native TypeScript compiler: `{LIBRARY_FILE}` does not lie beside it", path.display())]
    NoLibrary {
        /// The resolved path of the program that was taken for the compiler.
        path: PathBuf,
    },
    /// A setting of the checker's policy cannot be parsed.
    #[error("cannot write down what the checker may do")]
    Draft(#[from] ParseError),
    /// The checker's policy exceeds the ceiling.
    #[error(transparent)]
    Policy(#[from] DraftRejection),
    /// The policy cannot be turned into a sandbox specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Resolves `program` to the real path of the checker and checks that the compiler's libraries are beside it.
pub(crate) fn locate_program(kind: CheckerKind, program: &Path) -> Result<PathBuf, CheckerSandboxError> {
    let real = program.canonicalize().map_err(|source| CheckerSandboxError::Program {
        path: program.to_owned(),
        source,
    })?;
    let whole = kind == CheckerKind::Python || real.with_file_name(LIBRARY_FILE).is_file();
    if whole {
        Ok(real)
    } else {
        Err(CheckerSandboxError::NoLibrary { path: real })
    }
}

/// The specification of the sandbox for the checker at `program`.
pub(crate) fn checker_spec(kind: CheckerKind, program: &Path) -> Result<Arc<Spec>, CheckerSandboxError> {
    // The compiler reads its libraries from its own folder. ty has them built in, so the rest of its folder stays hidden.
    let (from, to) = match kind {
        CheckerKind::TypeScript => (program.parent().unwrap_or(program), PROGRAM_PATH.to_owned()),
        CheckerKind::Python => (program, path_inside(kind, program)),
    };
    let mounts = json!([
        { "path": WORKSPACE, "access": "rw", "quota": "16MiB" },
        { "path": "/tmp", "access": "rw", "quota": "16MiB" },
        { "path": to, "access": "ro", "from": from },
    ]);
    let settings = [
        ("fs.mounts", mounts.to_string()),
        // Go and ty count the processors of the machine, not the share of the sandbox.
        (
            "env",
            json!({ "GOMAXPROCS": "2", "GOMEMLIMIT": "700MiB", "TY_MAX_PARALLELISM": "2", "NO_COLOR": "1" })
                .to_string(),
        ),
        (
            "proc",
            json!({
                "cpu_quota": 2, "mem_limit": "2GiB", "wall_timeout": "24h", "cpu_time": "2h", "lifetime": "24h",
                "fork_limit": 64, "open_files": 256, "output": "1GiB",
            })
            .to_string(),
        ),
    ];
    let mut draft = Draft::builtin().with_name("checker");
    for (key, value) in &settings {
        draft = draft.set(key, value)?;
    }
    let policy = draft.under(&Ceiling::unlimited())?;
    Ok(Arc::new(Spec::new(&policy, &SpecOptions::default())?))
}

/// The path of the checker at `program` inside the sandbox.
fn path_inside(kind: CheckerKind, program: &Path) -> String {
    let name = match kind {
        CheckerKind::TypeScript => program.file_name().map_or("tsc".into(), |name| name.to_string_lossy()),
        CheckerKind::Python => "ty".into(),
    };
    format!("{PROGRAM_PATH}/{name}")
}

/// The task that starts the checker, with empty files called `names` on disk, and its arguments.
pub(crate) fn checker_task(kind: CheckerKind, program: &Path, names: &BTreeSet<String>) -> (RunProgram, Vec<String>) {
    let (config_name, config) = checker_config(kind);
    let (mode, program) = (kind.name().to_owned(), path_inside(kind, program));
    let args = [program, mode, config_name.to_owned(), config];
    let start = RunProgram::Shell {
        file_name: "checker".to_owned(),
        source: START_SCRIPT.to_owned(),
    };
    (start, args.into_iter().chain(names.iter().cloned()).collect())
}

fn checker_config(kind: CheckerKind) -> (&'static str, String) {
    match kind {
        CheckerKind::TypeScript => {
            let config = json!({
                "compilerOptions": {
                    "module": "esnext", "moduleResolution": "bundler", "moduleDetection": "force",
                    "target": "es2023", "lib": ["es2023"], "types": [], "skipLibCheck": true, "noEmit": true,
                    "strict": true, "useUnknownInCatchVariables": false, "allowUnreachableCode": true,
                },
                "files": ["index.d.ts", "program.ts"],
            });
            ("tsconfig.json", config.to_string())
        }
        CheckerKind::Python => ("ty.toml", format!("[environment]\nroot = [\"{WORKSPACE}\"]\n")),
    }
}
