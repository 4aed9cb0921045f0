//! Receiving side of an actor.

use anabranch_base::{Instant, StreamId};
use anabranch_session::{Adu, StreamSpec};

use super::{Actor, sending::Outgoing};
use crate::{
    app::Context,
    storm::{
        adu,
        ledger::{Delivery, Flow},
        plan::Ending,
    },
};

impl Actor {
    pub(super) fn on_opened(&mut self, stream: StreamId, spec: &StreamSpec) {
        let Some(flow) = Flow::parse(&spec.label) else {
            return;
        };
        self.incoming.insert(stream, flow);
        self.shared.ledger.borrow_mut().account(flow);
        let load = &self.shared.plan.loads[flow.side][flow.load];
        let back = spec.duplex.then(|| flow.back());
        let back = back.and_then(|back| Outgoing::back(back, load, stream));
        self.outgoing.extend(back);
    }

    /// Incoming flow of a stream: one of the peer's, or the reverse direction of one of this node's.
    pub(super) fn flow_of(&self, stream: StreamId) -> Option<Flow> {
        let own = || {
            let mut all = self.outgoing.iter();
            let one = all.find(|one| one.stream == Some(stream) && !one.flow.is_back)?;
            Some(one.flow.back())
        };
        self.incoming.get(&stream).copied().or_else(own)
    }

    pub(super) fn on_readable(&mut self, context: &mut Context<'_>, stream: StreamId) {
        if self.is_paused {
            self.unread.insert(stream);
        } else {
            self.read(context, stream, false);
        }
    }

    pub(super) fn read(&mut self, context: &mut Context<'_>, stream: StreamId, has_waited: bool) {
        let Some(session) = self.session else {
            return;
        };
        let departed = context.departed().filter(|_| !has_waited);
        while let Some(adu) = context.receive(session, stream) {
            self.take(context, stream, adu, departed);
            if self.stops(context, stream) {
                return;
            }
        }
    }

    /// Stops reading the stream for good if it has read enough.
    fn stops(&mut self, context: &mut Context<'_>, stream: StreamId) -> bool {
        let (Some(session), Some(flow)) = (self.session, self.flow_of(stream)) else {
            return false;
        };
        let load = &self.shared.plan.loads[flow.side][flow.load];
        let mut ledger = self.shared.ledger.borrow_mut();
        let account = ledger.account(flow);
        match load.ending {
            Ending::Stop { after, code }
                if !flow.is_back && account.delivered.len() as u64 >= after =>
            {
                let is_open = context
                    .engine()
                    .session(session)
                    .and_then(|session| session.stream(stream).stop(code))
                    .is_ok();
                if is_open {
                    account.ends.stopped = Some(code);
                }
                is_open
            }
            _ => false,
        }
    }

    /// Records an ADU.
    pub(super) fn take(
        &mut self,
        context: &mut Context<'_>,
        stream: StreamId,
        adu: Adu,
        departed: Option<Instant>,
    ) {
        let Some(flow) = self.flow_of(stream) else {
            return;
        };
        let spec = &self.shared.plan.loads[flow.side][flow.load].spec;
        for (adu, departed) in self.tampering.of_adu(adu, departed, flow, spec) {
            let word = flow.word();
            let (number, is_intact) = identify(word, &adu);
            let delivery = Delivery {
                at: context.now(),
                departed,
                number,
                sequence: adu.sequence,
                is_intact,
                bytes: adu.data.len(),
                missing: adu.missing,
            };
            self.shared.ledger.borrow_mut().delivered(flow, delivery);
        }
    }

    pub(super) fn on_finished(&mut self, stream: StreamId) {
        if let Some(flow) = self.flow_of(stream) {
            let mut ledger = self.shared.ledger.borrow_mut();
            ledger.account(flow).ends.finished += 1;
        }
    }

    pub(super) fn on_reset(&mut self, stream: StreamId, code: u32) {
        self.unread.remove(&stream);
        if let Some(flow) = self.flow_of(stream) {
            let mut ledger = self.shared.ledger.borrow_mut();
            ledger.account(flow).ends.reset_notified = Some(code);
        }
    }
}

/// Number of an ADU by its content, and true if its bytes are those that were sent.
fn identify(flow: u32, adu: &Adu) -> (Option<u64>, bool) {
    let missing = &adu.missing.ranges;
    let is_head_there = missing.first().is_none_or(|first| first.start >= 8) && adu.data.len() >= 8;
    if !is_head_there {
        // Only the engine's number is available.
        let is_intact = adu::is_intact(flow, adu.sequence as u32, &adu.data, missing);
        return (Some(adu.sequence), is_intact);
    }
    match adu::head(&adu.data) {
        Some((of, number)) if of == flow => {
            let is_intact = adu::is_intact(flow, number, &adu.data, missing);
            (Some(u64::from(number)), is_intact)
        }
        _ => (None, true),
    }
}
