//! Right of a sender to send, from its first message.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use anabranch_base::NodeId;
use anabranch_net::{Session, Stream};

use super::{
    control::{read_at_most, send_message},
    digest::Digest,
    error::TransferError,
    message::{HELLO_BYTES_MAX, MORE_MAX, REVISION, Reply, Request},
    receive::Receiver,
};
use crate::rights::Right;

/// Time after which a silent sender is disconnected.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(20);

/// Permission of a sender, from its first message.
pub(super) struct Admitted {
    pub(super) sender: NodeId,
    /// The ticket that it showed; `None`: it is trusted.
    pub(super) ticket: Option<Digest>,
    /// Revision of the protocol that it speaks.
    pub(super) revision: u32,
    /// Transfers that it has announced under the same ticket after this one.
    pub(super) more: u32,
}

impl Receiver {
    /// Reads the first message and checks the right of the sender.
    pub(super) async fn greet(
        &self,
        session: &Session,
        control: &Stream,
    ) -> Result<Admitted, TransferError> {
        let hello = tokio::time::timeout(HELLO_TIMEOUT, read_at_most(control, HELLO_BYTES_MAX));
        let Request::Hello {
            secret,
            revision,
            more,
        } = hello
            .await
            .map_err(|_| TransferError::Protocol("no greeting"))??
        else {
            return Err(TransferError::Protocol("no greeting"));
        };
        if more > MORE_MAX {
            return Err(TransferError::Protocol(
                "more than 1,000 transfers under one ticket",
            ));
        }
        let sender = session.peer();
        let ticket = self.admit(session, &secret)?;
        session.end_probation()?;
        let welcome = Reply::Welcome { revision: REVISION };
        send_message(control, &welcome).await?;
        Ok(Admitted {
            sender,
            ticket,
            revision,
            more,
        })
    }

    /// Checks that this node may send, by its ticket or by its id; returns the ticket if it needs one.
    fn admit(&self, session: &Session, secret: &str) -> Result<Option<Digest>, TransferError> {
        let peer = session.peer();
        if secret.is_empty() {
            if !self.rights.may(&peer, Right::SendFiles) {
                self.rights.note_refused(Right::SendFiles);
                return Err(TransferError::Ticket(
                    "this node takes transfers from nodes with the right send-files and from holders of a ticket only",
                ));
            }
            return Ok(None);
        }
        let channels = session.channels();
        let addresses: Vec<IpAddr> = channels.iter().map(|channel| channel.remote.ip()).collect();
        let now = Instant::now();
        if !self.attempts.may_try(peer, &addresses, now) {
            return Err(TransferError::Ticket(
                "too many wrong tickets from this node or address; wait ten minutes",
            ));
        }
        let taken = self.tickets.take(secret, peer);
        if let Err(TransferError::Unknown) = taken {
            self.attempts.failed(peer, &addresses, now);
        }
        taken.map(Some)
    }
}
