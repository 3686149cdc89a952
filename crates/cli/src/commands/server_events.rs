//! Prints what happens to tool servers while a command runs.

use std::convert::Infallible;
use std::future;

use ringfence_engine::Engine;
use ringfence_gateway::{Gateway, ServerEvent};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::print::Printer;

/// The events of tool servers since this value was created; `None` without a gateway.
pub(crate) struct ServerEvents(Option<Receiver<ServerEvent>>);

impl ServerEvents {
    pub(crate) fn from_engine(engine: &Engine) -> ServerEvents {
        ServerEvents(
            engine
                .tools()
                .tool_gateway()
                .map(|gateway| gateway.upstreams().events()),
        )
    }

    pub(crate) fn from_gateway(gateway: &Gateway) -> ServerEvents {
        ServerEvents(Some(gateway.upstreams().events()))
    }

    /// Prints events as they arrive, until the caller drops the future.
    pub(crate) async fn print_forever(&mut self, printer: &Printer) -> Infallible {
        while let Some(events) = &mut self.0 {
            match events.recv().await {
                Ok(happened) => printer.notice(&happened.to_string()),
                Err(RecvError::Lagged(missed)) => print_missed(missed, printer),
                Err(RecvError::Closed) => self.0 = None,
            }
        }
        future::pending().await
    }

    /// Prints the events that arrived and are not printed yet.
    pub(crate) fn print_pending(&mut self, printer: &Printer) {
        while let Some(events) = &mut self.0 {
            match events.try_recv() {
                Ok(happened) => printer.notice(&happened.to_string()),
                Err(TryRecvError::Lagged(missed)) => print_missed(missed, printer),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }
}

fn print_missed(missed: u64, printer: &Printer) {
    printer.notice(&format!("{missed} more changes of tool servers are in the log"));
}
