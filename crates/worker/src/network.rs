//! What a program with a network finds: its proxy's port, and the certificates that it may trust.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use ringfence_wire::Network;

use crate::pipe::Pipe;
use crate::wipe;

/// The folder that is there for this alone.
const FOLDER: &str = "/run/ringfence";

/// What programs trust, all of it.
const BUNDLE: &str = "/run/ringfence/ca.pem";

/// What they would trust anyway; some systems have none.
const USUAL: &str = "/etc/ssl/certs/ca-certificates.crt";

/// More than any list of certificates in use; what is longer is no such list.
const USUAL_MOST: u64 = 3 << 20;

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    /// The port.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Port { port: u16, source: io::Error },
    /// The certificates.
    #[error("cannot write `{BUNDLE}`: {0}")]
    Bundle(io::Error),
    /// What was left there.
    #[error("cannot empty `{FOLDER}`: {0}")]
    Left(#[from] wipe::WipeError),
}

/// Makes it ready, before the program is started.
pub(crate) fn prepare(pipe: &mut Pipe, network: &Network) -> Result<(), NetworkError> {
    // A program before this one may have left anything there.
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
