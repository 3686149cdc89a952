//! MCP on standard input and output: one client, until it closes its input.

pub mod fuzz;
mod line_reader;
mod message;
mod streams;
mod transport;

use ringfence_journal::Principal;
use rmcp::service::{QuitReason, ServerInitializeError, ServiceExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::mcp::McpService;
use transport::StdioTransport;

/// The reason why serving ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client did not open the session as the protocol requires.
    #[error("the client did not begin a conversation")]
    Begin(#[source] Box<ServerInitializeError>),
    /// The task that serves the client failed.
    #[error("cannot go on serving")]
    Serve(#[source] tokio::task::JoinError),
}

/// Serves one client on standard input and output. When the client closes its input, its executions are cancelled, and the
/// function returns.
pub async fn serve_stdio(mcp: &McpService, principal: Principal, stop: CancellationToken) -> Result<(), ServeError> {
    let (read, write) = streams::standard_streams();
    serve_streams(mcp, principal, read, write, stop).await
}

/// Serves one client on any two streams.
pub async fn serve_streams<R, W>(
    mcp: &McpService,
    principal: Principal,
    read: R,
    write: W,
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let gone = stop.child_token();
    let face = mcp.handler(principal, gone.clone());
    let pipe = StdioTransport::new(read, write, gone.clone());
    let served = match face.clone().serve_with_ct(pipe, stop).await {
        Ok(running) => running.waiting().await.map_err(ServeError::Serve),
        // The client sent no request, or the server is stopping.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(QuitReason::Closed),
        Err(error) => Err(ServeError::Begin(Box::new(error))),
    };
    gone.cancel();
    face.cancel_started().await;
    if let QuitReason::JoinError(error) = served? {
        return Err(ServeError::Serve(error));
    }
    Ok(())
}
