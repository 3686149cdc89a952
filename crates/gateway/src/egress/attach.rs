//! Where credentials meet requests: asked with each judged request before it is sent, and with each answer before it is
//! passed on. It may change headers, or refuse.

use http::HeaderMap;
use http::request::Parts;
use ringfence_policy::HostRequest;

use super::body::Body;
use crate::refusal::Refusal;

/// What a session may attach.
#[derive(Debug, Default)]
pub(super) struct Attachments;

impl Attachments {
    /// Whether the requests in every tunnel must be seen.
    #[expect(
        clippy::unused_self,
        reason = "a session without credentials has nothing to look for"
    )]
    pub(super) fn look_inside(&self) -> bool {
        false
    }

    /// On the way out.
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "a session without credentials changes nothing"
    )]
    pub(super) fn outgoing(&self, _request: &HostRequest, _parts: &mut Parts) -> Result<(), Refusal> {
        Ok(())
    }

    /// On the way back.
    #[expect(clippy::unused_self, reason = "a session without credentials changes nothing")]
    pub(super) fn incoming(&self, _request: &HostRequest, _headers: &mut HeaderMap, body: Body) -> Body {
        body
    }
}
