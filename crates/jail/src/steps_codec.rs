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

use crate::landlock::LandlockAccess;
use crate::steps::{BuildStep, ConfinementSteps, HiddenKind, ProcessLimits, StepName};

/// Appends encoded values to bytes.
#[cfg(any(feature = "host", test))]
#[derive(Debug, Default)]
struct StepWriter(Vec<u8>);

#[cfg(any(feature = "host", test))]
impl StepWriter {
    fn write_number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn write_bytes(&mut self, bytes: &[u8]) {
        self.write_number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn write_name(&mut self, name: &CStr) {
        self.write_bytes(name.to_bytes_with_nul());
    }

    fn write_tag(&mut self, tag: u8, names: &[&CStr]) {
        self.0.push(tag);
        for name in names {
            self.write_name(name);
        }
    }

    fn write_optional(&mut self, number: Option<u64>) {
        self.write_number(u64::from(number.is_some()));
        self.write_number(number.unwrap_or(0));
    }

    fn write_list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut StepWriter, &T)) {
        self.write_number(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }

    fn write_step(&mut self, step: &BuildStep<'_>) {
        match step {
            BuildStep::Folder { path } => self.write_tag(1, &[path]),
            BuildStep::Bind { source, to, attributes } => {
                self.write_tag(2, &[to]);
                self.write_number(*source as u64);
                self.write_number(*attributes);
            }
            BuildStep::Touch { path } => self.write_tag(3, &[path]),
            BuildStep::Memory { to, options, flags } => {
                self.write_tag(4, &[to, options]);
                self.write_number(*flags);
            }
            BuildStep::Link { target, to } => self.write_tag(5, &[target, to]),
            BuildStep::Write { to, content } => {
                self.write_tag(6, &[to]);
                self.write_bytes(content);
            }
            BuildStep::Proc => self.write_tag(7, &[]),
            BuildStep::ReadOnlyAgain { path } => self.write_tag(8, &[path]),
            BuildStep::Layer {
                source,
                to,
                options,
                folders,
                hidden,
            } => {
                self.write_tag(9, &[to, options]);
                self.write_number(*source as u64);
                self.write_list(folders, |writer, path| writer.write_name(path));
                self.write_list(hidden, |writer, path| writer.write_name(path));
            }
            BuildStep::CoverOfProc { path, kind } => {
                self.write_tag(10, &[path]);
                self.write_number(u64::from(*kind == HiddenKind::Folder));
            }
            BuildStep::Device { from, to } => self.write_tag(11, &[from, to]),
        }
    }
}

/// Reads values from bytes; `None`: the bytes end too early or are invalid.
#[derive(Debug)]
struct StepReader<'a>(&'a [u8]);

impl<'a> StepReader<'a> {
    fn take_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn read_number(&mut self) -> Option<u64> {
        self.take_bytes(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn read_size(&mut self) -> Option<usize> {
        self.read_number()?.try_into().ok()
    }

    fn read_flag(&mut self) -> Option<bool> {
        match self.read_number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn read_bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.read_size()?;
        self.take_bytes(count)
    }

    fn read_name(&mut self) -> Option<StepName<'a>> {
        CStr::from_bytes_with_nul(self.read_bytes()?).ok().map(Cow::Borrowed)
    }

    /// Reads a number that may be absent, as `T`.
    fn read_optional<T: TryFrom<u64>>(&mut self, found: &mut Option<T>) -> Option<()> {
        let there = self.read_flag()?;
        let number = T::try_from(self.read_number()?).ok()?;
        *found = there.then_some(number);
        Some(())
    }

    fn read_list<T>(&mut self, mut read: impl FnMut(&mut StepReader<'a>) -> Option<T>) -> Option<Vec<T>> {
        (0..self.read_number()?).map(|_| read(self)).collect()
    }

    fn read_step(&mut self) -> Option<BuildStep<'a>> {
        let tag = *self.take_bytes(1)?.first()?;
        Some(match tag {
            1 => BuildStep::Folder {
                path: self.read_name()?,
            },
            2 => BuildStep::Bind {
                to: self.read_name()?,
                source: self.read_size()?,
                attributes: self.read_number()?,
            },
            3 => BuildStep::Touch {
                path: self.read_name()?,
            },
            4 => BuildStep::Memory {
                to: self.read_name()?,
                options: self.read_name()?,
                flags: self.read_number()?,
            },
            5 => BuildStep::Link {
                target: self.read_name()?,
                to: self.read_name()?,
            },
            6 => BuildStep::Write {
                to: self.read_name()?,
                content: Cow::Borrowed(self.read_bytes()?),
            },
            7 => BuildStep::Proc,
            8 => BuildStep::ReadOnlyAgain {
                path: self.read_name()?,
            },
            9 => BuildStep::Layer {
                to: self.read_name()?,
                options: self.read_name()?,
                source: self.read_size()?,
                folders: self.read_list(StepReader::read_name)?,
                hidden: self.read_list(StepReader::read_name)?,
            },
            10 => BuildStep::CoverOfProc {
                path: self.read_name()?,
                kind: self.read_hidden_kind()?,
            },
            11 => BuildStep::Device {
                from: self.read_name()?,
                to: self.read_name()?,
            },
            _ => return None,
        })
    }

    fn read_hidden_kind(&mut self) -> Option<HiddenKind> {
        Some(if self.read_flag()? {
            HiddenKind::Folder
        } else {
            HiddenKind::File
        })
    }

    fn read_access(&mut self) -> Option<LandlockAccess> {
        let index = self.read_size()?;
        LANDLOCK_ACCESSES.get(index).copied()
    }

    fn read_limits(&mut self) -> Option<ProcessLimits> {
        let mut limits = ProcessLimits {
            open_files: self.read_number()?,
            processes: None,
            file_bytes: self.read_number()?,
            processors: None,
        };
        self.read_optional(&mut limits.processes)?;
        self.read_optional(&mut limits.processors)?;
        Some(limits)
    }
}

const LANDLOCK_ACCESSES: [LandlockAccess; 5] = [
    LandlockAccess::Programs,
    LandlockAccess::List,
    LandlockAccess::Read,
    LandlockAccess::Write,
    LandlockAccess::Device,
];

impl<'a> ConfinementSteps<'a> {
    /// Encodes the steps as bytes.
    #[cfg(any(feature = "host", test))]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = StepWriter(Vec::with_capacity(8 << 10));
        writer.write_number(u64::from(self.inside));
        writer.write_number(u64::from(self.drop_groups));
        writer.write_list(&self.sources, |writer, path| writer.write_name(path));
        writer.write_name(&self.root_options);
        writer.write_list(&self.build, StepWriter::write_step);
        writer.write_list(&self.uses, |writer, (path, purpose)| {
            writer.write_name(path);
            let index = LANDLOCK_ACCESSES.iter().position(|known| known == purpose);
            writer.write_number(index.map_or(u64::MAX, |index| index as u64));
        });
        writer.write_list(&self.handles, |writer, path| writer.write_name(path));
        writer.write_number(self.limits.open_files);
        writer.write_number(self.limits.file_bytes);
        writer.write_optional(self.limits.processes);
        writer.write_optional(self.limits.processors.map(|count| count as u64));
        writer.0
    }

    /// Decodes steps; `None`: the bytes are invalid.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<ConfinementSteps<'a>> {
        let mut reader = StepReader(bytes);
        let steps = ConfinementSteps {
            inside: reader.read_number()?.try_into().ok()?,
            drop_groups: reader.read_flag()?,
            sources: reader.read_list(StepReader::read_name)?,
            root_options: reader.read_name()?,
            build: reader.read_list(StepReader::read_step)?,
            uses: reader.read_list(|reader| Some((reader.read_name()?, reader.read_access()?)))?,
            handles: reader.read_list(StepReader::read_name)?,
            limits: reader.read_limits()?,
        };
        reader.0.is_empty().then_some(steps)
    }
}

#[cfg(test)]
mod tests;
