//! Second copies: when slots would stay unused, or a latency-sensitive packet is overdue or likely to miss its
//! deadline, or the path of a promised one has stalled, a fragment in flight is sent once more on another
//! channel where it is likely to arrive earlier.
//!
//! This ends transfers without waiting for the slowest packet, and repairs losses of latency-sensitive data before
//! QUIC's loss detection can see them. A budget bounds it ([`crate::Config::copies_max`]).

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_sched::arrival;
use anabranch_spec::ChannelChoice;

use super::{Session, containers::touch, latency::Traffic, pump::Run};
use crate::{
    flight::{Item, Packet},
    wire::frame::Place,
};

/// Packets examined per channel and run.
const SCAN_MAX: usize = 256;
/// The same while something is promised: a path that stalls holds a round trip of elastic packets, too.
const SCAN_PROMISED_MAX: usize = 1024;
/// A promised packet is copied when that gains this much time,
const STALL: Duration = Duration::from_millis(12);
/// and the time of so many packets on the other channel: a slow one has no capacity to spare for a small gain.
const STALL_PACKETS: u32 = 8;
/// Time after a stream gave up data that waited for which nothing of it is copied: a copy would take the place of more.
const SHORTAGE: Duration = Duration::from_secs(1);
/// Copies per run.
const COPIES_PER_RUN: usize = 32;
/// Budget at the start, and most that may be saved, in bytes.
const BUDGET_START: f64 = 65_536.0;
const BUDGET_MAX: f64 = 4e6;
/// Time between two searches for fragments that a second copy would help.
const CHECK_PERIOD: Duration = Duration::from_millis(4);

/// Budget of second copies, and the time of the next search. Key: session.
#[derive(Debug)]
pub(super) struct Copies {
    budget_bytes: f64,
    check_at: Instant,
}

impl Copies {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            budget_bytes: BUDGET_START,
            check_at: now,
        }
    }

    /// Adds `part` of the bytes that were sent to the budget.
    pub(super) fn earn(&mut self, bytes: usize, part: f64) {
        self.budget_bytes = (self.budget_bytes + bytes as f64 * part).min(BUDGET_MAX);
    }

    fn spend(&mut self, bytes: usize) {
        self.budget_bytes -= bytes as f64;
    }

    fn can_afford(&self, bytes: usize) -> bool {
        self.budget_bytes >= bytes as f64
    }

    /// True if it is time to search for copies.
    pub(super) fn are_due(&self, now: Instant) -> bool {
        now >= self.check_at
    }

    /// Notes a search; copies that found no slot take the next one.
    pub(super) fn note_check(&mut self, now: Instant, is_done: bool) {
        self.check_at = match is_done {
            true => now + CHECK_PERIOD,
            false => now,
        };
    }
}

/// A fragment that a copy would help.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    state: usize,
    place: Place,
    length: usize,
    target: usize,
}

impl Session {
    /// Copies latency-sensitive packets that are likely to be late. It is called before slots are assigned, because bulk traffic
    /// leaves none. Returns whether there was a slot for every copy.
    pub(super) fn copy_urgent(&mut self, run: &mut Run<'_>) -> bool {
        (!self.latency.is_sending(run.now) && self.promises.is_empty())
            || self.send_copies(run, false)
    }

    /// Copies into slots that are not used otherwise.
    pub(super) fn copy_tail(&mut self, run: &mut Run<'_>) {
        if run.scratch.streams.is_idle() {
            self.send_copies(run, true);
        }
    }

    fn send_copies(&mut self, run: &mut Run<'_>, idle: bool) -> bool {
        if run.scratch.channels.len() < 2 {
            return true;
        }
        if run.scratch.channels.iter().all(|view| view.slots == 0) {
            return false;
        }
        let mut is_done = true;
        for candidate in self.find_candidates(run, idle) {
            if !self.copies.can_afford(candidate.length) {
                break;
            }
            if run.scratch.channels[candidate.target].slots == 0 {
                is_done = false;
                continue;
            }
            self.send_copy(run, candidate);
        }
        is_done
    }

    /// Fragments in flight that another channel with a slot could deliver earlier, oldest first.
    fn find_candidates(&mut self, run: &mut Run<'_>, idle: bool) -> Vec<Candidate> {
        let mut found = Vec::new();
        let scan = self.scan_max();
        let is_live = matches!(self.latency.traffic(run.now), Traffic::Live(_));
        for (index, state) in self.channels.states.iter_mut().enumerate() {
            let mut views = run.scratch.channels.iter();
            let Some(own) = views.position(|view| view.id == state.id) else {
                continue;
            };
            let here = &run.scratch.channels[own];
            let best = run
                .scratch
                .channels
                .iter()
                .enumerate()
                .filter(|(_, view)| view.id != here.id && view.slots > 0)
                .min_by_key(|(_, view)| arrival::one_way(view));
            let Some((target, there)) = best else {
                continue;
            };
            let packet_s = there.packet_bytes as f64 / there.rate_bytes_per_s.max(1e4);
            // A copy in a queue makes what follows later, which is useless then if it has a lifetime.
            let is_loaded = arrival::queue_in_flight(there) > Duration::ZERO;
            let stall = STALL.max(Duration::from_secs_f64(packet_s) * STALL_PACKETS);
            for packet in state.flight.iter_mut().take(scan) {
                if packet.copied || packet.moved {
                    continue;
                }
                let age = run.now.since(packet.sent_at);
                // Its acknowledgement should have come by this age.
                let ack_timeout =
                    here.rtt_smoothed + here.rtt_variation * 2 + Duration::from_millis(5);
                let overdue = age > ack_timeout;
                let expected = arrival::one_way(here).saturating_sub(age);
                let remaining = if overdue { here.rtt_smoothed } else { expected };
                let by_copy = arrival::one_way(there);
                let is_sooner = by_copy < remaining;
                if !(is_sooner || overdue) {
                    continue;
                }
                for item in packet.items() {
                    let Item::Fragment {
                        place,
                        length,
                        is_copy: false,
                    } = *item
                    else {
                        continue;
                    };
                    let Some(send) = self.streams.send.get(&place.stream) else {
                        continue;
                    };
                    let left = send.deadline_of(place.sequence).map(|at| at.since(run.now));
                    let within = |time: Duration| left.is_none_or(|left| time <= left);
                    // On time by less than two deviations of the round trip, or not at all.
                    let is_doubtful = !within(expected + here.rtt_variation * 2);
                    // Until its loss or the channel's silence is certain, it will be too late.
                    let is_last_call = overdue && !within(by_copy + here.rtt_smoothed);
                    let has_stalled = remaining > by_copy + stall;
                    let is_promised = send.spec.guarantee.is_some();
                    let is_worth_it = if is_promised && has_stalled {
                        true
                    } else if is_live && (is_loaded || send.has_given_up_within(run.now, SHORTAGE))
                    {
                        false
                    } else if send.spec.is_latency_sensitive() {
                        is_last_call || (is_sooner && (overdue || is_doubtful || idle))
                    } else {
                        is_sooner && idle && send.spec.reliable
                    };
                    // Objectives may exclude data that is not promised from the other channel.
                    let may_go = || {
                        let choice = ChannelChoice::of(
                            &send.spec,
                            &self.config.paths,
                            run.scratch.traits.iter(),
                        );
                        // A packet that is expected in time is not copied to a path that its stream likes less.
                        let permitted = match overdue {
                            true => choice.all(),
                            false => choice.up_to(own),
                        };
                        send.spec.pinned.is_none()
                            && permitted.contains(target)
                            && (is_promised
                                || !self.scheduling.planning.is_on
                                || (self.scheduling.scheduler)
                                    .may_copy(self.scheduling.objectives.in_force(), place.stream))
                    };
                    let helps = is_worth_it && within(by_copy) && may_go();
                    if helps {
                        found.push(Candidate {
                            state: index,
                            place,
                            length,
                            target,
                        });
                    }
                }
                if found.len() >= COPIES_PER_RUN {
                    return found;
                }
            }
        }
        found
    }

    fn scan_max(&self) -> usize {
        if self.promises.is_empty() {
            SCAN_MAX
        } else {
            SCAN_PROMISED_MAX
        }
    }

    fn send_copy(&mut self, run: &mut Run<'_>, candidate: Candidate) {
        let Candidate { place, length, .. } = candidate;
        let (state, mut builder) = self.begin_on(run, candidate.target);
        self.announce_in(&mut builder, place.stream);
        let mut packet = Packet::new(run.now);
        let overhead = crate::wire::frame::fragment_overhead(place, false);
        let fits = builder.remaining() >= length + overhead;
        let piece = self
            .streams
            .send
            .get_mut(&place.stream)
            .filter(|_| fits)
            .and_then(|send| send.copy_piece(place, length));
        if let Some(piece) = piece {
            builder.write_only(place, piece.is_final, &piece.data);
            packet.bytes = length;
            packet.push(Item::Fragment {
                place,
                length,
                is_copy: true,
            });
            self.copies.spend(length);
            self.totals.copied_bytes += length as u64;
        }
        // Even when nothing is left to copy, the container may carry control frames by now.
        self.launch(run, state, builder, packet);
        let view = &mut run.scratch.channels[candidate.target];
        view.slots -= 1;
        touch(run.touched, view.id);
        let scan = self.scan_max();
        for packet in self.channels.states[candidate.state]
            .flight
            .iter_mut()
            .take(scan)
        {
            let is_it = packet
                .items()
                .any(|item| matches!(item, Item::Fragment { place: p, .. } if *p == place));
            if is_it {
                packet.copied = true;
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_paid_from_a_budget() {
        let mut copies = Copies::new(Instant::EPOCH);
        let start = BUDGET_START as usize;
        assert!(copies.can_afford(start) && !copies.can_afford(start + 1));
        copies.spend(start);
        assert!(!copies.can_afford(1));
        copies.earn(1_000, 0.05);
        assert!(copies.can_afford(50) && !copies.can_afford(51));
        copies.earn(usize::MAX, 1.0);
        assert!(
            copies.can_afford(BUDGET_MAX as usize) && !copies.can_afford(BUDGET_MAX as usize + 1)
        );
    }

    #[test]
    fn a_search_is_due_a_period_after_the_last() {
        let start = Instant::from_secs(1);
        let mut copies = Copies::new(start);
        assert!(copies.are_due(start));
        copies.note_check(start, true);
        assert!(!copies.are_due(start) && copies.are_due(start + CHECK_PERIOD));
        copies.note_check(start, false);
        assert!(copies.are_due(start), "what found no slot goes on");
    }
}
