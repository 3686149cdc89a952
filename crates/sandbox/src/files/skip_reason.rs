//! Why a file that a program left is not copied: the rule that holds it, and what helps.

/// How many names are listed; the rest is only counted.
const MAX_NAMED: usize = 100;

/// Why a file does not leave the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// A pattern of `fs.deny` matches it.
    Denied,
    /// It is a symbolic link.
    Link,
    /// It is a device, a socket or a fifo.
    NotPlain,
    /// Its name is not plain text, or its path is too long.
    Name,
    /// The bytes of its name are not UTF-8.
    NotUtf8,
    /// The host cannot read it.
    Unreadable,
    /// There is no such file, or it disappeared while the host read the workspace.
    Gone,
    /// It holds more bytes than the limit has left.
    Bytes,
    /// Its holes are larger than its place.
    Holes,
    /// It lies in too many nested folders.
    Depth,
    /// There are too many entries before it.
    Entries,
    /// The time for collecting files is over.
    Time,
    /// The target folder already has a file of that name.
    Exists,
    /// A link, a folder or another file stands where it, or a folder above it, should be.
    Occupied,
}

impl SkipReason {
    /// The reason, as a phrase for people.
    pub fn description(self) -> &'static str {
        match self {
            SkipReason::Denied => "fs.deny",
            SkipReason::Link => "a link",
            SkipReason::NotPlain => "not a plain file",
            SkipReason::Name => "a name that is not plain text",
            SkipReason::NotUtf8 => "a name that is not UTF-8",
            SkipReason::Unreadable => "not readable",
            SkipReason::Gone => "no file there",
            SkipReason::Bytes => "larger than its place",
            SkipReason::Holes => "its holes are larger than its place",
            SkipReason::Depth => "too deep",
            SkipReason::Entries => "too many files",
            SkipReason::Time => "no time was left",
            SkipReason::Exists => "the folder has a file of that name",
            SkipReason::Occupied => "a link or something else is in its place",
        }
    }

    /// The rule that keeps the file in the sandbox.
    pub fn rule(self) -> &'static str {
        match self {
            SkipReason::Denied => "fs.deny",
            SkipReason::Link
            | SkipReason::NotPlain
            | SkipReason::Name
            | SkipReason::NotUtf8
            | SkipReason::Unreadable
            | SkipReason::Gone => "fs.plain",
            SkipReason::Bytes | SkipReason::Holes => "fs.mounts.quota",
            SkipReason::Depth | SkipReason::Entries | SkipReason::Time => "fs.collect",
            SkipReason::Exists | SkipReason::Occupied => "fs.out",
        }
    }

    /// What a program can do so that the file can leave.
    pub fn hint(self) -> &'static str {
        match self {
            SkipReason::Denied => "use another name",
            SkipReason::Link | SkipReason::NotPlain => "copy what it leads to into a plain file",
            SkipReason::Name | SkipReason::NotUtf8 => "use a short name of plain text",
            SkipReason::Unreadable | SkipReason::Gone => "make it readable",
            SkipReason::Bytes => "write less, or raise the quota",
            SkipReason::Holes => "write files without holes, or raise the quota",
            SkipReason::Depth => "put it into fewer folders",
            SkipReason::Entries => "pack the files into one, or `emit` those that matter",
            SkipReason::Time => "leave fewer or smaller files, or `emit` those that matter",
            SkipReason::Exists => "add `--force` to overwrite it, or name another folder",
            SkipReason::Occupied => "remove what is there, or name another folder",
        }
    }

    /// Whether only a limit kept the host from copying the file.
    pub fn is_limit(self) -> bool {
        match self {
            SkipReason::Bytes | SkipReason::Holes | SkipReason::Depth | SkipReason::Entries | SkipReason::Time => true,
            SkipReason::Denied
            | SkipReason::Link
            | SkipReason::NotPlain
            | SkipReason::Name
            | SkipReason::NotUtf8
            | SkipReason::Unreadable
            | SkipReason::Gone
            | SkipReason::Exists
            | SkipReason::Occupied => false,
        }
    }
}

/// Files that were not copied: the first ones by name, all of them by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SkippedFiles {
    named: Vec<(String, SkipReason)>,
    counts: std::collections::BTreeMap<SkipReason, SkipCount>,
}

/// How many files were not copied for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipCount {
    /// The path of the first file.
    pub first: String,
    /// The number of files and folders.
    pub count: u64,
}

impl SkippedFiles {
    /// Adds one file that was not copied for `reason`.
    pub fn add(&mut self, path: &str, reason: SkipReason) {
        self.add_many(path, reason, 1);
    }

    /// Adds `count` files of one reason, the first of which is `path`.
    pub fn add_many(&mut self, path: &str, reason: SkipReason, count: u64) {
        self.counts
            .entry(reason)
            .or_insert_with(|| SkipCount {
                first: path.to_owned(),
                count: 0,
            })
            .count += count;
        if self.named.len() < MAX_NAMED {
            self.named.push((path.to_owned(), reason));
        }
    }

    /// The first hundred, in the order in which the host found them.
    pub fn named(&self) -> &[(String, SkipReason)] {
        &self.named
    }

    /// The counts, in the order of their reasons.
    pub fn counts(&self) -> impl Iterator<Item = (SkipReason, &SkipCount)> {
        self.counts.iter().map(|(reason, count)| (*reason, count))
    }

    /// Adds everything that `other` holds.
    pub fn add_all(&mut self, other: &SkippedFiles) {
        for (reason, more) in &other.counts {
            let counted = self.counts.entry(*reason).or_insert_with(|| SkipCount {
                first: more.first.clone(),
                count: 0,
            });
            counted.count += more.count;
        }
        let room = MAX_NAMED.saturating_sub(self.named.len());
        self.named.extend(other.named.iter().take(room).cloned());
    }

    /// The number of all files that were not copied.
    pub fn total(&self) -> u64 {
        self.counts.values().map(|count| count.count).sum()
    }

    /// Keeps only the files that a limit held back.
    #[must_use]
    pub fn limits_only(mut self) -> SkippedFiles {
        self.named.retain(|(_, reason)| reason.is_limit());
        self.counts.retain(|reason, _| reason.is_limit());
        self
    }

    /// The files that a caller misses who did not ask for all of them: those that a limit held back, and those whose reason
    /// is in `by_name`. Links and devices never leave, and no caller misses them.
    #[must_use]
    pub fn missed(&self, by_name: &[SkipReason]) -> SkippedFiles {
        let mut missed = self.clone().limits_only();
        for (reason, left) in self.counts().filter(|(reason, _)| by_name.contains(reason)) {
            missed.add_many(&left.first, reason, left.count);
        }
        missed
    }

    /// Whether every file was copied.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Whether a limit held any file back.
    pub fn has_limit(&self) -> bool {
        self.counts.keys().any(|reason| reason.is_limit())
    }
}
