//! The policy in force, from the user's flags, the policy file of the folder and the operator's configuration.

use std::path::{Path, PathBuf};

use ringfence_policy::{Ceiling, Draft, DraftRejection, ParseError, Policy, presets};

use super::absolute_path;
use super::config::{Config, read_text};
use super::named_files::NamedFiles;
use crate::args::PolicyArgs;
use crate::fault::{CliFault, EXIT_REFUSED, io_error_text};

/// The name of a policy file found in the current folder. Its author is untrusted, so it stays under a ceiling.
const FOUND_POLICY_FILE: &str = "sandbox.policy.yaml";
/// The mount point of the folder in the ceiling of a found policy; it is only compared, never mounted.
const CEILING_FOLDER: &str = "/folder";

/// Combines `--policy`, `--set`, `--timeout`, the folder's file and the operator's configuration into the policy in
/// force.
pub(crate) fn policy_in_force(rules: &PolicyArgs, timeout: Option<&str>, config: &Config) -> Result<Policy, CliFault> {
    let set = draft_from_flags(&rules.set, timeout)?;
    if let Some(path) = &rules.policy {
        return explicit_policy(&named_draft(path)?, &set);
    }
    let found = Path::new(FOUND_POLICY_FILE);
    if found.symlink_metadata().is_ok() {
        return found_policy(found, &set, config);
    }
    match &config.policy {
        Some(policy) => {
            check_examples(policy)?;
            let ceiling = config
                .ceiling
                .as_ref()
                .map(|ceiling| Ceiling::from_draft(ceiling.layer(&set)));
            let ceiling = ceiling.unwrap_or_else(Ceiling::unlimited);
            policy.layer(&set).under(&ceiling).map_err(|error| {
                ceiling_fault(
                    &error,
                    "the operator's `policy` must stay under the operator's `ceiling`",
                )
            })
        }
        None => explicit_policy(&Draft::builtin(), &set),
    }
}

/// The policy with every public host open that no denylist names, to observe what a program asks for. The operator's
/// ceiling still applies.
pub(crate) fn observing_policy(policy: &Policy, config: &Config) -> Result<Policy, CliFault> {
    let open = policy
        .to_draft()
        .set("net", "{ enabled: true, default: allow }")
        .map_err(parse_fault)?;
    let ceiling = config
        .ceiling
        .as_ref()
        .map_or_else(Ceiling::unlimited, Ceiling::from_draft);
    open.with_name(policy.name()).under(&ceiling).map_err(|error| {
        let hint = "`--learn` lets a program reach every public host, which the operator's `ceiling` does not";
        ceiling_fault(&error, hint)
    })
}

/// Refuses a tool server's policy with more network than the operator's ceiling. The rest of the policy has no ceiling: a
/// server needs folders and memory that no session does.
pub(crate) fn network_under_ceiling(draft: &Draft, config: &Config) -> Result<(), CliFault> {
    let Some(ceiling) = &config.ceiling else {
        return Ok(());
    };
    let Err(error) = draft.clone().under(&Ceiling::from_draft(ceiling.clone())) else {
        return Ok(());
    };
    let excess = error.keys.iter().find(|excess| excess.key.starts_with("net"));
    excess.map_or(Ok(()), |excess| {
        Err(CliFault::internal("policy.ceiling", excess.to_string())
            .with_hint("take it out of the server's policy, or add it to the operator's `ceiling`"))
    })
}

/// A policy without a ceiling above it.
pub(crate) fn policy_without_ceiling(draft: &Draft) -> Result<Policy, CliFault> {
    explicit_policy(draft, &Draft::empty())
}

/// Loads a policy that the user names: a preset or a file.
pub(crate) fn named_draft(path: &Path) -> Result<Draft, CliFault> {
    let name = path.to_string_lossy();
    match Draft::preset(&name) {
        Some(preset) => Ok(preset),
        None => draft_from_file(path),
    }
}

/// As [`named_draft`], but the fault lists all errors of the file.
pub(crate) fn named_draft_with_all_errors(path: &Path) -> Result<Draft, CliFault> {
    if Draft::preset(&path.to_string_lossy()).is_some() {
        return named_draft(path);
    }
    let text = read_policy(path, &NamedFiles::default())?;
    match Draft::parse_all(&text, &path.display().to_string()) {
        Err(errors) if errors.len() > 1 => {
            let lines = errors.iter().map(|error| format!("  {error}"));
            let message = format!(
                "`{}` has {} errors:\n{}",
                path.display(),
                errors.len(),
                lines.collect::<Vec<_>>().join("\n")
            );
            Err(CliFault::refused("policy.parse", message))
        }
        _ => named_draft(path),
    }
}

fn read_policy(path: &Path, files: &NamedFiles) -> Result<String, CliFault> {
    files.read_text(path, "policy.read").map_err(|fault| {
        let presets: Vec<&str> = presets().collect();
        fault
            .with_exit(EXIT_REFUSED)
            .with_hint(format!("name a policy file, or a preset: {}", presets.join(", ")))
    })
}

/// Loads a file that the user names; host folders in it are relative to the file.
fn draft_from_file(path: &Path) -> Result<Draft, CliFault> {
    named_file_draft(path, &NamedFiles::default())
}

/// As [`draft_from_file`], for a file that a configuration names: one that was read already is not read again.
pub(crate) fn named_file_draft(path: &Path, files: &NamedFiles) -> Result<Draft, CliFault> {
    let text = read_policy(path, files)?;
    let draft = Draft::parse(&text, &path.display().to_string()).map_err(parse_fault)?;
    let folder = absolute_path(path)?.parent().map(Path::to_owned).unwrap_or_default();
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
fn draft_from_flags(set: &[String], timeout: Option<&str>) -> Result<Draft, CliFault> {
    let mut draft = Draft::empty();
    for change in set {
        let Some((key, value)) = change.split_once('=') else {
            let fault = CliFault::refused("policy.parse", format!("--set {change}: there is no `=`"));
            return Err(fault.with_hint("write it like `--set proc.mem_limit=1GiB`"));
        };
        draft = draft.set(key.trim(), value).map_err(parse_fault)?;
    }
    let says_own_time = draft.proc.as_ref().is_some_and(|proc| proc.wall_timeout.is_some());
    if let Some(timeout) = timeout.filter(|_| !says_own_time) {
        draft = draft.set("proc.wall_timeout", timeout).map_err(|error| {
            let fault = CliFault::refused("policy.parse", format!("--timeout {timeout}: {}", error.message));
            fault
                .with_rule("proc.wall_timeout")
                .with_hint("write it like `--timeout 30s`")
        })?;
    }
    let here = absolute_path(Path::new("."))?;
    Ok(relative_to(draft, &here))
}

fn explicit_policy(draft: &Draft, set: &Draft) -> Result<Policy, CliFault> {
    check_examples(draft)?;
    let hint = "correct the key that is named";
    draft
        .layer(set)
        .under(&Ceiling::unlimited())
        .map_err(|error| ceiling_fault(&error, hint))
}

/// Loads a found file: it stays under the ceiling and mounts nothing outside its folder. `--set` is explicit policy of
/// the user, so it also raises the ceiling.
fn found_policy(path: &Path, set: &Draft, config: &Config) -> Result<Policy, CliFault> {
    if !path.metadata().is_ok_and(|found| found.is_file()) {
        let message = format!("`./{FOUND_POLICY_FILE}` is not a plain file");
        return Err(
            CliFault::refused("policy.read", message).with_hint("remove it, or choose a policy with `--policy`")
        );
    }
    let text = read_text(path, "policy.read").map_err(|fault| {
        fault
            .with_exit(EXIT_REFUSED)
            .with_hint("choose a policy with `--policy`")
    })?;
    let draft = Draft::parse(&text, FOUND_POLICY_FILE).map_err(parse_fault)?;
    check_examples(&draft)?;
    let folder = std::fs::canonicalize(".").map_err(|error| {
        CliFault::refused(
            "policy.read",
            format!("cannot tell where the current folder is: {}", io_error_text(&error)),
        )
    })?;
    let draft = require_below(draft, &folder)?;
    let top = found_policy_ceiling(config, &folder)?.layer(set);
    draft.layer(set).under(&Ceiling::from_draft(top)).map_err(|error| {
        let hint = format!(
            "`./{FOUND_POLICY_FILE}` was found, not chosen: if you mean it, say `--policy ./{FOUND_POLICY_FILE}`, or widen `ceiling` in your `ringfence.yaml`"
        );
        ceiling_fault(&error, hint)
    })
}

/// The ceiling of a found file: the operator's ceiling, else the operator's policy, else the built-in default. If the
/// ceiling does not mention files, the file's own folder may be mounted read-only.
fn found_policy_ceiling(config: &Config, folder: &Path) -> Result<Draft, CliFault> {
    let top = config
        .ceiling
        .as_ref()
        .or(config.policy.as_ref())
        .cloned()
        .unwrap_or_else(Draft::builtin);
    let says_files = config.ceiling.as_ref().is_some_and(|ceiling| ceiling.fs.is_some());
    match folder.to_str() {
        Some(folder) if !says_files => {
            let mount = serde_json::json!([{ "path": CEILING_FOLDER, "access": "ro", "from": folder }]);
            top.set("fs.mounts", &mount.to_string()).map_err(parse_fault)
        }
        _ => Ok(top),
    }
}

fn require_below(mut draft: Draft, folder: &Path) -> Result<Draft, CliFault> {
    for mount in draft.fs.iter_mut().flat_map(|fs| &mut fs.mounts) {
        let Some(from) = mount.from.as_mut() else { continue };
        let rule = format!("fs.mounts[{}].from", mount.path);
        let refused = |why: &str, shown: &PathBuf| {
            let message = format!("`./{FOUND_POLICY_FILE}` shows `{}`, {why}", shown.display());
            CliFault::refused("policy.mount", message).with_rule(rule.clone())
        };
        match std::fs::canonicalize(folder.join(&*from)) {
            Ok(real) if real.starts_with(folder) => *from = real,
            Ok(_) => {
                return Err(refused("which lies outside its folder", from).with_hint(format!(
                    "show a folder below it, or choose the file yourself with `--policy ./{FOUND_POLICY_FILE}`"
                )));
            }
            Err(error) => {
                return Err(
                    refused(&format!("which cannot be looked at: {}", io_error_text(&error)), from)
                        .with_hint("name a folder that exists"),
                );
            }
        }
    }
    Ok(draft)
}

/// A layered draft loses its examples, so they are checked before.
fn check_examples(draft: &Draft) -> Result<(), CliFault> {
    draft.check_examples().map_err(|failed| {
        let lines: Vec<String> = failed.iter().map(|example| format!("  {example}")).collect();
        let message = format!(
            "policy `{}` does not keep its own examples:\n{}",
            draft.name,
            lines.join("\n")
        );
        CliFault::refused("policy.example", message)
            .with_rule("examples")
            .with_hint("correct the rule or the example")
    })
}

/// Converts a parse error of a policy into a fault with its position.
pub(crate) fn parse_fault(error: ParseError) -> CliFault {
    let place = match error.line {
        // A flag has no line numbers.
        _ if error.file.starts_with("--") => error.file,
        0 => error.file,
        line => format!("{}:{line}:{}", error.file, error.column),
    };
    CliFault {
        hint: error.hint,
        ..CliFault::refused("policy.parse", format!("{place}: {}", error.message))
    }
}

fn ceiling_fault(error: &DraftRejection, otherwise: impl Into<String>) -> CliFault {
    let keys = error.keys.iter().map(|key| format!("  {key}"));
    let bounds = error.bounds.iter().map(|one| format!("  {one}"));
    let examples = error.examples.iter().map(|example| format!("  {example}"));
    let lines: Vec<String> = keys.chain(bounds).chain(examples).collect();
    let message = format!("policy `{}` is refused:\n{}", error.name, lines.join("\n"));
    let fault = CliFault::refused(error.code(), message).with_rule(error.rule());
    // Bounds that no ceiling can change have a hint of their own.
    match error.code() {
        "policy.bounds" => fault.with_hint(error.hint()),
        _ => fault.with_hint(otherwise),
    }
}
