//! Checks of what the engine holds and sends, against its bounds.

use std::collections::BTreeMap;

use anabranch_base::{Instant, SessionId, StreamId};
use anabranch_session::{Policy, journal::What};

use super::{Actor, sending::Outgoing};
use crate::{
    app::Context,
    storm::{ledger::Gauge, tamper::Tamper},
};

/// Bytes of copies allowed from the beginning, as in `session/copies.rs`.
const COPIES_AT_FIRST: f64 = 65_536.0;
/// Burst of a capped stream: 50 ms at its cap, and one packet.
const CAP_BURST_S: f64 = 0.05;
const PACKET_BYTES: f64 = 1500.0;

/// State kept between two checks. Key: session.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Capped streams: time of the last transmission, and level of the bucket then.
    caps: BTreeMap<StreamId, (Instant, f64)>,
    /// Largest bound of each stream's send buffer so far: data already in it stays when the bound falls.
    send_buffer_max: u64,
}

impl Actor {
    /// Checks that are cheap, after every event.
    pub(super) fn look(&mut self, context: &mut Context<'_>) {
        let Some(session) = self.session else {
            return;
        };
        let Some(mut stats) = context
            .engine()
            .session(session)
            .ok()
            .map(|mut session| session.stats())
        else {
            return;
        };
        match self.tampering.what() {
            Some(Tamper::InflateHeldForSending) => stats.send_held_bytes += 1 << 30,
            Some(Tamper::InflateHeldForReading) => stats.recv_held_bytes += 1 << 30,
            Some(Tamper::InflateCopies) => stats.copied_bytes += 1 << 20,
            _ => {}
        }
        let plan = &self.shared.plan;
        let mut ledger = self.shared.ledger.borrow_mut();
        let open = || self.outgoing.iter().filter(|one| one.is_open());
        let adus: usize = open().map(Outgoing::adu_bytes).sum();
        // An upper bound: streams that were stopped, or have ended, hold nothing.
        let streams = self.outgoing.len() as u64;
        let buffer = self.watch.send_buffer_max.max(stats.send_buffer_bytes);
        self.watch.send_buffer_max = buffer;
        let may_send = streams * buffer + adus as u64;
        let widest = &mut ledger.send_buffer_max[self.side];
        *widest = buffer.max(*widest);
        let gauges = &mut ledger.gauges[self.side];
        gauges.send_buffer.note(stats.send_held_bytes, may_send);
        // Reliable streams share one window, unreliable ones another.
        let window = plan.config.session_window_bytes;
        let may_read = window * plan.kinds_read(self.side);
        gauges.session_window.note(stats.recv_held_bytes, may_read);
        if plan.config.policy != Policy::Redundant {
            let sent = stats.payload_sent_bytes as f64;
            let may_copy = COPIES_AT_FIRST + plan.config.copies_max * sent;
            gauges.copies.note(stats.copied_bytes, may_copy as u64);
        }
        let has_unreliable = plan.loads.iter().flatten().any(|load| !load.spec.reliable);
        for stats in has_unreliable
            .then(|| {
                context
                    .engine()
                    .session(session)
                    .map(|mut session| session.stream_stats())
                    .unwrap_or_default()
            })
            .into_iter()
            .flatten()
        {
            let flow = self.flow_of(stats.stream);
            // Directions that a stream does not have, or whose sender has not begun, have no account.
            if let Some(account) = flow.and_then(|flow| ledger.flows.get_mut(&flow)) {
                account.dropped_adus = account.dropped_adus.max(stats.dropped_adus);
            }
        }
        drop(ledger);
        if self.outgoing.iter().any(|one| one.cap().is_some()) {
            self.look_at_caps(context, session);
        }
    }

    /// Puts every fragment of a capped stream, retransmissions included, into a leaky bucket.
    fn look_at_caps(&mut self, context: &mut Context<'_>, session: SessionId) {
        let mut fullest = Gauge::default();
        for entry in context
            .engine()
            .session(session)
            .map(|mut session| session.take_journal())
            .unwrap_or_default()
        {
            let What::Sent {
                stream,
                bytes,
                is_copy: false,
                ..
            } = entry.what
            else {
                continue;
            };
            let mut all = self.outgoing.iter();
            let Some(cap) = all.find_map(|one| one.cap().filter(|_| one.stream == Some(stream)))
            else {
                continue;
            };
            let bytes_per_s = cap.as_bps() as f64 / 8.0;
            let times = match self.tampering.what() {
                Some(Tamper::InflateRate) => 20.0,
                _ => 1.0,
            };
            let (at, before) = self.watch.caps.get(&stream).copied().unwrap_or_default();
            let drained = before - entry.at.since(at).as_secs_f64() * bytes_per_s;
            let filled = drained.max(0.0) + bytes as f64 * times;
            self.watch.caps.insert(stream, (entry.at, filled));
            let allowed = bytes_per_s * CAP_BURST_S + PACKET_BYTES;
            fullest.note(filled as u64, allowed as u64);
        }
        let mut ledger = self.shared.ledger.borrow_mut();
        ledger.gauges[self.side]
            .cap
            .note(fullest.value, fullest.bound);
    }

    /// Checks that are expensive, at intervals.
    pub(super) fn look_closely(&mut self, context: &mut Context<'_>) {
        let Some(session) = self.session else {
            return;
        };
        let plan = self.shared.plan.clone();
        let streams = context
            .engine()
            .session(session)
            .map(|mut session| session.stream_stats())
            .unwrap_or_default();
        let mut ledger = self.shared.ledger.borrow_mut();
        let mut held_together = 0;
        for stats in &streams {
            let reads = self.incoming.get(&stats.stream).copied();
            if let Some(flow) = reads
                && stats.spec.reliable
                && stats.spec.lifetime.is_none()
            {
                let read = ledger.account(flow).read_bytes;
                let mut held = stats.arrived_bytes.saturating_sub(read);
                held_together += held;
                if self.tampering.what() == Some(Tamper::InflateStreamHeld) {
                    held += 1 << 30;
                }
                let window = plan.config.stream_window_bytes;
                let gauges = &mut ledger.gauges[self.side];
                gauges.stream_window.note(held, window);
            }
        }
        let gauges = &mut ledger.gauges[self.side];
        let window = plan.config.session_window_bytes;
        gauges.session_window.note(held_together, window);
    }
}
