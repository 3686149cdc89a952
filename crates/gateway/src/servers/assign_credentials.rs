//! Assigns credentials to servers: puts them into their headers or environment, still unresolved.

use std::collections::BTreeMap;

use super::{ConfiguredServer, RemoteAuth, ServerKind, ServerProblem, Servers, ServersError, entry};
use crate::credential::{Credential, CredentialSource, Credentials, ServerUse};

impl Servers {
    /// Adds to each server the credentials that are meant for it.
    pub fn with_credentials(mut self, credentials: &Credentials) -> Result<Servers, ServersError> {
        let mut problems = Vec::new();
        for credential in credentials {
            for one in &credential.servers {
                let problem = match self.entries.get_mut(&one.server) {
                    Some(server) => assign_credential(server, credential, one)
                        .err()
                        .map(|why| ServerProblem {
                            server: Some(one.server.clone()),
                            message: format!("credential `{}`: {why}", credential.name),
                        }),
                    None => Some(ServerProblem {
                        server: None,
                        message: self.unconfigured(credential, &one.server),
                    }),
                };
                problems.extend(problem);
            }
        }
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(ServersError { problems })
        }
    }

    /// Describes a credential for a server that is not configured.
    fn unconfigured(&self, credential: &Credential, server: &str) -> String {
        let known: Vec<&str> = self.entries.keys().map(String::as_str).collect();
        let near = entry::nearest_known(server, &known).map(|near| format!("; did you mean `{near}`?"));
        format!(
            "credential `{}` is for the tools of server `{server}`, which is not configured{}",
            credential.name,
            near.unwrap_or_default()
        )
    }
}

fn assign_credential(server: &mut ConfiguredServer, credential: &Credential, one: &ServerUse) -> Result<(), String> {
    let from = credential.from.clone();
    let headers = match &mut server.source {
        ServerKind::Program(program) => {
            if one.header.is_some() {
                return Err("a program has no headers; it gets the credential as a variable".to_owned());
            }
            return insert_value(&mut program.env, credential.name.clone(), from, "variable");
        }
        ServerKind::Remote(remote) if remote.auth == RemoteAuth::OAuth && one.header.is_none() => {
            return Err("`auth: oauth` fills `Authorization` already; name another `header`".to_owned());
        }
        ServerKind::Remote(remote) => &mut remote.headers,
        ServerKind::Interface(interface) => &mut interface.headers,
    };
    match &one.header {
        Some(header) => insert_value(headers, header.as_str().to_owned(), from, "header"),
        None => insert_value(
            headers,
            "authorization".to_owned(),
            CredentialSource::Prefixed("Bearer", Box::new(from)),
            "header",
        ),
    }
}

fn insert_value(
    all: &mut BTreeMap<String, CredentialSource>,
    name: String,
    from: CredentialSource,
    what: &str,
) -> Result<(), String> {
    if all.keys().any(|known| known.eq_ignore_ascii_case(&name)) {
        return Err(format!("the server has a {what} `{name}` already"));
    }
    all.insert(name, from);
    Ok(())
}

#[cfg(test)]
mod tests;
