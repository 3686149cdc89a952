//! The client handler of rmcp: receives tool list changes and elicitation requests from a server.

use std::sync::Arc;

use crate::connection::conversation::ConversationState;
use crate::elicitation::ElicitationHandler;
use rmcp::ErrorData;
use rmcp::model::{ClientConfig, ElicitRequestParams, ElicitResult, ErrorCode, Implementation};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};

/// Handles what a server sends unasked: changes of its tools, and elicitation requests if there is an elicitation
/// handler.
pub(crate) struct UpstreamClientHandler {
    server: String,
    person: Option<ElicitationHandler>,
    state: Arc<ConversationState>,
}

impl UpstreamClientHandler {
    pub(crate) fn new(
        server: &str,
        person: Option<ElicitationHandler>,
        state: &Arc<ConversationState>,
    ) -> UpstreamClientHandler {
        UpstreamClientHandler {
            server: server.to_owned(),
            person,
            state: Arc::clone(state),
        }
    }
}

impl rmcp::ClientHandler for UpstreamClientHandler {
    fn get_info(&self) -> ClientConfig {
        let me = Implementation::new("ringfence", env!("CARGO_PKG_VERSION"));
        let offers = self
            .person
            .as_ref()
            .map(|_| ElicitationHandler::client_capabilities())
            .unwrap_or_default();
        ClientConfig::new(offers, me)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        // The transport has recorded the change already: this handler may run late.
        self.state.changed.notify_one();
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match &self.person {
            Some(person) => person.elicit(&self.server, asked).await,
            None => Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "elicitation is not offered",
                None,
            )),
        }
    }

    #[expect(deprecated, reason = "older servers still ask for it, and are refused")]
    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "roots are not offered",
            None,
        ))
    }
}
