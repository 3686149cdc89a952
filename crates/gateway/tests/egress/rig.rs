//! A network namespace for one test, with an egress proxy in it.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ringfence_gateway::{DnsResolver, Egress, EgressSettings, ProxyLocation, TrustRoots};
use ringfence_journal::{ContentHash, Event, EventKind, ExecutionId, RecordError, RecordPosition, Recorder, SessionId};
use ringfence_policy::{Ceiling, Draft, Policy};
use tokio::io::DuplexStream;

use crate::names::Names;
use crate::world::World;

const INSIDE: &str = "RINGFENCE_EGRESS_INSIDE";
/// All addresses that a test may need, public or not.
const ADDRESSES: [&str; 6] = [
    "93.184.216.34/32",
    "93.184.216.35/32",
    "10.1.2.3/32",
    "169.254.169.254/32",
    "100.64.0.9/32",
    "2606:2800:220:1::34/128",
];

/// Runs a test in a namespace: starts the test program once more, for this test alone.
pub(crate) fn inside<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F) {
    if std::env::var_os(INSIDE).is_none() {
        let addresses = ADDRESSES.map(|address| format!("ip addr add {address} dev lo"));
        let setup = format!("ip link set lo up && {}", addresses.join(" && "));
        let status = Command::new("unshare")
            .args(["--user", "--map-root-user", "--net", "sh", "-c"])
            .arg(format!(
                "{setup} && exec \"$0\" --exact --nocapture --include-ignored {name}"
            ))
            .arg(std::env::current_exe().unwrap())
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&status.stdout);
        assert!(
            status.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&status.stderr)
        );
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test());
}

/// Declares tests that run in their own namespace.
macro_rules! tests {
    ($($(#[$meta:meta])* async fn $name:ident() $body:block)*) => {
        $(
            $(#[$meta])*
            #[test]
            fn $name() {
                let path = concat!(module_path!(), "::", stringify!($name));
                let path = path.split_once("::").unwrap().1;
                crate::rig::inside(path, || async $body);
            }
        )*
    };
}
pub(crate) use tests;

/// A journal in memory, which can be full.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) full: AtomicBool,
}

impl Recorder for Book {
    async fn record(&self, event: Event) -> Result<RecordPosition, RecordError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(RecordError::Ended);
        }
        let mut events = self.events.lock().unwrap();
        // Recorded events must be serializable.
        let text = event.canonical().unwrap();
        assert_eq!(Event::parse(&text).unwrap(), event);
        events.push(event);
        Ok(RecordPosition {
            seq: events.len() as u64,
            hash: ContentHash::digest(b""),
        })
    }
}

impl Book {
    /// Returns all events so far, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.events
            .lock()
            .unwrap()
            .iter()
            .map(|event| line(&event.kind))
            .collect()
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is written by an egress")]
fn line(kind: &EventKind) -> String {
    let place = |to: &ringfence_journal::EgressTarget| {
        let method = to
            .method
            .as_ref()
            .map(|method| format!(" {method}"))
            .unwrap_or_default();
        let path = to.path.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{}://{}:{}{method} {path}", to.scheme, to.host, to.port)
            .trim_end()
            .to_owned()
    };
    match kind {
        EventKind::EgressStarted { to, address, .. } => format!("started {} at {address}", place(to)),
        EventKind::EgressEnded { status, error, .. } => {
            let status = status.map_or("-".to_owned(), |status| status.to_string());
            format!("ended {status} {}", error.as_ref().map_or("-", |error| error.as_str()))
        }
        EventKind::EgressRefused { to, code, rule, .. } => format!("refused {} {code} {rule}", place(to)),
        other => format!("{other:?}"),
    }
}

/// Returns a policy with these lines of `net`.
pub(crate) fn policy(net: &str) -> Arc<Policy> {
    let text = format!("net: {{ enabled: true, {net} }}");
    let draft = Draft::parse(&text, "t").unwrap();
    Arc::new(draft.under(&Ceiling::unlimited()).unwrap())
}

/// An egress proxy with a world of hosts around it.
pub(crate) struct Rig {
    pub(crate) egress: Arc<Egress>,
    pub(crate) book: Arc<Book>,
    pub(crate) names: Names,
    pub(crate) world: World,
}

pub(crate) async fn rig(net: &str) -> Rig {
    rig_with(net, |_| {}).await
}

pub(crate) async fn limited(net: &str, limits: &str) -> Rig {
    rig(&format!("{net}, limits: {{ {limits} }}")).await
}

pub(crate) async fn rig_with(net: &str, set: impl FnOnce(&mut EgressSettings)) -> Rig {
    let names = Names::serve().await;
    names.a("web.example.com", "93.184.216.34");
    names.a("other.example.com", "93.184.216.35");
    let world = World::serve().await;
    let book = Arc::new(Book::default());
    let mut settings = EgressSettings::system();
    settings.resolver = DnsResolver::with_name_server(names.address);
    settings.roots = TrustRoots::from_pem(world.pem.clone());
    set(&mut settings);
    let ids = (SessionId::generate().unwrap(), ExecutionId::generate().unwrap());
    let egress = Egress::new(settings, policy(net), Arc::clone(&book), ids);
    Rig {
        egress: Arc::new(egress),
        book,
        names,
        world,
    }
}

/// Creates another session in the same world.
pub(crate) fn rig_beside(rig: &Rig, net: &str) -> Egress {
    let mut settings = EgressSettings::system();
    settings.resolver = DnsResolver::with_name_server(rig.names.address);
    let ids = (SessionId::generate().unwrap(), ExecutionId::generate().unwrap());
    Egress::new(settings, policy(net), Arc::clone(&rig.book), ids)
}

impl Rig {
    /// Returns how many flows have started.
    pub(crate) fn started(&self) -> usize {
        self.book
            .lines()
            .iter()
            .filter(|line| line.starts_with("started"))
            .count()
    }

    /// Returns the variables of a program.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let trust = "/ca.pem";
        self.egress.environment(ProxyLocation { port: 3128, trust })
    }

    /// Opens one connection of a program.
    pub(crate) fn open(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(256 * 1024);
        let egress = Arc::clone(&self.egress);
        tokio::spawn(async move { egress.serve(far).await });
        near
    }

    /// Returns the lines of the journal once everything has ended.
    pub(crate) async fn closed(&self) -> Vec<String> {
        for _ in 0..1000 {
            let lines = self.book.lines();
            let count = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
            if count("started") == count("ended") {
                return lines;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("something did not end: {:#?}", self.book.lines());
    }
}
