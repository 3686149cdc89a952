//! The host files that configure the resolver and the trusted certificates, and the check that it is safe to replace them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use super::InternetError;
use super::world::RESOLVER;

const RESOLV_CONF: &str = "/etc/resolv.conf";
const CERTIFICATES_FOLDER: &str = "/etc/ssl/certs";
const CERTIFICATES_BUNDLE: &str = "ca-certificates.crt";

/// Refuses to start where others could notice.
pub(super) fn require_isolation() -> Result<(), InternetError> {
    let links = fs::read_to_string("/proc/net/dev").map_err(|error| InternetError::NotAlone(error.to_string()))?;
    let other = links
        .lines()
        .skip(2)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .find(|name| *name != "lo");
    if let Some(name) = other {
        return Err(InternetError::NotAlone(format!("there is `{name}`")));
    }
    for kind in ["mnt", "net"] {
        let own = fs::read_link(format!("/proc/self/ns/{kind}"));
        // A user namespace cannot inspect the machine's first process: then it is in another one.
        let first = fs::read_link(format!("/proc/1/ns/{kind}"));
        if let (Ok(own), Ok(first)) = (own, first)
            && own == first
        {
            return Err(InternetError::NotAlone(format!(
                "the {kind} namespace is the machine's"
            )));
        }
    }
    Ok(())
}

/// Installs this resolver and this authority where programs of the namespace look for them.
pub(super) fn install_files(folder: &Path, authority: &str) -> Result<(), InternetError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| InternetError::Place { path, source }
    };
    let root = Path::new("/");
    mount_change(root, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| at(root)(errno.into()))?;
    let resolv = folder.join("resolv.conf");
    fs::write(
        &resolv,
        format!("nameserver {RESOLVER}\noptions attempts:1 timeout:2\n"),
    )
    .map_err(at(&resolv))?;
    bind_mount(&resolv, RESOLV_CONF)?;
    let certs = folder.join("certs");
    fs::create_dir_all(&certs).map_err(at(&certs))?;
    let bundle = certs.join(CERTIFICATES_BUNDLE);
    fs::write(&bundle, authority).map_err(at(&bundle))?;
    // Machines that keep them elsewhere use `SSL_CERT_FILE`.
    if Path::new(CERTIFICATES_FOLDER).is_dir() {
        bind_mount(&certs, CERTIFICATES_FOLDER)?;
    }
    Ok(())
}

fn bind_mount(from: &Path, to: &str) -> Result<(), InternetError> {
    // The target of a link is mounted, not the link.
    let real = fs::canonicalize(to).unwrap_or_else(|_| PathBuf::from(to));
    mount_bind(from, &real).map_err(|errno| InternetError::Place {
        path: real,
        source: errno.into(),
    })
}
