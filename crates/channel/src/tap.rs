//! The tap: a wrapper around the congestion controller that reports every packet's outcome.
//!
//! QUIC calls a controller for every packet sent, acknowledged and lost. The tap intercepts these calls, and so knows
//! the exact outcome of each container:
//!
//! ```text
//!   container ──► DATAGRAM queue ──► packet
//!       dropped by QUIC once copied      on_packet_sent(number)
//!       = Tracked::drop(container id) ──►  containers of that number
//!                                        on_ack / on_packet_lost(number) ──► PacketOutcome
//! ```
//!
//! QUIC drops a container's buffer at the moment it has been copied into a packet, right before that packet gets its
//! number; so the buffers dropped since the last numbered packet are the contents of that packet. No guess by size or
//! order is needed, whatever else QUIC puts in between.
//!
//! The window that QUIC sees never blocks it: slots are counted from the inner controller's window
//! and released by our own pacer. The lock is never contended within the engine; it exists because
//! QUIC owns its controller.

use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use anabranch_base::Seed;
use anabranch_stats::rtt::SmoothedRtt;
use noq_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
};

use crate::{
    config::Config,
    control::{self, Ack, Congestion, Control, Lost},
    usual_rtt::UsualRtt,
};

/// Outcome of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The peer's node has received it.
    Acked {
        /// Time from sending to the arrival of the acknowledgement.
        rtt: Duration,
    },
    /// QUIC's loss detection has declared it lost. It may still arrive.
    Lost,
}

/// Outcome of one container by number, reported exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOutcome {
    /// The number that [`crate::Channel::send`] returned.
    pub container: u64,
    /// Its outcome.
    pub outcome: Outcome,
}

/// A window that never blocks QUIC and disables its pacer (it paces windows up to `u32::MAX`).
const WINDOW_UNLIMITED: u64 = 1 << 40;
/// Length of a silence after which losses of packets sent before it are not taken for congestion.
const FORGIVE_SILENCE: Duration = Duration::from_millis(400);
/// Buffers kept for the next containers.
const POOL_MAX: usize = 256;

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    bytes: u16,
    /// Containers `first..first + count` are in it.
    first: u64,
    count: u16,
    app_limited: bool,
    /// The channel's ceiling limited what is in flight.
    is_capped: bool,
    /// Totals at the moment of sending, for the delivery rate [draft-cheng-iccrg-delivery-rate].
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Bytes in flight once it was sent, and bytes lost until then.
    in_flight: u64,
    lost: u64,
}

/// State of the tap of one channel; behind the lock of [`Shared`].
#[derive(Debug)]
pub(crate) struct Tap {
    pub(crate) control: Box<dyn Control>,
    /// Packets that carried containers, by number, from `sent_base`; the others are `None`.
    sent: VecDeque<Option<Sent>>,
    sent_base: u64,
    pub(crate) in_flight: u64,
    /// True if QUIC is building packets right now, so that a dropped buffer means "copied".
    pub(crate) transmitting: bool,
    /// Containers that QUIC has and has not copied yet, in order.
    queued: VecDeque<u64>,
    /// Containers copied into the packet being built: first and count.
    copied: Option<(u64, u16)>,
    pub(crate) outcomes: Vec<PacketOutcome>,
    pool: Vec<Vec<u8>>,
    /// The application, not the network, limits what is in flight.
    pub(crate) app_limited: bool,

    pub(crate) totals: Totals,
    pub(crate) delivery: Delivery,
    /// Round-trip times, from the newest packet of each acknowledgement (RFC 9002 §5).
    rtt: SmoothedRtt,
    /// Round trip of the newest packet acknowledged by the acknowledgement being processed.
    ack_sample: Option<Duration>,
    /// Time since which the channel has been suspected.
    pub(crate) suspected_since: Option<Instant>,
    /// Losses of packets sent before this are due to an outage, not to congestion.
    forgive_before: Option<Instant>,
    /// Time at which an ack-eliciting packet last left: QUIC's probe time-out counts from here (RFC 9002 §6.2).
    pub(crate) eliciting_at: Option<Instant>,
    /// Time at which something was last acknowledged, and since when something is outstanding.
    pub(crate) acked_at: Option<Instant>,
    pub(crate) outstanding_since: Option<Instant>,
    pub(crate) recent: Recent,
}

/// Measurements since they were last taken ([`crate::Channel::take_load`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent {
    /// Smallest round trip; [`Duration::MAX`] without any.
    pub rtt: Duration,
    /// Bytes acknowledged that were sent while there was more to send.
    pub full_bytes: u64,
    /// The ceiling of the channel is the limit now, and was at some time.
    pub is_capped: bool,
    pub was_capped: bool,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            rtt: Duration::MAX,
            full_bytes: 0,
            is_capped: false,
            was_capped: false,
        }
    }
}

/// Delivery rate sampling [draft-cheng-iccrg-delivery-rate].
#[derive(Debug)]
pub(crate) struct Delivery {
    bytes: u64,
    at: Instant,
    first_sent_at: Instant,
    /// Smoothed delivery rate in bytes per second.
    pub(crate) rate: f64,
    pub(crate) usual: UsualRtt,
}

/// Counters since the channel opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub packets_sent: u64,
    pub bytes_sent: u64,
    pub packets_acked: u64,
    pub bytes_acked: u64,
    pub packets_lost: u64,
    pub bytes_lost: u64,
    pub congestion_events: u64,
    pub ecn_events: u64,
    pub spurious_events: u64,
}

impl Tap {
    /// Takes the handshake's round trip as the first estimate.
    pub(crate) fn seed_rtt(&mut self, rtt: Duration) {
        if self.rtt.smoothed().is_none() {
            self.rtt.observe(rtt);
            self.control.seed_rtt(rtt);
        }
    }

    pub(crate) fn rtt(&self) -> &SmoothedRtt {
        &self.rtt
    }

    /// The smoothed round-trip time; zero before the first.
    pub(crate) fn rtt_smoothed(&self) -> Duration {
        self.rtt.smoothed().unwrap_or_default()
    }

    /// True if the loss of packets sent at `sent` does not indicate congestion: the path was silent for long, and is
    /// back. A short silence may have been a burst of real congestion.
    fn is_forgiven(&mut self, now: Instant, sent: Instant) -> bool {
        let timeout = FORGIVE_SILENCE.max(self.rtt_smoothed() * 4);
        if self
            .suspected_since
            .is_some_and(|since| now.saturating_duration_since(since) > timeout)
        {
            self.forgive_before = Some(now);
        }
        self.forgive_before.is_some_and(|before| sent < before)
    }

    fn on_sent(&mut self, now: Instant, bytes: u16, packet: u64) {
        self.eliciting_at = Some(now);
        // Packets that carry no container are QUIC's own: it does not report every loss of them (path MTU probes,
        // discarded handshakes), and their numbers may belong to another space.
        let Some((first, count)) = self.copied.take() else {
            return;
        };
        if self.in_flight == 0 {
            // The pipe was empty: rates are measured from here.
            self.delivery.first_sent_at = now;
            self.delivery.at = now;
            self.outstanding_since = Some(now);
        }
        if self.sent.is_empty() {
            self.sent_base = packet;
        }
        while self.sent_base + (self.sent.len() as u64) < packet {
            self.sent.push_back(None);
        }
        self.in_flight += u64::from(bytes);
        self.sent.push_back(Some(Sent {
            at: now,
            bytes,
            first,
            count,
            app_limited: self.app_limited,
            is_capped: self.recent.is_capped,
            delivered: self.delivery.bytes,
            delivered_at: self.delivery.at,
            first_sent_at: self.delivery.first_sent_at,
            in_flight: self.in_flight,
            lost: self.totals.bytes_lost,
        }));
        self.totals.packets_sent += 1;
        self.totals.bytes_sent += u64::from(bytes);
        self.control.on_sent(now, bytes, packet);
    }

    /// Removes and returns the record of `packet`; `None` if it carried no container.
    ///
    /// A packet without a container may have a number that coincides with one of ours in another number space: the
    /// handshake's. Its size, and its time of sending if known, distinguish them.
    fn take(&mut self, packet: u64, bytes: u64, sent_at: Option<Instant>) -> Option<Sent> {
        let index = packet.checked_sub(self.sent_base)?;
        let sent = self
            .sent
            .get_mut(usize::try_from(index).ok()?)?
            .take_if(|sent| {
                u64::from(sent.bytes) == bytes && sent_at.is_none_or(|at| at == sent.at)
            })?;
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.sent_base += 1;
        }
        self.in_flight -= u64::from(sent.bytes);
        Some(sent)
    }

    fn report(&mut self, sent: &Sent, outcome: Outcome) {
        for container in sent.first..sent.first + u64::from(sent.count) {
            self.outcomes.push(PacketOutcome { container, outcome });
        }
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent_at: Instant,
        bytes: u64,
        packet: u64,
        rtt: &RttEstimator,
    ) {
        self.acked_at = Some(now);
        if self.in_flight > 0 {
            // Any acknowledgement shows that the path is alive.
            self.outstanding_since = Some(now);
        }
        let Some(sent) = self.take(packet, bytes, Some(sent_at)) else {
            return;
        };
        self.totals.packets_acked += 1;
        self.totals.bytes_acked += bytes;
        self.delivery.bytes += bytes;
        self.delivery.at = now;
        self.delivery.first_sent_at = sent.at;
        self.outstanding_since = (self.in_flight > 0).then_some(now);
        self.ack_sample = Some(now.saturating_duration_since(sent.at));
        let rate_sample = self.rate_sample(now, &sent, rtt);
        let round_trip = now.saturating_duration_since(sent.at);
        let marks = (sent.delivered, self.delivery.bytes);
        let shortest_s = rtt.min().as_secs_f64();
        let packet_s = match self.delivery.rate {
            rate if rate > 0.0 => bytes as f64 / rate,
            _ => 0.0,
        };
        let times_s = (round_trip.as_secs_f64(), shortest_s, packet_s);
        self.delivery.usual.on_ack(now, times_s, marks);
        self.recent.rtt = self.recent.rtt.min(round_trip);
        if !sent.app_limited {
            self.recent.full_bytes += bytes;
        }
        self.report(
            &sent,
            Outcome::Acked {
                rtt: now.saturating_duration_since(sent.at),
            },
        );
        self.control.on_ack(&Ack {
            now,
            sent: sent.at,
            bytes,
            packet,
            app_limited: sent.app_limited,
            is_capped: sent.is_capped,
            rate_sample,
            delivered_at_sent: sent.delivered,
            delivered: self.delivery.bytes,
            in_flight_at_sent: sent.in_flight,
            lost_since_sent: self.totals.bytes_lost - sent.lost,
            rtt_excess_s: self.delivery.usual.excess_s(),
            rtt: Some(rtt),
        });
    }

    /// Excess of the usual round trip over the shortest one.
    pub(crate) fn usual_excess(&self) -> Duration {
        Duration::from_secs_f64(self.delivery.usual.excess_s())
    }

    /// Bytes per second between the sending and the acknowledgement of a packet: the slower of the
    /// send rate and the acknowledgement rate [draft-cheng-iccrg-delivery-rate §3.3].
    fn rate_sample(&mut self, now: Instant, sent: &Sent, rtt: &RttEstimator) -> Option<f64> {
        let send_elapsed = sent.at.saturating_duration_since(sent.first_sent_at);
        let ack_elapsed = now.saturating_duration_since(sent.delivered_at);
        let elapsed = send_elapsed.max(ack_elapsed);
        // A time shorter than a round trip is an artefact of compressed acknowledgements.
        if elapsed.is_zero() || elapsed < rtt.min() {
            return None;
        }
        let sample = (self.delivery.bytes - sent.delivered) as f64 / elapsed.as_secs_f64();
        if !sent.app_limited || sample > self.delivery.rate {
            // Smoothed over about half a window.
            let share = 2.0 * f64::from(sent.bytes) / (self.in_flight as f64 + 1.0);
            self.delivery.rate += (sample - self.delivery.rate) * share.min(1.0);
        }
        Some(sample)
    }

    fn on_lost(&mut self, now: Instant, bytes: u16, packet: u64) {
        let Some(sent) = self.take(packet, u64::from(bytes), None) else {
            return;
        };
        self.totals.packets_lost += 1;
        self.totals.bytes_lost += u64::from(bytes);
        if self.in_flight == 0 {
            self.outstanding_since = None;
        }
        self.report(&sent, Outcome::Lost);
        let is_forgiven = self.is_forgiven(now, sent.at);
        self.control.on_lost(&Lost {
            now,
            bytes: u64::from(bytes),
            packet,
            app_limited: sent.app_limited,
            in_flight_at_sent: sent.in_flight,
            lost_since_sent: self.totals.bytes_lost - sent.lost,
            is_forgiven,
        });
    }

    /// Handles a congestion event of a coupled channel. It counts as the loss of a packet that left a round trip ago,
    /// so that the window is not decreased twice in this round trip.
    pub(crate) fn on_partner_congestion(&mut self, now: Instant) {
        let sent = now.checked_sub(self.rtt_smoothed()).unwrap_or(now);
        if self.is_forgiven(now, sent) {
            return;
        }
        self.control.on_partner_congestion(&Congestion {
            now,
            sent,
            is_persistent: false,
            is_ecn: false,
            lost_bytes: 0,
            lost_packet_max: 0,
        });
    }

    /// Called when QUIC drops a container's buffer.
    fn copied(&mut self, container: u64, mut buffer: Vec<u8>) {
        if !self.unqueue(container) {
            // Abandoned before: its outcome was reported.
        } else if self.transmitting {
            self.copied = Some(match self.copied {
                None => (container, 1),
                Some((first, count)) => (first, count + 1),
            });
        } else {
            // Discarded by QUIC: too large after the path's MTU shrank.
            self.outcomes.push(PacketOutcome {
                container,
                outcome: Outcome::Lost,
            });
        }
        if self.pool.len() < POOL_MAX {
            buffer.clear();
            self.pool.push(buffer);
        }
    }

    /// An empty buffer for the next container.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.pool.pop().unwrap_or_default()
    }

    /// Removes a container from the queue; false if it is not in it. O(1) for the oldest.
    fn unqueue(&mut self, container: u64) -> bool {
        if self.queued.front() == Some(&container) {
            self.queued.pop_front();
            return true;
        }
        let found = self.queued.binary_search(&container);
        found.is_ok_and(|index| self.queued.remove(index).is_some())
    }

    /// Declares lost what is in flight, and what QUIC has queued and will not send any more: the connection is over.
    pub(crate) fn abandon(&mut self) {
        for sent in std::mem::take(&mut self.sent).into_iter().flatten() {
            self.report(&sent, Outcome::Lost);
        }
        let queued = std::mem::take(&mut self.queued).into_iter();
        self.outcomes.extend(queued.map(|container| PacketOutcome {
            container,
            outcome: Outcome::Lost,
        }));
        self.in_flight = 0;
        self.outstanding_since = None;
    }
}

/// The tap as the channel, QUIC's controller and the containers' buffers share it.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Tap>>);

impl Shared {
    pub(crate) fn new(config: &Config, seed: Seed, now: Instant, mtu: u16) -> Self {
        Self(Arc::new(Mutex::new(Tap {
            control: control::build(config, seed, now, mtu),
            sent: VecDeque::new(),
            sent_base: 0,
            in_flight: 0,
            transmitting: false,
            queued: VecDeque::new(),
            copied: None,
            outcomes: Vec::new(),
            pool: Vec::new(),
            app_limited: true,
            totals: Totals::default(),
            delivery: Delivery {
                bytes: 0,
                at: now,
                first_sent_at: now,
                rate: 0.0,
                usual: UsualRtt::new(now),
            },
            rtt: SmoothedRtt::new(),
            ack_sample: None,
            suspected_since: None,
            forgive_before: None,
            eliciting_at: None,
            acked_at: None,
            outstanding_since: None,
            recent: Recent::default(),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Tap> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Wraps a container so that its outcome is reported under the number `container`, larger than all before.
    pub(crate) fn track(&self, container: u64, buffer: Vec<u8>) -> bytes::Bytes {
        self.lock().queued.push_back(container);
        bytes::Bytes::from_owner(Tracked {
            buffer,
            container,
            tap: self.clone(),
        })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}

/// A container's bytes; dropping it notifies the tap that QUIC is done with them.
struct Tracked {
    buffer: Vec<u8>,
    container: u64,
    tap: Shared,
}

impl AsRef<[u8]> for Tracked {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        self.tap.lock().copied(self.container, buffer);
    }
}

/// The controller that QUIC holds.
#[derive(Debug)]
struct TapController(Shared);

impl Controller for TapController {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.0.lock().on_sent(now, bytes, pn);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.0.lock().on_ack(now, sent, bytes, pn, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        _in_flight: u64,
        _app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        let mut tap = self.0.lock();
        if let Some(sample) = tap.ack_sample.take() {
            tap.rtt.observe(sample);
        }
        let (in_flight, app_limited) = (tap.in_flight, tap.app_limited);
        tap.control
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        let mut tap = self.0.lock();
        if tap.is_forgiven(now, sent) {
            return;
        }
        tap.totals.congestion_events += 1;
        tap.totals.ecn_events += u64::from(is_ecn);
        tap.control.on_congestion(&Congestion {
            now,
            sent,
            is_persistent: is_persistent_congestion,
            is_ecn,
            lost_bytes,
            lost_packet_max: largest_lost_pn,
        });
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.0.lock().on_lost(now, lost_bytes, pn);
    }

    fn on_spurious_congestion_event(&mut self) {
        let mut tap = self.0.lock();
        tap.totals.spurious_events += 1;
        tap.control.on_spurious();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.lock().control.on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        WINDOW_UNLIMITED
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = WINDOW_UNLIMITED;
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self(self.0.clone()))
    }

    fn initial_window(&self) -> u64 {
        WINDOW_UNLIMITED
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Hands the tap to the one connection it was made for.
pub(crate) struct Factory(pub(crate) Shared);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.0.lock().control.on_mtu(current_mtu);
        Box::new(TapController(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A channel may end while containers wait in QUIC's queue, as on a socket whose quota is used up: the outcome of
    /// each is reported once.
    #[test]
    fn what_waits_when_the_connection_ends_is_lost_once() {
        // Any instant will do; it cannot be obtained otherwise.
        #[expect(clippy::disallowed_methods)]
        let now = Instant::now();
        let tap = Shared::new(&Config::default(), Seed(1), now, 1200);
        let mut waiting: VecDeque<bytes::Bytes> = (0..5)
            .map(|number| tap.track(number, vec![0; 100]))
            .collect();
        // One leaves in a packet, another has become too large.
        tap.lock().transmitting = true;
        waiting.pop_front();
        tap.lock().transmitting = false;
        tap.lock().on_sent(now, 130, 0);
        waiting.remove(1);
        let lost = |tap: &Shared| -> Vec<u64> {
            let outcomes = std::mem::take(&mut tap.lock().outcomes);
            assert!(
                outcomes
                    .iter()
                    .all(|outcome| outcome.outcome == Outcome::Lost)
            );
            outcomes
                .into_iter()
                .map(|outcome| outcome.container)
                .collect()
        };
        assert_eq!(lost(&tap), [2]);
        tap.lock().abandon();
        assert_eq!(lost(&tap), [0, 1, 3, 4]);
        drop(waiting);
        assert_eq!(lost(&tap), [0; 0], "QUIC's memory is freed later");
    }
}
