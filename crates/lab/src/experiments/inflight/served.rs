//! Subscriber at the service of a processing node.

use std::collections::VecDeque;

use anabranch_base::NodeId;
use anabranch_process::serve::{Next, Offered, Subscription};
use anabranch_processing::wire::{Carried, Item, message::Demand};
use anabranch_session::SendError;
use anabranch_sim::Context;
use bytes::Bytes;

use super::hub::At;

/// A subscriber.
#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) name: String,
    pub(super) peer: NodeId,
    pub(super) control: At,
    pub(super) adus: Option<At>,
    /// Number in the label of that stream.
    pub(super) opened: u64,
    pub(super) subscription: Subscription,
    pub(super) demand: Option<Demand>,
    pub(super) is_reliable: bool,
    /// Messages and ADUs that the session had no space for.
    pub(super) waiting: VecDeque<Bytes>,
    pub(super) marked: u64,
}

impl Subscriber {
    /// Gives up what waits to be sent, because it was derived by a former pipeline: on an unreliable stream, none of it is of use.
    pub(super) fn discard(&mut self, context: &mut Context<'_>) {
        if self.is_reliable {
            return;
        }
        self.waiting.clear();
        if let Some((session, stream)) = self.adus {
            let now = context.now();
            // An error means that the session is over.
            let _ = (context.engine().session(session))
                .and_then(|session| session.stream(stream).discard(now));
        }
    }

    /// Sends what is derived, as far as the session has space.
    pub(super) fn pump(
        &mut self,
        context: &mut Context<'_>,
        offered: &mut Offered,
        is_mark_due: bool,
    ) {
        let Some((session, stream)) = self.adus else {
            return;
        };
        loop {
            while let Some(bytes) = self.waiting.pop_front() {
                // Of a stream with a lifetime, an ADU that would be late is left out.
                if let Err(SendError::Full(bytes)) = context.send(session, stream, bytes) {
                    self.waiting.push_front(bytes);
                    return;
                }
            }
            match self.subscription.next(offered) {
                Next::Adus(adus, _) => {
                    for derived in adus {
                        self.marked = derived.adu.sequence + 1;
                        self.waiting.push_back(Carried::from(derived).to_bytes());
                    }
                }
                Next::Idle(Some(position)) if is_mark_due && position.next > self.marked => {
                    self.marked = position.next;
                    let mark = Item::Mark(position.into());
                    self.waiting.push_back(mark.to_bytes());
                }
                Next::Idle(_) | Next::Ended(_) => return,
            }
        }
    }
}
