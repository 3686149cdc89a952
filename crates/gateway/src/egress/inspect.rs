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
use ringfence_journal::{EgressTarget, RecordError};
use ringfence_policy::Scheme;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Egress;
use super::body::{self, ProxyBody};
use super::connection_pool::{self, ConnectionPool, HostConnection, RequestOrigin};
use super::flow::EgressFlow;
use super::forward;
use super::generation::{ActiveFlow, EgressSlot};
use super::guard::RefusedHead;
use super::policy_check;
use super::refuse::{self, Denial};
use super::relay::IDLE_TIMEOUT;
use super::target::{self, RequestTarget};
use super::tls::AlpnChoice;
use super::upgrade;
use crate::credential::StandInMisuse;
use crate::refusal::RequestRefusal;

/// How much of a refused request's body is drained, and for how long.
const MAX_DRAINED_BYTES: usize = 16 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// One connection of a program whose requests are inspected.
#[derive(Debug)]
pub(super) struct InspectedConnection {
    pub(super) egress: Arc<Egress>,
    /// The origin of the tunnel, if the connection is in one.
    tunnel_origin: Option<RequestOrigin>,
    pool: ConnectionPool,
    refused_head: RefusedHead,
    requests: AtomicU64,
    /// Notified when a flow on this connection must end but does not: then the whole connection ends.
    pub(super) hang_up: Arc<Notify>,
    /// Tasks that outlive their requests, such as a WebSocket; they end with this connection.
    pub(super) upgraded: Mutex<JoinSet<()>>,
}

/// A request that the policy allows.
struct AllowedRequest {
    rule: String,
    addresses: Vec<IpAddr>,
    connection: Option<HostConnection>,
    slot: EgressSlot,
    /// The rules checked the path, so its canonical form is sent.
    is_path_judged: bool,
}

/// Why a request has no response from a host.
pub(super) enum ForwardError {
    /// The request is refused, and the program is told.
    Denied(Denial),
    /// The request is refused because it carries a misplaced stand-in.
    Misused(StandInMisuse),
    /// An event could not be recorded: the connection ends here.
    Unrecorded(RecordError),
}

impl<D: Into<Denial>> From<D> for ForwardError {
    fn from(denial: D) -> ForwardError {
        ForwardError::Denied(denial.into())
    }
}

impl InspectedConnection {
    pub(super) fn new(
        egress: &Arc<Egress>,
        inside: Option<RequestOrigin>,
        fault: RefusedHead,
    ) -> Arc<InspectedConnection> {
        Arc::new(InspectedConnection {
            egress: Arc::clone(egress),
            tunnel_origin: inside,
            pool: ConnectionPool::default(),
            refused_head: fault,
            requests: AtomicU64::new(0),
            hang_up: Arc::default(),
            upgraded: Mutex::default(),
        })
    }

    /// Handles one request, and always produces a response unless recording fails.
    pub(super) async fn handle_request(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<ProxyBody>, RecordError> {
        // The guard does not frame what follows an upgrade request: unless the upgrade is granted, nothing more is
        // read.
        let wants_upgrade = request.headers().contains_key(http::header::UPGRADE);
        let near = request.extensions().get::<OnUpgrade>().cloned();
        let head_only = request.method() == http::Method::HEAD;
        let mut response = self.handle_parsed(request).await?;
        if head_only {
            // HTTP/2 would send the body, and the program would take it for an error.
            *response.body_mut() = body::empty();
        }
        if wants_upgrade && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let close = http::HeaderValue::from_static("close");
            response.headers_mut().insert(http::header::CONNECTION, close);
            if let Some(near) = near {
                self.end_upgrade(near);
            }
        }
        Ok(response)
    }

    /// Takes over the connection after a refused upgrade and closes it in order, so that the program gets the
    /// refusal.
    fn end_upgrade(&self, near: OnUpgrade) {
        let mut carried = self.upgraded.lock().unwrap_or_else(PoisonError::into_inner);
        carried.spawn(async move {
            if let Ok(near) = near.await {
                // If the program is gone already, the error does not matter.
                let _ = TokioIo::new(near).shutdown().await;
            }
        });
    }

    async fn handle_parsed(&self, request: Request<Incoming>) -> Result<Response<ProxyBody>, RecordError> {
        let (parts, incoming) = request.into_parts();
        let mut unsent = Some(incoming);
        let response = self.handle_parts(parts, &mut unsent).await;
        if let Some(unsent) = unsent.filter(|body| !body.is_end_stream()) {
            self.drain_body(unsent);
        }
        response
    }

    /// Drains the rest of a refused request for a while: resetting the stream would lose the refusal.
    fn drain_body(&self, mut unsent: Incoming) {
        let mut carried = self.upgraded.lock().unwrap_or_else(PoisonError::into_inner);
        while carried.try_join_next().is_some() {}
        carried.spawn(async move {
            let mut left = MAX_DRAINED_BYTES;
            let all = async {
                while let Some(Ok(frame)) = unsent.frame().await {
                    left = left.saturating_sub(frame.data_ref().map_or(1, bytes::Bytes::len));
                    if left == 0 {
                        return;
                    }
                }
            };
            // A program that keeps sending is cut off.
            let _ = timeout(DRAIN_TIMEOUT, all).await;
        });
    }

    async fn handle_parts(
        &self,
        parts: Parts,
        unsent: &mut Option<Incoming>,
    ) -> Result<Response<ProxyBody>, RecordError> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        if let Err(over) = self.egress.count_request() {
            let denial = Denial::from(over.refusal);
            if over.first {
                return self.refuse(&self.unread_target(), denial).await;
            }
            return Ok(denial_response(&denial));
        }
        if let Some(refusal) = self.refused_head.refusal_for(number) {
            return self.refuse(&self.unread_target(), refusal.into()).await;
        }
        let want = match target::parse_target(&parts, self.tunnel_origin.as_ref()) {
            Ok(mut want) => {
                self.egress.redact_target(&mut want.target).await;
                want
            }
            Err(unread) => {
                let (mut to, denial) = *unread;
                self.egress.redact_target(&mut to).await;
                return self.refuse(&to, denial).await;
            }
        };
        match self.forward(&want, parts, unsent).await {
            Ok(response) => Ok(response),
            Err(ForwardError::Denied(denial)) => self.refuse(&want.target, denial).await,
            Err(ForwardError::Misused(misuse)) => {
                let denial = Denial::from((*misuse.refusal).clone());
                self.egress
                    .recorder()
                    .record_misuse(&want.target, &denial, &misuse)
                    .await?;
                Ok(denial_response(&denial))
            }
            Err(ForwardError::Unrecorded(error)) => Err(error),
        }
    }

    /// Handles a request from the policy check to the response.
    async fn forward(
        &self,
        want: &RequestTarget,
        mut parts: Parts,
        unsent: &mut Option<Incoming>,
    ) -> Result<Response<ProxyBody>, ForwardError> {
        let websocket = forward::is_websocket(&parts);
        let permitted = self.authorize(want, websocket).await?;
        let attached = self
            .egress
            .attachments()
            .attach_to_request(&want.certain_request(), &mut parts)
            .await;
        let attached = attached.map_err(ForwardError::Misused)?;
        let addresses: Vec<String> = permitted.addresses.iter().map(ToString::to_string).collect();
        let ledger = self.egress.recorder();
        let number = ledger
            .record_start(&want.target, &addresses.join(", "), &permitted.rule)
            .await;
        let number = number.map_err(ForwardError::Unrecorded)?;
        let passage = Arc::new(self.egress.new_flow(number, permitted.slot));
        let written = ledger.record_attached(number, &attached).await;
        written.map_err(ForwardError::Unrecorded)?;
        let sent = OutgoingRequest {
            target: want,
            flow: &passage,
            path: want
                .request
                .path
                .as_ref()
                .filter(|_| permitted.is_path_judged || !attached.is_empty()),
        };
        let answered = if websocket {
            upgrade::forward_upgrade(self, sent, parts, &permitted.addresses).await
        } else {
            let link = permitted.connection;
            self.send(sent, parts, unsent.take(), link, &permitted.addresses).await
        };
        // Its start is recorded, so its end says what happened; no refusal is recorded on top.
        Ok(answered.unwrap_or_else(|refusal| {
            let refusal = passage.refusal_or(refusal);
            passage.set_fault(refusal.code);
            denial_response(&refusal.into())
        }))
    }

    /// Checks the request against the policy, resolves the host, checks again, and takes a slot under exactly that
    /// policy.
    async fn authorize(&self, want: &RequestTarget, fresh: bool) -> Result<AllowedRequest, ForwardError> {
        let request = &want.request;
        let origin = RequestOrigin::from_request(request);
        loop {
            let moment = self.egress.policy().snapshot();
            let policy = &moment.policy;
            let rule = policy_check::check_host(policy, request)?;
            want.check_inspectable(policy)?;
            let allowed = |address| policy_check::check_address(policy, request, address).is_ok();
            let link = if fresh {
                None
            } else {
                self.pool.checkout(&origin, allowed).await
            };
            let addresses = if let Some(link) = &link {
                vec![link.address]
            } else {
                let resolved = self.egress.resolver().resolve(&request.host).await?;
                policy_check::check_resolved(policy, request, &resolved)?;
                resolved.addresses
            };
            let crossing = ActiveFlow {
                request: request.clone(),
                addresses: addresses.clone(),
                is_opaque: false,
                hang_up: Some(Arc::clone(&self.hang_up)),
            };
            if let Some(place) = self.egress.policy().admit(&moment, crossing) {
                return Ok(AllowedRequest {
                    rule,
                    addresses,
                    connection: link,
                    slot: place,
                    is_path_judged: policy.needs_inspection(request),
                });
            }
        }
    }

    async fn send(
        &self,
        sent: OutgoingRequest<'_>,
        parts: Parts,
        incoming: Option<Incoming>,
        link: Option<HostConnection>,
        addresses: &[IpAddr],
    ) -> Result<Response<ProxyBody>, RequestRefusal> {
        let OutgoingRequest {
            target: want,
            flow: passage,
            path,
        } = sent;
        let origin = RequestOrigin::from_request(&want.request);
        let mut link = match link {
            Some(link) => link,
            None => self.connect(&origin, addresses, passage).await?,
        };
        let outgoing = incoming.map_or_else(body::empty, |incoming| body::request_body(incoming, passage));
        let outgoing = self.egress.attachments().guard_request_body(outgoing, passage);
        let request = forward::forwarded_request(parts, outgoing, &origin, path, link.is_http2())?;
        let left = forward::head_size(request.headers())
            + request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        passage
            .count_out(left)
            .map_err(|cut| refuse::unreachable(&origin.host.to_string(), &cut.to_string()))?;
        let answered = tokio::select! {
            biased;
            () = passage.wait_until_closed() => Err(self.egress.changed(&want.request)),
            answered = self.try_send(&mut link, request, passage) => answered,
            () = tokio::time::sleep(IDLE_TIMEOUT) => Err(refuse::unreachable(&origin.host.to_string(), "no answer in time")),
        };
        let (mut head, incoming) = answered?.into_parts();
        passage.set_status(head.status);
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(refuse::unreachable(
                &origin.host.to_string(),
                "it changed the protocol unasked",
            ));
        }
        let came = passage.count_back(forward::head_size(&head.headers));
        came.map_err(|cut| refuse::unreachable(&origin.host.to_string(), &cut.to_string()))?;
        forward::strip_hop_by_hop(&mut head.headers);
        let back = body::response_body(incoming, passage, self.pool.lease(link));
        let back = self.egress.attachments().mask_response(&mut head.headers, back)?;
        head.version = http::Version::default();
        head.extensions = http::Extensions::new();
        Ok(Response::from_parts(head, back))
    }

    async fn connect(
        &self,
        origin: &RequestOrigin,
        addresses: &[IpAddr],
        passage: &EgressFlow,
    ) -> Result<HostConnection, RequestRefusal> {
        let link = tokio::select! {
            biased;
            () = passage.wait_until_closed() => {
                return Err(self.egress.changed(&origin.request()));
            }
            link = connection_pool::connect(origin, addresses, self.egress.roots(), AlpnChoice::Any) => link?,
        };
        self.pool.share(&link);
        Ok(link)
    }

    /// Sends the request. A pooled connection that closed before it took anything is replaced once, at the same
    /// address.
    async fn try_send(
        &self,
        link: &mut HostConnection,
        request: Request<ProxyBody>,
        passage: &EgressFlow,
    ) -> Result<Response<Incoming>, RequestRefusal> {
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
        if fresh.is_http2() != link.is_http2() {
            return Err(failed(&unsent.error));
        }
        *link = fresh;
        link.send(request).await.map_err(|unsent| failed(&unsent.error))
    }

    /// Returns the target of a request that was not parsed.
    fn unread_target(&self) -> EgressTarget {
        match &self.tunnel_origin {
            Some(origin) => target::flow_target(origin.scheme, &origin.host.to_string(), origin.port),
            None => target::flow_target(Scheme::Http, "", 0),
        }
    }

    async fn refuse(&self, to: &EgressTarget, denial: Denial) -> Result<Response<ProxyBody>, RecordError> {
        self.egress.recorder().record_refusal(to, &denial).await?;
        Ok(denial_response(&denial))
    }
}

/// The inputs that every way of sending needs.
#[derive(Clone, Copy)]
pub(super) struct OutgoingRequest<'a> {
    pub(super) target: &'a RequestTarget,
    pub(super) flow: &'a Arc<EgressFlow>,
    pub(super) path: Option<&'a ringfence_policy::UrlPath>,
}

fn denial_response(denial: &Denial) -> Response<ProxyBody> {
    denial.response().map(body::full)
}
