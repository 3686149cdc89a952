//! Sends RFC 5424 messages to a datagram socket.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use ringfence_journal::{Event, Record};

use super::RecordSink;

/// The facility "log audit".
const FACILITY: u8 = 13;
const WARNING_SEVERITY: u8 = 4;
const INFORMATIONAL_SEVERITY: u8 = 6;

/// How long a send waits for a full receiver before the record is dropped.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

pub(super) struct SyslogSink {
    path: PathBuf,
    socket: UnixDatagram,
}

impl SyslogSink {
    pub(super) fn open(path: PathBuf) -> io::Result<SyslogSink> {
        let socket = connect(&path)?;
        Ok(SyslogSink { path, socket })
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
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok(socket)
}

impl RecordSink for SyslogSink {
    fn send(&mut self, record: &Record) -> io::Result<()> {
        let event = record.event().map_err(io::Error::other)?;
        match self.deliver(format_message(&event, record, &record.to_json_line()).as_bytes()) {
            // Too long for a datagram: send only what is needed to find the record in the journal.
            Err(error) if error.raw_os_error() == Some(EMSGSIZE) => {
                let short = format!(
                    r#"{{"event":{{"kind":"{}"}},"hash":"{}","seq":{},"session":"{}","shortened":true}}"#,
                    event.kind.name(),
                    record.hash,
                    record.seq,
                    record.session
                );
                self.deliver(format_message(&event, record, &short).as_bytes())
            }
            other => other,
        }
    }
}

/// The error number of Linux for a message that is too long for the socket.
const EMSGSIZE: i32 = 90;

fn format_message(event: &Event, record: &Record, text: &str) -> String {
    let severity = if event.kind.is_warning() {
        WARNING_SEVERITY
    } else {
        INFORMATIONAL_SEVERITY
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
