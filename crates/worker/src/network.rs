//! Sets up the network of a program: the port of its proxy, and the certificates that it may trust.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use ringfence_wire::NetworkProxy;

use crate::pipe::ChildPipe;
use crate::wipe;

/// A folder that holds nothing but the files of this module.
const NETWORK_FOLDER: &str = "/run/ringfence";

/// The file with all certificates that programs trust.
const BUNDLE_PATH: &str = "/run/ringfence/ca.pem";

/// The system's own certificates, which some systems do not have.
const SYSTEM_BUNDLE_PATH: &str = "/etc/ssl/certs/ca-certificates.crt";

/// More than any bundle in use; a larger file is not a certificate bundle.
const MAX_SYSTEM_BUNDLE_BYTES: u64 = 3 << 20;

/// Why the network cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkSetupError {
    /// The proxy's port cannot be opened, for example because it is in use.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Port { port: u16, source: io::Error },
    /// The file with the certificates cannot be written.
    #[error("cannot write `{BUNDLE_PATH}`: {0}")]
    Bundle(io::Error),
    /// The files of an earlier program cannot be removed.
    #[error("cannot empty `{NETWORK_FOLDER}`: {0}")]
    NotEmptied(#[from] wipe::WipeError),
}

/// Sets up the network before the program starts.
pub(crate) fn prepare_network(pipe: &mut ChildPipe, network: &NetworkProxy) -> Result<(), NetworkSetupError> {
    // An earlier program may have left anything in the folder.
    wipe::empty_folder(Path::new(NETWORK_FOLDER))?;
    write_bundle(network.trust.as_str()).map_err(NetworkSetupError::Bundle)?;
    pipe.listen(network.port).map_err(|source| NetworkSetupError::Port {
        port: network.port,
        source,
    })
}

fn write_bundle(trust: &str) -> io::Result<()> {
    let mut bundle = Vec::new();
    match File::open(SYSTEM_BUNDLE_PATH) {
        Ok(usual) => {
            usual.take(MAX_SYSTEM_BUNDLE_BYTES + 1).read_to_end(&mut bundle)?;
            if bundle.len() as u64 > MAX_SYSTEM_BUNDLE_BYTES {
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!(
                        "`{SYSTEM_BUNDLE_PATH}` has more than {} MiB",
                        MAX_SYSTEM_BUNDLE_BYTES >> 20
                    ),
                ));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if !bundle.is_empty() && !bundle.ends_with(b"\n") {
        bundle.push(b'\n');
    }
    bundle.extend_from_slice(trust.as_bytes());
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(BUNDLE_PATH)?;
    file.write_all(&bundle)
}
