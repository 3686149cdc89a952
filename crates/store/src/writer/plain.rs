//! Events that only add to their chains: one statement, which is a commit of its own.

use std::collections::HashMap;

use ringfence_journal::{Record, Recorded, SessionId};
use rusqlite::{Connection, params_from_iter};

use super::batch::{INSERT, answer, values};
use super::{Answer, Chain, Command, project};

/// Up to so many rows the statement is kept, for it will be wanted again.
const KEPT: usize = 8;

/// The records of a commit that writes nothing else.
pub(super) struct Plain {
    pub(super) records: Vec<Record>,
    /// New ends of their chains.
    pub(super) changed: HashMap<SessionId, Chain>,
}

impl Plain {
    /// The records of `commands`, if each of them only adds to a chain that this process owns.
    pub(super) fn of(commands: &[Command], owned: &HashMap<SessionId, Chain>) -> Option<Plain> {
        let mut plain = Plain {
            records: Vec::with_capacity(commands.len()),
            changed: HashMap::new(),
        };
        for command in commands {
            let Command::Record { event, .. } = command else {
                return None;
            };
            if event.kind.is_signed() || project::changes(event) {
                return None;
            }
            let chain = plain
                .changed
                .get(&event.session)
                .or_else(|| owned.get(&event.session))?;
            let record = chain.link.next(event).ok()?;
            let next = Chain {
                link: record.link(),
                ..*chain
            };
            plain.changed.insert(event.session, next);
            plain.records.push(record);
        }
        Some(plain)
    }

    /// Commits them all or none. Without a transaction around it, a statement begins as `BEGIN IMMEDIATE` does.
    pub(super) fn insert(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let more = ", (?, ?, ?, ?, ?)".repeat(self.records.len().saturating_sub(1));
        let statement = format!("{INSERT}{more}");
        let values = params_from_iter(self.records.iter().flat_map(values));
        if self.records.len() <= KEPT {
            connection.prepare_cached(&statement)?.execute(values).map(drop)
        } else {
            connection.prepare(&statement)?.execute(values).map(drop)
        }
    }

    /// Keeps the answers to `commands`, which these records are of.
    pub(super) fn settle(&self, commands: Vec<Command>, answers: &mut Vec<Answer>) {
        for (command, record) in commands.into_iter().zip(&self.records) {
            if let Command::Record { reply, .. } = command {
                let recorded = Recorded {
                    seq: record.seq,
                    hash: record.hash,
                };
                answer(reply, Ok(recorded), answers);
            }
        }
    }
}
