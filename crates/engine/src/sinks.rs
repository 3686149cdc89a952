//! Audit sinks, on this machine and remote.

use ringfence_gateway::{AuditSink, AuditSinkError, Vault};
use ringfence_store::Remote;

use crate::engine::Settings;

/// A destination of records beside the journal.
#[derive(Debug, Clone)]
pub enum Sink {
    /// A file or socket on this machine.
    Near(ringfence_store::Sink),
    /// An endpoint on the network.
    Far(AuditSink),
}

/// Opens the sinks for the store; the secrets of remote sinks are read now.
pub(crate) fn open(settings: &Settings) -> Result<(Vec<ringfence_store::Sink>, Vec<Remote>), AuditSinkError> {
    let vault = Vault::find(&settings.home, &settings.environment);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for sink in &settings.sinks {
        match sink {
            Sink::Near(sink) => near.push(sink.clone()),
            Sink::Far(sink) => far.push(Remote {
                outlet: sink.open(&settings.environment, &vault)?,
                durable: sink.is_durable(),
            }),
        }
    }
    Ok((near, far))
}
