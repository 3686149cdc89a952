//! Serves the company over MCP, in both eras of the protocol.

use std::pin::Pin;
use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{QuitReason, RequestContext, RoleServer, ServerInitializeError, ServiceExt};
use thiserror::Error;

use crate::call::{Company, CompanyCallError};
use crate::tool::definitions;

/// The number of tools on one page of `tools/list`.
const TOOLS_PER_PAGE: usize = 100;

/// The company as an MCP server; clones share one memory.
#[derive(Debug, Clone, Default)]
pub struct CompanyServer {
    company: Arc<Company>,
}

/// Why serving ended early.
#[derive(Debug, Error)]
pub enum StdioServeError {
    /// The client did not start with the handshake that the protocol requires.
    #[error("cannot begin to serve")]
    Begin(#[source] Box<ServerInitializeError>),
    /// The task that serves the client failed.
    #[error("cannot go on serving")]
    Serve(#[source] tokio::task::JoinError),
}

/// Serves one client on standard input and output until the client disconnects.
pub fn serve_stdio() -> Pin<Box<dyn Future<Output = Result<(), StdioServeError>> + Send>> {
    Box::pin(serve_standard_streams())
}

async fn serve_standard_streams() -> Result<(), StdioServeError> {
    let running = CompanyServer::default().serve(rmcp::transport::io::stdio_pipes()).await;
    let running = match running {
        Ok(running) => running,
        // The client disconnected before the handshake.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioServeError::Begin(Box::new(error))),
    };
    let reason = running.waiting().await.map_err(StdioServeError::Serve)?;
    if let QuitReason::JoinError(error) = reason {
        Err(StdioServeError::Serve(error))
    } else {
        Ok(())
    }
}

impl ServerHandler for CompanyServer {
    fn get_info(&self) -> ServerConfig {
        let version = env!("CARGO_PKG_VERSION");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("company", version))
            .with_instructions(
                "A small company that sells office goods: its people, customers, orders, stock, invoices, issues, documents and \
                 meetings. Nobody and nothing in it exists. Amounts are in euro cents; today is 2026-06-30.",
            )
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let from = match cursor.as_deref() {
            None => 0,
            Some(text) => text
                .parse()
                .map_err(|_| ErrorData::invalid_params("this cursor is not from here", None))?,
        };
        let all = definitions();
        let to = all.len().min(from + TOOLS_PER_PAGE);
        let page = all
            .get(from..to)
            .ok_or_else(|| ErrorData::invalid_params("this cursor is not from here", None))?;
        let tools: Result<Vec<Tool>, _> = page.iter().map(|tool| serde_json::from_value(tool.clone())).collect();
        let tools = tools.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = (to < all.len()).then(|| to.to_string());
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        match self.company.call(&request.name, &arguments) {
            Ok(value) => Ok(CallToolResult::structured(value).into()),
            Err(CompanyCallError::Refused(fault)) => {
                Ok(CallToolResult::error(vec![ContentBlock::text(fault.to_string())]).into())
            }
            Err(error @ CompanyCallError::UnknownTool { .. }) => {
                Err(ErrorData::invalid_params(error.to_string(), None))
            }
        }
    }
}

#[cfg(test)]
mod tests;
