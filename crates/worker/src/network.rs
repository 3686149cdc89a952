//! Sets up the network of a program: the port of its proxy, and the certificates that it may trust.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use ringfence_wire::Network;

use crate::pipe::Pipe;
use crate::wipe;

/// A folder that holds nothing but the files of this module.
const FOLDER: &str = "/run/ringfence";

/// The file with all certificates that programs trust.
const BUNDLE: &str = "/run/ringfence/ca.pem";

/// The system's own certificates, which some systems do not have.
const USUAL: &str = "/etc/ssl/certs/ca-certificates.crt";

/// More than any bundle in use; a larger file is not a certificate bundle.
const USUAL_MOST: u64 = 3 << 20;

/// Why the network cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    /// The proxy's port cannot be opened, for example because it is in use.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Port { port: u16, source: io::Error },
    /// The file with the certificates cannot be written.
    #[error("cannot write `{BUNDLE}`: {0}")]
    Bundle(io::Error),
    /// The files of an earlier program cannot be removed.
    #[error("cannot empty `{FOLDER}`: {0}")]
    Left(#[from] wipe::WipeError),
}

/// Sets up the network before the program starts.
pub(crate) fn prepare(pipe: &mut Pipe, network: &Network) -> Result<(), NetworkError> {
    // An earlier program may have left anything in the folder.
    wipe::folder(Path::new(FOLDER))?;
    write_bundle(network.trust.as_str()).map_err(NetworkError::Bundle)?;
    pipe.listen(network.port).map_err(|source| NetworkError::Port {
        port: network.port,
        source,
    })
}

fn write_bundle(trust: &str) -> io::Result<()> {
    let mut bundle = Vec::new();
    match File::open(USUAL) {
        Ok(usual) => {
            usual.take(USUAL_MOST + 1).read_to_end(&mut bundle)?;
            if bundle.len() as u64 > USUAL_MOST {
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!("`{USUAL}` has more than {} MiB", USUAL_MOST >> 20),
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
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(BUNDLE)?;
    file.write_all(&bundle)
}
