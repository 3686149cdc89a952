//! Path parameters whose parse errors have the same form as every other problem.

use axum::extract::{FromRequestParts, Path};
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::problem::HttpProblem;

/// A path parameter, or several as a tuple.
pub(super) struct Segment<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Segment<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Segment<T>, HttpProblem> {
        let read = Path::from_request_parts(parts, state).await;
        read.map(|Path(value)| Segment(value)).map_err(|rejection| {
            HttpProblem::new(StatusCode::BAD_REQUEST, "api.path", rejection.body_text())
                .with_hint("write bytes of a path as UTF-8, percent-encoded")
        })
    }
}
