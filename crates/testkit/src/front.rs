//! Clients of the front doors, written by hand: they speak the protocol as plainly as a test or a measurement needs, over standard
//! input and output or over HTTP, in either era.

mod http;
mod served;
mod stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

pub use http::{Http, Reply};
pub use served::{Served, memory};
pub use stdio::Stdio;

/// Which of the two protocols a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25: a handshake first.
    Legacy,
    /// 2026-07-28: every request says for itself who asks.
    Modern,
}

impl Era {
    /// Its revision.
    pub fn revision(self) -> &'static str {
        match self {
            Era::Legacy => "2025-11-25",
            Era::Modern => "2026-07-28",
        }
    }

    /// A request as a client of this era sends it.
    pub fn request(self, id: u64, method: &str, mut params: Value) -> Value {
        if self == Era::Modern
            && let Some(params) = params.as_object_mut()
        {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision(),
                "io.modelcontextprotocol/clientInfo": me(),
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            params.insert("_meta".to_owned(), meta);
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// The first request of a conversation: what it is, and its parameters.
    fn greeting(self) -> (&'static str, Value) {
        match self {
            Era::Legacy => {
                let hello = json!({"protocolVersion": self.revision(), "capabilities": {}, "clientInfo": me()});
                ("initialize", hello)
            }
            Era::Modern => ("server/discover", json!({})),
        }
    }
}

fn me() -> Value {
    json!({"name": "ringfence-testkit", "version": env!("CARGO_PKG_VERSION")})
}

/// The result in an answer, or its error.
fn result(mut answer: Value) -> Result<Value> {
    if let Some(error) = answer.get("error") {
        bail!("refused: {error}");
    }
    let result = answer.get_mut("result").map(Value::take);
    result.context("an answer with neither result nor error")
}

/// What a tool gave as structured content.
pub fn structured(result: &Value) -> Result<&Value> {
    let content = result.get("structuredContent");
    content.with_context(|| format!("no structured content: {result}"))
}
