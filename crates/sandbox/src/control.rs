//! The host's side of the conversation with a sandbox's first process: whole packets, one answer to each order.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use ringfence_jail::socket;
use ringfence_wire::{Inbound, Item, Order, Orders, OutOfTurn, Report, decode, encode_frame};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

/// The first process only forks, kills and deletes: an answer that takes longer is a sandbox that is lost.
const PATIENCE: Duration = Duration::from_secs(10);
const REPORT_BYTES: usize = 8 * 1024;

/// What went wrong between host and sandbox.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket.
    #[error("cannot talk to the sandbox")]
    Socket(#[source] io::Error),
    /// The first process is gone.
    #[error("the sandbox has ended")]
    Gone,
    /// It does not answer.
    #[error("the sandbox does not answer")]
    Silent,
    /// It said something that is no report.
    #[error("the sandbox said something that makes no sense")]
    Nonsense,
    /// It answered what was not asked, or was ordered what cannot be.
    #[error("the sandbox spoke out of turn")]
    Turn(#[from] OutOfTurn),
    /// It could not do what it was told.
    #[error("the sandbox could not: {reason}")]
    Failed {
        /// In its own words.
        reason: String,
    },
}

/// The conversation.
#[derive(Debug)]
pub(crate) struct Control {
    socket: AsyncFd<OwnedFd>,
    orders: Orders,
    packet: Vec<u8>,
}

impl Control {
    pub(crate) fn new(control: BorrowedFd<'_>) -> Result<Control, ControlError> {
        let copy = control.try_clone_to_owned().map_err(ControlError::Socket)?;
        rustix::io::ioctl_fionbio(&copy, true).map_err(|error| ControlError::Socket(error.into()))?;
        let interest = Interest::READABLE.add(Interest::WRITABLE);
        #[expect(
            deprecated,
            reason = "an `OwnedFd` never changes its number, and the other way is unsafe code"
        )]
        let socket = AsyncFd::with_interest(copy, interest).map_err(ControlError::Socket)?;
        Ok(Control {
            socket,
            orders: Orders::new(),
            packet: vec![0; REPORT_BYTES],
        })
    }

    /// Sends an order; its answer comes later.
    pub(crate) async fn order(&mut self, order: &Order, descriptors: &[BorrowedFd<'_>]) -> Result<(), ControlError> {
        self.orders.give(order)?;
        let mut frame = Vec::new();
        encode_frame(order, &mut frame).map_err(|_| ControlError::Nonsense)?;
        let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let send = self.socket.async_io(Interest::WRITABLE, |inner| {
            socket::send(inner.as_fd(), &frame, &numbers)
        });
        match timeout(PATIENCE, send).await {
            Err(_) => Err(ControlError::Silent),
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(ControlError::Gone),
            Ok(done) => done.map(drop).map_err(ControlError::Socket),
        }
    }

    /// The next answer, if it comes within `patience`.
    pub(crate) async fn answer_within(&mut self, patience: Duration) -> Result<Report, ControlError> {
        timeout(patience, self.answer())
            .await
            .unwrap_or(Err(ControlError::Silent))
    }

    /// The next answer. A failure in the sandbox's own words is an error.
    pub(crate) async fn answer(&mut self) -> Result<Report, ControlError> {
        let mut report = self.receive().await?;
        self.orders.hear(&report)?;
        if matches!(report, Report::Ready { .. }) {
            // Its first word, which nobody waited for.
            report = self.receive().await?;
            self.orders.hear(&report)?;
        }
        match report {
            Report::PrepareFailed { reason, .. } | Report::WipeFailed { reason } | Report::ZygoteFailed { reason } => {
                Err(ControlError::Failed {
                    reason: reason.into_string(),
                })
            }
            Report::Ready { .. } | Report::Prepared { .. } | Report::Finished { .. } | Report::Wiped => Ok(report),
        }
    }

    async fn receive(&mut self) -> Result<Report, ControlError> {
        let packet = &mut self.packet;
        let receive = self
            .socket
            .async_io(Interest::READABLE, |inner| socket::receive(inner.as_fd(), packet));
        let (length, _) = match timeout(PATIENCE, receive).await {
            Err(_) => return Err(ControlError::Silent),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => return Err(ControlError::Gone),
            Ok(received) => received.map_err(ControlError::Socket)?,
        };
        if length == 0 {
            return Err(ControlError::Gone);
        }
        let mut inbound = Inbound::control_only();
        inbound.push(self.packet.get(..length).unwrap_or_default());
        match inbound.next() {
            Ok(Some(Item::Control(bytes))) => decode(bytes).map_err(|_| ControlError::Nonsense),
            _ => Err(ControlError::Nonsense),
        }
    }
}
