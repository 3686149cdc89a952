//! Inspected requests: plain HTTP, and HTTP inside TLS that the proxy terminates. Each request is checked against the
//! policy in force, recorded, and only then sent.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ringfence_journal::{RecordError, Target};
use ringfence_policy::Scheme;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Egress;
use super::body::{self, Body};
use super::forward;
use super::generation::{Crossing, Place};
use super::guard::Fault;
use super::judge;
use super::passage::Passage;
use super::refuse::{self, Denial};
use super::relay::IDLE;
use super::tls::Inside;
use super::upgrade;
use super::upstream::{self, Link, Origin, Pool};
use super::want::{self, Want};
use crate::credential::Misuse;
use crate::refusal::Refusal;

/// How much of a refused request's body is drained, and for how long.
const IGNORED: usize = 16 << 20;
const IGNORING: Duration = Duration::from_secs(5);

/// One connection of a program whose requests are inspected.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) egress: Arc<Egress>,
    /// The origin of the tunnel, if the connection is in one.
    inside: Option<Origin>,
    pool: Pool,
    fault: Fault,
    requests: AtomicU64,
    /// Notified when a flow on this connection must end but does not: then the whole connection ends.
    pub(super) line: Arc<Notify>,
    /// Tasks that outlive their requests, such as a WebSocket; they end with this connection.
    pub(super) carried: Mutex<JoinSet<()>>,
}

/// A request that the policy allows.
struct Let {
    rule: String,
    addresses: Vec<IpAddr>,
    link: Option<Link>,
    place: Place,
    /// The rules checked the path, so its canonical form is sent.
    seen: bool,
}

/// Why a request has no response from a host.
pub(super) enum Unanswered {
    /// The request is refused, and the program is told.
    Denied(Denial),
    /// The request is refused because it carries a misplaced stand-in.
    Misused(Misuse),
    /// An event could not be recorded: the connection ends here.
    Unrecorded(RecordError),
}

impl<D: Into<Denial>> From<D> for Unanswered {
    fn from(denial: D) -> Unanswered {
        Unanswered::Denied(denial.into())
    }
}

impl Exchange {
    pub(super) fn new(egress: &Arc<Egress>, inside: Option<Origin>, fault: Fault) -> Arc<Exchange> {
        Arc::new(Exchange {
            egress: Arc::clone(egress),
            inside,
            pool: Pool::default(),
            fault,
            requests: AtomicU64::new(0),
            line: Arc::default(),
            carried: Mutex::default(),
        })
    }

    /// Handles one request, and always produces a response unless recording fails.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, RecordError> {
        // The guard does not frame what follows an upgrade request: unless the upgrade is granted, nothing more is
        // read.
        let wants_upgrade = request.headers().contains_key(http::header::UPGRADE);
        let near = request.extensions().get::<OnUpgrade>().cloned();
        let head_only = request.method() == http::Method::HEAD;
        let mut response = self.judged(request).await?;
        if head_only {
            // HTTP/2 would send the body, and the program would take it for an error.
            *response.body_mut() = body::empty();
        }
        if wants_upgrade && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let close = http::HeaderValue::from_static("close");
            response.headers_mut().insert(http::header::CONNECTION, close);
            if let Some(near) = near {
                self.part(near);
            }
        }
        Ok(response)
    }

    /// Takes over the connection after a refused upgrade and closes it in order, so that the program gets the
    /// refusal.
    fn part(&self, near: OnUpgrade) {
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        carried.spawn(async move {
            if let Ok(near) = near.await {
                // If the program is gone already, the error does not matter.
                let _ = TokioIo::new(near).shutdown().await;
            }
        });
    }

    async fn judged(&self, request: Request<Incoming>) -> Result<Response<Body>, RecordError> {
        let (parts, incoming) = request.into_parts();
        let mut unsent = Some(incoming);
        let response = self.settled(parts, &mut unsent).await;
        if let Some(unsent) = unsent.filter(|body| !body.is_end_stream()) {
            self.let_go_by(unsent);
        }
        response
    }

    /// Drains the rest of a refused request for a while: resetting the stream would lose the refusal.
    fn let_go_by(&self, mut unsent: Incoming) {
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        while carried.try_join_next().is_some() {}
        carried.spawn(async move {
            let mut left = IGNORED;
            let all = async {
                while let Some(Ok(frame)) = unsent.frame().await {
                    left = left.saturating_sub(frame.data_ref().map_or(1, bytes::Bytes::len));
                    if left == 0 {
                        return;
                    }
                }
            };
            // A program that keeps sending is cut off.
            let _ = timeout(IGNORING, all).await;
        });
    }

    async fn settled(&self, parts: Parts, unsent: &mut Option<Incoming>) -> Result<Response<Body>, RecordError> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        if let Err(over) = self.egress.take() {
            let denial = Denial::from(over.refusal);
            if over.first {
                return self.refuse(&self.nowhere(), denial).await;
            }
            return Ok(answer(&denial));
        }
        if let Some(refusal) = self.fault.of(number) {
            return self.refuse(&self.nowhere(), refusal.into()).await;
        }
        let want = match want::read(&parts, self.inside.as_ref()) {
            Ok(mut want) => {
                self.egress.hide(&mut want.target).await;
                want
            }
            Err(unread) => {
                let (mut to, denial) = *unread;
                self.egress.hide(&mut to).await;
                return self.refuse(&to, denial).await;
            }
        };
        match self.forward(&want, parts, unsent).await {
            Ok(response) => Ok(response),
            Err(Unanswered::Denied(denial)) => self.refuse(&want.target, denial).await,
            Err(Unanswered::Misused(misuse)) => {
                let denial = Denial::from((*misuse.refusal).clone());
                self.egress.ledger().misused(&want.target, &denial, &misuse).await?;
                Ok(answer(&denial))
            }
            Err(Unanswered::Unrecorded(error)) => Err(error),
        }
    }

    /// Handles a request from the policy check to the response.
    async fn forward(
        &self,
        want: &Want,
        mut parts: Parts,
        unsent: &mut Option<Incoming>,
    ) -> Result<Response<Body>, Unanswered> {
        let websocket = forward::is_websocket(&parts);
        let permitted = self.permit(want, websocket).await?;
        let attached = self.egress.attachments().outgoing(&want.certain(), &mut parts).await;
        let attached = attached.map_err(Unanswered::Misused)?;
        let addresses: Vec<String> = permitted.addresses.iter().map(ToString::to_string).collect();
        let ledger = self.egress.ledger();
        let number = ledger
            .started(&want.target, &addresses.join(", "), &permitted.rule)
            .await;
        let number = number.map_err(Unanswered::Unrecorded)?;
        let passage = Arc::new(self.egress.passage(number, permitted.place));
        let written = ledger.attached(number, &attached).await;
        written.map_err(Unanswered::Unrecorded)?;
        let sent = Sent {
            want,
            passage: &passage,
            path: want
                .request
                .path
                .as_ref()
                .filter(|_| permitted.seen || !attached.is_empty()),
        };
        let answered = if websocket {
            upgrade::forward(self, sent, parts, &permitted.addresses).await
        } else {
            let link = permitted.link;
            self.send(sent, parts, unsent.take(), link, &permitted.addresses).await
        };
        // Its start is recorded, so its end says what happened; no refusal is recorded on top.
        Ok(answered.unwrap_or_else(|refusal| {
            let refusal = passage.reason(refusal);
            passage.fault(refusal.code);
            answer(&refusal.into())
        }))
    }

    /// Checks the request against the policy, resolves the host, checks again, and takes a slot under exactly that
    /// policy.
    async fn permit(&self, want: &Want, fresh: bool) -> Result<Let, Unanswered> {
        let request = &want.request;
        let origin = Origin::of(request);
        loop {
            let moment = self.egress.rules().now();
            let policy = &moment.policy;
            let rule = judge::host(policy, request)?;
            want.seen(policy)?;
            let allowed = |address| judge::address(policy, request, address).is_ok();
            let link = if fresh {
                None
            } else {
                self.pool.take(&origin, allowed).await
            };
            let addresses = if let Some(link) = &link {
                vec![link.address]
            } else {
                let resolved = self.egress.resolver().resolve(&request.host).await?;
                judge::resolved(policy, request, &resolved)?;
                resolved.addresses
            };
            let crossing = Crossing {
                request: request.clone(),
                addresses: addresses.clone(),
                unseen: false,
                line: Some(Arc::clone(&self.line)),
            };
            if let Some(place) = self.egress.rules().enter(&moment, crossing) {
                return Ok(Let {
                    rule,
                    addresses,
                    link,
                    place,
                    seen: policy.inspects(request),
                });
            }
        }
    }

    async fn send(
        &self,
        sent: Sent<'_>,
        parts: Parts,
        incoming: Option<Incoming>,
        link: Option<Link>,
        addresses: &[IpAddr],
    ) -> Result<Response<Body>, Refusal> {
        let Sent { want, passage, path } = sent;
        let origin = Origin::of(&want.request);
        let mut link = match link {
            Some(link) => link,
            None => self.connect(&origin, addresses, passage).await?,
        };
        let outgoing = incoming.map_or_else(body::empty, |incoming| body::out(incoming, passage));
        let outgoing = self.egress.attachments().leaving(outgoing, passage);
        let request = forward::request(parts, outgoing, &origin, path, link.is_two())?;
        let left =
            forward::size(request.headers()) + request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        passage
            .out(left)
            .map_err(|cut| refuse::unreachable(&origin.host.to_string(), &cut.to_string()))?;
        let answered = tokio::select! {
            biased;
            () = passage.closed() => Err(self.egress.changed(&want.request)),
            answered = self.try_send(&mut link, request, passage) => answered,
            () = tokio::time::sleep(IDLE) => Err(refuse::unreachable(&origin.host.to_string(), "no answer in time")),
        };
        let (mut head, incoming) = answered?.into_parts();
        passage.status(head.status);
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(refuse::unreachable(
                &origin.host.to_string(),
                "it changed the protocol unasked",
            ));
        }
        let came = passage.back(forward::size(&head.headers));
        came.map_err(|cut| refuse::unreachable(&origin.host.to_string(), &cut.to_string()))?;
        forward::strip(&mut head.headers);
        let back = body::back(incoming, passage, self.pool.lend(link));
        let back = self.egress.attachments().incoming(&mut head.headers, back)?;
        head.version = http::Version::default();
        head.extensions = http::Extensions::new();
        Ok(Response::from_parts(head, back))
    }

    async fn connect(&self, origin: &Origin, addresses: &[IpAddr], passage: &Passage) -> Result<Link, Refusal> {
        let link = tokio::select! {
            biased;
            () = passage.closed() => {
                return Err(self.egress.changed(&origin.request()));
            }
            link = upstream::connect(origin, addresses, self.egress.roots(), Inside::Any) => link?,
        };
        self.pool.share(&link);
        Ok(link)
    }

    /// Sends the request. A pooled connection that closed before it took anything is replaced once, at the same
    /// address.
    async fn try_send(
        &self,
        link: &mut Link,
        request: Request<Body>,
        passage: &Passage,
    ) -> Result<Response<Incoming>, Refusal> {
        let host = link.origin.host.to_string();
        let failed = |error: &hyper::Error| {
            let why = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
            refuse::unreachable(&host, &why)
        };
        let unsent = match link.send(request).await {
            Ok(response) => return Ok(response),
            Err(unsent) => unsent,
        };
        let Some(request) = unsent.request else {
            return Err(failed(&unsent.error));
        };
        let fresh = self.connect(&link.origin, &[link.address], passage).await?;
        if fresh.is_two() != link.is_two() {
            return Err(failed(&unsent.error));
        }
        *link = fresh;
        link.send(request).await.map_err(|unsent| failed(&unsent.error))
    }

    /// Returns the target of a request that was not parsed.
    fn nowhere(&self) -> Target {
        match &self.inside {
            Some(origin) => want::target(origin.scheme, &origin.host.to_string(), origin.port),
            None => want::target(Scheme::Http, "", 0),
        }
    }

    async fn refuse(&self, to: &Target, denial: Denial) -> Result<Response<Body>, RecordError> {
        self.egress.ledger().refused(to, &denial).await?;
        Ok(answer(&denial))
    }
}

/// The inputs that every way of sending needs.
#[derive(Clone, Copy)]
pub(super) struct Sent<'a> {
    pub(super) want: &'a Want,
    pub(super) passage: &'a Arc<Passage>,
    pub(super) path: Option<&'a ringfence_policy::UrlPath>,
}

fn answer(denial: &Denial) -> Response<Body> {
    denial.response().map(body::full)
}
