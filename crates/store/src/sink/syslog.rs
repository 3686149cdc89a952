//! Sends RFC 5424 messages to a datagram socket.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use ringfence_journal::{Event, Record};

use super::Drain;

/// The facility "log audit".
const FACILITY: u8 = 13;
const WARNING: u8 = 4;
const INFORMATIONAL: u8 = 6;

/// How long a send waits for a full receiver before the record is dropped.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) struct Syslog {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Syslog {
    pub(super) fn open(path: PathBuf) -> io::Result<Syslog> {
        let socket = connect(&path)?;
        Ok(Syslog { path, socket })
    }

    /// Sends a message; reconnects once if the receiver has restarted.
    fn deliver(&mut self, message: &[u8]) -> io::Result<()> {
        match self.socket.send(message) {
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::NotConnected
                        | io::ErrorKind::ConnectionReset
                        | io::ErrorKind::BrokenPipe
                ) =>
            {
                self.socket = connect(&self.path)?;
                self.socket.send(message).map(drop)
            }
            Err(error) => Err(error),
        }
    }
}

fn connect(path: &std::path::Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

impl Drain for Syslog {
    fn send(&mut self, record: &Record) -> io::Result<()> {
        let event = record.event().map_err(io::Error::other)?;
        match self.deliver(message(&event, record, &record.line()).as_bytes()) {
            // Too long for a datagram: send only what is needed to find the record in the journal.
            Err(error) if error.raw_os_error() == Some(EMSGSIZE) => {
                let short = format!(
                    r#"{{"event":{{"kind":"{}"}},"hash":"{}","seq":{},"session":"{}","shortened":true}}"#,
                    event.kind.name(),
                    record.hash,
                    record.seq,
                    record.session
                );
                self.deliver(message(&event, record, &short).as_bytes())
            }
            other => other,
        }
    }
}

/// The error number of Linux for a message that is too long for the socket.
const EMSGSIZE: i32 = 90;

fn message(event: &Event, record: &Record, text: &str) -> String {
    let severity = if event.kind.is_warning() {
        WARNING
    } else {
        INFORMATIONAL
    };
    format!(
        "<{priority}>1 {at} - ringfence {pid} {kind} [ringfence@32473 session=\"{session}\" seq=\"{seq}\"] {text}",
        priority = FACILITY * 8 + severity,
        at = event.at,
        pid = std::process::id(),
        kind = event.kind.name(),
        session = record.session,
        seq = record.seq,
    )
}
