//! Encodes steps as bytes, to send them from the host to a copy of the template: both are the same version of this program.
//!
//! The bytes come from the host itself, so a wrong byte is a fault and not an attack; it is still an error and never a
//! panic.
#![cfg_attr(
    not(any(feature = "inside", test)),
    expect(dead_code, reason = "the host only packs")
)]

use std::borrow::Cow;
use std::ffi::CStr;

use crate::landlock::Use;
use crate::steps::{HiddenKind, Limits, Name, Step, Steps};

/// Appends encoded values to bytes.
#[cfg(any(feature = "host", test))]
#[derive(Debug, Default)]
struct Writer(Vec<u8>);

#[cfg(any(feature = "host", test))]
impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn name(&mut self, name: &CStr) {
        self.bytes(name.to_bytes_with_nul());
    }

    fn tag(&mut self, tag: u8, names: &[&CStr]) {
        self.0.push(tag);
        for name in names {
            self.name(name);
        }
    }

    fn optional(&mut self, number: Option<u64>) {
        self.number(u64::from(number.is_some()));
        self.number(number.unwrap_or(0));
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Writer, &T)) {
        self.number(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Folder { path } => self.tag(1, &[path]),
            Step::Bind { source, to, attributes } => {
                self.tag(2, &[to]);
                self.number(*source as u64);
                self.number(*attributes);
            }
            Step::Touch { path } => self.tag(3, &[path]),
            Step::Memory { to, options, flags } => {
                self.tag(4, &[to, options]);
                self.number(*flags);
            }
            Step::Link { target, to } => self.tag(5, &[target, to]),
            Step::Write { to, content } => {
                self.tag(6, &[to]);
                self.bytes(content);
            }
            Step::Proc => self.tag(7, &[]),
            Step::ReadOnlyAgain { path } => self.tag(8, &[path]),
            Step::Layer {
                source,
                to,
                options,
                folders,
                hidden,
            } => {
                self.tag(9, &[to, options]);
                self.number(*source as u64);
                self.list(folders, |writer, path| writer.name(path));
                self.list(hidden, |writer, path| writer.name(path));
            }
            Step::CoverOfProc { path, kind } => {
                self.tag(10, &[path]);
                self.number(u64::from(*kind == HiddenKind::Folder));
            }
            Step::Device { from, to } => self.tag(11, &[from, to]),
        }
    }
}

/// Reads values from bytes; `None`: the bytes end too early or are invalid.
#[derive(Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn size(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.size()?;
        self.take(count)
    }

    fn name(&mut self) -> Option<Name<'a>> {
        CStr::from_bytes_with_nul(self.bytes()?).ok().map(Cow::Borrowed)
    }

    /// Reads a number that may be absent, as `T`.
    fn optional<T: TryFrom<u64>>(&mut self, found: &mut Option<T>) -> Option<()> {
        let there = self.flag()?;
        let number = T::try_from(self.number()?).ok()?;
        *found = there.then_some(number);
        Some(())
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Reader<'a>) -> Option<T>) -> Option<Vec<T>> {
        (0..self.number()?).map(|_| read(self)).collect()
    }

    fn step(&mut self) -> Option<Step<'a>> {
        let tag = *self.take(1)?.first()?;
        Some(match tag {
            1 => Step::Folder { path: self.name()? },
            2 => Step::Bind {
                to: self.name()?,
                source: self.size()?,
                attributes: self.number()?,
            },
            3 => Step::Touch { path: self.name()? },
            4 => Step::Memory {
                to: self.name()?,
                options: self.name()?,
                flags: self.number()?,
            },
            5 => Step::Link {
                target: self.name()?,
                to: self.name()?,
            },
            6 => Step::Write {
                to: self.name()?,
                content: Cow::Borrowed(self.bytes()?),
            },
            7 => Step::Proc,
            8 => Step::ReadOnlyAgain { path: self.name()? },
            9 => Step::Layer {
                to: self.name()?,
                options: self.name()?,
                source: self.size()?,
                folders: self.list(Reader::name)?,
                hidden: self.list(Reader::name)?,
            },
            10 => Step::CoverOfProc {
                path: self.name()?,
                kind: self.kind()?,
            },
            11 => Step::Device {
                from: self.name()?,
                to: self.name()?,
            },
            _ => return None,
        })
    }

    fn kind(&mut self) -> Option<HiddenKind> {
        Some(if self.flag()? {
            HiddenKind::Folder
        } else {
            HiddenKind::File
        })
    }

    fn purpose(&mut self) -> Option<Use> {
        let index = self.size()?;
        USES.get(index).copied()
    }

    fn limits(&mut self) -> Option<Limits> {
        let mut limits = Limits {
            open_files: self.number()?,
            processes: None,
            file_bytes: self.number()?,
            processors: None,
        };
        self.optional(&mut limits.processes)?;
        self.optional(&mut limits.processors)?;
        Some(limits)
    }
}

const USES: [Use; 5] = [Use::Programs, Use::List, Use::Read, Use::Write, Use::Device];

impl<'a> Steps<'a> {
    /// Encodes the steps as bytes.
    #[cfg(any(feature = "host", test))]
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut writer = Writer(Vec::with_capacity(8 << 10));
        writer.number(u64::from(self.inside));
        writer.number(u64::from(self.drop_groups));
        writer.list(&self.sources, |writer, path| writer.name(path));
        writer.name(&self.root_options);
        writer.list(&self.build, Writer::step);
        writer.list(&self.uses, |writer, (path, purpose)| {
            writer.name(path);
            let index = USES.iter().position(|known| known == purpose);
            writer.number(index.map_or(u64::MAX, |index| index as u64));
        });
        writer.list(&self.handles, |writer, path| writer.name(path));
        writer.number(self.limits.open_files);
        writer.number(self.limits.file_bytes);
        writer.optional(self.limits.processes);
        writer.optional(self.limits.processors.map(|count| count as u64));
        writer.0
    }

    /// Decodes steps; `None`: the bytes are invalid.
    pub(crate) fn unpack(bytes: &'a [u8]) -> Option<Steps<'a>> {
        let mut reader = Reader(bytes);
        let steps = Steps {
            inside: reader.number()?.try_into().ok()?,
            drop_groups: reader.flag()?,
            sources: reader.list(Reader::name)?,
            root_options: reader.name()?,
            build: reader.list(Reader::step)?,
            uses: reader.list(|reader| Some((reader.name()?, reader.purpose()?)))?,
            handles: reader.list(Reader::name)?,
            limits: reader.limits()?,
        };
        reader.0.is_empty().then_some(steps)
    }
}

#[cfg(test)]
mod tests;
