//! Identifiers that the client supplies for itself and its request, so that its records can be matched with the journal.

use ringfence_engine::ClientTrace;
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

/// The metadata keys in which clients send their own id of a call.
const CALL_IDS: [&str; 2] = ["claudecode/toolUseId", "toolUseId"];
/// The most characters of each identifier.
const MAX_CHARS: usize = 200;

/// The client's identifiers of this request.
pub(super) fn client_trace(context: &RequestContext<RoleServer>) -> ClientTrace {
    let meta = &context.meta.0.0;
    let text = |name: &str| meta.get(name).and_then(Value::as_str).map(shorten);
    let client = context
        .client_info()
        .map(|client| shorten(&format!("{} {}", client.name, client.version)));
    let parts = context.extensions.get::<http::request::Parts>();
    let header = parts.and_then(|parts| parts.headers.get("traceparent")?.to_str().ok());
    ClientTrace {
        client,
        call: CALL_IDS.iter().find_map(|name| text(name)),
        traceparent: text("traceparent").or_else(|| header.map(shorten)),
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}
