//! Second copies: when slots would stay unused, or an urgent packet is overdue, a fragment in flight
//! is sent once more on another channel where it is likely to arrive earlier.
//!
//! This ends transfers without waiting for the slowest packet, and repairs urgent losses before
//! QUIC's loss detection can see them. A budget bounds it ([`crate::Config::copies_max`]).

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{ChannelId, Instant};
use anabranch_channel::Endpoint;
use anabranch_sched::arrival;

use super::{
    Session,
    pump::{Scratch, touch},
};
use crate::{
    flight::{Item, Packet},
    wire::frame::Place,
};

/// Packets looked at per channel and run.
const SCAN_MAX: usize = 256;
/// Copies per run.
const COPIES_PER_RUN: usize = 32;
/// Time between two looks.
const CHECK_PERIOD: Duration = Duration::from_millis(4);
/// Budget saved up at most, in bytes.
const BUDGET_MAX: f64 = 4e6;

/// A fragment that a copy would help.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    member: usize,
    place: Place,
    length: usize,
    target: usize,
}

impl Session {
    pub(super) fn send_copies(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &mut Scratch,
        touched: &mut VecDeque<ChannelId>,
    ) {
        if scratch.channels.len() < 2 || now < self.copy_check_at {
            return;
        }
        let idle = scratch.streams.is_empty();
        let urgent = self.urgent_at.is_some();
        if !(idle || urgent) || scratch.channels.iter().all(|view| view.slots == 0) {
            return;
        }
        self.copy_check_at = now + CHECK_PERIOD;
        self.copies_budget = self.copies_budget.min(BUDGET_MAX);
        for candidate in self.find_candidates(now, scratch, idle) {
            if scratch.channels[candidate.target].slots == 0
                || self.copies_budget < candidate.length as f64
            {
                continue;
            }
            self.send_copy(now, endpoint, scratch, candidate, touched);
        }
    }

    /// Fragments in flight that another channel with a slot could deliver earlier, oldest first.
    fn find_candidates(&mut self, now: Instant, scratch: &Scratch, idle: bool) -> Vec<Candidate> {
        let mut found = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            let Some(here) = scratch.channels.iter().find(|view| view.id == member.id) else {
                continue;
            };
            let best = scratch
                .channels
                .iter()
                .enumerate()
                .filter(|(_, view)| view.id != here.id && view.slots > 0)
                .min_by_key(|(_, view)| arrival::one_way(view));
            let Some((target, there)) = best else {
                continue;
            };
            for packet in member.flight.iter_mut().take(SCAN_MAX) {
                if packet.copied || packet.moved {
                    continue;
                }
                let age = now.since(packet.sent_at);
                // Later than this its acknowledgement should have come.
                let patience =
                    here.rtt_smoothed + here.rtt_variation * 2 + Duration::from_millis(5);
                let overdue = age > patience;
                let remaining = if overdue {
                    here.rtt_smoothed
                } else {
                    arrival::one_way(here).saturating_sub(age)
                };
                if arrival::one_way(there) >= remaining {
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
                    let Some(half) = self.send.get(&place.stream) else {
                        continue;
                    };
                    let helps = half.spec.pinned.is_none()
                        && if half.spec.is_urgent() {
                            overdue || idle
                        } else {
                            idle && half.spec.reliable
                        };
                    if helps {
                        found.push(Candidate {
                            member: index,
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

    fn send_copy(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &mut Scratch,
        candidate: Candidate,
        touched: &mut VecDeque<ChannelId>,
    ) {
        let Candidate { place, length, .. } = candidate;
        let (member, mut builder) = self.begin_on(now, endpoint, scratch, candidate.target);
        self.announce_in(&mut builder, place.stream);
        let mut packet = Packet::new(now);
        let overhead = crate::wire::frame::fragment_overhead(place, false);
        let fits = builder.room() >= length + overhead;
        let piece = self
            .send
            .get_mut(&place.stream)
            .filter(|_| fits)
            .and_then(|half| half.copy_piece(place, length));
        if let Some(piece) = piece {
            builder.write_only(place, piece.is_final, &piece.data);
            packet.bytes = length;
            packet.push(Item::Fragment {
                place,
                length,
                is_copy: true,
            });
            self.copies_budget -= length as f64;
        }
        // Even when nothing is left to copy, the container may carry control frames by now.
        self.launch(endpoint, member, builder, packet);
        let view = &mut scratch.channels[candidate.target];
        view.slots -= 1;
        touch(touched, view.id);
        for packet in self.members[candidate.member]
            .flight
            .iter_mut()
            .take(SCAN_MAX)
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
