//! Files into and out of a sandbox's writable places, through handles the host holds: never by a path of the host's.

mod wanted;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_policy::{Glob, RelPath};
use ringfence_wire::Emit;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat2, statat, unlinkat};
use sha2::{Digest, Sha256};

use crate::running::Sandbox;
use wanted::Wanted;

const WORKSPACE: &str = "/workspace";
/// A folder deeper than this is not followed: nobody made it to be kept.
const MOST_DEPTH: usize = 64;
const MOST_FILES: usize = 100_000;
const CHUNK: usize = 128 * 1024;

/// Why a file did not get in.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The policy has no `/workspace`.
    #[error("the policy gives no writable `/workspace`")]
    NoWorkspace,
    /// It could not be read here.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It could not be written there.
    #[error("cannot bring `{name}` into the sandbox")]
    Write {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The thread that writes as the sandbox's user.
    #[error("the work was abandoned")]
    Abandoned,
}

/// Why files could not be taken out.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The workspace could not be looked at.
    #[error("cannot look at `{name}` in the sandbox")]
    Look {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A copy could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Created,
    /// It was, with other content.
    Changed,
    /// It was, as it is: the program wants it to go out all the same.
    Same,
}

/// A plain file in the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Where, below the workspace.
    pub path: RelPath,
    /// Its length.
    pub bytes: u64,
    /// Its content's digest, as hex.
    pub sha256: String,
    /// Against the time before the run.
    pub change: Change,
    /// What the program says it is, where it wants it to go out.
    pub emitted: Option<String>,
}

/// What a workspace holds that it did not hold before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// Files: first those that the program wants to go out, as it named them, then the others by path.
    pub files: Vec<FoundFile>,
    /// What was left behind, and why: links, devices, denied names.
    pub skipped: Vec<(String, &'static str)>,
    /// What the program wants to go out and does not, and why.
    pub withheld: Vec<(String, &'static str)>,
}

impl Sandbox {
    /// Copies a file of the host to `name` in the workspace.
    pub fn put(&self, from: &Path, name: &RelPath) -> Result<String, PutError> {
        let file = File::open(from).map_err(|source| PutError::Read {
            path: from.to_owned(),
            source,
        })?;
        let found = file.metadata().map_err(|source| PutError::Read {
            path: from.to_owned(),
            source,
        })?;
        if !found.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a plain file");
            return Err(PutError::Read {
                path: from.to_owned(),
                source,
            });
        }
        self.write(name, file)
    }

    /// Writes a file of these bytes to `name` in the workspace.
    pub fn put_bytes(&self, bytes: &[u8], name: &RelPath) -> Result<String, PutError> {
        self.write(name, bytes)
    }

    fn write(&self, name: &RelPath, from: impl Read + Send) -> Result<String, PutError> {
        let workspace = self.place(WORKSPACE).ok_or(PutError::NoWorkspace)?;
        let ids = self.ids();
        // A jail's own file systems accept no files of users they do not know.
        let written = ringfence_jail::as_file_user(ids.user, ids.group, || write_in(workspace, name, from));
        let written = written.map_err(|_| PutError::Abandoned)?;
        written.map_err(|source| PutError::Write {
            name: name.as_str().to_owned(),
            source,
        })
    }

    fn quota(&self) -> u64 {
        self.places()
            .find(|(place, _)| place.path == WORKSPACE)
            .map_or(0, |(place, _)| place.quota)
    }

    /// The digests of what is in the workspace now, to compare with later.
    pub fn snapshot(&self) -> Result<BTreeMap<String, String>, CollectError> {
        let Some(workspace) = self.place(WORKSPACE) else {
            return Ok(BTreeMap::new());
        };
        let mut walk = Walk::new(workspace, &[], self.quota());
        walk.folder(".", 0)?;
        Ok(walk
            .found
            .into_iter()
            .map(|(path, _, digest)| (path.as_str().to_owned(), digest))
            .collect())
    }

    /// New and changed plain files, and those that are to go out; `deny` names what never leaves.
    pub fn collect(
        &self,
        before: &BTreeMap<String, String>,
        deny: &[Glob],
        emitted: &[Emit],
    ) -> Result<Collected, CollectError> {
        let wanted = Wanted::new(emitted);
        let Some(workspace) = self.place(WORKSPACE) else {
            return Ok(Collected {
                withheld: wanted.withheld(&[], &[]),
                ..Collected::default()
            });
        };
        let mut walk = Walk::new(workspace, deny, self.quota());
        walk.folder(".", 0)?;
        let mut collected = Collected {
            files: Vec::new(),
            withheld: wanted.withheld(&walk.found, &walk.skipped),
            skipped: walk.skipped,
        };
        for (path, bytes, sha256) in walk.found {
            let emitted = wanted.media_type(path.as_str());
            let change = match before.get(path.as_str()) {
                Some(old) if *old == sha256 && emitted.is_none() => continue,
                Some(old) if *old == sha256 => Change::Same,
                Some(_) => Change::Changed,
                None => Change::Created,
            };
            collected.files.push(FoundFile {
                path,
                bytes,
                sha256,
                change,
                emitted,
            });
        }
        collected.files.sort_by(|one, other| {
            let place = |file: &FoundFile| wanted.place(file.path.as_str());
            place(one)
                .cmp(&place(other))
                .then_with(|| one.path.as_str().cmp(other.path.as_str()))
        });
        Ok(collected)
    }

    /// The contents of collected files.
    pub fn read_all(&self, files: &[FoundFile]) -> Result<BTreeMap<String, Vec<u8>>, CollectError> {
        let mut contents = BTreeMap::new();
        let Some(workspace) = self.place(WORKSPACE) else {
            return Ok(contents);
        };
        for file in files {
            let name = file.path.as_str();
            let look = |source: io::Error| CollectError::Look {
                name: name.to_owned(),
                source,
            };
            let from = open_beneath(workspace, name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).map_err(look)?;
            let mut content = Vec::new();
            // One that grows meanwhile is not what was found.
            let mut from = File::from(from).take(file.bytes + 1);
            from.read_to_end(&mut content).map_err(look)?;
            contents.insert(name.to_owned(), content);
        }
        Ok(contents)
    }

    /// Copies collected files below `to`: plain, with plain modes, following nothing on either side.
    pub fn copy_out(&self, files: &[FoundFile], to: &Path) -> Result<(), CollectError> {
        let Some(workspace) = self.place(WORKSPACE) else {
            return Ok(());
        };
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| CollectError::Write { path, source }
        };
        std::fs::create_dir_all(to).map_err(failed(to))?;
        let folder = File::open(to).map_err(failed(to))?;
        for file in files {
            let name = file.path.as_str();
            let look = |source: io::Error| CollectError::Look {
                name: name.to_owned(),
                source,
            };
            let from = open_beneath(workspace, name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).map_err(look)?;
            write_in(folder.as_fd(), &file.path, File::from(from)).map_err(failed(&to.join(name)))?;
        }
        Ok(())
    }
}

fn open_beneath(root: BorrowedFd<'_>, path: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(
        root,
        path,
        flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        mode,
        beneath,
    )?)
}

/// Writes `from` to `name` below `root`, making the folders above it; answers the digest.
fn write_in(root: BorrowedFd<'_>, name: &RelPath, mut from: impl Read) -> io::Result<String> {
    let text = name.as_str();
    for (index, _) in text.match_indices('/') {
        let parent = text.get(..index).unwrap_or_default();
        let above = parent.rsplit_once('/').map_or(".", |(above, _)| above);
        let last = parent.rsplit('/').next().unwrap_or(parent);
        let folder = open_beneath(root, above, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        match mkdirat(&folder, last, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK;
    let mut to = File::from(open_beneath(root, text, flags, Mode::from_raw_mode(0o644))?);
    if !to.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "something else than a plain file is there",
        ));
    }
    let copied = copy(&mut from, &mut to);
    if copied.is_err() {
        // Half a file is worse than none. One that cannot be removed either is told by the error that follows.
        let (above, last) = text.rsplit_once('/').unwrap_or((".", text));
        let _ = open_beneath(root, above, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
            .and_then(|folder| Ok(unlinkat(folder, last, AtFlags::empty())?));
    }
    copied
}

fn copy(from: &mut impl Read, to: &mut File) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = from.read(&mut buffer)?;
        let part = buffer.get(..count).unwrap_or_default();
        if part.is_empty() {
            return Ok(hex(&digest.finalize()));
        }
        digest.update(part);
        to.write_all(part)?;
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

struct Walk<'a> {
    root: BorrowedFd<'a>,
    deny: &'a [Glob],
    found: Vec<(RelPath, u64, String)>,
    skipped: Vec<(String, &'static str)>,
    /// Bytes that may still be found: a file with holes can claim more than its place ever held.
    left: u64,
}

impl<'a> Walk<'a> {
    fn new(root: BorrowedFd<'a>, deny: &'a [Glob], quota: u64) -> Walk<'a> {
        Walk {
            root,
            deny,
            found: Vec::new(),
            skipped: Vec::new(),
            left: quota,
        }
    }

    fn folder(&mut self, path: &str, depth: usize) -> Result<(), CollectError> {
        if depth > MOST_DEPTH {
            self.skipped.push((path.to_owned(), "too deep"));
            return Ok(());
        }
        let look = |source: io::Error| CollectError::Look {
            name: path.to_owned(),
            source,
        };
        let handle = match open_beneath(self.root, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
            Ok(handle) => handle,
            Err(error) if depth > 0 => {
                let why = if error.kind() == io::ErrorKind::PermissionDenied {
                    "not readable"
                } else {
                    "gone"
                };
                self.skipped.push((path.to_owned(), why));
                return Ok(());
            }
            Err(error) => return Err(look(error)),
        };
        for entry in Dir::read_from(&handle).map_err(|error| look(error.into()))? {
            let entry = entry.map_err(|error| look(error.into()))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if self.found.len() + self.skipped.len() >= MOST_FILES {
                self.skipped.push((path.to_owned(), "too many files"));
                return Ok(());
            }
            let below = name.to_string_lossy();
            let below = if path == "." {
                below.into_owned()
            } else {
                format!("{path}/{below}")
            };
            let Ok(relative) = below.parse::<RelPath>() else {
                self.skipped.push((below, "a name that is not plain text"));
                continue;
            };
            let Ok(found) = statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            self.entry(relative, FileType::from_raw_mode(found.st_mode), depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: RelPath, kind: FileType, depth: usize) -> Result<(), CollectError> {
        if self.deny.iter().any(|glob| glob.hides(&path)) {
            self.skipped.push((path.as_str().to_owned(), "fs.deny"));
            return Ok(());
        }
        match kind {
            FileType::Directory => self.folder(path.as_str(), depth + 1),
            FileType::RegularFile => {
                self.file(path);
                Ok(())
            }
            FileType::Symlink => {
                self.skip(&path, "a link");
                Ok(())
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {
                self.skip(&path, "not a plain file");
                Ok(())
            }
        }
    }

    fn skip(&mut self, path: &RelPath, why: &'static str) {
        self.skipped.push((path.as_str().to_owned(), why));
    }

    /// A file that cannot be read, or is exchanged for something else while we look, is skipped.
    fn file(&mut self, path: RelPath) {
        let opened = open_beneath(
            self.root,
            path.as_str(),
            OFlags::RDONLY | OFlags::NONBLOCK,
            Mode::empty(),
        );
        match opened.and_then(|handle| digest(File::from(handle), self.left)) {
            Ok(Some((bytes, digest))) => {
                self.left -= bytes;
                self.found.push((path, bytes, digest));
            }
            Ok(None) => self.skip(&path, "larger than its place"),
            Err(_) => self.skip(&path, "not readable"),
        }
    }
}

/// Length and digest; `None`: longer than `most`.
fn digest(mut file: File, most: u64) -> io::Result<Option<(u64, String)>> {
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut digest = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(Some((bytes, hex(&digest.finalize()))));
        }
        bytes += count as u64;
        if bytes > most {
            return Ok(None);
        }
        digest.update(buffer.get(..count).unwrap_or_default());
    }
}
