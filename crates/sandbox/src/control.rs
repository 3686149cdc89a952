//! The host's end of the control channel to a sandbox's first process: whole packets, one report for each order.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use ringfence_jail::socket;
use ringfence_wire::{
    Inbound, InboundItem, PendingCommands, ProtocolViolation, WorkerCommand, WorkerReport, decode, encode_frame,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

/// The first process only forks, kills and deletes: when a reply takes longer than this, the sandbox is lost.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REPORT_BYTES: usize = 8 * 1024;

/// Why the host could not get an order carried out by the sandbox.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The control socket failed.
    #[error("cannot talk to the sandbox")]
    Socket(#[source] io::Error),
    /// The first process has ended.
    #[error("the sandbox has ended")]
    Gone,
    /// The first process did not reply in time.
    #[error("the sandbox does not answer")]
    NoReply,
    /// The first process sent something that is not a report.
    #[error("the sandbox said something that makes no sense")]
    InvalidReport,
    /// A report answers no order, or an order is not allowed in the current state.
    #[error("the sandbox spoke out of turn")]
    Turn(#[from] ProtocolViolation),
    /// The first process could not carry out the order.
    #[error("the sandbox could not: {reason}")]
    Failed {
        /// The reason, as the first process gave it.
        reason: String,
    },
}

/// The connection to a sandbox's first process, with the orders that are still open.
#[derive(Debug)]
pub(crate) struct ControlChannel {
    socket: AsyncFd<OwnedFd>,
    orders: PendingCommands,
    packet: Vec<u8>,
}

impl ControlChannel {
    pub(crate) fn new(control: BorrowedFd<'_>) -> Result<ControlChannel, ControlError> {
        let copy = control.try_clone_to_owned().map_err(ControlError::Socket)?;
        rustix::io::ioctl_fionbio(&copy, true).map_err(|error| ControlError::Socket(error.into()))?;
        let interest = Interest::READABLE.add(Interest::WRITABLE);
        #[expect(
            deprecated,
            reason = "an `OwnedFd` never changes its number, and the other way is unsafe code"
        )]
        let socket = AsyncFd::with_interest(copy, interest).map_err(ControlError::Socket)?;
        Ok(ControlChannel {
            socket,
            orders: PendingCommands::new(),
            packet: vec![0; MAX_REPORT_BYTES],
        })
    }

    /// Sends an order; its report comes later.
    pub(crate) async fn send_order(
        &mut self,
        order: &WorkerCommand,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ControlError> {
        self.orders.send_command(order)?;
        let mut frame = Vec::new();
        encode_frame(order, &mut frame).map_err(|_| ControlError::InvalidReport)?;
        let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let send = self.socket.async_io(Interest::WRITABLE, |inner| {
            socket::send(inner.as_fd(), &frame, &numbers)
        });
        match timeout(REPLY_TIMEOUT, send).await {
            Err(_) => Err(ControlError::NoReply),
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(ControlError::Gone),
            Ok(done) => done.map(drop).map_err(ControlError::Socket),
        }
    }

    /// The next report, if it arrives within `patience`.
    pub(crate) async fn answer_within(&mut self, patience: Duration) -> Result<WorkerReport, ControlError> {
        timeout(patience, self.next_report())
            .await
            .unwrap_or(Err(ControlError::NoReply))
    }

    /// The next report. A report of failure becomes an error.
    pub(crate) async fn next_report(&mut self) -> Result<WorkerReport, ControlError> {
        let mut report = self.receive().await?;
        self.orders.on_report(&report)?;
        if matches!(report, WorkerReport::Ready { .. }) {
            // The first report of a new sandbox, which answers no order.
            report = self.receive().await?;
            self.orders.on_report(&report)?;
        }
        match report {
            WorkerReport::PrepareFailed { reason, .. }
            | WorkerReport::WipeFailed { reason }
            | WorkerReport::ZygoteFailed { reason } => Err(ControlError::Failed {
                reason: reason.into_string(),
            }),
            WorkerReport::Ready { .. }
            | WorkerReport::Prepared { .. }
            | WorkerReport::Finished { .. }
            | WorkerReport::Wiped => Ok(report),
        }
    }

    async fn receive(&mut self) -> Result<WorkerReport, ControlError> {
        let packet = &mut self.packet;
        let receive = self
            .socket
            .async_io(Interest::READABLE, |inner| socket::receive(inner.as_fd(), packet));
        let (length, _) = match timeout(REPLY_TIMEOUT, receive).await {
            Err(_) => return Err(ControlError::NoReply),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => return Err(ControlError::Gone),
            Ok(received) => received.map_err(ControlError::Socket)?,
        };
        if length == 0 {
            return Err(ControlError::Gone);
        }
        let mut inbound = Inbound::control_only();
        inbound.push(self.packet.get(..length).unwrap_or_default());
        match inbound.next() {
            Ok(Some(InboundItem::Control(bytes))) => decode(bytes).map_err(|_| ControlError::InvalidReport),
            _ => Err(ControlError::InvalidReport),
        }
    }
}
