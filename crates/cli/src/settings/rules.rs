//! The policy in force, from the user's flags, the policy file of the folder and the operator's configuration.

use std::path::{Path, PathBuf};

use ringfence_policy::{Ceiling, Draft, ParseError, Policy, TooMuch, presets};

use super::absolute;
use super::config::{Config, read_text};
use crate::args::Rules;
use crate::fault::{Fault, REFUSED, reason};

/// The name of a policy file found in the current folder. Its author is untrusted, so it stays under a ceiling.
const FOUND: &str = "sandbox.policy.yaml";
/// The mount point of the folder in the ceiling of a found policy; it is only compared, never mounted.
const FOLDER: &str = "/folder";

/// Combines `--policy`, `--set`, `--timeout`, the folder's file and the operator's configuration into the policy in
/// force.
pub(crate) fn in_force(rules: &Rules, timeout: Option<&str>, config: &Config) -> Result<Policy, Fault> {
    let set = changes(&rules.set, timeout)?;
    if let Some(path) = &rules.policy {
        return own_word(&named(path)?, &set);
    }
    let found = Path::new(FOUND);
    if found.symlink_metadata().is_ok() {
        return under_ceiling(found, &set, config);
    }
    match &config.policy {
        Some(policy) => {
            check_examples(policy)?;
            let ceiling = config
                .ceiling
                .as_ref()
                .map(|ceiling| Ceiling::from_draft(ceiling.layer(&set)));
            let ceiling = ceiling.unwrap_or_else(Ceiling::own_word);
            policy.layer(&set).under(&ceiling).map_err(|error| {
                too_much(
                    &error,
                    "the operator's `policy` must stay under the operator's `ceiling`",
                )
            })
        }
        None => own_word(&Draft::builtin(), &set),
    }
}

/// The policy with every public host open that no denylist names, to observe what a program asks for. The operator's
/// ceiling still applies.
pub(crate) fn observing(policy: &Policy, config: &Config) -> Result<Policy, Fault> {
    let open = policy
        .to_draft()
        .set("net", "{ enabled: true, default: allow }")
        .map_err(unparsed)?;
    let ceiling = config
        .ceiling
        .as_ref()
        .map_or_else(Ceiling::own_word, Ceiling::from_draft);
    open.named(policy.name()).under(&ceiling).map_err(|error| {
        let hint = "`--learn` lets a program reach every public host, which the operator's `ceiling` does not";
        too_much(&error, hint)
    })
}

/// Refuses a tool server's policy with more network than the operator's ceiling. The rest of the policy has no ceiling: a
/// server needs folders and memory that no session does.
pub(crate) fn network_under_ceiling(draft: &Draft, config: &Config) -> Result<(), Fault> {
    let Some(ceiling) = &config.ceiling else {
        return Ok(());
    };
    let Err(error) = draft.clone().under(&Ceiling::from_draft(ceiling.clone())) else {
        return Ok(());
    };
    let excess = error.keys.iter().find(|excess| excess.key.starts_with("net"));
    excess.map_or(Ok(()), |excess| {
        Err(Fault::ours("policy.ceiling", excess.to_string())
            .hint("take it out of the server's policy, or add it to the operator's `ceiling`"))
    })
}

/// A policy without a ceiling above it.
pub(crate) fn alone(draft: &Draft) -> Result<Policy, Fault> {
    own_word(draft, &Draft::empty())
}

/// Loads a policy that the user names: a preset or a file.
pub(crate) fn named(path: &Path) -> Result<Draft, Fault> {
    let name = path.to_string_lossy();
    match Draft::preset(&name) {
        Some(preset) => Ok(preset),
        None => own_file(path),
    }
}

/// As [`named`], but the fault lists all errors of the file.
pub(crate) fn named_with_all_errors(path: &Path) -> Result<Draft, Fault> {
    if Draft::preset(&path.to_string_lossy()).is_some() {
        return named(path);
    }
    let text = read_policy(path)?;
    match Draft::parse_all(&text, &path.display().to_string()) {
        Err(errors) if errors.len() > 1 => {
            let lines = errors.iter().map(|error| format!("  {error}"));
            let message = format!(
                "`{}` has {} errors:\n{}",
                path.display(),
                errors.len(),
                lines.collect::<Vec<_>>().join("\n")
            );
            Err(Fault::refused("policy.parse", message))
        }
        _ => named(path),
    }
}

fn read_policy(path: &Path) -> Result<String, Fault> {
    read_text(path, "policy.read").map_err(|fault| {
        let presets: Vec<&str> = presets().collect();
        fault
            .exit(REFUSED)
            .hint(format!("name a policy file, or a preset: {}", presets.join(", ")))
    })
}

/// Loads a file that the user or operator names; host folders in it are relative to the file.
pub(crate) fn own_file(path: &Path) -> Result<Draft, Fault> {
    let text = read_policy(path)?;
    let draft = Draft::parse(&text, &path.display().to_string()).map_err(unparsed)?;
    let folder = absolute(path)?.parent().map(Path::to_owned).unwrap_or_default();
    Ok(relative_to(draft, &folder))
}

/// Resolves the host folders of the draft relative to `folder`.
pub(crate) fn relative_to(mut draft: Draft, folder: &Path) -> Draft {
    for from in draft
        .fs
        .iter_mut()
        .flat_map(|fs| &mut fs.mounts)
        .filter_map(|mount| mount.from.as_mut())
    {
        *from = folder.join(&*from).components().collect();
    }
    draft
}

/// The keys of `--set` and `--timeout` as a separate draft.
fn changes(set: &[String], timeout: Option<&str>) -> Result<Draft, Fault> {
    let mut draft = Draft::empty();
    for change in set {
        let Some((key, value)) = change.split_once('=') else {
            let fault = Fault::refused("policy.parse", format!("--set {change}: there is no `=`"));
            return Err(fault.hint("write it like `--set proc.mem_limit=1GiB`"));
        };
        draft = draft.set(key.trim(), value).map_err(unparsed)?;
    }
    let says_own_time = draft.proc.as_ref().is_some_and(|proc| proc.wall_timeout.is_some());
    if let Some(timeout) = timeout.filter(|_| !says_own_time) {
        draft = draft.set("proc.wall_timeout", timeout).map_err(|error| {
            let fault = Fault::refused("policy.parse", format!("--timeout {timeout}: {}", error.message));
            fault.rule("proc.wall_timeout").hint("write it like `--timeout 30s`")
        })?;
    }
    let here = absolute(Path::new("."))?;
    Ok(relative_to(draft, &here))
}

fn own_word(draft: &Draft, set: &Draft) -> Result<Policy, Fault> {
    check_examples(draft)?;
    let hint = "correct the key that is named";
    draft
        .layer(set)
        .under(&Ceiling::own_word())
        .map_err(|error| too_much(&error, hint))
}

/// Loads a found file: it stays under the ceiling and mounts nothing outside its folder. `--set` is explicit policy of
/// the user, so it also raises the ceiling.
fn under_ceiling(path: &Path, set: &Draft, config: &Config) -> Result<Policy, Fault> {
    if !path.metadata().is_ok_and(|found| found.is_file()) {
        let message = format!("`./{FOUND}` is not a plain file");
        return Err(Fault::refused("policy.read", message).hint("remove it, or choose a policy with `--policy`"));
    }
    let text =
        read_text(path, "policy.read").map_err(|fault| fault.exit(REFUSED).hint("choose a policy with `--policy`"))?;
    let draft = Draft::parse(&text, FOUND).map_err(unparsed)?;
    check_examples(&draft)?;
    let folder = std::fs::canonicalize(".").map_err(|error| {
        Fault::refused(
            "policy.read",
            format!("cannot tell where the current folder is: {}", reason(&error)),
        )
    })?;
    let draft = stay_below(draft, &folder)?;
    let top = ceiling(config, &folder)?.layer(set);
    draft.layer(set).under(&Ceiling::from_draft(top)).map_err(|error| {
        let hint = format!(
            "`./{FOUND}` was found, not chosen: if you mean it, say `--policy ./{FOUND}`, or widen `ceiling` in your `ringfence.yaml`"
        );
        too_much(&error, hint)
    })
}

/// The ceiling of a found file: the operator's ceiling, else the operator's policy, else the built-in default. If the
/// ceiling does not mention files, the file's own folder may be mounted read-only.
fn ceiling(config: &Config, folder: &Path) -> Result<Draft, Fault> {
    let top = config
        .ceiling
        .as_ref()
        .or(config.policy.as_ref())
        .cloned()
        .unwrap_or_else(Draft::builtin);
    let says_files = config.ceiling.as_ref().is_some_and(|ceiling| ceiling.fs.is_some());
    match folder.to_str() {
        Some(folder) if !says_files => {
            let mount = serde_json::json!([{ "path": FOLDER, "access": "ro", "from": folder }]);
            top.set("fs.mounts", &mount.to_string()).map_err(unparsed)
        }
        _ => Ok(top),
    }
}

fn stay_below(mut draft: Draft, folder: &Path) -> Result<Draft, Fault> {
    for mount in draft.fs.iter_mut().flat_map(|fs| &mut fs.mounts) {
        let Some(from) = mount.from.as_mut() else { continue };
        let rule = format!("fs.mounts[{}].from", mount.path);
        let refused = |why: &str, shown: &PathBuf| {
            let message = format!("`./{FOUND}` shows `{}`, {why}", shown.display());
            Fault::refused("policy.mount", message).rule(rule.clone())
        };
        match std::fs::canonicalize(folder.join(&*from)) {
            Ok(real) if real.starts_with(folder) => *from = real,
            Ok(_) => {
                return Err(refused("which lies outside its folder", from).hint(format!(
                    "show a folder below it, or choose the file yourself with `--policy ./{FOUND}`"
                )));
            }
            Err(error) => {
                return Err(refused(&format!("which cannot be looked at: {}", reason(&error)), from)
                    .hint("name a folder that exists"));
            }
        }
    }
    Ok(draft)
}

/// A layered draft loses its examples, so they are checked before.
fn check_examples(draft: &Draft) -> Result<(), Fault> {
    draft.check_examples().map_err(|failed| {
        let lines: Vec<String> = failed.iter().map(|example| format!("  {example}")).collect();
        let message = format!(
            "policy `{}` does not keep its own examples:\n{}",
            draft.name,
            lines.join("\n")
        );
        Fault::refused("policy.example", message)
            .rule("examples")
            .hint("correct the rule or the example")
    })
}

/// Converts a parse error of a policy into a fault with its position.
pub(crate) fn unparsed(error: ParseError) -> Fault {
    let place = match error.line {
        // A flag has no line numbers.
        _ if error.file.starts_with("--") => error.file,
        0 => error.file,
        line => format!("{}:{line}:{}", error.file, error.column),
    };
    Fault {
        hint: error.hint,
        ..Fault::refused("policy.parse", format!("{place}: {}", error.message))
    }
}

fn too_much(error: &TooMuch, otherwise: impl Into<String>) -> Fault {
    let keys = error.keys.iter().map(|key| format!("  {key}"));
    let bounds = error.bounds.iter().map(|one| format!("  {one}"));
    let examples = error.examples.iter().map(|example| format!("  {example}"));
    let lines: Vec<String> = keys.chain(bounds).chain(examples).collect();
    let message = format!("policy `{}` is refused:\n{}", error.name, lines.join("\n"));
    let fault = Fault::refused(error.code(), message).rule(error.rule());
    // Bounds that no ceiling can change have a hint of their own.
    match error.code() {
        "policy.bounds" => fault.hint(error.hint()),
        _ => fault.hint(otherwise),
    }
}
