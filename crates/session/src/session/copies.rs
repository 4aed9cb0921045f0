//! Second copies: when slots would stay unused, or a pressing packet is overdue or likely to miss its
//! deadline, or the path of a promised one has stalled, a fragment in flight is sent once more on another
//! channel where it is likely to arrive earlier.
//!
//! This ends transfers without waiting for the slowest packet, and repairs pressing losses before
//! QUIC's loss detection can see them. A budget bounds it ([`crate::Config::copies_max`]).

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_sched::arrival;

use super::{Session, containers::touch, pump::Run};
use crate::{
    flight::{Item, Packet},
    wire::frame::Place,
};

/// Packets looked at per channel and run.
const SCAN_MAX: usize = 256;
/// The same while something is promised: a path that stalls holds a round trip of elastic packets, too.
const SCAN_PROMISED_MAX: usize = 1024;
/// A promised packet is sent again when that gains this much time,
const STALL: Duration = Duration::from_millis(12);
/// and what so many packets take on the other channel: a slow one has none to spare for what gains little.
const STALL_PACKETS: u32 = 8;
/// Copies per run.
const COPIES_PER_RUN: usize = 32;
/// Budget at the start, and saved up at most, in bytes.
const BUDGET_START: f64 = 65_536.0;
const BUDGET_MAX: f64 = 4e6;
/// Time between two looks for what a second copy would help.
const CHECK_PERIOD: Duration = Duration::from_millis(4);

/// Budget of second copies, and the time of the next look. Key: session.
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

    /// True if it is time to look for copies.
    pub(super) fn are_due(&self, now: Instant) -> bool {
        now >= self.check_at
    }

    /// Notes a look; copies that found no slot take the next one there is.
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
    /// Copies what is pressing and in danger. Before slots are assigned, because bulk traffic leaves
    /// none. Whether there was a slot for every copy.
    pub(super) fn copy_urgent(&mut self, run: &mut Run<'_>) -> bool {
        (!self.latency.is_sending(run.now) && self.promises.is_empty())
            || self.send_copies(run, false)
    }

    /// Copies into slots that nothing else wants.
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
        for (index, state) in self.channels.states.iter_mut().enumerate() {
            let Some(here) = run.scratch.channels.iter().find(|view| view.id == state.id) else {
                continue;
            };
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
            let stall = STALL.max(Duration::from_secs_f64(packet_s) * STALL_PACKETS);
            for packet in state.flight.iter_mut().take(scan) {
                if packet.copied || packet.moved {
                    continue;
                }
                let age = run.now.since(packet.sent_at);
                // Later than this its acknowledgement should have come.
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
                    } else if send.spec.is_latency_sensitive() {
                        is_last_call || (is_sooner && (overdue || is_doubtful || idle))
                    } else {
                        is_sooner && idle && send.spec.reliable
                    };
                    // Objectives may keep what is not promised off the other channel.
                    let may_go = || {
                        send.spec.pinned.is_none()
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
        let fits = builder.room() >= length + overhead;
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
