//! Audit sinks, on this machine and remote.

use ringfence_gateway::{AuditSink, AuditSinkError, Vault};
use ringfence_store::RemoteSink;

use crate::config::EngineConfig;

/// A destination of records beside the journal.
#[derive(Debug, Clone)]
pub enum AuditSinkConfig {
    /// A file or socket on this machine.
    Local(ringfence_store::SinkConfig),
    /// An endpoint on the network.
    Remote(AuditSink),
}

/// Opens the sinks for the store; the secrets of remote sinks are read now.
pub(crate) fn open_sinks(
    settings: &EngineConfig,
) -> Result<(Vec<ringfence_store::SinkConfig>, Vec<RemoteSink>), AuditSinkError> {
    let vault = Vault::in_data_folder(&settings.home, &settings.environment);
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for sink in &settings.sinks {
        match sink {
            AuditSinkConfig::Local(sink) => near.push(sink.clone()),
            AuditSinkConfig::Remote(sink) => far.push(RemoteSink {
                outlet: sink.open(&settings.environment, &vault)?,
                durable: sink.is_durable(),
            }),
        }
    }
    Ok((near, far))
}
