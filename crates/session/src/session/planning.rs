//! What a policy that plans is shown: ADUs, slots, history.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_channel::Endpoint;
use anabranch_hose::symbol;
use anabranch_sched::{
    ChannelMask, View,
    cost::Price,
    model::Supply,
    objective::{Adu, Channel, Correlation, Cycle, Outcome, Sent, Turns},
};

use super::{
    Session,
    models::{self, Models},
    observed::Observed,
    pump::Scratch,
};
use crate::{
    budget::Budgets,
    send::{AduOutcome, Piece},
};

/// ADUs, and fragments of them, that are shown at a time.
const ADUS_MAX: usize = 512;
/// The same while an objective over several ADUs is in force: what it costs grows with their square.
const COMPANIONS_MAX: usize = 64;
/// ADUs of the transmission history.
const HISTORY_MAX: usize = 32;
/// How losses go together is looked at again after this.
const CORRELATION_PERIOD: Duration = Duration::from_millis(200);

/// Key: session.
#[derive(Debug, Default)]
pub(super) struct Planning {
    /// The policy plans in this run of the pump.
    pub is_on: bool,
    turns: Turns,
    cycle: Cycle,
    /// The channels of the cycle, and when their losses were looked at.
    channels: Vec<ChannelId>,
    correlated_at: Instant,
    pub models: Models,
    pub observed: Observed,
    /// An objective over several ADUs is in force: it may ask about those sent before.
    pub has_history: bool,
}

impl Planning {
    /// What became of an ADU.
    pub(super) fn note_outcome(&mut self, stream: StreamId, sequence: u64, outcome: &AduOutcome) {
        let ms = |age: Duration| age.as_secs_f64() * 1e3;
        let known = match outcome {
            AduOutcome::Acked { age, .. } => Outcome::Acked {
                latency_ms: ms(*age),
            },
            AduOutcome::Lost { .. } | AduOutcome::Expired { .. } => Outcome::Lost,
            AduOutcome::Dropped => return,
        };
        let latency = match known {
            Outcome::Acked { latency_ms } => Some(latency_ms),
            _ => None,
        };
        self.observed.note(stream, latency);
        let is_it = |sent: &&mut Sent| sent.adu.stream == stream && sent.adu.sequence == sequence;
        if let Some(sent) = self.cycle.history.iter_mut().rev().find(is_it) {
            sent.outcome = known;
        }
    }

    /// The stream is over.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.turns.forget(stream);
    }
}

impl Session {
    /// Asks what the next byte on each channel costs.
    pub(crate) fn price(&mut self, endpoint: &mut Endpoint, budgets: &Budgets) {
        for member in &mut self.members {
            if let Some(channel) = endpoint.channel(member.id) {
                member.marginal = budgets.marginal(channel.socket());
            }
        }
    }

    /// Shows the policy what there is to decide about.
    pub(super) fn plan(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &Scratch,
        look_ahead: Duration,
    ) {
        self.draw_channels(now, scratch);
        self.draw_slots(now, endpoint, scratch, look_ahead);
        self.draw_adus(now, scratch);
        let cycle = &mut self.planning.cycle;
        cycle.streams.clear();
        cycle.streams.extend(self.planning.observed.streams());
        if !self.planning.has_history {
            cycle.history.clear();
        }
        let view = View {
            now,
            channels: &scratch.channels,
            streams: scratch.streams.all(),
        };
        let objectives = self.objectives.in_force_mut();
        self.scheduler.plan(&view, cycle, objectives);
    }

    /// Channels as objectives see them, and how losses go together.
    fn draw_channels(&mut self, now: Instant, scratch: &Scratch) {
        let Planning {
            cycle,
            channels,
            correlated_at,
            models,
            ..
        } = &mut self.planning;
        let ids = || scratch.channels.iter().map(|channel| channel.id);
        let is_new = !ids().eq(channels.iter().copied());
        if is_new {
            channels.clear();
            channels.extend(ids());
            cycle.channels.clear();
            let members = &self.members;
            let name = |id: ChannelId| {
                let member = members.iter().find(|member| member.id == id);
                let name = member.and_then(|member| member.name.as_deref());
                name.map_or_else(|| symbol(&id.to_string()), symbol)
            };
            cycle.channels.extend(ids().map(|id| Channel {
                id: id.0,
                name: name(id),
                technology: f64::NAN,
                is_metered: false,
                rate_bps: f64::NAN,
                fields: Vec::new(),
            }));
            // Its slots name channels by index.
            cycle.history.clear();
        }
        for (channel, view) in cycle.channels.iter_mut().zip(&scratch.channels) {
            channel.technology = models.technology_symbol(view.id);
            let member = self.members.iter().find(|member| member.id == view.id);
            channel.is_metered = member.is_some_and(|member| member.marginal.is_metered);
            channel.rate_bps = if view.rate_bytes_per_s > 0.0 {
                view.rate_bytes_per_s * 8.0
            } else {
                f64::NAN
            };
        }
        if !is_new && now.since(*correlated_at) < CORRELATION_PERIOD {
            return;
        }
        *correlated_at = now;
        if is_new {
            cycle.correlation = Correlation::independent(channels.len());
        }
        models.correlate(channels, &mut cycle.correlation);
    }

    fn draw_slots(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        scratch: &Scratch,
        look_ahead: Duration,
    ) {
        let Planning { cycle, models, .. } = &mut self.planning;
        cycle.slots.clear();
        for (at, view) in scratch.channels.iter().enumerate() {
            let member = self.members.iter().find(|member| member.id == view.id);
            let next = member.map_or(0, |member| member.launched);
            if let Some(channel) = endpoint.channel(view.id) {
                let price = member.and_then(|member| member.marginal.price);
                let supply = Supply {
                    cost_per_byte: price.map_or(0.0, Price::per_byte),
                    ..models::supply(now, view, next, channel)
                };
                models.offer(at, (view.id, &supply), look_ahead, &mut cycle.slots);
            }
        }
    }

    /// As many ADUs as there are slots, by shares and priorities; those larger than a packet in fragments.
    fn draw_adus(&mut self, now: Instant, scratch: &Scratch) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let credit = self.session_credit();
        let Planning {
            turns,
            cycle,
            has_history,
            ..
        } = &mut self.planning;
        let most = if *has_history {
            COMPANIONS_MAX
        } else {
            ADUS_MAX
        };
        let adus = &mut cycle.adus;
        adus.clear();
        let unit = scratch.channels.iter().map(|channel| channel.packet_bytes);
        let unit = unit.min().unwrap_or(0).max(1) as u64;
        let views = scratch.streams.all();
        let view = View {
            now,
            channels: &scratch.channels,
            streams: views,
        };
        let mut queues: Vec<_> = (views.iter())
            .map(|view| {
                let half = self.send.get(&view.id)?;
                // What waits of the first of these, and the rest.
                Some((None, half.waiting(credit)))
            })
            .collect();
        turns.collect(&view, cycle.slots.len(), most, |stream| {
            let (current, rest) = queues[stream].as_mut()?;
            let waiting = match current.take() {
                Some(waiting) => waiting,
                None => rest.next()?,
            };
            let bytes = waiting.bytes.min(unit);
            if waiting.bytes > unit {
                *current = Some(crate::send::WaitingAdu {
                    bytes: waiting.bytes - unit,
                    ..waiting
                });
            }
            let lifetime = waiting.deadline.map(|at| at.since(waiting.queued_at));
            let only = match views[stream].pinned {
                None => None,
                Some(Some(channel)) => Some(channel as u32),
                // Its channel is not there.
                Some(None) => return None,
            };
            adus.push(Adu {
                stream: views[stream].id,
                sequence: waiting.sequence,
                bytes: bytes as u32,
                length: waiting.length as u32,
                waited_ms: ms(now.since(waiting.queued_at)),
                deadline_ms: lifetime.map_or(f64::NAN, ms),
                fields: waiting.fields.clone(),
                turn: adus.len() as u32,
                only,
            });
            Some(bytes as u32)
        });
        adus.sort_unstable_by_key(|adu| (adu.stream, adu.sequence, adu.turn));
    }

    /// What a policy that plans has sent: counts as a turn, and enters the history.
    pub(super) fn note_sent(
        &mut self,
        scratch: &Scratch,
        stream: usize,
        channels: ChannelMask,
        pieces: &[Piece],
        bytes: usize,
    ) {
        if bytes == 0 {
            return;
        }
        let view = &scratch.streams.all()[stream];
        self.planning.turns.charge(view, bytes);
        if !self.planning.has_history {
            return;
        }
        let Planning { cycle, .. } = &mut self.planning;
        let channel = channels.iter().next().map(|channel| channel as u32);
        let Some(view) = channel.and_then(|channel| scratch.channels.get(channel as usize)) else {
            return;
        };
        let member = self.members.iter().find(|member| member.id == view.id);
        let next = member.map_or(0, |member| member.launched);
        let mut slots = cycle.slots.iter().filter(|s| Some(s.channel) == channel);
        // Those of a channel are in order; control frames may have taken some.
        let Some(mut slot) = slots.find(|slot| slot.sequence >= next).copied() else {
            return;
        };
        slot.sequence = next;
        (slot.wait_ms, slot.confidence) = (0.0, 1.0);
        for piece in pieces.iter().filter(|piece| piece.is_final) {
            let place = (piece.place.stream, piece.place.sequence);
            let is_it = |adu: &&Adu| (adu.stream, adu.sequence) == place;
            let Some(adu) = cycle.adus.iter().find(is_it) else {
                continue;
            };
            let is_same = |sent: &&mut Sent| (sent.adu.stream, sent.adu.sequence) == place;
            if let Some(again) = cycle.history.iter_mut().find(is_same) {
                again.slot = slot;
                continue;
            }
            if cycle.history.len() >= HISTORY_MAX {
                cycle.history.remove(0);
            }
            cycle.history.push(Sent {
                adu: adu.clone(),
                slot,
                outcome: Outcome::Open,
            });
        }
    }
}
