//! Files that an execution left: as a model may see them, and as their owner does.

use std::path::Path;
use std::sync::{Arc, Weak};

use ringfence_gateway::{Screen, ScreenError};
use ringfence_journal::SessionId;
use ringfence_policy::{PiiMode, Policy};
use ringfence_sandbox::Collected;
use serde_json::Value;

use super::{blocked, words};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::ErrorReport;
use crate::rules::Rules;
use crate::session::Session;

/// The longest file in which aliases become values.
const MOST_REVEALED: u64 = 64 << 20;
/// Bytes by which text is told from anything else.
const LOOKED_AT: usize = 8192;

/// What a client's reads of a run go through.
#[derive(Debug, Clone)]
pub(crate) struct Through {
    pub(crate) screen: Arc<Screen>,
    /// What held when the run began.
    pub(crate) policy: Arc<Policy>,
    /// What can be changed, for as long as the session is there.
    pub(crate) rules: Weak<Rules>,
    pub(crate) draft: Option<Value>,
    pub(crate) session: SessionId,
}

impl Through {
    /// The rules in force by now; once the session is over, those that it had.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        match self.rules.upgrade() {
            Some(rules) => rules.policy_of(self.draft.as_ref()),
            None => Arc::clone(&self.policy),
        }
    }
}

/// Whether bytes are no text of any coding.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(LOOKED_AT).any(|byte| *byte == 0)
}

impl Engine {
    /// What a model may see of a file that an execution left.
    pub(crate) async fn shown_file(
        &self,
        seen: &Through,
        bytes: Vec<u8>,
    ) -> Result<Result<Vec<u8>, ErrorReport>, ScreenError> {
        let sight = seen.screen.sight(&seen.policy()).await?;
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            // Text of another coding is text: what is no letter here is marked.
            Err(error) if !is_binary(error.as_bytes()) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            Err(_) if sight.rules().pii == PiiMode::Block => {
                let what = "a file that is no text cannot be looked into, and is held back";
                return Ok(Err(blocked(what)));
            }
            Err(error) => return Ok(Ok(error.into_bytes())),
        };
        let shown = seen
            .screen
            .show_text((&self.store, seen.session), &sight, &text, 0)
            .await?;
        Ok(match shown.shown {
            Some(text) => Ok(text.into_bytes()),
            None => Err(blocked(&format!(
                "the file is held back: it has personal data ({})",
                words(&shown.found)
            ))),
        })
    }

    /// Puts values in place of aliases in the files that went to their owner.
    pub(crate) async fn reveal_files(
        &self,
        session: &Session,
        collected: &Collected,
        to: &Path,
    ) -> Result<(), RunError> {
        for file in &collected.files {
            if file.bytes > MOST_REVEALED {
                continue;
            }
            let path = to.join(file.path.as_str());
            let read = path.clone();
            let text = tokio::task::spawn_blocking(move || std::fs::read(read)).await;
            let text = text
                .map_err(std::io::Error::other)
                .and_then(|read| read)
                .map_err(RunError::Whole)?;
            let Ok(text) = String::from_utf8(text) else { continue };
            if !text.contains('‹') {
                continue;
            }
            let revealed = session.screen.reveal(&text).await;
            if revealed != text {
                let written = tokio::task::spawn_blocking(move || std::fs::write(path, revealed)).await;
                written
                    .map_err(std::io::Error::other)
                    .and_then(|written| written)
                    .map_err(RunError::Whole)?;
            }
        }
        Ok(())
    }
}
