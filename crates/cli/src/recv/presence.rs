//! Presence at a relay, where a sender with a ticket calls this receiver if none of its addresses answers.

use anabranch::{
    Host, Ticket,
    rendezvous::{Attendance, Via},
};

use super::Arguments;
use crate::exit::{Failure, note};

/// Presence at the relay of the flags, if there is one.
#[derive(Debug, Default)]
pub(super) struct Presence(Option<(Via, Attendance)>);

impl Presence {
    /// Attends at the relay; reports if it does not answer.
    pub(super) async fn start(host: &Host, arguments: &Arguments) -> Result<Self, Failure> {
        let Some(via) = arguments.meeting.via()? else {
            return Ok(Self::default());
        };
        let attendance = Attendance::start(host, &via, |_| true).await;
        if let Some(failure) = attendance.failure() {
            note(&format!(
                "{failure}. Until it serves this one, the ticket is good only where this machine's addresses are reachable"
            ));
        }
        Ok(Self(Some((via, attendance))))
    }

    /// The ticket with the relay, unless that refuses this node.
    pub(super) fn with(&self, ticket: Ticket) -> Ticket {
        let usable = self.0.as_ref().filter(|(_, there)| !there.is_refused());
        let via = usable.map(|(via, _)| via.clone());
        Ticket { via, ..ticket }
    }
}
