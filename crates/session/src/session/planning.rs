//! Planning: the ADUs, slots and history that are input to a policy which plans.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_estimate::model::Supply;
use anabranch_hose::symbol;
use anabranch_metering::Price;
use anabranch_sched::objective::{Adu, Channel, Cycle, JustSent, Outcome, Placed, Sent, Turns};
use anabranch_spec::{ChannelMask, Correlation};

use super::{
    Session, captured::Capture, channels::Channels, observed::Observed, pump::Run,
    scheduling::Scheduling, supply::supply,
};
use crate::send::{AduOutcome, Piece};

/// Most ADUs, and fragments of them, in one cycle.
const ADUS_MAX: usize = 512;
/// The same while an objective over several ADUs is in force: its cost grows with their square.
const COMPANIONS_MAX: usize = 64;
/// ADUs of the transmission history.
const HISTORY_MAX: usize = 32;
/// Time after which the correlation of losses is updated.
const CORRELATION_PERIOD: Duration = Duration::from_millis(200);

/// Key: session.
#[derive(Debug, Default)]
pub(super) struct Planning {
    /// True if the policy plans in this run of the pump.
    pub is_on: bool,
    turns: Turns,
    pub(super) cycle: Cycle,
    pub(super) capture: Option<Capture>,
    /// The channels of the cycle; `correlated_at` is the time at which the correlation of their losses was updated.
    channels: Vec<ChannelId>,
    correlated_at: Instant,
    pub observed: Observed,
    /// True if an objective over several ADUs is in force: it may refer to those sent before.
    pub has_history: bool,
    /// Something changed that the policy does not see in its view: the next cycle is planned in any case.
    pub is_stale: bool,
}

impl Planning {
    /// Records the outcome of an ADU.
    pub(super) fn note_outcome(&mut self, stream: StreamId, sequence: u64, outcome: &AduOutcome) {
        let ms = |age: Duration| age.as_secs_f64() * 1e3;
        let known = match outcome {
            AduOutcome::Acked { age, .. } => Outcome::Acked {
                latency_ms: ms(*age),
            },
            AduOutcome::Lost { .. } | AduOutcome::Expired { .. } => Outcome::Lost,
            AduOutcome::Dropped { .. } => return,
        };
        // Those that depend on an ADU may be useless without it.
        self.is_stale |= self.has_history && known == Outcome::Lost;
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

    /// Forgets a stream that is over.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.turns.forget(stream);
        self.observed.forget(stream);
    }
}

impl Session {
    /// Has the policy plan, unless its last plan still holds.
    pub(super) fn plan_if_due(&mut self, run: &mut Run<'_>, look_ahead: Duration) -> bool {
        let planning = &mut self.scheduling.planning;
        let is_wanted = matches!(planning.capture, Some(Capture::Wanted(_)));
        let is_stale = std::mem::take(&mut planning.is_stale) || is_wanted;
        let is_due = self.scheduling.scheduler.is_due(&run.view()) || is_stale;
        if is_due {
            self.plan(run, look_ahead);
        }
        is_due
    }

    /// Prepares the input of the policy's next plan.
    fn plan(&mut self, run: &mut Run<'_>, look_ahead: Duration) {
        self.draw_channels(run);
        let slots_each = self.slots_each(run);
        self.draw_slots(run, (look_ahead, slots_each));
        self.draw_adus(run);
        let cycle = &mut self.scheduling.planning.cycle;
        cycle.streams.clear();
        cycle
            .streams
            .extend(self.scheduling.planning.observed.streams());
        if !self.scheduling.planning.has_history {
            cycle.history.clear();
        }
        let view = run.view();
        let objectives = self.scheduling.objectives.in_force_mut();
        self.scheduling.scheduler.plan(&view, cycle, objectives);
        self.capture_planned(run);
    }

    /// Fills in the channels as objectives see them, and the correlation of their losses.
    fn draw_channels(&mut self, run: &mut Run<'_>) {
        let Planning {
            cycle,
            channels,
            correlated_at,
            ..
        } = &mut self.scheduling.planning;
        let ids = || run.scratch.channels.iter().map(|channel| channel.id);
        let is_new = !ids().eq(channels.iter().copied());
        if is_new {
            channels.clear();
            channels.extend(ids());
            cycle.channels.clear();
            let channels = &self.channels;
            let name = |id: ChannelId| {
                let state = channels.get(id);
                let name = state.and_then(|state| state.description.name.as_deref());
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
        for (channel, view) in cycle.channels.iter_mut().zip(&run.scratch.channels) {
            let state = self.channels.get(view.id);
            let described = state.and_then(|state| state.description.technology.as_deref());
            let recognised = || Some(self.channels.estimator.technology(view.id)?.name());
            let technology = described.or_else(recognised);
            channel.technology = technology.map_or(f64::NAN, symbol);
            if let Some(state) = state.filter(|state| !state.description.attributes.is_empty()) {
                let known = self.scheduling.objectives.in_force().vocabulary();
                state.description.fields(known, &mut channel.fields);
            }
            channel.is_metered = state.is_some_and(|state| state.marginal.is_metered);
            channel.rate_bps = if view.rate_bytes_per_s > 0.0 {
                view.rate_bytes_per_s * 8.0
            } else {
                f64::NAN
            };
        }
        if !is_new && run.now.since(*correlated_at) < CORRELATION_PERIOD {
            return;
        }
        *correlated_at = run.now;
        if is_new {
            cycle.correlation = Correlation::independent(channels.len());
        }
        self.channels
            .estimator
            .correlate(channels, &mut cycle.correlation);
    }

    /// Counts objectives over streams alone in their tallies, once a second while something is sent.
    pub(super) fn note_stream_objectives(&mut self, now: Instant) {
        let Scheduling {
            objectives,
            planning,
            ..
        } = &mut self.scheduling;
        if !objectives.are_streams_due(now) {
            return;
        }
        let cycle = &mut planning.cycle;
        cycle.streams.clear();
        cycle.streams.extend(planning.observed.streams());
        objectives
            .in_force_mut()
            .note_streams(now, &Placed { cycle, slots: &[] });
    }

    /// Most slots of one channel that matter for what waits.
    fn slots_each(&self, run: &Run<'_>) -> usize {
        let unit = unit(run);
        let credit = self.flow.credit_left();
        let waiting = (run.scratch.streams.all().iter())
            .filter(|view| view.is_waiting())
            .filter_map(|view| Some(self.streams.send.get(&view.id)?.waiting(credit)))
            .flatten();
        let pieces = waiting.flat_map(|waiting| (0..waiting.bytes.div_ceil(unit)).map(|_| ()));
        let count = pieces.take(ADUS_MAX).count();
        self.scheduling.scheduler.slots_each(count)
    }

    fn draw_slots(&mut self, run: &mut Run<'_>, (look_ahead, slots_each): (Duration, usize)) {
        let Planning { cycle, .. } = &mut self.scheduling.planning;
        cycle.slots.clear();
        let Channels {
            states, estimator, ..
        } = &mut self.channels;
        for (at, view) in run.scratch.channels.iter().enumerate() {
            let state = states.iter().find(|state| state.id == view.id);
            let next = state.map_or(0, |state| state.launched);
            if let Some(channel) = run.endpoint.channel(view.id) {
                let price = state.and_then(|state| state.marginal.price);
                let supply = Supply {
                    cost_per_byte: price.map_or(0.0, Price::per_byte),
                    slots_max: slots_each,
                    ..supply(run.now, view, next, channel)
                };
                estimator.offer(at, (view.id, &supply), look_ahead, &mut cycle.slots);
            }
        }
    }

    /// Draws as many ADUs as there are slots, by shares and priorities; those larger than a packet in fragments.
    fn draw_adus(&mut self, run: &mut Run<'_>) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let credit = self.flow.credit_left();
        let Planning {
            turns,
            cycle,
            has_history,
            ..
        } = &mut self.scheduling.planning;
        let most = if *has_history {
            COMPANIONS_MAX
        } else {
            ADUS_MAX
        };
        let adus = &mut cycle.adus;
        adus.clear();
        let unit = unit(run);
        let views = run.scratch.streams.all();
        let view = run.view();
        let mut queues: Vec<_> = (views.iter())
            .map(|view| {
                let send = self.streams.send.get(&view.id)?;
                // The waiting ADUs of the first of these, and the rest.
                Some((None, send.waiting(credit)))
            })
            .collect();
        let labels: Vec<f64> = (views.iter())
            .map(|view| {
                self.streams
                    .send
                    .get(&view.id)
                    .map_or(f64::NAN, |send| symbol(&send.spec.label))
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
            let permitted = views[stream].choice.all();
            let channels = match views[stream].pinned {
                None => permitted,
                Some(Some(channel)) => ChannelMask::only(channel).and(permitted),
                // Its channel does not exist.
                Some(None) => ChannelMask::NONE,
            };
            if channels.is_empty() {
                return None;
            }
            adus.push(Adu {
                stream: views[stream].id,
                sequence: waiting.sequence,
                bytes: bytes as u32,
                length: waiting.length as u32,
                waited_ms: ms(run.now.since(waiting.queued_at)),
                deadline_ms: lifetime.map_or(f64::NAN, ms),
                label: labels[stream],
                fields: waiting.fields.clone(),
                turn: adus.len() as u32,
                channels,
            });
            Some(bytes as u32)
        });
        adus.sort_unstable_by_key(|adu| (adu.stream, adu.sequence, adu.turn));
    }

    /// Records an ADU that a policy which plans has sent: counts as a turn, enters the tallies of objectives, and the history.
    pub(super) fn note_sent(
        &mut self,
        run: &mut Run<'_>,
        stream: usize,
        channels: ChannelMask,
        pieces: &[Piece],
        bytes: usize,
    ) {
        if bytes == 0 {
            return;
        }
        let view = &run.scratch.streams.all()[stream];
        self.scheduling.planning.turns.charge(view, bytes);
        let objectives = self.scheduling.objectives.in_force_mut();
        if objectives.is_empty() {
            return;
        }
        let Planning {
            cycle, has_history, ..
        } = &mut self.scheduling.planning;
        let channel = channels.iter().next().map(|channel| channel as u32);
        let Some(view) = channel.and_then(|channel| run.scratch.channels.get(channel as usize))
        else {
            return;
        };
        let state = self.channels.get(view.id);
        let next = state.map_or(0, |state| state.launched);
        let mut slots = cycle.slots.iter().filter(|s| Some(s.channel) == channel);
        // The slots of a channel are in order; control frames may have taken some.
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
            let (adu, slot) = (adu, &slot);
            objectives.note_sent(run.now, &JustSent { cycle, adu, slot }, 0);
            if !*has_history {
                continue;
            }
            let adu = adu.clone();
            if cycle.history.len() >= HISTORY_MAX {
                cycle.history.remove(0);
            }
            cycle.history.push(Sent {
                adu,
                slot: *slot,
                outcome: Outcome::Open,
            });
        }
    }
}

/// Size of a fragment that fits a packet of each channel, in bytes.
fn unit(run: &Run<'_>) -> u64 {
    let channels = run.scratch.channels.iter();
    let least = channels.map(|channel| channel.packet_bytes).min();
    least.unwrap_or(0).max(1) as u64
}
