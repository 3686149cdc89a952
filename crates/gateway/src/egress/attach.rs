//! Attaches credentials to requests: runs for each allowed request before it is sent, and for each response before it
//! is passed on. It may change headers, or refuse.

use std::sync::Arc;

use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, IF_RANGE, RANGE, SEC_WEBSOCKET_EXTENSIONS,
};
use http::request::Parts;
use ringfence_policy::HostRequest;

use super::body::Body;
use super::cover::{self, Covered};
use super::passage::Passage;
use crate::credential::{Misuse, StandIns};
use crate::refusal::Refusal;

/// The credentials that a session may attach; empty if it has none.
#[derive(Debug, Default, Clone)]
pub(super) struct Attachments(Option<Arc<StandIns>>);

impl Attachments {
    pub(super) fn new(stand_ins: Option<Arc<StandIns>>) -> Attachments {
        Attachments(stand_ins.filter(|all| !all.is_empty()))
    }

    /// Whether the requests in every tunnel must be inspected: a stand-in must not leave uninspected.
    pub(super) fn look_inside(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the variables that hold stand-ins in the sandbox.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        self.0.iter().flat_map(|all| all.environment()).collect()
    }

    /// Attaches credentials to an outgoing request. Returns the names of those it attached.
    pub(super) async fn outgoing(&self, request: &HostRequest, parts: &mut Parts) -> Result<Vec<String>, Misuse> {
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
    pub(super) fn leaving(&self, body: Body, passage: &Arc<Passage>) -> Body {
        match &self.0 {
            Some(stand_ins) => cover::spotted(body, stand_ins, passage),
            None => body,
        }
    }

    /// Masks a response on its way back.
    pub(super) fn incoming(&self, headers: &mut HeaderMap, body: Body) -> Result<Body, Refusal> {
        let Some(mut mask) = self.0.as_ref().map(|all| all.mask()) else {
            return Ok(body);
        };
        let packed = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !mask.is_idle() && headers.get_all(CONTENT_ENCODING).iter().any(packed) {
            let message = "the host packed its answer although it was asked not to, so it cannot be looked through";
            return Err(Refusal::new("credential.encoded", message).by("credentials"));
        }
        cover::headers(&mut mask, headers);
        Ok(cover::covered(body, mask))
    }

    /// Masks response headers that come without a body.
    pub(super) fn cover(&self, headers: &mut HeaderMap) {
        if let Some(all) = &self.0 {
            cover::headers(&mut all.mask(), headers);
        }
    }

    /// Masks the stream that follows an upgrade.
    pub(super) fn stream<S>(&self, stream: S) -> Covered<S> {
        Covered::new(stream, self.0.as_ref().map(|all| all.mask()))
    }
}
