//! The tool servers of the configuration and of `--servers`, with the policies that their entries name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ringfence_gateway::{EnvironmentLookup, ServerKind, Servers, ServersError, StdioPlacement};
use ringfence_policy::Policy;

use super::absolute_path;
use super::config::{Config, read_text};
use super::named_files::NamedFiles;
use super::policy_layers;
use crate::args::PolicyArgs;
use crate::fault::CliFault;
use crate::print::Printer;

/// The tool servers of a command and the policies they run under.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolvedServers {
    /// The servers of the configuration and of `--servers`, by name.
    pub(crate) servers: Servers,
    /// The policies of the servers that run in a sandbox of their own, by server name.
    pub(crate) policies: BTreeMap<String, Policy>,
}

impl ResolvedServers {
    /// Combines the servers of the configuration and of `--servers`; a name may occur in only one of them.
    pub(crate) fn resolve(rules: &PolicyArgs, config: &Config) -> Result<ResolvedServers, CliFault> {
        let mut servers = config.servers.clone();
        let beside =
            |path: &Path| Ok::<_, CliFault>(absolute_path(path)?.parent().map(Path::to_owned).unwrap_or_default());
        let folder = config.path.as_deref().map(beside).transpose()?.unwrap_or_default();
        let mut policies = server_policies(&servers, &folder, &config.files, config)?;
        if let Some(path) = &rules.servers {
            let name = path.display().to_string();
            let text = read_text(path, "servers.read")
                .map_err(|fault| fault.with_hint("name a JSON or YAML file with `mcpServers` in it"))?;
            let folder = beside(path)?;
            let more = Servers::parse(&text, &folder).map_err(|error| servers_fault(&name, &error))?;
            policies.extend(server_policies(&more, &folder, &NamedFiles::default(), config)?);
            servers = servers.merge(more).map_err(|error| servers_fault(&name, &error))?;
        }
        let servers = servers.with_credentials(&config.credentials).map_err(|error| {
            let name = config.path.as_deref().unwrap_or(Path::new("ringfence.yaml"));
            servers_fault(&name.display().to_string(), &error)
        })?;
        Ok(ResolvedServers { servers, policies })
    }

    /// Prints the notices about the servers that a command uses, above all which ones run outside a sandbox.
    pub(crate) fn print_notices(&self, used: impl Fn(&str) -> bool, printer: &Printer) {
        for notice in self.servers.notices() {
            if used(notice.server()) {
                printer.notice(&notice.to_string());
            }
        }
    }
}

/// Prints the credentials for which a session would have a variable without a value behind it.
pub(crate) fn say_missing(policy: &Policy, config: &Config, printer: &Printer) {
    if policy.net().enabled != Some(true) {
        return;
    }
    for (name, why) in config.credentials.missing(&environment()) {
        printer.notice(&format!(
            "credential `{name}`: {why}; requests that need it are refused until it is there"
        ));
    }
}

/// Loads the policies that entries name: presets, or files relative to the document.
fn server_policies(
    servers: &Servers,
    folder: &Path,
    files: &NamedFiles,
    config: &Config,
) -> Result<BTreeMap<String, Policy>, CliFault> {
    let mut policies = BTreeMap::new();
    for server in servers.iter() {
        if let ServerKind::Program(program) = &server.source
            && let StdioPlacement::Sandbox(policy) = &program.place
        {
            let preset = ringfence_policy::Draft::preset(policy).map(Ok);
            let draft = preset.unwrap_or_else(|| policy_layers::named_file_draft(&folder.join(policy), files));
            let found = draft.and_then(|draft| {
                policy_layers::network_under_ceiling(&draft, config)?;
                policy_layers::policy_without_ceiling(&draft)
            });
            let policy = found.map_err(|fault| CliFault {
                message: format!("server `{}`: {}", server.name, fault.message),
                ..fault
            })?;
            policies.insert(server.name.clone(), policy);
        }
    }
    Ok(policies)
}

/// The fault for an invalid document of servers.
pub(crate) fn servers_fault(path: &str, error: &ServersError) -> CliFault {
    CliFault::internal("servers.parse", format!("{path}: {error}"))
        .with_hint("each server is `{ command, args, env, policy }`, `{ url, headers, auth }` or `{ openapi }`")
}

/// The environment variables that entries of servers may refer to.
pub(crate) fn environment() -> EnvironmentLookup {
    Arc::new(super::environment_variable)
}
