//! Why a file that a program left stays behind: the rule that holds it, and what helps.

/// Names that are listed; more are counted.
const MAX_NAMED: usize = 100;

/// Why a file does not leave the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// `fs.deny` names it.
    Denied,
    /// It is a symbolic link.
    Link,
    /// It is a device, a socket or a fifo.
    NotPlain,
    /// Its name is no plain text, or its path is too long.
    Name,
    /// The bytes of its name are no text at all.
    NotUtf8,
    /// The host cannot read it.
    Unreadable,
    /// There is no such file, or it went away while the host looked.
    Gone,
    /// It holds more bytes than its place has left.
    Bytes,
    /// Its holes are larger than its place.
    Holes,
    /// It lies too deep.
    Depth,
    /// There are too many entries before it.
    Entries,
    /// The time for collecting was over.
    Time,
    /// The folder it should go to has something of that name.
    Exists,
    /// Something else is there where it, or a folder above it, should be: a link, a folder, a file.
    Occupied,
}

impl SkipReason {
    /// The reason in words.
    pub fn why(self) -> &'static str {
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

    /// The rule that keeps it.
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

    /// What a program can do so that it leaves.
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

    /// Whether the host would have taken it, had there been less.
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

/// What was left behind: the first of it by name, all of it by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Skipped {
    named: Vec<(String, SkipReason)>,
    counts: std::collections::BTreeMap<SkipReason, SkipCount>,
}

/// How much was left behind for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipCount {
    /// The first of it.
    pub first: String,
    /// How many files and folders.
    pub count: u64,
}

impl Skipped {
    /// Notes one more.
    pub fn add(&mut self, path: &str, reason: SkipReason) {
        self.add_many(path, reason, 1);
    }

    /// Several of one reason, of which `path` is the first.
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

    /// The first hundred, in the order in which they were found.
    pub fn named(&self) -> &[(String, SkipReason)] {
        &self.named
    }

    /// By reason.
    pub fn counts(&self) -> impl Iterator<Item = (SkipReason, &SkipCount)> {
        self.counts.iter().map(|(reason, count)| (*reason, count))
    }

    /// Notes all that another has.
    pub fn add_all(&mut self, other: &Skipped) {
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

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.counts.values().map(|count| count.count).sum()
    }

    /// The same without what never leaves anyway.
    #[must_use]
    pub fn limits_only(mut self) -> Skipped {
        self.named.retain(|(_, reason)| reason.is_limit());
        self.counts.retain(|reason, _| reason.is_limit());
        self
    }

    /// What is missed of it where nobody asked for all of them: what a bound of the host's own work kept, and what its name kept.
    /// Links and devices never leave, and are missed by nobody.
    #[must_use]
    pub fn missed(&self, by_name: &[SkipReason]) -> Skipped {
        let mut missed = self.clone().limits_only();
        for (reason, left) in self.counts().filter(|(reason, _)| by_name.contains(reason)) {
            missed.add_many(&left.first, reason, left.count);
        }
        missed
    }

    /// Whether everything could be taken.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Whether a bound of the host's own work kept something.
    pub fn has_limit(&self) -> bool {
        self.counts.keys().any(|reason| reason.is_limit())
    }
}
