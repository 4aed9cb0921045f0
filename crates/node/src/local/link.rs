//! Common part of the streams of a connection: the bytes toward its socket, and the credit of the application for all of them.

use std::sync::{Arc, Mutex, PoisonError};

use super::{
    CONNECTION_CREDIT,
    frame::{End, Frame},
    memory::{Part, Share},
    message::{Event, EventBody, json},
    outbox::Outbox,
};

/// Parts of a connection that its streams share: its socket and its credit.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) outbox: Outbox,
    /// Memory of the connection; [`Part::Pending`] is what has credit of the connection.
    pub(super) share: Arc<Share>,
    credit: Mutex<Credit>,
}

/// Credit of the application, and how much of it is to be returned.
#[derive(Debug)]
struct Credit {
    balance: i64,
    owed: u32,
}

impl Link {
    pub(super) fn new(share: Share) -> Self {
        let share = Arc::new(share);
        Self {
            outbox: Outbox::charged_to(share.clone()),
            share,
            credit: Mutex::new(Credit {
                balance: i64::from(CONNECTION_CREDIT),
                owed: 0,
            }),
        }
    }

    /// True if data from a session may be appended to the outbox.
    pub(super) fn has_capacity(&self) -> bool {
        self.outbox.has_capacity() && self.share.has_capacity()
    }

    /// Waits until data from a session may be appended to the outbox.
    pub(super) async fn capacity(&self) {
        while !self.has_capacity() {
            self.outbox.capacity().await;
            self.share.capacity().await;
        }
    }

    /// Takes credit of the connection for an ADU; false if there is none.
    pub(super) fn take_credit(&self, cost: u32) -> bool {
        let mut credit = self.credit.lock().unwrap_or_else(PoisonError::into_inner);
        let has_some = credit.balance > 0;
        credit.balance -= i64::from(cost);
        self.share.add(Part::Pending, cost as usize);
        has_some
    }

    /// Returns credit of the connection.
    pub(super) fn return_credit(&self, cost: u32) {
        let mut credit = self.credit.lock().unwrap_or_else(PoisonError::into_inner);
        credit.owed += cost;
        self.share.remove(Part::Pending, cost as usize);
        if credit.owed >= CONNECTION_CREDIT / 8 {
            let bytes = std::mem::take(&mut credit.owed);
            credit.balance += i64::from(bytes);
            self.outbox.push(&Frame::Credit { stream: 0, bytes });
        }
    }

    /// Reports an event of a stream.
    pub(super) fn event(&self, stream: u32, body: EventBody) {
        let event = Event::of_stream(stream, body);
        self.outbox.push(&Frame::Event(json(&event)));
    }

    /// Reports an event of a session.
    pub(super) fn session_event(&self, session: u32, body: EventBody) {
        let event = Event::of_session(session, body);
        self.outbox.push(&Frame::Event(json(&event)));
    }

    /// Reports the end of a direction of a stream.
    pub(super) fn end(&self, stream: u32, end: End) {
        self.outbox.push(&Frame::End { stream, end });
    }
}
