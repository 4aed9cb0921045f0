//! Probes: trains of a few packets that measure what a path carries while data neither fills nor shows it.
//!
//! A train leaves back to back, and its last packet arrives later than its first by the time that the slowest link needs for those between:
//! its rate follows from the queue that the peer reports (packet dispersion; Dovrolis et al. 2004). Each packet is filled with copies of
//! the HELLO, which may be repeated at any time (`spec/wire.md` §4), so every peer understands it, and losing it does no harm.
//!
//! Paths are probed while a stream waits for a promise, somebody asked for one, or one is in force that is based on seconds of evidence. The
//! engine bounds what all sessions of a node spend (`engine/probes.rs`).

use std::{collections::VecDeque, ops::RangeInclusive, time::Duration};

use anabranch_admission::Measured;
use anabranch_base::{ChannelId, Instant};

use super::{
    Session,
    containers::{may_launch, touch},
    pump::Run,
};
use crate::{
    config::INITIAL_STREAM_CREDIT_BYTES,
    event::Event,
    flight::Packet,
    wire::{Control, VERSION},
};

/// Time from a path's train to its next.
const PERIOD: Duration = Duration::from_secs(1);
/// After so long without data and questions, trains become rarer, down to one in
const PATIENT_FOR: Duration = Duration::from_secs(20);
/// this time.
const PERIOD_MAX: Duration = Duration::from_secs(60);
/// Time for which paths are probed after a question for a promise was refused.
const ASKED_FOR: Duration = Duration::from_secs(10);
/// A session that sent data within this time is busy.
const BUSY_FOR: Duration = Duration::from_secs(2);
/// Packets of a path's first train, and of each.
const FIRST_PACKETS: usize = 5;
const PACKETS: RangeInclusive<usize> = 3..=16;
/// Bytes by which a container of a train exceeds half a packet at least: two in one packet would be one.
const ABOVE_HALF: usize = 40;
/// Headers of QUIC, UDP and IP in bytes, about: by so much a packet is larger than its container.
const HEADERS_BYTES: usize = 60;
/// A train is as long as the path takes this time to carry, so that timers do not matter.
const DISPERSION: Duration = Duration::from_micros(1_500);
/// The shortest time that is told from none: a train that takes less shows a lower bound.
const RESOLUTION: Duration = Duration::from_micros(200);
/// Time beyond a round trip in which a report of the train comes: the period of reports, and some more.
const REPORTED_WITHIN: Duration = Duration::from_millis(150);
/// Time for which a path that is ready for a train waits for it.
const PREPARED_FOR: Duration = Duration::from_secs(2);

/// A train under way.
#[derive(Clone, Copy, Debug)]
struct Train {
    first_at: Instant,
    last_at: Instant,
    packets: u64,
    /// Bytes of all packets but the first, headers included.
    bytes: u64,
    /// Part of the bytes of full packets that is not headers.
    payload_part: f64,
    /// True if all that was stamped before has been reported: reports of its delays are of its own packets.
    is_unmixed: bool,
    /// Time until which it is reported. Only its own packets are stamped until then.
    reported_at: Instant,
    /// Containers reported since.
    reported: u64,
    /// Shortest and longest delay of the stamped ones.
    delays: Option<[Duration; 2]>,
}

/// Key: channel.
#[derive(Clone, Copy, Debug)]
struct Probe {
    channel: ChannelId,
    train: Option<Train>,
    last_at: Option<Instant>,
    /// Time at which the reports of data that was stamped have come, once its next train is prepared.
    ready_at: Option<Instant>,
    /// Time at which data was stamped last, and at which a report came.
    stamped_at: Instant,
    reported_at: Instant,
    /// Rate that was measured last.
    bps: Option<f64>,
}

/// Probes of a session.
#[derive(Debug, Default)]
pub(super) struct Probing {
    channels: Vec<Probe>,
    /// Bytes that may be spent.
    allowance_bytes: u64,
    spent_bytes: u64,
    asked_at: Option<Instant>,
    /// Time of the last question, stream or data.
    active_at: Instant,
    /// Payload that had been sent then.
    payload_sent_bytes: u64,
    due_at: Option<Instant>,
}

impl Probing {
    pub(super) fn due(&self) -> Option<Instant> {
        self.due_at.into_iter().chain(self.settles_at()).min()
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }

    /// Notes that a promise was asked for.
    pub(super) fn note_asked(&mut self, now: Instant) {
        self.asked_at = Some(now);
        self.active_at = now;
        self.due_at = Some(now);
    }

    /// Looks whether probes are wanted, unless that is decided already.
    pub(super) fn look(&mut self, now: Instant) {
        self.due_at.get_or_insert(now);
    }

    pub(super) fn forget(&mut self, channel: ChannelId) {
        self.channels.retain(|probe| probe.channel != channel);
    }

    fn probe(&mut self, channel: ChannelId) -> &mut Probe {
        let known = (self.channels.iter()).position(|probe| probe.channel == channel);
        let at = known.unwrap_or_else(|| {
            self.channels.push(Probe {
                channel,
                train: None,
                last_at: None,
                ready_at: None,
                stamped_at: Instant::EPOCH,
                reported_at: Instant::EPOCH,
                bps: None,
            });
            self.channels.len() - 1
        });
        &mut self.channels[at]
    }

    /// Time from a path's train to its next.
    fn period(&self, now: Instant) -> Duration {
        let silence = now.since(self.active_at);
        if silence < PATIENT_FOR {
            PERIOD
        } else {
            (silence / 8).clamp(PERIOD, PERIOD_MAX)
        }
    }

    /// Takes a report of the peer on what arrived on a channel: the number of containers, and the shortest and longest delay of those
    /// that were stamped.
    fn on_report(
        &mut self,
        now: Instant,
        channel: ChannelId,
        (packets, [least, most]): (u64, [Duration; 2]),
    ) {
        let probe = self.probe(channel);
        probe.reported_at = now;
        let Some(train) = &mut probe.train else {
            return;
        };
        train.reported += packets;
        if most.is_zero() {
            // None was stamped.
            return;
        }
        let [known_least, known_most] = train.delays.unwrap_or([least, most]);
        train.delays = Some([least.min(known_least), most.max(known_most)]);
    }

    /// The rate of each train that has been reported by now.
    fn settle(&mut self, now: Instant) -> Vec<(ChannelId, Measured)> {
        let mut all = Vec::new();
        for probe in &mut self.channels {
            let Some(train) = probe.train.take_if(|train| train.reported_at <= now) else {
                continue;
            };
            if let Some(measured) = train.measured() {
                let (Measured::Exactly(bps) | Measured::AtLeast(bps)) = measured;
                probe.bps = Some(bps);
                all.push((probe.channel, measured));
            }
        }
        all
    }

    /// Time at which the next train is to be settled.
    fn settles_at(&self) -> Option<Instant> {
        let trains = self.channels.iter().filter_map(|probe| probe.train);
        trains.map(|train| train.reported_at).min()
    }
}

impl Train {
    /// Its rate; `None` if it was lost, or not reported.
    fn measured(&self) -> Option<Measured> {
        let [least, most] = self.delays?;
        let took = (most - least) + self.last_at.since(self.first_at);
        let bps = self.payload_part * self.bytes as f64 * 8.0 / took.max(RESOLUTION).as_secs_f64();
        if took >= RESOLUTION && self.reported >= self.packets {
            // What is queued before it delays its first packet as much as its last. Packets of before had other delays: it took no longer.
            let measured = if self.is_unmixed {
                Measured::Exactly
            } else {
                Measured::AtLeast
            };
            return Some(measured(bps));
        }
        // It may not have been among what was reported.
        (self.reported == self.packets).then_some(Measured::AtLeast(bps))
    }
}

/// Number of packets of a train, and size of their containers, `full_bytes` at most, on a path of this rate.
fn shape(bps: Option<f64>, full_bytes: usize) -> (usize, usize) {
    let least = (full_bytes / 2 + ABOVE_HALF).min(full_bytes);
    let Some(bps) = bps else {
        return (FIRST_PACKETS, least);
    };
    let bytes = (bps * DISPERSION.as_secs_f64() / 8.0) as usize;
    let size = (bytes / (PACKETS.start() - 1)).clamp(least, full_bytes);
    let packets = bytes.div_ceil(size) + 1;
    (packets.clamp(*PACKETS.start(), *PACKETS.end()), size)
}

impl Session {
    /// Sets what probes may cost until the next call.
    pub(crate) fn allow_probes(&mut self, bytes: u64) {
        self.channels.probing.allowance_bytes = bytes;
    }

    /// True if probes may leave in the next run of the pump.
    pub(crate) fn has_probes(&self, now: Instant) -> bool {
        self.channels.probing.is_due(now)
    }

    /// Cost of the probes since the last call, headers of containers included.
    pub(crate) fn take_probed(&mut self) -> u64 {
        std::mem::take(&mut self.channels.probing.spent_bytes)
    }

    /// True if evidence is wanted that only probes can give.
    fn wants_probes(&mut self, now: Instant) -> bool {
        if !self.config.probing.is_on()
            || self.is_on_probation()
            || !self.establishment.is_complete()
        {
            return false;
        }
        let probing = &mut self.channels.probing;
        if self.totals.payload_sent_bytes > probing.payload_sent_bytes {
            probing.payload_sent_bytes = self.totals.payload_sent_bytes;
            probing.active_at = now;
        }
        let is_busy = now.since(probing.active_at) < BUSY_FOR;
        self.is_promise_wanted(now) || (is_busy && !self.promises.is_empty())
    }

    /// True if a stream waits for a promise, or somebody asked for one.
    fn is_promise_wanted(&self, now: Instant) -> bool {
        let asked_at = self.channels.probing.asked_at;
        asked_at.is_some_and(|at| now.since(at) < ASKED_FOR) || self.promises.is_waiting()
    }

    /// Sends the trains that are due, on channels that have slots left, and decides when to look again. O(1) while nothing is due.
    pub(super) fn send_probes(&mut self, run: &mut Run<'_>) {
        if !self.channels.probing.is_due(run.now) {
            return;
        }
        self.channels.probing.due_at = None;
        if !self.wants_probes(run.now) {
            return;
        }
        // A peer that has not admitted the session yet would take probes for an attack; its windows are the smallest then.
        let is_admitted = self.flow.initial_stream_credit() > INITIAL_STREAM_CREDIT_BYTES;
        let period = self.channels.probing.period(run.now);
        let mut next_at = run.now + period;
        let mut due: Vec<(Option<Instant>, usize)> = Vec::new();
        for index in 0..run.scratch.places.len() {
            if !is_admitted || !self.may_probe(run, index) {
                continue;
            }
            let id = run.scratch.channels[index].id;
            let last_at = self.channels.probing.probe(id).last_at;
            let at = last_at.map_or(self.channels.probing.active_at, |at| at + period);
            let prepared_at = at - self.reported_within(run, index);
            if prepared_at > run.now {
                next_at = next_at.min(prepared_at);
            } else if let Some(ready_at) = self.prepare(run, index) {
                next_at = next_at.min(ready_at.max(at));
            } else if at > run.now {
                next_at = next_at.min(at);
            } else {
                due.push((last_at, index));
            }
        }
        due.sort_unstable();
        let are_sent = due.into_iter().fold(true, |are_sent, (_, index)| {
            // Without a slot, the data that fills the path shows more than a train.
            let has_slot = run.scratch.channels[index].slots > 0;
            let is_sent = has_slot && self.send_train(run, index);
            let prepared_at = run.now + period - self.reported_within(run, index);
            next_at = next_at.min(prepared_at.max(run.now + PERIOD / 8));
            is_sent && are_sent
        });
        if !are_sent || !is_admitted {
            next_at = next_at.min(run.now + PERIOD / 4);
        }
        self.channels.probing.due_at = Some(next_at);
    }

    /// Stops stamping data on the channel with this view index: it meets other delays than a train, and small packets shorter ones. Returns
    /// the time at which all stamped data has been reported, `None`: now.
    fn prepare(&mut self, run: &Run<'_>, index: usize) -> Option<Instant> {
        let reported_within = self.reported_within(run, index);
        let is_idle = self.is_quiet(run, index, reported_within);
        let probe = self.channels.probing.probe(run.scratch.channels[index].id);
        let (place, _) = run.scratch.places[index];
        let ready_at = match probe.ready_at {
            // Unless that was for a train which was not wanted any more.
            Some(ready_at) if ready_at + PREPARED_FOR > run.now => ready_at,
            _ => {
                let ready_at = if is_idle {
                    run.now
                } else {
                    run.now + reported_within
                };
                let state = &mut self.channels.states[place];
                if state.timestamp_at <= run.now {
                    probe.stamped_at = state.timestamp_at;
                }
                state.timestamp_at = ready_at + PREPARED_FOR;
                *probe.ready_at.insert(ready_at)
            }
        };
        (ready_at > run.now).then_some(ready_at)
    }

    /// Time within which a packet that leaves now on the channel with this view index is reported.
    fn reported_within(&self, run: &Run<'_>, index: usize) -> Duration {
        run.scratch.channels[index].rtt_smoothed + REPORTED_WITHIN
    }

    /// True if nothing was sent for `time` on the channel with this view index.
    fn is_quiet(&self, run: &Run<'_>, index: usize, time: Duration) -> bool {
        let state = &self.channels.states[run.scratch.places[index].0];
        let launched_at = state.launched_at;
        launched_at.is_none_or(|at| run.now.since(at) >= time)
    }

    /// True if a train on the channel with this view index would show something, and may be sent.
    fn may_probe(&mut self, run: &Run<'_>, index: usize) -> bool {
        let state = &self.channels.states[run.scratch.places[index].0];
        let is_paid = state.marginal.is_metered && !self.config.probing.metered;
        let place = self.channels.estimator.place(state.id);
        let is_asked = self.is_promise_wanted(run.now);
        let is_wanted =
            place.is_some_and(|place| self.promises.needs_probes(run.now, place, is_asked));
        let is_barred = state.barred.is_used_up || state.barred.is_out;
        state.introduced && !is_barred && !is_paid && is_wanted
    }

    /// Sends a train on the channel with this view index; false: that would cost more than is allowed.
    fn send_train(&mut self, run: &mut Run<'_>, index: usize) -> bool {
        let (place, capacity) = run.scratch.places[index];
        let channel = run.scratch.channels[index].id;
        let (count, size) = shape(self.channels.probing.probe(channel).bps, capacity);
        if (count * (size + HEADERS_BYTES)) as u64 > self.channels.probing.allowance_bytes {
            return false;
        }
        let rtt = run.scratch.channels[index].rtt_smoothed;
        let probe = self.channels.probing.probe(channel);
        let is_unmixed = probe.reported_at >= probe.stamped_at + rtt;
        let mut sent = Train {
            first_at: run.now,
            last_at: run.now,
            packets: 0,
            bytes: 0,
            payload_part: capacity as f64 / (capacity + HEADERS_BYTES) as f64,
            is_unmixed,
            reported_at: run.now + rtt + REPORTED_WITHIN,
            reported: 0,
            delays: None,
        };
        for number in 0..count {
            if !may_launch(run, index) {
                break;
            }
            let cost = self.send_probe(run, (index, size)) + HEADERS_BYTES as u64;
            self.channels.probing.allowance_bytes =
                self.channels.probing.allowance_bytes.saturating_sub(cost);
            self.channels.probing.spent_bytes += cost;
            sent.packets += 1;
            sent.bytes += if number == 0 { 0 } else { cost };
        }
        self.channels.states[place].timestamp_at = sent.reported_at;
        touch(run.touched, channel);
        let probe = self.channels.probing.probe(channel);
        probe.last_at = Some(run.now);
        probe.ready_at = None;
        probe.train = (sent.packets >= 2).then_some(sent);
        true
    }

    /// Sends one packet of a train; returns its bytes.
    fn send_probe(&mut self, run: &mut Run<'_>, (index, size): (usize, usize)) -> u64 {
        let (place, _) = run.scratch.places[index];
        // Each is stamped, so that the peer reports the queue that it met.
        self.channels.states[place].timestamp_at = Instant::EPOCH;
        let mut builder = self.begin_bare(run, place, size, false);
        let hello = Control::Hello {
            version: VERSION,
            stream_window_bytes: self.config.stream_window_bytes,
            session_window_bytes: self.config.session_window_bytes,
        };
        while builder.remaining() >= hello.size_bound() {
            hello.write(&mut builder.bytes);
        }
        let bytes = builder.bytes.len() as u64;
        let mut packet = Packet::new(run.now);
        packet.is_probe = true;
        self.launch(run, place, builder, packet);
        bytes
    }

    /// Takes a report of the peer on the containers of a channel; the delays are those of stamped ones.
    pub(super) fn note_report(
        &mut self,
        now: Instant,
        channel: ChannelId,
        (packets, delays): (u64, [Duration; 2]),
    ) {
        let probing = &mut self.channels.probing;
        probing.on_report(now, channel, (packets, delays));
    }

    /// Passes on what trains showed that have been reported by now.
    pub(super) fn settle_probes(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        if self.channels.probing.settles_at().is_none_or(|at| at > now) {
            return;
        }
        for (channel, measured) in self.channels.probing.settle(now) {
            if let Some(place) = self.channels.estimator.place(channel) {
                self.promises.note_rate(now, place, measured);
            }
        }
        if self.channels.estimator.due().is_some() {
            // Promises are reviewed when the window ends that runs now.
            return;
        }
        let channels = self.channels.of_paths();
        for notice in self.promises.look_again(now, &channels) {
            self.notify(Some(notice), events);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: ChannelId = ChannelId(3);

    fn train(packets: u64) -> Train {
        Train {
            first_at: Instant::from_secs(1),
            last_at: Instant::from_secs(1),
            packets,
            bytes: (packets - 1) * 1_200,
            payload_part: 1.0,
            is_unmixed: true,
            reported_at: Instant::from_millis(1_200),
            reported: 0,
            delays: None,
        }
    }

    fn reported(train: Train, reports: &[(u64, [u64; 2])]) -> Vec<(ChannelId, Measured)> {
        let mut probing = Probing::default();
        probing.probe(CHANNEL).train = Some(train);
        for &(packets, delays) in reports {
            probing.on_report(
                train.last_at,
                CHANNEL,
                (packets, delays.map(Duration::from_millis)),
            );
        }
        assert_eq!(probing.settle(Instant::from_millis(1_199)), []);
        let measured = probing.settle(Instant::from_millis(1_200));
        assert_eq!(
            probing.settle(Instant::from_millis(1_200)),
            [],
            "it is settled"
        );
        measured
    }

    #[test]
    fn a_train_shows_the_rate_at_which_its_queue_grew() {
        let exactly = [(CHANNEL, Measured::Exactly(8e6))];
        assert_eq!(reported(train(6), &[(6, [1, 7])]), exactly);
        // In two reports, with data of before.
        assert_eq!(reported(train(6), &[(9, [1, 3]), (2, [4, 7])]), exactly);
        // A report was lost.
        assert_eq!(reported(train(6), &[(4, [1, 3])]), []);
        assert_eq!(reported(train(6), &[]), []);
    }

    #[test]
    fn among_others_or_too_fast_a_train_shows_a_lower_bound() {
        let among = Train {
            is_unmixed: false,
            ..train(6)
        };
        let slow = [(CHANNEL, Measured::AtLeast(8e6))];
        assert_eq!(reported(among, &[(7, [1, 7])]), slow);
        let fast = [(CHANNEL, Measured::AtLeast(6_000.0 * 8.0 / 2e-4))];
        assert_eq!(reported(train(6), &[(6, [1, 1])]), fast);
        // Perhaps the report of other packets.
        assert_eq!(reported(train(6), &[(9, [1, 1])]), []);
    }

    #[test]
    fn trains_are_as_long_as_the_path_needs() {
        assert_eq!(shape(None, 1_200), (5, 640));
        assert_eq!(shape(Some(1e6), 1_200), (3, 640));
        assert_eq!(shape(Some(8e6), 1_200), (3, 750));
        assert_eq!(shape(Some(20e6), 1_200), (5, 1_200));
        assert_eq!(shape(Some(1e9), 1_200), (16, 1_200));
    }

    #[test]
    fn without_data_trains_become_rare() {
        let mut probing = Probing::default();
        probing.note_asked(Instant::from_secs(100));
        let after = |s: u64| probing.period(Instant::from_secs(100 + s));
        assert_eq!(after(19), PERIOD);
        assert_eq!(after(80), Duration::from_secs(10));
        assert_eq!(after(4_000), PERIOD_MAX);
    }
}
