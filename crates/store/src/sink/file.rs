//! A file of JSON lines that other programs may rotate.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use ringfence_journal::Record;

use super::RecordSink;

pub(super) struct FileSink {
    path: PathBuf,
    file: File,
    /// The last line was not written completely.
    torn: bool,
}

impl FileSink {
    pub(super) fn open(path: PathBuf) -> io::Result<FileSink> {
        let file = open_append(&path)?;
        Ok(FileSink {
            path,
            file,
            torn: false,
        })
    }

    /// Whether the open file is no longer the one at its path.
    fn is_rotated(&self) -> io::Result<bool> {
        let held = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) != (held.dev(), held.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn open_append(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

impl RecordSink for FileSink {
    fn send(&mut self, record: &Record) -> io::Result<()> {
        if self.is_rotated()? {
            self.file = open_append(&self.path)?;
            self.torn = false;
        }
        let mut line = record.to_json_line();
        line.push('\n');
        if self.torn {
            line.insert(0, '\n');
        }
        // One write per line, because several processes may append to the same file.
        let written = self.file.write_all(line.as_bytes());
        self.torn = written.is_err();
        written
    }
}
