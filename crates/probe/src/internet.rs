//! A fake internet for attempts that must reach no real server: in a network namespace made for it, this process owns every
//! address. It serves names, pages and tunnels, and keeps a log of all traffic.
//!
//! It refuses to start anywhere but in a namespace with nothing but loopback and with mounts of its own.

mod authority;
mod dns;
mod host_files;
mod lax_server;
mod loopback;
mod pages;
mod site;
mod traffic_log;
mod web;
mod websocket;
mod world;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

pub use site::{SiteAnswer, SiteHandler, SiteRequest};
pub use traffic_log::{Arrival, DnsQuery, TrafficLog};
pub use world::{ALLOWED, ALLOWED_6, DnsReply, EVIL, FakeWorld, LOOSE, RESOLVER, STRANGER};

use authority::ProbeAuthorities;

/// Why the fake internet could not start.
#[derive(Debug, thiserror::Error)]
pub enum InternetError {
    /// The namespaces are not throw-away ones; the text says why.
    #[error("an internet of one's own needs a network namespace with loopback alone and mounts of its own: {0}")]
    NotAlone(String),
    /// The loopback interface or its routes could not be set up.
    #[error("cannot {step} in the network namespace")]
    Link {
        /// The step that failed, as a phrase.
        step: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
    /// A file that resolvers and clients of the machine read could not be installed.
    #[error("cannot put `{}` in its place", path.display())]
    Place {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A server could not listen on its port.
    #[error("cannot listen on port {port}")]
    Listen {
        /// The port of the server.
        port: u16,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The certificate authority of its servers could not be made.
    #[error("cannot make certificates")]
    Authority(#[from] rcgen::Error),
    /// The runtime of its servers could not be started.
    #[error("cannot start the servers")]
    Start(#[source] io::Error),
}

/// A running fake internet; dropping it stops it.
#[derive(Debug)]
pub struct Internet {
    traffic: Arc<TrafficLog>,
    authority: Arc<ProbeAuthorities>,
    runtime: Option<Runtime>,
    web: Arc<web::WebServer>,
}

impl Internet {
    /// Takes over the network namespace that this process is in, and the files in which this mount namespace configures the
    /// resolver and the trusted certificates. `folder` holds the files that are installed there.
    pub fn open(folder: &Path, world: FakeWorld) -> Result<Internet, InternetError> {
        host_files::require_isolation()?;
        loopback::own_all_addresses()?;
        let authority = Arc::new(ProbeAuthorities::new()?);
        host_files::install_files(folder, authority.pem())?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(InternetError::Start)?;
        let ledger = Arc::new(TrafficLog::default());
        let world = Arc::new(world);
        {
            let _inside = runtime.enter();
            dns::serve_dns(&world, &ledger)?;
        }
        let web = Arc::new(web::WebServer {
            world,
            ledger: Arc::clone(&ledger),
            authority: Arc::clone(&authority),
        });
        let internet = Internet {
            traffic: ledger,
            authority,
            runtime: Some(runtime),
            web,
        };
        for port in web::LISTEN_PORTS {
            internet.listen(port)?;
        }
        Ok(internet)
    }

    /// Listens on one more port of every address: TLS where the first byte is that of a handshake, else plain.
    pub fn listen(&self, port: u16) -> Result<(), InternetError> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let _inside = runtime.enter();
        web::listen_on(&self.web, port).map_err(|source| InternetError::Listen { port, source })
    }

    /// The log of connections, requests and queries.
    pub fn traffic(&self) -> &TrafficLog {
        &self.traffic
    }

    /// The certificate, as PEM, that signs every server's certificate.
    pub fn authority(&self) -> &str {
        self.authority.pem()
    }

    /// Every connection to an address outside `open`.
    pub fn stray_arrivals(&self, open: &[IpAddr]) -> Vec<Arrival> {
        let arrivals = self.traffic.arrivals();
        arrivals
            .into_iter()
            .filter(|one| !open.contains(&one.to.ip()))
            .collect()
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
