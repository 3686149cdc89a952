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
mod cover;
mod dial;
mod environment;
mod fetch;
mod forward;
pub mod fuzz;
mod generation;
mod guard;
mod head;
mod inspect;
mod judge;
mod limit;
mod passage;
mod record;
mod refuse;
mod relay;
mod resolve;
mod rewind;
mod serve;
mod shown;
mod sniff;
mod socks;
mod through;
mod tls;
mod upgrade;
mod upstream;
mod want;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ringfence_journal::{ExecutionId, NoEntropy, RecordError, Recorder, SessionId, Target};
use ringfence_policy::{HostRequest, Policy, Scheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use attach::Attachments;
use authority::Authority;
use connect::{Front, Tunnel, part};
use generation::{Place, Rules};
use limit::{Limiter, Over};
use passage::Passage;
use record::{Ledger, Scribe};
use refuse::Denial;
use rewind::{Rewind, Stream};

use crate::credential::{Credentials, Environment, StandIns};
use crate::refusal::Refusal;
use crate::screen::Screen;
use crate::vault::Vault;

pub use environment::Whereabouts;
pub(crate) use fetch::is_repeatable;
pub use record::{Barred, Crossed};
pub use resolve::Resolver;
pub use tls::Roots;

/// How long a connection over the limit may take to send its request before it is refused.
const COURTESY: Duration = Duration::from_secs(1);

/// The parts that an egress proxy is built from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EgressSettings {
    /// Resolves host names to addresses.
    pub resolver: Resolver,
    /// Root certificates that upstream TLS is verified against.
    pub roots: Roots,
    /// Stand-ins for the credentials of one session.
    stand_ins: Option<Arc<StandIns>>,
    /// Redacts what goes into the journal, by the rules of the session.
    screen: Arc<Screen>,
    /// Whether the sandbox can be given a certificate to trust. If not, hosts whose requests must be inspected are
    /// unreachable over TLS.
    pub trust: bool,
}

impl EgressSettings {
    /// Uses the resolver and the root certificates of this machine.
    pub fn system() -> EgressSettings {
        EgressSettings {
            resolver: Resolver::system(),
            roots: Roots::system(),
            stand_ins: None,
            screen: Arc::default(),
            trust: true,
        }
    }

    /// Adds the redactor of one session.
    #[must_use]
    pub fn screened(self, screen: Arc<Screen>) -> EgressSettings {
        EgressSettings { screen, ..self }
    }

    /// Adds new stand-ins for these credentials, for one session.
    pub fn holding(
        mut self,
        credentials: &Credentials,
        environment: &Environment,
        vault: &Vault,
    ) -> Result<EgressSettings, NoEntropy> {
        let stand_ins = StandIns::new(credentials, Arc::clone(environment), vault.clone())?;
        self.stand_ins = Some(Arc::new(stand_ins));
        Ok(self)
    }
}

/// State that all executions of a session share.
#[derive(Debug)]
struct Shared {
    settings: EgressSettings,
    limiter: Arc<Limiter>,
    attachments: Attachments,
    authority: OnceLock<Option<Authority>>,
    /// Bounds the concurrent fetches of code.
    fetches: Semaphore,
}

/// The egress proxy of one execution.
#[derive(Debug)]
pub struct Egress {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
    ledger: Arc<Ledger>,
}

impl Egress {
    /// Creates the proxy for the first execution of a session.
    pub fn new<R: Recorder + Clone + 'static>(
        settings: EgressSettings,
        policy: Arc<Policy>,
        recorder: R,
        (session, execution): (SessionId, ExecutionId),
    ) -> Egress {
        let attachments = Attachments::new(settings.stand_ins.clone());
        Egress {
            shared: Arc::new(Shared {
                settings,
                limiter: Arc::new(Limiter::new(policy.net_limits())),
                attachments,
                authority: OnceLock::new(),
                fetches: Semaphore::new(fetch::MAX_AT_ONCE),
            }),
            rules: Arc::new(Rules::new(policy)),
            ledger: Arc::new(Ledger::new(Scribe::new(recorder), session, execution)),
        }
    }

    /// Creates the proxy for another execution of the session: with the same limits, certificates and stand-ins.
    #[must_use]
    pub fn for_execution(&self, execution: ExecutionId, policy: Arc<Policy>) -> Egress {
        self.shared.limiter.change(policy.net_limits());
        let ledger = Ledger::new(self.ledger.scribe(), self.ledger.session(), execution);
        Egress {
            shared: Arc::clone(&self.shared),
            rules: Arc::new(Rules::new(policy)),
            ledger: Arc::new(ledger),
        }
    }

    /// Serves one connection of a program until it ends.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self: &Arc<Self>, stream: S) {
        self.while_recorded(Box::pin(self.connection(Rewind::new(stream))))
            .await;
    }

    /// Serves a connection as long as its events can be recorded.
    async fn while_recorded(&self, served: impl Future<Output = ()>) {
        tokio::select! {
            () = served => {}
            // From here on nothing goes out.
            _ = self.ledger.failed() => self.rules.close(),
            () = self.ledger.closing() => {}
        }
    }

    /// Returns the certificate that the sandbox must trust, as PEM; empty if there is none.
    pub fn trust(&self) -> &str {
        self.authority().map_or("", Authority::pem)
    }

    /// Returns the variables of a program: the proxy's address, the certificate to trust, and the stand-ins for
    /// credentials.
    pub fn environment(&self, at: Whereabouts<'_>) -> Vec<(String, String)> {
        let mut variables = environment::variables(at, self.authority().is_some());
        variables.extend(self.attachments().environment());
        variables
    }

    /// Replaces the policy and closes the flows that the new one forbids; both are complete when this returns.
    pub async fn change(&self, policy: Arc<Policy>) {
        self.shared.limiter.change(policy.net_limits());
        self.rules.change(policy).await;
    }

    /// Waits until an event cannot be recorded: then nothing more goes out, and the execution must end.
    pub async fn failed(&self) -> RecordError {
        self.ledger.failed().await
    }

    /// Closes open flows, waits until every end is recorded, and reports what passed and what was refused. Nothing is
    /// served afterwards.
    pub async fn close(&self) -> Result<Crossed, RecordError> {
        self.ledger.close().await
    }

    async fn connection<S: Stream + 'static>(self: &Arc<Self>, mut stream: Rewind<S>) {
        let permit = match self.shared.limiter.open() {
            Ok(permit) => permit,
            Err(over) => return self.full(stream, over).await,
        };
        match timeout(guard::PATIENCE, first(&mut stream)).await {
            Ok(Some(First::Socks)) => self.socks(stream).await,
            Ok(Some(First::Connect(end))) => self.connect(stream, end).await,
            Ok(Some(First::Other)) => serve::one(self, stream, None).await,
            Ok(None) | Err(_) => {}
        }
        drop(permit);
    }

    async fn socks<S: Stream + 'static>(self: &Arc<Self>, mut stream: Rewind<S>) {
        let wish = match timeout(guard::PATIENCE, socks::handshake(&mut stream)).await {
            Ok(Ok(wish)) => wish,
            Ok(Err(error)) => {
                if let Some(reply) = error.reply() {
                    part(stream, &reply).await;
                }
                return;
            }
            Err(_) => return,
        };
        let Some(stream) = self.counted(stream, Front::Socks).await else {
            return;
        };
        let text = String::from_utf8_lossy(&wish.host).into_owned();
        match text.parse() {
            Ok(host) => {
                let front = Front::Socks;
                let port = wish.port;
                self.tunnel(stream, Tunnel { front, host, port }).await;
            }
            Err(error) => {
                let denial = Denial::from(refuse::host(&error));
                if self
                    .refused(&want::target(Scheme::Https, &text, wish.port), &denial)
                    .await
                {
                    part(stream, &socks::refusal(&denial)).await;
                }
            }
        }
    }

    async fn connect<S: Stream + 'static>(self: &Arc<Self>, mut stream: Rewind<S>, end: usize) {
        let head = stream.read.split_to(end);
        let Some(stream) = self.counted(stream, Front::Connect).await else {
            return;
        };
        let read = head::read(&head);
        let place = read.as_ref().map_or("", |head| head.target.as_str()).to_owned();
        let tunnel = read.map_err(Denial::from).and_then(|head| wanted(&head));
        match tunnel {
            Ok(tunnel) => self.tunnel(stream, tunnel).await,
            Err(denial) => {
                if self.refused(&want::target(Scheme::Https, &place, 0), &denial).await {
                    part(stream, &denial.bytes()).await;
                }
            }
        }
    }

    /// Admits one more tunnel. Returns the stream, or `None` after refusing it.
    async fn counted<S: Stream>(&self, stream: Rewind<S>, front: Front) -> Option<Rewind<S>> {
        let Err(over) = self.take() else {
            return Some(stream);
        };
        let denial = Denial::from(over.refusal);
        if !over.first || self.refused(&want::target(Scheme::Https, "", 0), &denial).await {
            part(stream, &front.refused(&denial)).await;
        }
        None
    }

    /// Tells a program that too many connections are open.
    async fn full<S: Stream>(&self, mut stream: Rewind<S>, over: Over) {
        let denial = Denial::from(over.refusal);
        if over.first && !self.refused(&want::target(Scheme::Http, "", 0), &denial).await {
            return;
        }
        // A reply before the request would be lost.
        let _ = timeout(COURTESY, stream.more()).await;
        if stream.read.first() == Some(&socks::VERSION) {
            return part(stream, &socks::NOT_NOW).await;
        }
        part(stream, &denial.bytes()).await;
    }

    /// Counts one connection or request against the limits.
    fn take(&self) -> Result<(), Over> {
        self.shared.limiter.take()
    }

    /// Records a refusal. Returns whether that succeeded, and so whether the program may be told.
    async fn refused(&self, to: &Target, denial: &Denial) -> bool {
        self.ledger.refused(to, denial).await.is_ok()
    }

    fn passage(&self, number: u64, place: Place) -> Passage {
        let limiter = Arc::clone(&self.shared.limiter);
        Passage::new(Arc::clone(&self.ledger), limiter, number, place)
    }

    fn authority(&self) -> Option<&Authority> {
        let made = self.shared.authority.get_or_init(|| {
            if !self.shared.settings.trust {
                return None;
            }
            let made = Authority::new();
            made.inspect_err(|error| tracing::warn!(%error, "the session has no certificates"))
                .ok()
        });
        made.as_ref()
    }

    /// Returns the refusal for an open flow that a changed policy no longer allows.
    fn changed(&self, request: &HostRequest) -> Refusal {
        let policy = self.rules.now().policy;
        judge::host(&policy, request).err().unwrap_or_else(refuse::changed)
    }

    fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    fn resolver(&self) -> &Resolver {
        &self.shared.settings.resolver
    }

    fn roots(&self) -> &Roots {
        &self.shared.settings.roots
    }

    fn attachments(&self) -> &Attachments {
        &self.shared.attachments
    }
}

/// The protocol that a connection begins with.
enum First {
    Socks,
    /// A head that asks for a tunnel, with its length in bytes.
    Connect(usize),
    Other,
}

/// Reads until the protocol of a connection is clear; `None` if it ends before.
async fn first<S: Stream>(stream: &mut Rewind<S>) -> Option<First> {
    const WORD: &[u8] = b"CONNECT ";
    let mut searched = 0;
    loop {
        let read = &stream.read;
        if read.first() == Some(&socks::VERSION) {
            return Some(First::Socks);
        }
        let begins = WORD.len().min(read.len());
        if read[..begins] != WORD[..begins] {
            return Some(First::Other);
        }
        if let Some(end) = head::end(read, searched) {
            return Some(First::Connect(end));
        }
        searched = read.len();
        if read.len() > head::MOST {
            // The HTTP path refuses it, like any other head that is too long.
            return Some(First::Other);
        }
        if stream.more().await.ok()? == 0 {
            return None;
        }
    }
}

/// Returns the tunnel that a CONNECT request asks for.
fn wanted(head: &head::Head) -> Result<Tunnel, Denial> {
    let (host, port) = head::authority(&head.target)?;
    let port = port.ok_or_else(|| refuse::protocol("CONNECT names a port: `CONNECT host:443 HTTP/1.1`"))?;
    if let Some(same) = &head.host {
        let (also, _) = head::authority(same)?;
        if also != host {
            let refusal = refuse::authority("the `Host` of the CONNECT is not its host");
            return Err(Denial {
                status: http::StatusCode::BAD_REQUEST,
                refusal,
            });
        }
    }
    let front = Front::Connect;
    Ok(Tunnel { front, host, port })
}
