//! Reveals what an alias stands for to a person, after recording that.

use ringfence_journal::{Event, ExecutionId, Kind, Recorder as _, SessionId, Text};

use crate::engine::Engine;
use crate::error::RunError;
use crate::session::Session;

impl Engine {
    /// The value of an alias, if the session made it and is not over. The event is in a session of its own: the alias's session may belong
    /// to another process, which alone writes its chain.
    pub async fn reveal_alias(&self, of: &ringfence_store::Session, alias: &str) -> Result<Option<String>, RunError> {
        let bare = alias.trim().trim_start_matches('‹').trim_end_matches('›');
        let alias = format!("‹{bare}›");
        let value = self.screen_of(of.id).await?.reveal(&alias).await;
        if value == alias {
            return Ok(None);
        }
        let policy = self.restored(&of.policy_digest).await?;
        let ids = (SessionId::generate()?, ExecutionId::generate()?);
        let session = Session::new(ids, self.settings.principal, policy, self.folders(ids.0));
        self.open_session(&session).await?;
        let (alias, of) = (Text::clean(&alias), of.id);
        let event = Event::host(session.id, None, Kind::AliasRevealed { alias, of });
        self.store.record(event).await?;
        self.close_session((session.id, &session.folders), "done").await?;
        Ok(Some(value))
    }
}
