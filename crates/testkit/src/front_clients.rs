//! Hand-written clients of the front doors: they speak as much of the protocol as a test or a benchmark needs, over standard input and
//! output or over HTTP, in either era.

mod http;
mod served;
mod stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

pub use http::{HttpClient, HttpReply};
pub use served::{ServedProgram, resident_memory};
pub use stdio::StdioClient;

/// The revision of the protocol that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEra {
    /// Revision 2025-11-25: a handshake comes first.
    Legacy,
    /// Revision 2026-07-28: every request names its client.
    Modern,
}

impl ClientEra {
    /// The date that names the revision.
    pub fn revision(self) -> &'static str {
        match self {
            ClientEra::Legacy => "2025-11-25",
            ClientEra::Modern => "2026-07-28",
        }
    }

    /// A request as a client of this era sends it.
    pub fn request(self, id: u64, method: &str, mut params: Value) -> Value {
        if self == ClientEra::Modern
            && let Some(params) = params.as_object_mut()
        {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision(),
                "io.modelcontextprotocol/clientInfo": client_info(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            params.insert("_meta".to_owned(), meta);
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// The method and the parameters of the first request.
    fn first_request(self) -> (&'static str, Value) {
        match self {
            ClientEra::Legacy => {
                let hello =
                    json!({"protocolVersion": self.revision(), "capabilities": {}, "clientInfo": client_info()});
                ("initialize", hello)
            }
            ClientEra::Modern => ("server/discover", json!({})),
        }
    }
}

fn client_info() -> Value {
    json!({"name": "ringfence-testkit", "version": env!("CARGO_PKG_VERSION")})
}

/// The result in an answer, or an error with the answer's error.
fn result_of(mut answer: Value) -> Result<Value> {
    if let Some(error) = answer.get("error") {
        bail!("refused: {error}");
    }
    let result = answer.get_mut("result").map(Value::take);
    result.context("an answer with neither result nor error")
}

/// The structured content of a tool result.
pub fn structured_content(result: &Value) -> Result<&Value> {
    let content = result.get("structuredContent");
    content.with_context(|| format!("no structured content: {result}"))
}
