//! Where the folders of a sandbox are. In most sandboxes they are below `/`; a backend without a root of its own puts them
//! below a folder, and programs still know them by the same names.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringfence_jail::LandlockAccess;

/// The places that a program can write to.
const WRITABLE_PLACES: [&str; 4] = ["workspace", "tmp", "dev/shm", "run/ringfence"];

/// The folders of this sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPlaces {
    root: PathBuf,
}

impl SandboxPlaces {
    /// The places below `root`.
    pub fn below(root: &Path) -> SandboxPlaces {
        SandboxPlaces { root: root.to_owned() }
    }

    /// The folder of the program's files.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// The places that a program can write to; not every sandbox has all of them.
    pub(crate) fn writable(&self) -> impl Iterator<Item = PathBuf> {
        WRITABLE_PLACES.into_iter().map(|place| self.root.join(place))
    }

    /// The paths that an engine may read and write; it cannot open the sandbox's other files.
    pub(crate) fn engine_paths(&self) -> Vec<(CString, LandlockAccess)> {
        let paths = [
            ("workspace", LandlockAccess::Write),
            ("tmp", LandlockAccess::Write),
            ("deps", LandlockAccess::Read),
        ];
        let known = |(name, access)| {
            let path = self.root.join(name);
            // A path with a NUL byte cannot exist, so no engine is to have it.
            Some((CString::new(path.as_os_str().as_bytes()).ok()?, access))
        };
        paths.into_iter().filter_map(known).collect()
    }
}

impl Default for SandboxPlaces {
    fn default() -> SandboxPlaces {
        SandboxPlaces::below(Path::new("/"))
    }
}
