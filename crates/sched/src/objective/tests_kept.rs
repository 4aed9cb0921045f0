//! State kept from cycle to cycle, against a computation from nothing.

use anabranch_base::StreamId;
use anabranch_hose::{Faults, Limits, ObjectiveId, Objectives, Type, Vocabulary};
use proptest::prelude::*;

use anabranch_spec::{ChannelMask, Correlation, Slot};

use super::{
    cycle::Alone,
    tests::{adu, slot},
    *,
};
use crate::assign::{UTILITY_MAX, Utility, utility};

/// Something about everything that an objective over one ADU can ask.
const TEXTS: [&str; 9] = [
    "objective { context { adu:a { (stream_id == 0) || (stream_id == 3) } }
        goal { expected(a::latency) <= 700 } utility { a { 700 - expected(a::latency) } } }",
    "objective { context { adu:a { stream_id == 3 } }
        goal { prob(a::lost?) < 10 } utility { a { 100 * (10 - prob(a::lost?)) } } }",
    "objective { context { adu:a { stream_id == 1 } } goal { expected(a::latency) > 500 } utility { a { -3 } } }",
    "hose 2 objective { context { adu:a { (stream_id == 2) && (queue_delay > 20) } }
        goal { expected(a::latency) / 3 < 200.5 } utility { a { 1000 / (a::queue_delay - 25) } } }",
    "hose 2 objective { context { adu:a { mark > 1 } } goal { a::mark < 9 }
        utility { a { a::mark * (1 - prob(a::lost?)) } } }",
    "hose 2 objective { context { adu:a { stream_id == 1 } } goal { prob(a::late?) < 90 }
        utility { a { 90 - prob(a::late?) } } }",
    "hose 2 objective { context { adu:a { stream_id == 2 } } goal { a::channel::rate > 1000 }
        utility { a { a::channel::rate / 1000 - cost(a) } } }",
    "objective { context { adu:a { stream_id == 0 } stream:s { stream_id == 0 } }
        goal { s::latency_ave > 100 } utility { a { expected(a::latency) / 10 } } }",
    "objective { context { adu:a { stream_id == 4 } } goal { a::stream_seq > 2 } utility { a { a::length } } }",
];

#[derive(Clone, Copy, Debug)]
enum Event {
    SlotUsed(usize),
    SlotCome(u32, f64),
    AduCome(u64, u32),
    AduGone(usize),
    Fragment(usize),
    Marked(usize, f64),
    Bound(usize, Option<u32>),
    Turns,
    TripsChanged(u32, f64),
    LossChanged(u32, f64),
    RateChanged(u32, f64),
    StreamMeasured(f64),
    TimePasses(f64),
    Injected(usize),
    Removed(usize),
    EverythingNew,
}

fn event() -> impl Strategy<Value = Event> {
    let at = 0..12_usize;
    let channel = 0..3_u32;
    prop_oneof![
        4 => at.clone().prop_map(Event::SlotUsed),
        5 => (channel.clone(), prop_oneof![Just(0.0), 1.0..200.0_f64]).prop_map(|(c, w)| Event::SlotCome(c, w)),
        5 => (0..5_u64, prop_oneof![Just(700_u32), Just(768), Just(900)]).prop_map(|(s, b)| Event::AduCome(s, b)),
        2 => at.clone().prop_map(Event::AduGone),
        1 => at.clone().prop_map(Event::Fragment),
        1 => (at.clone(), 0.0..10.0_f64).prop_map(|(a, m)| Event::Marked(a, m)),
        1 => (at.clone(), prop::option::of(channel.clone())).prop_map(|(a, c)| Event::Bound(a, c)),
        1 => Just(Event::Turns),
        2 => (channel.clone(), 100.0..900.0_f64).prop_map(|(c, t)| Event::TripsChanged(c, t)),
        1 => (channel.clone(), 0.0..0.3_f64).prop_map(|(c, l)| Event::LossChanged(c, l)),
        1 => (channel, 500.0..9_000.0_f64).prop_map(|(c, r)| Event::RateChanged(c, r)),
        1 => (50.0..150.0_f64).prop_map(Event::StreamMeasured),
        2 => prop_oneof![Just(0.25), 0.0..40.0_f64].prop_map(Event::TimePasses),
        1 => (0..TEXTS.len()).prop_map(Event::Injected),
        1 => at.prop_map(Event::Removed),
        1 => Just(Event::EverythingNew),
    ]
}

struct World {
    cycle: Cycle,
    objectives: Objectives,
    next: u64,
}

impl World {
    fn new() -> Self {
        let mut vocabulary = Vocabulary::default();
        vocabulary.declare("mark", Type::Numeric).expect("a field");
        let channel = |id| Channel {
            id,
            name: 7.0,
            technology: f64::NAN,
            is_metered: false,
            rate_bps: 1_000.0,
            fields: Vec::new(),
        };
        let stream = Stream {
            id: StreamId(0),
            label: anabranch_hose::symbol("v"),
            latency_ms: f64::NAN,
            deviation_ms: f64::NAN,
            loss: f64::NAN,
            jitter_ms: f64::NAN,
        };
        Self {
            cycle: Cycle {
                channels: (0..3).map(channel).collect(),
                streams: vec![stream],
                correlation: Correlation::independent(3),
                ..Cycle::default()
            },
            objectives: Objectives::new(Limits::default(), vocabulary),
            next: 0,
        }
    }

    fn happen(&mut self, event: Event) {
        self.next += 1;
        let Cycle { slots, adus, .. } = &mut self.cycle;
        match event {
            Event::SlotUsed(at) if at < slots.len() => {
                slots.remove(at);
            }
            Event::SlotCome(channel, wait_ms) => {
                let mut new = slot(channel, self.next, 0.05 * f64::from(channel), 250.0);
                new.round_trip_ms += 100.0 * f64::from(channel);
                new.cost_per_byte = 0.01 * f64::from(channel);
                new.bytes_max = 800;
                (new.wait_ms, new.confidence) = (wait_ms, if wait_ms > 0.0 { 0.9 } else { 1.0 });
                slots.push(new);
            }
            Event::AduCome(stream, bytes) => {
                let new = Adu {
                    bytes,
                    deadline_ms: if stream == 1 { 400.0 } else { f64::NAN },
                    fields: Fields::new(&[self.next as f64 % 5.0]),
                    ..adu(stream, self.next)
                };
                let place = adus.partition_point(|adu| adu.stream <= new.stream);
                adus.insert(place, new);
            }
            Event::AduGone(at) if at < adus.len() => {
                adus.remove(at);
            }
            Event::Fragment(at) if at < adus.len() => adus.insert(at, adus[at].clone()),
            Event::Marked(at, mark) if at < adus.len() => adus[at].fields = Fields::new(&[mark]),
            Event::Bound(at, only) if at < adus.len() => {
                adus[at].channels =
                    only.map_or(ChannelMask::ALL, |only| ChannelMask::only(only as usize));
            }
            Event::Turns => {
                for (at, adu) in adus.iter_mut().enumerate() {
                    adu.turn = ((at as u64 * 5 + self.next) % 7) as u32;
                }
            }
            Event::TripsChanged(channel, trip) => {
                let of_it = slots.iter_mut().filter(|slot| slot.channel == channel);
                of_it.for_each(|slot| slot.round_trip_ms = trip);
            }
            Event::LossChanged(channel, loss) => {
                let of_it = slots.iter_mut().filter(|slot| slot.channel == channel);
                of_it.for_each(|slot| slot.loss = loss);
            }
            Event::RateChanged(channel, rate) => {
                self.cycle.channels[channel as usize].rate_bps = rate;
            }
            Event::StreamMeasured(latency) => self.cycle.streams[0].latency_ms = latency,
            Event::TimePasses(ms) => {
                adus.iter_mut().for_each(|adu| adu.waited_ms += ms);
                for slot in slots.iter_mut().filter(|slot| slot.is_phantom()) {
                    slot.wait_ms = (slot.wait_ms - ms).max(0.0);
                    slot.confidence = if slot.wait_ms > 0.0 { 0.9 } else { 1.0 };
                }
            }
            Event::Injected(which) => {
                self.objectives.inject(TEXTS[which]).expect("a good text");
            }
            Event::Removed(at) => {
                let id = self.objectives.iter().nth(at).map(|(id, _)| id);
                id.map(|id| self.objectives.remove(id));
            }
            Event::EverythingNew => {
                adus.iter_mut().for_each(|adu| adu.sequence += 100);
                slots.iter_mut().for_each(|slot| slot.sequence += 100);
                // The same numbers, other objectives.
                let mut others = World::new().objectives;
                for (_, objective) in self.objectives.iter() {
                    let text = objective.text().replace("700", "600").replace("500", "650");
                    others.inject(&text).expect("a good text");
                }
                self.objectives = others;
            }
            _ => {}
        }
    }

    /// Worth of an ADU in a slot, one objective after the other; `None`: it does not fit.
    fn worth(&self, adu: u32, at: usize) -> (Option<Utility>, Vec<ObjectiveId>) {
        let cycle = &self.cycle;
        let slot = &cycle.slots[at];
        let (mut sum, mut faulty) = (0.0, Vec::new());
        for single in self.objectives.singles() {
            if single.adus.contains(&adu) {
                let mut faults = Faults::NONE;
                let alone = Alone { cycle, slot };
                sum += single.objective.gain(&alone, adu, &mut faults) * slot.confidence;
                if !faults.is_empty() {
                    faulty.push(single.id);
                }
            }
        }
        // Kept out of where it is late, if another slot has it in time.
        let left_ms = cycle.adus[adu as usize].deadline_ms - cycle.adus[adu as usize].waited_ms;
        let arrives = |slot: &Slot| slot.wait_ms + slot.round_trip_ms + slot.deviation_ms;
        if arrives(slot) > left_ms && cycle.slots.iter().any(|slot| arrives(slot) <= left_ms) {
            sum = -1e6;
        }
        (cycle.fits(adu as usize, at).then(|| utility(sum)), faulty)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_kept_is_what_would_be_found_from_nothing(
        first in prop::collection::vec(0..TEXTS.len(), 0..5),
        steps in prop::collection::vec(prop::collection::vec(event(), 0..4), 1..40),
    ) {
        let mut world = World::new();
        for which in first {
            world.happen(Event::Injected(which));
        }
        let mut kept = Assign::new(0);
        let (mut schedule, mut other) = (Schedule::new(), Schedule::new());
        for events in steps {
            for event in events {
                world.happen(event);
            }
            kept.plan(&world.cycle, &mut world.objectives, &mut schedule);
            let mut fresh = Assign::new(0);
            fresh.plan(&world.cycle, &mut world.objectives, &mut other);
            prop_assert_eq!(kept.table().utility(), fresh.table().utility());

            let mut total = 0;
            let mut taken = vec![false; world.cycle.slots.len()];
            for (adu, slot) in (0_u32..).zip(&schedule) {
                for at in 0..world.cycle.slots.len() {
                    if let (Some(worth), _) = world.worth(adu, at) {
                        prop_assert_eq!(kept.table().value(adu as usize, at), worth);
                    }
                }
                if let Some(slot) = *slot {
                    prop_assert!(!std::mem::replace(&mut taken[slot as usize], true));
                    let worth = world.worth(adu, slot as usize).0;
                    total += worth.expect("it fits");
                }
            }
            let worth = |(adu, slot): (u32, &Option<u32>)| {
                slot.map_or(0, |slot| world.worth(adu, slot as usize).0.unwrap_or(-UTILITY_MAX))
            };
            let from_nothing: Utility = (0..).zip(&other).map(worth).sum();
            // What breaks ties is less than a thousandth of a unit for each.
            let slack = 1_000 * schedule.len() as Utility;
            prop_assert!((total - from_nothing).abs() < slack.max(1), "{} and {}", total, from_nothing);
        }
    }

    /// No fault is missed because something was known already.
    #[test]
    fn faults_are_those_of_all_pairs(
        steps in prop::collection::vec(prop::collection::vec(event(), 0..4), 1..20),
    ) {
        let mut world = World::new();
        for which in 0..TEXTS.len() {
            world.happen(Event::Injected(which));
        }
        let mut kept = Assign::new(0);
        let mut schedule = Schedule::new();
        let (mut known, mut seen) = (Vec::new(), Vec::new());
        for event in steps.into_iter().flatten() {
            if matches!(event, Event::EverythingNew) {
                continue;
            }
            world.happen(event);
            kept.plan(&world.cycle, &mut world.objectives, &mut schedule);
            for adu in 0..world.cycle.adus.len() as u32 {
                for at in 0..world.cycle.slots.len() {
                    if let (Some(_), faulty) = world.worth(adu, at) {
                        seen.extend(faulty);
                    }
                }
            }
            known.extend(world.objectives.take_faults().into_iter().map(|(id, _)| id));
            let is_known = |id: &ObjectiveId| known.contains(id);
            prop_assert!(seen.iter().all(is_known), "{:?}, {:?}", seen, known);
        }
    }
}
