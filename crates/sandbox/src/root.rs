//! The part of a sandbox's root that is the same for all: programs, a little of `/etc`, devices, `/proc`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ringfence_jail::{LandlockAccess, MountAccess, RootEntry};

use crate::interpreter;
use crate::scan::HostScanner;
use crate::spec::{Spec, SpecError};

/// Folders of programs; those that are links into `/usr` on the host are the same links inside.
const PROGRAM_FOLDERS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"];
/// Paths of `/etc` that are shown from the host.
const HOST_ETC_PATHS: [&str; 3] = ["/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs"];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

const PASSWD: &str = "root:x:0:0:root:/:/usr/sbin/nologin\n\
    sandbox:x:1000:1000:sandbox:/workspace:/bin/sh\n\
    nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n";
const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files\n";

/// Adds what every sandbox has.
pub(crate) fn add_system(spec: &mut Spec) {
    spec.uses.push(("/".to_owned(), LandlockAccess::List));
    for path in PROGRAM_FOLDERS {
        add_host_or_link(spec, path);
    }
    for path in HOST_ETC_PATHS.into_iter().filter(|path| Path::new(path).exists()) {
        spec.places.push(RootEntry::Host {
            from: path.into(),
            to: path.to_owned(),
            access: MountAccess::Read,
        });
    }
    for (path, content) in [
        ("/etc/passwd", PASSWD),
        ("/etc/group", GROUP),
        ("/etc/hosts", HOSTS),
        ("/etc/nsswitch.conf", NSSWITCH),
    ] {
        spec.places.push(RootEntry::File {
            to: path.to_owned(),
            content: content.as_bytes().to_vec(),
        });
    }
    spec.uses.push(("/etc".to_owned(), LandlockAccess::Read));
    for name in DEVICES {
        spec.places.push(RootEntry::Device { name: name.to_owned() });
        spec.uses.push((format!("/dev/{name}"), LandlockAccess::Device));
    }
    for (name, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        spec.places.push(RootEntry::Link {
            target: format!("/proc/self/{target}"),
            to: format!("/dev/{name}"),
        });
    }
    spec.places.push(RootEntry::Proc);
    spec.uses.push(("/proc".to_owned(), LandlockAccess::Read));
}

fn add_host_or_link(spec: &mut Spec, path: &str) {
    match fs::read_link(path) {
        Ok(target) => {
            spec.places.push(RootEntry::Link {
                target: target.to_string_lossy().into_owned(),
                to: path.to_owned(),
            });
        }
        Err(_) if Path::new(path).is_dir() => {
            spec.places.push(RootEntry::Host {
                from: path.into(),
                to: path.to_owned(),
                access: MountAccess::Read,
            });
            spec.uses.push((path.to_owned(), LandlockAccess::Programs));
        }
        Err(_) => {}
    }
}

/// The Python of this sandbox: the configured one with its prefixes mounted, else the system's, never the caller's.
pub(crate) fn add_python(
    spec: &mut Spec,
    configured: Option<&Path>,
    scanner: &HostScanner<'_>,
) -> Result<Option<PathBuf>, SpecError> {
    let Some(path) = configured else {
        let known = ["/usr/bin/python3", "/usr/local/bin/python3"];
        return Ok(known.iter().map(PathBuf::from).find(|path| path.exists()));
    };
    let failed = |source| SpecError::Python {
        path: path.to_owned(),
        source,
    };
    let interpreter = interpreter::query_interpreter(path).map_err(failed)?;
    // Nothing is added unless all of it can be.
    let (mut places, mut uses) = (Vec::new(), Vec::new());
    for prefix in interpreter.prefixes {
        if prefix.starts_with("/usr") {
            continue;
        }
        // Its files are not scanned: libraries need files with a denied name, such as `cacert.pem`.
        let real = fs::canonicalize(&prefix).map_err(failed)?;
        scanner
            .glob_state_at(&real)
            .map_err(|error| failed(io::Error::other(error)))?;
        let to = prefix.to_string_lossy().into_owned();
        places.push(RootEntry::Host {
            from: prefix,
            to: to.clone(),
            access: MountAccess::Read,
        });
        uses.push((to, LandlockAccess::Programs));
    }
    spec.places.extend(places);
    spec.uses.extend(uses);
    Ok(Some(interpreter.path))
}
