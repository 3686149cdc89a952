//! Assigns credentials to servers: puts them into their headers or environment, still unresolved.

use std::collections::BTreeMap;

use super::{Auth, Problem, Server, Servers, ServersError, Source, entry};
use crate::credential::{Credential, Credentials, ServerUse, Written};

impl Servers {
    /// Adds to each server the credentials that are meant for it.
    pub fn with(mut self, credentials: &Credentials) -> Result<Servers, ServersError> {
        let mut problems = Vec::new();
        for credential in credentials {
            for one in &credential.servers {
                let problem = match self.entries.get_mut(&one.server) {
                    Some(server) => give(server, credential, one).err().map(|why| Problem {
                        server: Some(one.server.clone()),
                        message: format!("credential `{}`: {why}", credential.name),
                    }),
                    None => Some(Problem {
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
        let near = entry::nearest(server, &known).map(|near| format!("; did you mean `{near}`?"));
        format!(
            "credential `{}` is for the tools of server `{server}`, which is not configured{}",
            credential.name,
            near.unwrap_or_default()
        )
    }
}

fn give(server: &mut Server, credential: &Credential, one: &ServerUse) -> Result<(), String> {
    let from = credential.from.clone();
    let headers = match &mut server.source {
        Source::Program(program) => {
            if one.header.is_some() {
                return Err("a program has no headers; it gets the credential as a variable".to_owned());
            }
            return put(&mut program.env, credential.name.clone(), from, "variable");
        }
        Source::Remote(remote) if remote.auth == Auth::OAuth && one.header.is_none() => {
            return Err("`auth: oauth` fills `Authorization` already; name another `header`".to_owned());
        }
        Source::Remote(remote) => &mut remote.headers,
        Source::Interface(interface) => &mut interface.headers,
    };
    match &one.header {
        Some(header) => put(headers, header.as_str().to_owned(), from, "header"),
        None => put(
            headers,
            "authorization".to_owned(),
            Written::Behind("Bearer", Box::new(from)),
            "header",
        ),
    }
}

fn put(all: &mut BTreeMap<String, Written>, name: String, from: Written, what: &str) -> Result<(), String> {
    if all.keys().any(|known| known.eq_ignore_ascii_case(&name)) {
        return Err(format!("the server has a {what} `{name}` already"));
    }
    all.insert(name, from);
    Ok(())
}

#[cfg(test)]
mod tests;
