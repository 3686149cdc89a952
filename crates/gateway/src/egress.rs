//! The egress proxy: the only path from a sandbox to the network, over one pipe.
//!
//! A connection names its destination (HTTP, CONNECT or SOCKS5). The proxy parses the host once, checks it against
//! the policy, resolves it, checks every address behind the name, records the start, and only then dials an address
//! that was checked. It refuses anything that can be read in more than one way. The policy decides; this module only
//! carries out the decision.

mod attach;
mod authority;
mod body;
mod chunk;
mod connect;
mod connection_pool;
mod dial;
mod environment;
mod fetch;
mod flow;
mod forward;
pub mod fuzz;
mod generation;
mod guard;
mod head;
mod inspect;
mod limit;
mod mask_stream;
mod policy_check;
mod record;
mod redact_target;
mod refuse;
mod relay;
mod resolve;
mod rewind;
mod serve;
mod sniff;
mod socks;
mod target;
mod tls;
mod upgrade;
mod write_passthrough;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use ringfence_journal::{EgressTarget, ExecutionId, NoEntropy, RecordError, Recorder, SessionId};
use ringfence_policy::{HostRequest, Policy, Scheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use attach::CredentialAttachments;
use authority::CertificateAuthority;
use connect::{TunnelProtocol, TunnelRequest, finish_and_drain};
use flow::EgressFlow;
use generation::{EgressPolicy, EgressSlot};
use limit::{EgressLimiter, LimitExceeded};
use record::{DynRecorder, FlowRecorder};
use refuse::Denial;
use rewind::{ProxyStream, RewindStream};

use crate::credential::{Credentials, EnvironmentLookup, StandIns};
use crate::redactor::Redactor;
use crate::refusal::RequestRefusal;
use crate::vault::Vault;

pub use environment::ProxyLocation;
pub(crate) use fetch::is_repeatable;
pub use record::{EgressReport, RefusedEgress};
pub use resolve::DnsResolver;
pub use tls::TrustRoots;

/// How long a connection over the limit may take to send its request before it is refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The parts that an egress proxy is built from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EgressSettings {
    /// Resolves host names to addresses.
    pub resolver: DnsResolver,
    /// Root certificates that upstream TLS is verified against.
    pub roots: TrustRoots,
    /// Stand-ins for the credentials of one session.
    stand_ins: Option<Arc<StandIns>>,
    /// Redacts what goes into the journal, by the rules of the session.
    redactor: Arc<Redactor>,
    /// Whether the sandbox can be given a certificate to trust. If not, hosts whose requests must be inspected are
    /// unreachable over TLS.
    pub trust: bool,
}

impl EgressSettings {
    /// Uses the resolver and the root certificates of this machine.
    pub fn system() -> EgressSettings {
        EgressSettings {
            resolver: DnsResolver::system(),
            roots: TrustRoots::system(),
            stand_ins: None,
            redactor: Arc::default(),
            trust: true,
        }
    }

    /// Adds the redactor of one session.
    #[must_use]
    pub fn with_redactor(self, screen: Arc<Redactor>) -> EgressSettings {
        EgressSettings {
            redactor: screen,
            ..self
        }
    }

    /// Adds new stand-ins for these credentials, for one session.
    pub fn with_credentials(
        mut self,
        credentials: &Credentials,
        environment: &EnvironmentLookup,
        vault: &Vault,
    ) -> Result<EgressSettings, NoEntropy> {
        let stand_ins = StandIns::new(credentials, Arc::clone(environment), vault.clone())?;
        self.stand_ins = Some(Arc::new(stand_ins));
        Ok(self)
    }
}

/// State that all executions of a session share.
#[derive(Debug)]
struct SharedEgress {
    settings: EgressSettings,
    limiter: Arc<EgressLimiter>,
    attachments: CredentialAttachments,
    authority: OnceLock<Option<CertificateAuthority>>,
    /// Bounds the concurrent fetches of code.
    fetches: Semaphore,
}

/// The egress proxy of one execution.
#[derive(Debug)]
pub struct Egress {
    shared: Arc<SharedEgress>,
    policy: Arc<EgressPolicy>,
    recorder: Arc<FlowRecorder>,
}

/// Not generic, so that the code of all protocols is compiled here and not in every crate with a stream.
fn serve_stream(egress: &Arc<Egress>, stream: Box<dyn ProxyStream>) -> BoxFuture<'_, ()> {
    let served = egress.serve_connection(RewindStream::new(stream));
    Box::pin(egress.while_recorded(Box::pin(served)))
}

impl Egress {
    /// Creates the proxy for the first execution of a session.
    pub fn new<R: Recorder + Clone + 'static>(
        settings: EgressSettings,
        policy: Arc<Policy>,
        recorder: R,
        (session, execution): (SessionId, ExecutionId),
    ) -> Egress {
        let attachments = CredentialAttachments::new(settings.stand_ins.clone());
        Egress {
            shared: Arc::new(SharedEgress {
                settings,
                limiter: Arc::new(EgressLimiter::new(policy.net_limits())),
                attachments,
                authority: OnceLock::new(),
                fetches: Semaphore::new(fetch::MAX_CONCURRENT_FETCHES),
            }),
            policy: Arc::new(EgressPolicy::new(policy)),
            recorder: Arc::new(FlowRecorder::new(DynRecorder::new(recorder), session, execution)),
        }
    }

    /// Creates the proxy for another execution of the session: with the same limits, certificates and stand-ins.
    #[must_use]
    pub fn for_execution(&self, execution: ExecutionId, policy: Arc<Policy>) -> Egress {
        self.shared.limiter.set_limits(policy.net_limits());
        let ledger = FlowRecorder::new(self.recorder.recorder(), self.recorder.session(), execution);
        Egress {
            shared: Arc::clone(&self.shared),
            policy: Arc::new(EgressPolicy::new(policy)),
            recorder: Arc::new(ledger),
        }
    }

    /// Serves one connection of a program until it ends.
    pub fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self: &Arc<Self>, stream: S) -> BoxFuture<'_, ()> {
        serve_stream(self, Box::new(stream))
    }

    /// Serves a connection as long as its events can be recorded.
    async fn while_recorded(&self, served: impl Future<Output = ()>) {
        tokio::select! {
            () = served => {}
            // From here on nothing goes out.
            _ = self.recorder.wait_for_failure() => self.policy.close_all(),
            () = self.recorder.wait_until_closing() => {}
        }
    }

    /// Returns the certificate that the sandbox must trust, as PEM; empty if there is none.
    pub fn ca_certificate(&self) -> &str {
        self.authority().map_or("", CertificateAuthority::pem)
    }

    /// Returns the variables of a program: the proxy's address, the certificate to trust, and the stand-ins for
    /// credentials.
    pub fn environment(&self, at: ProxyLocation<'_>) -> Vec<(String, String)> {
        let mut variables = environment::proxy_variables(at, self.authority().is_some());
        variables.extend(self.attachments().environment());
        variables
    }

    /// Replaces the policy and closes the flows that the new one forbids; both are complete when this returns.
    pub async fn change_policy(&self, policy: Arc<Policy>) {
        self.shared.limiter.set_limits(policy.net_limits());
        self.policy.replace_policy(policy).await;
    }

    /// Waits until an event cannot be recorded: then nothing more goes out, and the execution must end.
    pub async fn wait_for_failure(&self) -> RecordError {
        self.recorder.wait_for_failure().await
    }

    /// Closes open flows, waits until every end is recorded, and reports what passed and what was refused. Nothing is
    /// served afterwards.
    pub async fn close(&self) -> Result<EgressReport, RecordError> {
        self.recorder.close().await
    }

    async fn serve_connection<S: ProxyStream + 'static>(self: &Arc<Self>, mut stream: RewindStream<S>) {
        let permit = match self.shared.limiter.acquire_connection() {
            Ok(permit) => permit,
            Err(over) => return self.refuse_over_limit(stream, over).await,
        };
        match timeout(guard::HEAD_TIMEOUT, detect_protocol(&mut stream)).await {
            Ok(Some(OpeningProtocol::Socks)) => self.serve_socks(stream).await,
            Ok(Some(OpeningProtocol::Connect(end))) => self.serve_connect(stream, end).await,
            Ok(Some(OpeningProtocol::Other)) => serve::serve_http1(self, stream, None).await,
            Ok(None) | Err(_) => {}
        }
        drop(permit);
    }

    async fn serve_socks<S: ProxyStream + 'static>(self: &Arc<Self>, mut stream: RewindStream<S>) {
        let wish = match timeout(guard::HEAD_TIMEOUT, socks::handshake(&mut stream)).await {
            Ok(Ok(wish)) => wish,
            Ok(Err(error)) => {
                if let Some(reply) = error.reply() {
                    finish_and_drain(stream, &reply).await;
                }
                return;
            }
            Err(_) => return,
        };
        let Some(stream) = self.admit_tunnel(stream, TunnelProtocol::Socks).await else {
            return;
        };
        let text = String::from_utf8_lossy(&wish.host).into_owned();
        match text.parse() {
            Ok(host) => {
                let front = TunnelProtocol::Socks;
                let port = wish.port;
                self.serve_tunnel(stream, TunnelRequest { front, host, port }).await;
            }
            Err(error) => {
                let denial = Denial::from(refuse::host(&error));
                if self
                    .record_refusal(&target::flow_target(Scheme::Https, &text, wish.port), &denial)
                    .await
                {
                    finish_and_drain(stream, &socks::encode_refusal(&denial)).await;
                }
            }
        }
    }

    async fn serve_connect<S: ProxyStream + 'static>(self: &Arc<Self>, mut stream: RewindStream<S>, end: usize) {
        let head = stream.read.split_to(end);
        let Some(stream) = self.admit_tunnel(stream, TunnelProtocol::Connect).await else {
            return;
        };
        let read = head::parse_head(&head);
        let place = read.as_ref().map_or("", |head| head.target.as_str()).to_owned();
        let tunnel = read.map_err(Denial::from).and_then(|head| parse_connect(&head));
        match tunnel {
            Ok(tunnel) => self.serve_tunnel(stream, tunnel).await,
            Err(denial) => {
                if self
                    .record_refusal(&target::flow_target(Scheme::Https, &place, 0), &denial)
                    .await
                {
                    finish_and_drain(stream, &denial.http1_bytes()).await;
                }
            }
        }
    }

    /// Admits one more tunnel. Returns the stream, or `None` after refusing it.
    async fn admit_tunnel<S: ProxyStream>(
        &self,
        stream: RewindStream<S>,
        front: TunnelProtocol,
    ) -> Option<RewindStream<S>> {
        let Err(over) = self.count_request() else {
            return Some(stream);
        };
        let denial = Denial::from(over.refusal);
        if !over.first
            || self
                .record_refusal(&target::flow_target(Scheme::Https, "", 0), &denial)
                .await
        {
            finish_and_drain(stream, &front.refusal_reply(&denial)).await;
        }
        None
    }

    /// Tells a program that too many connections are open.
    async fn refuse_over_limit<S: ProxyStream>(&self, mut stream: RewindStream<S>, over: LimitExceeded) {
        let denial = Denial::from(over.refusal);
        if over.first
            && !self
                .record_refusal(&target::flow_target(Scheme::Http, "", 0), &denial)
                .await
        {
            return;
        }
        // A reply before the request would be lost.
        let _ = timeout(REFUSAL_TIMEOUT, stream.read_more()).await;
        if stream.read.first() == Some(&socks::VERSION) {
            return finish_and_drain(stream, &socks::NO_ACCEPTABLE_METHOD).await;
        }
        finish_and_drain(stream, &denial.http1_bytes()).await;
    }

    /// Counts one connection or request against the limits.
    fn count_request(&self) -> Result<(), LimitExceeded> {
        self.shared.limiter.count_request()
    }

    /// Records a refusal. Returns whether that succeeded, and so whether the program may be told.
    async fn record_refusal(&self, to: &EgressTarget, denial: &Denial) -> bool {
        self.recorder.record_refusal(to, denial).await.is_ok()
    }

    fn new_flow(&self, number: u64, place: EgressSlot) -> EgressFlow {
        let limiter = Arc::clone(&self.shared.limiter);
        EgressFlow::new(Arc::clone(&self.recorder), limiter, number, place)
    }

    fn authority(&self) -> Option<&CertificateAuthority> {
        let made = self.shared.authority.get_or_init(|| {
            if !self.shared.settings.trust {
                return None;
            }
            let made = CertificateAuthority::new();
            made.inspect_err(|error| tracing::warn!(%error, "the session has no certificates"))
                .ok()
        });
        made.as_ref()
    }

    /// Returns the refusal for an open flow that a changed policy no longer allows.
    fn changed(&self, request: &HostRequest) -> RequestRefusal {
        let policy = self.policy.snapshot().policy;
        policy_check::check_host(&policy, request)
            .err()
            .unwrap_or_else(refuse::changed)
    }

    fn policy(&self) -> &Arc<EgressPolicy> {
        &self.policy
    }

    fn recorder(&self) -> &Arc<FlowRecorder> {
        &self.recorder
    }

    fn resolver(&self) -> &DnsResolver {
        &self.shared.settings.resolver
    }

    fn roots(&self) -> &TrustRoots {
        &self.shared.settings.roots
    }

    fn attachments(&self) -> &CredentialAttachments {
        &self.shared.attachments
    }
}

/// The protocol that a connection begins with.
enum OpeningProtocol {
    Socks,
    /// A head that asks for a tunnel, with its length in bytes.
    Connect(usize),
    Other,
}

/// Reads until the protocol of a connection is clear; `None` if it ends before.
async fn detect_protocol<S: ProxyStream>(stream: &mut RewindStream<S>) -> Option<OpeningProtocol> {
    const WORD: &[u8] = b"CONNECT ";
    let mut searched = 0;
    loop {
        let read = &stream.read;
        if read.first() == Some(&socks::VERSION) {
            return Some(OpeningProtocol::Socks);
        }
        let begins = WORD.len().min(read.len());
        if read[..begins] != WORD[..begins] {
            return Some(OpeningProtocol::Other);
        }
        if let Some(end) = head::find_end(read, searched) {
            return Some(OpeningProtocol::Connect(end));
        }
        searched = read.len();
        if read.len() > head::MAX_HEAD_BYTES {
            // The HTTP path refuses it, like any other head that is too long.
            return Some(OpeningProtocol::Other);
        }
        if stream.read_more().await.ok()? == 0 {
            return None;
        }
    }
}

/// Returns the tunnel that a CONNECT request asks for.
fn parse_connect(head: &head::RequestHead) -> Result<TunnelRequest, Denial> {
    let (host, port) = head::parse_authority(&head.target)?;
    let port = port.ok_or_else(|| refuse::protocol("CONNECT names a port: `CONNECT host:443 HTTP/1.1`"))?;
    if let Some(same) = &head.host {
        let (also, _) = head::parse_authority(same)?;
        if also != host {
            let refusal = refuse::authority("the `Host` of the CONNECT is not its host");
            return Err(Denial {
                status: http::StatusCode::BAD_REQUEST,
                refusal,
            });
        }
    }
    let front = TunnelProtocol::Connect;
    Ok(TunnelRequest { front, host, port })
}
