//! An internet of our own, for attempts that must reach nobody: in a network namespace made for it, every address that
//! there is belongs to this process. It serves names, pages and tunnels, and keeps a ledger of whoever came.
//!
//! It refuses to start anywhere but in a namespace with nothing but loopback and with mounts of its own.

mod authority;
mod dns;
mod ledger;
mod link;
mod loose;
mod pages;
mod place;
mod site;
mod socket;
mod web;
mod world;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

pub use ledger::{Arrival, Ledger, Query};
pub use site::{Answer, Asked, Site};
pub use world::{ALLOWED, ALLOWED_6, EVIL, LOOSE, RESOLVER, Reply, STRANGER, World};

use authority::Authority;

/// Why there is no internet.
#[derive(Debug, thiserror::Error)]
pub enum InternetError {
    /// The namespaces are not throw-away ones.
    #[error("an internet of one's own needs a network namespace with loopback alone and mounts of its own: {0}")]
    NotAlone(String),
    /// Loopback and its routes.
    #[error("cannot {step} in the network namespace")]
    Link {
        /// What was asked for.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
    /// What resolvers and clients of the machine read.
    #[error("cannot put `{}` in its place", path.display())]
    Place {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A server.
    #[error("cannot listen on port {port}")]
    Listen {
        /// Which.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The authority that vouches for its servers.
    #[error("cannot make certificates")]
    Authority(#[from] rcgen::Error),
    /// What its servers run on.
    #[error("cannot start the servers")]
    Start(#[source] io::Error),
}

/// The internet; gone when it is dropped.
#[derive(Debug)]
pub struct Internet {
    ledger: Arc<Ledger>,
    authority: Arc<Authority>,
    runtime: Option<Runtime>,
    web: Arc<web::Web>,
}

impl Internet {
    /// Takes over the network namespace that this process is in, and the places in which this mount namespace says who
    /// resolves names and who vouches for servers. `folder` holds the files that are put there.
    pub fn open(folder: &Path, world: World) -> Result<Internet, InternetError> {
        place::alone()?;
        link::own_everything()?;
        let authority = Arc::new(Authority::new()?);
        place::put(folder, authority.pem())?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(InternetError::Start)?;
        let ledger = Arc::new(Ledger::default());
        let world = Arc::new(world);
        {
            let _inside = runtime.enter();
            dns::serve(&world, &ledger)?;
        }
        let web = Arc::new(web::Web {
            world,
            ledger: Arc::clone(&ledger),
            authority: Arc::clone(&authority),
        });
        let internet = Internet {
            ledger,
            authority,
            runtime: Some(runtime),
            web,
        };
        for port in web::PORTS {
            internet.listen(port)?;
        }
        Ok(internet)
    }

    /// Answers on one more port of every address: TLS where the first byte is that of a handshake, else plain.
    pub fn listen(&self, port: u16) -> Result<(), InternetError> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let _inside = runtime.enter();
        web::serve(&self.web, port).map_err(|source| InternetError::Listen { port, source })
    }

    /// Who came, and what was asked.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The certificate that every server here is vouched for by.
    pub fn authority(&self) -> &str {
        self.authority.pem()
    }

    /// Every connection to an address outside `open`.
    pub fn strayed(&self, open: &[IpAddr]) -> Vec<Arrival> {
        let arrivals = self.ledger.arrivals();
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
