use anabranch_base::{Seed, StreamId};
use anabranch_hose::{Limits, Objectives, Vocabulary};
use proptest::prelude::*;

use anabranch_spec::{ChannelMask, Correlation, Slot};

use super::*;

pub(crate) fn slot(channel: u32, sequence: u64, loss: f64, round_trip_ms: f64) -> Slot {
    Slot {
        channel,
        sequence,
        wait_ms: 0.0,
        confidence: 1.0,
        loss,
        round_trip_ms,
        deviation_ms: 0.1 * round_trip_ms,
        predicted_ms: round_trip_ms,
        cost_per_byte: 0.0,
        bytes_max: 768,
    }
}

pub(super) fn adu(stream: u64, sequence: u64) -> Adu {
    Adu {
        stream: StreamId(stream),
        sequence,
        bytes: 768,
        length: 768,
        waited_ms: 0.0,
        deadline_ms: f64::NAN,
        fields: Fields::default(),
        turn: 0,
        channels: ChannelMask::ALL,
        label: f64::NAN,
    }
}

fn objectives(text: &str) -> Objectives {
    let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
    objectives.inject(text).expect("a good text");
    objectives
}

const X1: &str = "objective { context { adu:foo { (stream_id == 0) || (stream_id == 3) } }
    goal { expected(foo::latency) <= 700 } utility { foo { 700 - expected(foo::latency) } } }";
const X2: &str = "objective { context { adu:foo { stream_id == 3 } }
    goal { prob(foo::lost?) < 10 } utility { foo { 100 * (10 - prob(foo::lost?)) } } }";
const X4: &str = "objective { context { adu:foo { stream_id == 0 } adu:bar { stream_id == 0 } }
    goal { correlated_loss(foo, bar) <= 25 } utility { foo { 125 } } }";

/// One slot of each of Figure 7-5's kinds and an ADU of each of four streams.
fn cycle() -> Cycle {
    Cycle {
        slots: vec![
            slot(0, 0, 0.005, 600.0),
            slot(1, 0, 0.2, 300.0),
            slot(2, 0, 0.03, 900.0),
            slot(3, 0, 0.03, 1000.0),
        ],
        adus: (0..4).map(|stream| adu(stream, 0)).collect(),
        correlation: Correlation::independent(4),
        ..Cycle::default()
    }
}

fn plan(planner: &mut dyn Planner, cycle: &Cycle, objectives: &mut Objectives) -> Schedule {
    let mut schedule = Schedule::new();
    planner.plan(cycle, objectives, &mut schedule);
    schedule
}

fn worth(cycle: &Cycle, objectives: &mut Objectives, slots: &Schedule) -> f64 {
    let placed = Placed { cycle, slots };
    objectives.begin(&placed);
    objectives.utility(&placed)
}

#[test]
fn an_adu_that_another_slot_has_in_time_does_not_go_where_it_is_late() {
    let soon = Slot {
        wait_ms: 50.0,
        confidence: 0.8,
        ..slot(1, 0, 0.05, 200.0)
    };
    let mut cycle = Cycle {
        slots: vec![slot(0, 0, 0.0, 600.0), soon],
        adus: vec![Adu {
            deadline_ms: 800.0,
            ..adu(3, 0)
        }],
        correlation: Correlation::independent(2),
        ..Cycle::default()
    };
    let mut safe = objectives(X2);
    let mut chosen = |waited_ms| {
        cycle.adus[0].waited_ms = waited_ms;
        plan(&mut Assign::default(), &cycle, &mut safe)[0]
    };
    assert_eq!(chosen(100.0), Some(0), "it loses less, and is in time");
    // 800 ms less 200 ms are 600 ms, and less than a deviation more.
    assert_eq!(chosen(200.0), Some(1));
    assert_eq!(chosen(530.0), Some(1));
    assert_eq!(chosen(700.0), Some(0), "late in both");
}

/// A path that always takes 600 ms is as good as its word; one that may take as long, or longer, is not.
#[test]
fn an_adu_does_not_wait_where_nobody_knows_how_long() {
    let soon = slot(1, 0, 0.05, 200.0);
    let far = slot(0, 0, 0.0, 600.0);
    let mut safe = objectives(X2);
    let mut chosen = |far: Slot, deadline_ms| {
        let cycle = Cycle {
            slots: vec![far, soon],
            adus: vec![Adu {
                deadline_ms,
                ..adu(3, 0)
            }],
            correlation: Correlation::independent(2),
            ..Cycle::default()
        };
        plan(&mut Assign::default(), &cycle, &mut safe)[0]
    };
    assert_eq!(chosen(far, 1_500.0), Some(0));
    let unsure = Slot {
        deviation_ms: 200.0,
        ..far
    };
    assert_eq!(chosen(unsure, 1_500.0), Some(1));
    assert_eq!(chosen(unsure, f64::NAN), Some(0), "it has no deadline");
    let near = Slot {
        round_trip_ms: 220.0,
        deviation_ms: 100.0,
        ..far
    };
    assert_eq!(chosen(near, 1_500.0), Some(0), "it is soon in any case");
}

#[test]
fn the_loss_sensitive_stream_gets_the_channel_that_loses_least() {
    let (cycle, mut both) = (cycle(), objectives(&format!("{X1}{X2}")));
    let schedule = plan(&mut Assign::default(), &cycle, &mut both);
    assert_eq!((schedule[0], schedule[3]), (Some(1), Some(0)));
    assert!(
        schedule.iter().all(Option::is_some),
        "nobody is left out: {schedule:?}"
    );
    // 700 − 300, 700 − 600, 100 · (10 − 1) with the loss rounded to whole percents or 950 without.
    let utility = worth(&cycle, &mut both, &schedule);
    assert!((1400.0..=1500.0).contains(&utility), "{utility}");
}

#[test]
fn harm_is_avoided_by_sending_nothing() {
    let text =
        "objective { context { adu:a { stream_id == 1 } } goal { expected(a::latency) > 500 }
        utility { a { -3 } } }";
    let mut harm = objectives(text);
    let mut cycle = cycle();
    cycle.slots.remove(1);
    let schedule = plan(&mut Assign::default(), &cycle, &mut harm);
    assert_eq!(schedule[1], None);
    assert_eq!(schedule.iter().flatten().count(), 3);
    // The published search sends whatever it paired.
    let mut walk = RandomWalk::new(25, Seed(1).stream("walk"));
    cycle.adus.remove(3);
    assert!(plan(&mut walk, &cycle, &mut harm)[1].is_some());
}

#[test]
fn what_cannot_wait_takes_what_exists_and_the_rest_waits_for_better() {
    let mut cycle = cycle();
    cycle.slots = vec![slot(2, 0, 0.03, 900.0), slot(1, 0, 0.2, 300.0)];
    cycle.slots[1].wait_ms = 40.0;
    cycle.slots[1].confidence = 0.9;
    cycle.adus = vec![adu(1, 0), adu(3, 0)];
    let schedule = plan(&mut Assign::default(), &cycle, &mut objectives(X1));
    assert_eq!(schedule, [Some(0), Some(1)]);
}

#[test]
fn a_stream_keeps_its_order_where_that_costs_nothing() {
    let mut cycle = cycle();
    cycle.adus = (0..4).map(|sequence| adu(2, sequence)).collect();
    let schedule = plan(&mut Assign::default(), &cycle, &mut objectives(X1));
    let trips: Vec<f64> = (schedule.iter().flatten())
        .map(|&slot| cycle.slots[slot as usize].round_trip_ms)
        .collect();
    assert_eq!(trips, [300.0, 600.0, 900.0, 1000.0]);
}

#[test]
fn correlated_losses_are_spread_over_channels() {
    let mut cycle = cycle();
    cycle.slots = vec![
        slot(0, 0, 0.01, 300.0),
        slot(0, 1, 0.01, 300.0),
        slot(1, 0, 0.01, 320.0),
        slot(1, 1, 0.01, 320.0),
    ];
    cycle.adus = vec![adu(0, 0), adu(0, 1), adu(1, 0), adu(1, 1)];
    for channel in 0..2 {
        cycle.correlation.set_apart(channel, vec![0.9]);
    }
    let mut together = objectives(&format!("{X1}{X4}"));
    let schedule = plan(&mut Assign::default(), &cycle, &mut together);
    let channel = |adu: usize| schedule[adu].map(|slot| cycle.slots[slot as usize].channel);
    assert_ne!(channel(0), channel(1));
    let alone = plan(&mut Assign::new(0), &cycle, &mut together);
    assert!(worth(&cycle, &mut together, &schedule) > worth(&cycle, &mut together, &alone));
}

/// The search of seed 327 of the storm took seconds a plan: each step looked at hundreds of pairs.
#[test]
fn a_plan_costs_no_more_than_its_bindings_whatever_the_objectives() {
    let mut cycle = cycle();
    cycle.slots = (0..300)
        .map(|at| slot(at % 4, u64::from(at), 0.02, 300.0))
        .collect();
    cycle.adus = (0..300).map(|sequence| adu(0, sequence)).collect();
    let mut pairs = objectives(X4);
    let mut walk = RandomWalk::new(25, Seed(1).stream("walk"));
    for planner in [&mut walk as &mut dyn Planner, &mut Assign::default()] {
        let schedule = plan(planner, &cycle, &mut pairs);
        assert!(schedule.iter().flatten().count() > 250, "there is a plan");
        // The last evaluation may pass the bound: 300 ADUs, of which each is bound with each.
        assert!(
            pairs.tried() < BINDINGS_MAX + 2 * 300 * 300,
            "{}",
            pairs.tried()
        );
    }
}

#[test]
fn a_plan_ends_after_its_evaluations_and_places_the_rest_all_the_same() {
    let mut cycle = cycle();
    cycle.slots = (0..300)
        .map(|at| slot(at % 4, u64::from(at), 0.02, 300.0 + f64::from(at)))
        .collect();
    let waiting = |sequence: u64| Adu {
        waited_ms: sequence as f64 / 10.0,
        ..adu(0, sequence)
    };
    cycle.adus = (0..300).map(waiting).collect();
    // 20 · 300 · 300 is more than may be evaluated.
    let mut many = objectives(&X1.repeat(20));
    let mut planner = Assign::default();
    let mut evaluated = |cycle: &Cycle| {
        let schedule = plan(&mut planner, cycle, &mut many);
        assert_eq!(schedule.iter().flatten().count(), 300);
        (0..300)
            .filter(|&adu| planner.table().value(adu, 0) != 0)
            .count() as u64
    };
    let most = EVALUATIONS_MAX / (20 * 300);
    assert_eq!(evaluated(&cycle), most);
    // Those that were left out have their turn in the next cycle, if nothing has changed.
    assert_eq!(evaluated(&cycle), 300);
    (cycle.adus.iter_mut()).for_each(|adu| adu.waited_ms += 1.0);
    assert_eq!(evaluated(&cycle), most);
}

#[test]
fn a_packet_that_does_not_fit_is_not_sent() {
    let mut cycle = cycle();
    cycle.adus[0].bytes = 1_000;
    let mut walk = RandomWalk::new(25, Seed(1).stream("walk"));
    for planner in [&mut walk as &mut dyn Planner, &mut Assign::default()] {
        assert_eq!(plan(planner, &cycle, &mut objectives(X1))[0], None);
    }
}

#[test]
fn an_adu_that_is_bound_to_a_channel_goes_nowhere_else() {
    let mut cycle = cycle();
    cycle.adus[0].channels = ChannelMask::only(2);
    cycle.adus[3].channels = ChannelMask::only(7);
    let mut walk = RandomWalk::new(25, Seed(1).stream("walk"));
    for planner in [&mut walk as &mut dyn Planner, &mut Assign::default()] {
        let schedule = plan(planner, &cycle, &mut objectives(X1));
        assert!(schedule[0].is_none_or(|slot| slot == 2), "{schedule:?}");
        assert_eq!(schedule[3], None, "its channel has no slot");
    }
    let schedule = plan(&mut Assign::default(), &cycle, &mut objectives(X1));
    assert_eq!(schedule[0], Some(2));
}

#[test]
fn of_equals_those_whose_turn_it_is_take_the_slots_that_exist() {
    let mut cycle = cycle();
    for slot in &mut cycle.slots[1..] {
        slot.wait_ms = 5.0;
        slot.confidence = 0.9;
    }
    for first in 0..4 {
        for (at, adu) in cycle.adus.iter_mut().enumerate() {
            adu.turn = ((at + 4 - first) % 4) as u32;
        }
        let schedule = plan(&mut Assign::default(), &cycle, &mut objectives(X2));
        // Stream 3 has an objective, and the slot that exists loses least.
        assert_eq!(schedule[3], Some(0));
        cycle.adus[3].stream = StreamId(9);
        let schedule = plan(&mut Assign::default(), &cycle, &mut objectives(X2));
        assert_eq!(schedule[first], Some(0), "{schedule:?}");
        cycle.adus[3].stream = StreamId(3);
    }
}

#[test]
fn what_is_known_of_the_history_counts() {
    let mut cycle = cycle();
    cycle.correlation.set_apart(0, vec![0.5]);
    let sent = |outcome| Sent {
        adu: adu(0, 7),
        slot: slot(0, 9, 0.01, 600.0),
        outcome,
    };
    cycle.slots[0].sequence = 10;
    let slots = vec![Some(0), None, None, None];
    for (outcome, both) in [
        (Outcome::Open, 0.5),
        (Outcome::Lost, 2.0 / 3.0),
        (Outcome::Acked { latency_ms: 600.0 }, 0.0),
    ] {
        cycle.history = vec![sent(outcome)];
        let placed = Placed {
            cycle: &cycle,
            slots: &slots,
        };
        let correlated = anabranch_hose::Schedule::correlated_loss(&placed, 0, 4);
        assert!(
            (correlated - both).abs() < 1e-12,
            "{outcome:?}: {correlated}"
        );
    }
}

/// Everything that can be scheduled, tried.
fn exhaustive(cycle: &Cycle, objectives: &mut Objectives) -> f64 {
    fn go(cycle: &Cycle, objectives: &mut Objectives, schedule: &mut Schedule, at: usize) -> f64 {
        if at == schedule.len() {
            let placed = Placed {
                cycle,
                slots: schedule,
            };
            return objectives.utility(&placed);
        }
        let mut best = go(cycle, objectives, schedule, at + 1);
        for slot in 0..cycle.slots.len() as u32 {
            if !schedule[..at].contains(&Some(slot)) {
                schedule[at] = Some(slot);
                best = best.max(go(cycle, objectives, schedule, at + 1));
            }
        }
        schedule[at] = None;
        best
    }
    let mut schedule = vec![None; cycle.adus.len()];
    objectives.begin(&Placed {
        cycle,
        slots: &schedule,
    });
    go(cycle, objectives, &mut schedule, 0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn separable_objectives_are_served_exactly(
        slots in prop::collection::vec((0u32..3, 0.0..0.4_f64, 100.0..1200.0_f64), 0..5),
        streams in prop::collection::vec(0u64..5, 0..5),
    ) {
        let slots = (0u64..).zip(slots).map(|(n, (channel, loss, trip))| slot(channel, n, loss, trip));
        let cycle = Cycle {
            slots: slots.collect(),
            adus: (0u64..).zip(&streams).map(|(n, &stream)| adu(stream, n)).collect(),
            correlation: Correlation::independent(3),
            ..Cycle::default()
        };
        let mut both = objectives(&format!("{X1}{X2}"));
        let schedule = plan(&mut Assign::default(), &cycle, &mut both);
        let mut taken: Vec<u32> = schedule.iter().flatten().copied().collect();
        taken.sort_unstable();
        taken.dedup();
        prop_assert_eq!(taken.len(), schedule.iter().flatten().count(), "a slot is taken once");
        let (mine, best) = (worth(&cycle, &mut both, &schedule), exhaustive(&cycle, &mut both));
        prop_assert!((mine - best).abs() < 1e-4, "{} of {}", mine, best);
        // And nothing is left out that could have been sent.
        prop_assert_eq!(taken.len(), cycle.slots.len().min(cycle.adus.len()));
    }
}
