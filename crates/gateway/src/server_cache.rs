//! The server cache on disk: the last listing of each server, the protocol it speaks, and the pins of accepted
//! definitions.
//!
//! Several processes share the folder: files are replaced as a whole, and pins change under a lock.

mod pins;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_catalog::ServerListing;
use ringfence_disk::{read_bounded, replace_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::servers::{ConfiguredServer, ServerKind};

pub use pins::{PinComparison, PinError};

/// Most bytes of one cached listing.
const MAX_LISTING_BYTES: u64 = 96 * 1024 * 1024;
const CACHE_VERSION: u32 = 1;

/// The protocol generation that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolEra {
    /// 2026-07-28: `server/discover`, no handshake.
    Modern,
    /// 2025-11-25 or earlier; the server says so when asked in the newer protocol.
    Legacy,
    /// 2025-11-25 or earlier; the server once did not answer the newer protocol. It may have been slow to start, and
    /// is asked again.
    Slow,
    /// 2025-11-25 or earlier; the server never answers the newer protocol.
    Silent,
}

/// The cached data of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CachedServer {
    version: u32,
    /// Fingerprint of the entry that the data belongs to: a changed entry under the same name starts over.
    entry: String,
    /// When it was listed, in seconds since 1970.
    pub(crate) seen: u64,
    /// The protocol it spoke; `None` for servers that do not speak MCP.
    pub(crate) era: Option<ProtocolEra>,
    /// The tools of its last listing.
    pub(crate) listing: ServerListing,
}

/// The cache folder of all servers.
#[derive(Debug, Clone)]
pub struct ServerCache {
    home: PathBuf,
    folder: PathBuf,
    pins: Arc<pins::PinStore>,
}

/// Why the cache could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`", path.display())]
pub struct ServerCacheError {
    path: PathBuf,
    source: io::Error,
}

impl ServerCache {
    /// Opens the cache below the data folder of Ringfence.
    pub fn new(home: &Path) -> ServerCache {
        let folder = home.join("catalog");
        ServerCache {
            home: home.to_owned(),
            pins: Arc::new(pins::PinStore::new(&folder)),
            folder,
        }
    }

    /// Returns the data folder itself.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the pins of accepted definitions.
    pub(crate) fn pins(&self) -> &pins::PinStore {
        &self.pins
    }

    /// Returns the digest that a tool is pinned to, and since when; `None` if it has no pin.
    pub fn pinned(&self, tool: &str) -> Result<Option<(String, SystemTime)>, PinError> {
        self.pins.get(tool)
    }

    /// Reads the cached data of a server; unreadable data counts as missing.
    pub(crate) fn read(&self, server: &ConfiguredServer) -> Option<CachedServer> {
        let path = self.listing_path(&server.name);
        let text = match read_bounded(&path, MAX_LISTING_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a remembered listing cannot be read and is ignored");
                return None;
            }
        };
        let kept: CachedServer = match serde_json::from_slice(&text) {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a remembered listing is damaged and is ignored");
                return None;
            }
        };
        let ours = kept.version == CACHE_VERSION && kept.entry == fingerprint(&server.source);
        (ours && kept.listing.server == server.name).then_some(kept)
    }

    /// Writes a server's listing to the cache.
    pub(crate) fn write(
        &self,
        server: &ConfiguredServer,
        era: Option<ProtocolEra>,
        listing: ServerListing,
    ) -> Result<CachedServer, ServerCacheError> {
        let kept = CachedServer {
            version: CACHE_VERSION,
            entry: fingerprint(&server.source),
            seen: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
            era,
            listing,
        };
        let path = self.listing_path(&server.name);
        let written = serde_json::to_vec(&kept)
            .map_err(io::Error::from)
            .and_then(|text| replace_file(&path, &text));
        match written {
            Ok(()) => Ok(kept),
            Err(source) => Err(ServerCacheError { path, source }),
        }
    }

    fn listing_path(&self, server: &str) -> PathBuf {
        // Server names contain no dot, so this name cannot clash.
        let name = if server == "pins" { "pins.server" } else { server };
        self.folder.join(format!("{name}.json"))
    }
}

/// Identifies an entry without containing its secrets.
fn fingerprint(source: &ServerKind) -> String {
    let text = match source {
        ServerKind::Program(program) => format!("{} {:?} {:?}", program.command, program.args, program.place),
        ServerKind::Remote(remote) => remote.url.to_string(),
        ServerKind::Interface(interface) => format!("{:?}", interface.document),
    };
    let digest = Sha256::digest(text.as_bytes());
    base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, digest)
}

#[cfg(test)]
mod tests;
