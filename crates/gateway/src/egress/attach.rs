//! Attaches credentials to requests: runs for each allowed request before it is sent, and for each response before it
//! is passed on. It may change headers, or refuse.

use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, IF_RANGE, RANGE, SEC_WEBSOCKET_EXTENSIONS,
};
use http::request::Parts;
use ringfence_policy::HostRequest;

use super::body::ProxyBody;
use super::flow::EgressFlow;
use super::mask_stream::{self, MaskedStream};
use crate::credential::{StandInMisuse, StandIns};
use crate::refusal::RequestRefusal;

/// The credentials that a session may attach; empty if it has none.
#[derive(Debug, Default, Clone)]
pub(super) struct CredentialAttachments(Option<Arc<StandIns>>);

impl CredentialAttachments {
    pub(super) fn new(stand_ins: Option<Arc<StandIns>>) -> CredentialAttachments {
        CredentialAttachments(stand_ins.filter(|all| !all.is_empty()))
    }

    /// Whether the requests in every tunnel must be inspected: a stand-in must not leave uninspected.
    pub(super) fn needs_inspection(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the variables that hold stand-ins in the sandbox.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        self.0.iter().flat_map(|all| all.environment()).collect()
    }

    /// Attaches credentials to an outgoing request. Returns the names of those it attached.
    pub(super) async fn attach_to_request(
        &self,
        request: &HostRequest,
        parts: &mut Parts,
    ) -> Result<Vec<String>, StandInMisuse> {
        let Some(stand_ins) = &self.0 else {
            return Ok(Vec::new());
        };
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let used = stand_ins.attach(request, target, &mut parts.headers).await?;
        if !used.is_empty() {
            // Half a secret could not be recognised in the response.
            parts.headers.remove(RANGE);
            parts.headers.remove(IF_RANGE);
        }
        // A compressed response could not be masked.
        parts
            .headers
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        parts.headers.remove(SEC_WEBSOCKET_EXTENSIONS);
        Ok(used)
    }

    /// Guards the outgoing body: the body ends where a stand-in begins.
    pub(super) fn guard_request_body(&self, body: ProxyBody, passage: &Arc<EgressFlow>) -> ProxyBody {
        match &self.0 {
            Some(stand_ins) => mask_stream::leak_checked_body(body, stand_ins, passage),
            None => body,
        }
    }

    /// Masks a response on its way back.
    pub(super) fn mask_response(&self, headers: &mut HeaderMap, body: ProxyBody) -> Result<ProxyBody, RequestRefusal> {
        let Some(mut mask) = self.0.as_ref().map(|all| all.response_mask()) else {
            return Ok(body);
        };
        let packed = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !mask.is_idle() && headers.get_all(CONTENT_ENCODING).iter().any(packed) {
            let message = "the host packed its answer although it was asked not to, so it cannot be looked through";
            return Err(RequestRefusal::new("credential.encoded", message).by_rule("credentials"));
        }
        mask_stream::mask_headers(&mut mask, headers);
        Ok(mask_stream::masked_body(body, mask))
    }

    /// Masks response headers that come without a body.
    pub(super) fn mask_headers(&self, headers: &mut HeaderMap) {
        if let Some(all) = &self.0 {
            mask_stream::mask_headers(&mut all.response_mask(), headers);
        }
    }

    /// Masks the stream that follows an upgrade.
    pub(super) fn mask_stream<S>(&self, stream: S) -> MaskedStream<S> {
        MaskedStream::new(stream, self.0.as_ref().map(|all| all.response_mask()))
    }
}
