//! `policy show`: the policy in force, the mechanism behind each rule, and what Ringfence adds, observed in a sandbox.

use std::process::ExitCode;

use ringfence_engine::{Engine, gateway_rules};
use ringfence_policy::{Draft, Policy, RuleEffect};
use serde::Serialize;
use serde_json::json;

use crate::args::PolicyShowArgs;
use crate::commands::inspect::{self, EnforcedRule, MountSummary, SandboxInspection};
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::Printer;
use crate::settings::CliSettings;
use crate::settings::config::Config;
use crate::settings::policy_layers;

pub(crate) async fn show_policy(
    shown: &PolicyShowArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let config = Config::find(shown.rules.config.as_deref(), settings, printer)?;
    let policy = policy_layers::policy_in_force(&shown.rules, None, &config)
        .map_err(|fault| fault.with_exit(EXIT_CHECK_FAILED))?;
    let unbuilt = policy.unsupported(&Engine::capabilities());
    let mut seen = if unbuilt.is_empty() {
        Some(inspect::inspect_sandbox(&policy, config.python.as_deref()).await)
    } else {
        None
    };
    if let Some(Ok(seen)) = &mut seen {
        let has_servers = shown.rules.servers.is_some() || !config.servers.is_empty();
        let by_gateway = gateway_rules(&policy, has_servers)
            .into_iter()
            .map(|rule| EnforcedRule {
                rule: rule.to_owned(),
                by: "gateway",
            });
        seen.enforcement.extend(by_gateway);
    }
    if shown.json {
        let mut object = policy.to_json();
        if let Some(object) = object.as_object_mut() {
            object.insert("unbuilt".to_owned(), json!(unbuilt));
            object.insert(
                "added".to_owned(),
                json!(seen.as_ref().and_then(|seen| seen.as_ref().ok())),
            );
        }
        printer.print_json(&object)?;
    } else {
        printer.print_escaped(&policy_text(
            &policy,
            seen.as_ref().and_then(|seen| seen.as_ref().ok()),
        )?)?;
    }
    for one in &unbuilt {
        printer.notice(&format!(
            "`{}` {}, so a session with this policy is refused; {}",
            one.key, one.why, one.hint
        ));
    }
    if let Some(Err(fault)) = &seen {
        printer.notice(&format!(
            "what Ringfence adds cannot be shown, no sandbox stands here: {fault}"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the policy as a file that parses to the same policy; everything else is comments.
fn policy_text(policy: &Policy, seen: Option<&SandboxInspection>) -> Result<String, CliFault> {
    let (name, digest) = (policy.name(), policy.digest());
    let draft = policy.to_draft();
    let section = |(title, lines): (&str, Vec<String>)| {
        let lines: Vec<String> = lines.iter().map(|line| format!("#   {line}\n")).collect();
        format!("\n# {title}\n{}", lines.concat())
    };
    let mut file = format!("# policy `{name}`, digest {digest}\n{}", to_yaml(&draft)?);
    let defaults = unwritten_defaults(&draft);
    if !defaults.is_empty() {
        file.push_str(&section(("in force without a key", defaults)));
    }
    let Some(seen) = seen else { return Ok(file) };
    let held = |held: &EnforcedRule| format!("{:<18} {}", held.rule, held.by);
    let sections = [
        ("held here by", seen.enforcement.iter().map(held).collect()),
        (
            "added to the environment",
            seen.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        ),
        ("added places", grouped_mounts(&seen.mounts)),
        ("always", seen.always.clone()),
    ];
    Ok(file + &sections.map(section).concat())
}

/// The effects that apply although the policy has no key for them.
fn unwritten_defaults(draft: &Draft) -> Vec<String> {
    let net = draft.net.as_ref().and_then(|net| net.default);
    let changed_tool = draft.tools.as_ref().and_then(|tools| tools.drift);
    let keys = [
        ("net.default", net, RuleEffect::Deny),
        ("tools.drift", changed_tool, RuleEffect::Ask),
    ];
    let unwritten = keys.into_iter().filter(|(_, written, _)| written.is_none());
    unwritten.map(|(key, _, effect)| format!("{key}: {effect}")).collect()
}

/// Joins mounts of one kind in one folder into one line.
fn grouped_mounts(mounts: &[MountSummary]) -> Vec<String> {
    let mut groups: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for mount in mounts {
        let (folder, name) = mount.path.rsplit_once('/').unwrap_or(("", &mount.path));
        match groups
            .iter_mut()
            .find(|(known, how, _)| *known == folder && *how == mount.how)
        {
            Some((_, _, names)) => names.push(name),
            None => groups.push((folder, &mount.how, vec![name])),
        }
    }
    let line = |(folder, how, names): (&str, &str, Vec<&str>)| match &names[..] {
        [name] => format!("{:<24} {how}", format!("{folder}/{name}")),
        names => format!("{folder}/{{{}}} {how}", names.join(",")),
    };
    groups.into_iter().map(line).collect()
}

pub(super) fn to_yaml(value: &impl Serialize) -> Result<String, CliFault> {
    serde_saphyr::to_string(value).map_err(|error| CliFault::internal("output.yaml", error.to_string()))
}
