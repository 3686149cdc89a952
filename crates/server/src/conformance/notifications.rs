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
enum ListChange {
    Tools,
    Prompts,
}

/// Broadcasts changes to all subscriptions.
#[derive(Debug, Clone)]
pub(super) struct ListChanges(broadcast::Sender<ListChange>);

impl Default for ListChanges {
    fn default() -> ListChanges {
        ListChanges(broadcast::Sender::new(16))
    }
}

impl ListChanges {
    /// Notifies one subscription until it ends.
    pub(super) async fn notify_subscription(&self, context: &SubscriptionContext) {
        let mut changes = self.0.subscribe();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = context.cancelled() => return,
            };
            // The service drops notifications that the subscription did not request.
            let _sent = match change {
                Ok(ListChange::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(ListChange::Prompts) => context.sink().notify_prompt_list_changed().await,
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
            };
        }
    }
}

/// Calls the tool if this module has it; `None` otherwise.
pub(super) async fn call(
    changes: &ListChanges,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Option<CallToolResult>, ErrorData> {
    let says = match request.name.as_ref() {
        "test_tool_with_logging" => {
            send_logs(context).await;
            "logged"
        }
        "test_logging_tool" => {
            if context.meta.log_level().is_some() {
                send_logs(context).await;
            }
            "logged where it was asked for"
        }
        "test_tool_with_progress" => {
            send_progress(context).await;
            "done"
        }
        "test_reconnection" => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            "done"
        }
        "test_trigger_tool_change" => {
            // There may be no subscription.
            let _heard = changes.0.send(ListChange::Tools);
            "the tools have changed"
        }
        "test_trigger_prompt_change" => {
            let _heard = changes.0.send(ListChange::Prompts);
            "the prompts have changed"
        }
        _ => return Ok(None),
    };
    Ok(Some(CallToolResult::success(vec![ContentBlock::text(says)])))
}

async fn send_logs(context: &RequestContext<RoleServer>) {
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

async fn send_progress(context: &RequestContext<RoleServer>) {
    for step in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let word = ProgressNotificationParam::new(token, step).with_total(100.0);
            let _sent = context.peer.notify_progress(word).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
