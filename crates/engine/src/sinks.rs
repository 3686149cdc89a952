//! Audit sinks: of this machine, and behind the network.

use ringfence_gateway::{AuditSink, AuditSinkError, Vault};
use ringfence_store::Remote;

use crate::engine::Settings;

/// Where records go besides the journal.
#[derive(Debug, Clone)]
pub enum Sink {
    /// A file or socket of this machine.
    Near(ringfence_store::Sink),
    /// An endpoint behind the network.
    Far(AuditSink),
}

/// The sinks as the store takes them; secrets of those behind the network are read now.
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
