//! Reveals what an alias stands for to a person, after recording that.

use ringfence_journal::{CleanText, Event, EventKind, ExecutionId, Recorder as _, SessionId};

use crate::error::OperationError;
use crate::sessions::Sessions;
use crate::sessions::context::ExecutionContext;

impl Sessions {
    /// The value of an alias, if the session made it and is not over. The event is in a session of its own: the alias's session may belong
    /// to another process, which alone writes its chain.
    pub async fn reveal_alias(
        &self,
        of: &ringfence_store::Session,
        alias: &str,
    ) -> Result<Option<String>, OperationError> {
        let bare = alias.trim().trim_start_matches('‹').trim_end_matches('›');
        let alias = format!("‹{bare}›");
        let value = self.records.load_redactor(of.id).await?.reveal(&alias).await;
        if value == alias {
            return Ok(None);
        }
        let policy = self.records.load_policy(&of.policy_digest).await?;
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let session = ExecutionContext::new(ids, self.config.principal, policy, self.records.data.scratch(ids.0));
        self.records.open_session(&session).await?;
        let (alias, of) = (CleanText::clean(&alias), of.id);
        let event = Event::from_host(session.id, None, EventKind::AliasRevealed { alias, of });
        self.records.store.record(event).await?;
        self.records
            .close_session((session.id, &session.folders), "done")
            .await?;
        Ok(Some(value))
    }
}
