//! The sandbox of a checker: no network, no tools, its own program and libraries, and nothing of anybody's.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_policy::{Ceiling, Draft, ParseError, TooMuch};
use ringfence_sandbox::{Options, Spec, SpecError, TaskKind};
use serde_json::json;

use crate::Kind;

/// Where a checker and what it works on lie.
pub(crate) const WORKSPACE: &str = "/workspace";
const PROGRAM: &str = "/checker";
/// One of the compiler's libraries: where it lies, the others do.
const LIBRARY: &str = "lib.es2023.d.ts";
/// What it may say in its life; it is replaced long before.
pub(crate) const OUTPUT: u64 = 1 << 30;

/// Makes the files that must be on disk, then becomes the checker: what is opened later only replaces their texts.
const START: &str = r#"program=$1 mode=$2; shift 2
printf %s "$2" > "$1"; shift 2
for name; do
  case $name in */*) mkdir -p "${name%/*}" ;; esac
  : > "$name"
done
case $mode in
  typescript) exec "$program" --lsp --stdio ;;
  *) exec "$program" server ;;
esac"#;

/// Why there is no place for a checker.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It is not where it should be.
    #[error("cannot use `{}` as a type checker", path.display())]
    Program {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A script of that name, or a compiler that was moved away from its libraries.
    #[error("`{}` is not the native TypeScript compiler: `{LIBRARY}` does not lie beside it", path.display())]
    NoLibrary {
        /// What was taken for it.
        path: PathBuf,
    },
    /// Its policy.
    #[error("cannot write down what the checker may do")]
    Draft(#[from] ParseError),
    /// Its policy, measured.
    #[error(transparent)]
    Policy(#[from] TooMuch),
    /// Its sandbox.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// The real place of the checker that is called `program`.
pub(crate) fn locate(kind: Kind, program: &Path) -> Result<PathBuf, PlaceError> {
    let real = program.canonicalize().map_err(|source| PlaceError::Program {
        path: program.to_owned(),
        source,
    })?;
    let whole = kind == Kind::Python || real.with_file_name(LIBRARY).is_file();
    if whole {
        Ok(real)
    } else {
        Err(PlaceError::NoLibrary { path: real })
    }
}

/// The sandbox of the checker at `program`.
pub(crate) fn spec(kind: Kind, program: &Path) -> Result<Arc<Spec>, PlaceError> {
    // The compiler reads its libraries beside itself; ty has them inside, and what lies beside it is not its business.
    let (from, to) = match kind {
        Kind::TypeScript => (program.parent().unwrap_or(program), PROGRAM.to_owned()),
        Kind::Python => (program, inside(kind, program)),
    };
    let mounts = json!([
        { "path": WORKSPACE, "access": "rw", "quota": "16MiB" },
        { "path": "/tmp", "access": "rw", "quota": "16MiB" },
        { "path": to, "access": "ro", "from": from },
    ]);
    let settings = [
        ("fs.mounts", mounts.to_string()),
        // Go and ty count the machine's processors, not their share of them.
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
    let mut draft = Draft::builtin().named("checker");
    for (key, value) in &settings {
        draft = draft.set(key, value)?;
    }
    let policy = draft.under(&Ceiling::own_word())?;
    Ok(Arc::new(Spec::new(&policy, &Options::default())?))
}

/// Where the checker at `program` is found inside.
fn inside(kind: Kind, program: &Path) -> String {
    let name = match kind {
        Kind::TypeScript => program.file_name().map_or("tsc".into(), |name| name.to_string_lossy()),
        Kind::Python => "ty".into(),
    };
    format!("{PROGRAM}/{name}")
}

/// What starts the checker with `names` on disk.
pub(crate) fn task(kind: Kind, program: &Path, names: &BTreeSet<String>) -> (TaskKind, Vec<String>) {
    let (config_name, config) = config(kind);
    let (mode, program) = (kind.name().to_owned(), inside(kind, program));
    let args = [program, mode, config_name.to_owned(), config];
    let start = TaskKind::Shell {
        file_name: "checker".to_owned(),
        source: START.to_owned(),
    };
    (start, args.into_iter().chain(names.iter().cloned()).collect())
}

fn config(kind: Kind) -> (&'static str, String) {
    match kind {
        Kind::TypeScript => {
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
        Kind::Python => ("ty.toml", format!("[environment]\nroot = [\"{WORKSPACE}\"]\n")),
    }
}
