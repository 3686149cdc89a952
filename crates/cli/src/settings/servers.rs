//! The tool servers of the configuration and of `--servers`, with the policies that their entries name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ringfence_gateway::{Environment, Place, Servers, ServersError, Source};
use ringfence_policy::Policy;

use super::absolute;
use super::config::{Config, read_text};
use super::rules;
use crate::args::Rules;
use crate::fault::Fault;
use crate::print::Printer;

/// The tool servers of a command and the policies they run under.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chosen {
    /// The servers of the configuration and of `--servers`, by name.
    pub(crate) servers: Servers,
    /// The policies of the servers that run in a sandbox of their own, by server name.
    pub(crate) policies: BTreeMap<String, Policy>,
}

impl Chosen {
    /// Combines the servers of the configuration and of `--servers`; a name may occur in only one of them.
    pub(crate) fn of(rules: &Rules, config: &Config) -> Result<Chosen, Fault> {
        let mut servers = config.servers.clone();
        let beside = |path: &Path| Ok::<_, Fault>(absolute(path)?.parent().map(Path::to_owned).unwrap_or_default());
        let folder = config.path.as_deref().map(beside).transpose()?.unwrap_or_default();
        let mut policies = policies(&servers, &folder, config)?;
        if let Some(path) = &rules.servers {
            let name = path.display().to_string();
            let text = read_text(path, "servers.read")
                .map_err(|fault| fault.hint("name a JSON or YAML file with `mcpServers` in it"))?;
            let folder = beside(path)?;
            let more = Servers::parse(&text, &folder).map_err(|error| unread(&name, &error))?;
            policies.extend(self::policies(&more, &folder, config)?);
            servers = servers.and(more).map_err(|error| unread(&name, &error))?;
        }
        let servers = servers.with(&config.credentials).map_err(|error| {
            let name = config.path.as_deref().unwrap_or(Path::new("ringfence.yaml"));
            unread(&name.display().to_string(), &error)
        })?;
        Ok(Chosen { servers, policies })
    }

    /// Prints the notices about the servers, above all which ones run outside a sandbox.
    pub(crate) fn say(&self, printer: &Printer) {
        for notice in self.servers.notices() {
            printer.notice(&notice.to_string());
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
fn policies(servers: &Servers, folder: &Path, config: &Config) -> Result<BTreeMap<String, Policy>, Fault> {
    let mut policies = BTreeMap::new();
    for server in servers.iter() {
        if let Source::Program(program) = &server.source
            && let Place::Sandbox(policy) = &program.place
        {
            let preset = ringfence_policy::Draft::preset(policy).map(Ok);
            let draft = preset.unwrap_or_else(|| rules::own_file(&folder.join(policy)));
            let found = draft.and_then(|draft| {
                rules::network_under_ceiling(&draft, config)?;
                rules::alone(&draft)
            });
            let policy = found.map_err(|fault| Fault {
                message: format!("server `{}`: {}", server.name, fault.message),
                ..fault
            })?;
            policies.insert(server.name.clone(), policy);
        }
    }
    Ok(policies)
}

/// The fault for an invalid document of servers.
pub(crate) fn unread(path: &str, error: &ServersError) -> Fault {
    Fault::ours("servers.parse", format!("{path}: {error}"))
        .hint("each server is `{ command, args, env, policy }`, `{ url, headers, auth }` or `{ openapi }`")
}

/// The environment variables that entries of servers may refer to.
pub(crate) fn environment() -> Environment {
    Arc::new(super::variable)
}
