//! Tools that send notifications during a call: progress, log messages and list changes.
#![expect(deprecated, reason = "the suite tries what older revisions have")]

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde_json::json;
use tokio::sync::broadcast;

/// The list that has changed.
#[derive(Debug, Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

/// Broadcasts changes to all subscriptions.
#[derive(Debug, Clone)]
pub(super) struct Changes(broadcast::Sender<Change>);

impl Default for Changes {
    fn default() -> Changes {
        Changes(broadcast::Sender::new(16))
    }
}

impl Changes {
    /// Notifies one subscription until it ends.
    pub(super) async fn tell(&self, context: &SubscriptionContext) {
        let mut changes = self.0.subscribe();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = context.cancelled() => return,
            };
            // The service drops notifications that the subscription did not request.
            let _sent = match change {
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => context.sink().notify_prompt_list_changed().await,
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
            };
        }
    }
}

/// Calls the tool if this module has it; `None` otherwise.
pub(super) async fn call(
    changes: &Changes,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Option<CallToolResult>, ErrorData> {
    let says = match request.name.as_ref() {
        "test_tool_with_logging" => {
            log(context).await;
            "logged"
        }
        "test_logging_tool" => {
            if context.meta.log_level().is_some() {
                log(context).await;
            }
            "logged where it was asked for"
        }
        "test_tool_with_progress" => {
            progress(context).await;
            "done"
        }
        "test_reconnection" => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            "done"
        }
        "test_trigger_tool_change" => {
            // There may be no subscription.
            let _heard = changes.0.send(Change::Tools);
            "the tools have changed"
        }
        "test_trigger_prompt_change" => {
            let _heard = changes.0.send(Change::Prompts);
            "the prompts have changed"
        }
        _ => return Ok(None),
    };
    Ok(Some(CallToolResult::success(vec![ContentBlock::text(says)])))
}

async fn log(context: &RequestContext<RoleServer>) {
    for says in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ] {
        let word = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(says));
        // A disconnected client gets no message, and its call ends by itself.
        let _sent = context.peer.notify_logging_message(word).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn progress(context: &RequestContext<RoleServer>) {
    for step in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let word = ProgressNotificationParam::new(token, step).with_total(100.0);
            let _sent = context.peer.notify_progress(word).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
