//! Objectives of the library, as a plan follows them.

use anabranch_hose::{Limits, Objectives, Type, Vocabulary, symbol};

use anabranch_spec::{Correlation, Slot};

use super::{
    tests::{adu, slot},
    *,
};

fn objectives(names: &str) -> Objectives {
    let mut vocabulary = Vocabulary::default();
    vocabulary.declare("group", Type::Numeric).expect("a field");
    let mut objectives = Objectives::new(Limits::default(), vocabulary);
    objectives.inject(names).expect("names of the library");
    objectives
}

fn labelled(sequence: u64, waited_ms: f64, group: f64) -> Adu {
    Adu {
        label: symbol("v"),
        waited_ms,
        deadline_ms: 800.0,
        fields: Fields::new(&[group]),
        turn: sequence as u32,
        ..adu(0, sequence)
    }
}

/// Channel 0 is metered and quick, channel 1 slow.
fn cycle(adus: Vec<Adu>, slots: Vec<Slot>) -> Cycle {
    let channel = |id| Channel {
        id,
        name: f64::NAN,
        technology: f64::NAN,
        is_metered: id == 0,
        rate_bps: 1e6,
        fields: Vec::new(),
    };
    Cycle {
        slots,
        adus,
        channels: (0..2).map(channel).collect(),
        correlation: Correlation::independent(2),
        ..Cycle::default()
    }
}

fn plan(cycle: &Cycle, names: &str) -> (Schedule, Objectives) {
    let (mut objectives, mut schedule) = (objectives(names), Schedule::new());
    Assign::default().plan(cycle, &mut objectives, &mut schedule);
    assert!(objectives.take_faults().is_empty(), "{names}");
    (schedule, objectives)
}

#[test]
fn low_latency_takes_the_quick_channel() {
    let slots = vec![slot(1, 0, 0.0, 300.0), slot(0, 0, 0.2, 100.0)];
    let cycle = cycle(vec![labelled(0, 0.0, 0.0)], slots);
    assert_eq!(plan(&cycle, "low_latency(v, 400)").0, [Some(1)]);
    assert_eq!(
        plan(&cycle, "low_latency(v, 400); avoid_metered").0,
        [Some(0)]
    );
    // A hundred on both sides: 100 · (400 − 100) / 400 · 5 is more.
    let five = "hose 2 objective five { context { adu:a { label == \"v\" } } goal { expected(a::latency) < 400 }
        utility { a { 500 - 500 * expected(a::latency) / 400 } } }";
    let mut both = objectives("avoid_metered");
    both.inject(five).expect("a good text");
    let mut schedule = Schedule::new();
    Assign::default().plan(&cycle, &mut both, &mut schedule);
    assert_eq!(schedule, [Some(1)]);
}

#[test]
fn avoid_metered_waits_a_little_and_takes_the_metered_channel_if_there_is_no_other() {
    let soon = Slot {
        wait_ms: 200.0,
        confidence: 0.8,
        ..slot(1, 0, 0.0, 300.0)
    };
    let metered = slot(0, 0, 0.0, 100.0);
    let one = || vec![labelled(0, 0.0, 0.0)];
    let (waits, _) = plan(&cycle(one(), vec![metered, soon]), "avoid_metered");
    assert_eq!(waits, [Some(1)]);
    let (sent, _) = plan(&cycle(one(), vec![metered]), "avoid_metered");
    assert_eq!(sent, [Some(0)]);
    // A negative utility would have it wait for ever.
    let never = "hose 2 objective never { context { adu:a { true } } goal { a::channel::metered } utility { a { -1 } } }";
    assert_eq!(plan(&cycle(one(), vec![metered]), never).0, [None]);
}

#[test]
fn newest_first_sends_what_has_waited_least() {
    let adus = (0..4)
        .map(|n| labelled(n, 400.0 - 100.0 * n as f64, 0.0))
        .collect();
    let cycle = cycle(adus, vec![slot(0, 0, 0.0, 100.0), slot(0, 1, 0.0, 100.0)]);
    let (schedule, _) = plan(&cycle, "newest_first(v)");
    let sent: Vec<bool> = schedule.iter().map(Option::is_some).collect();
    assert_eq!(sent, [false, false, true, true]);
    // Without it, the first ones have their turn.
    let (schedule, _) = plan(&cycle, "low_latency(other, 9)");
    let sent: Vec<bool> = schedule.iter().map(Option::is_some).collect();
    assert_eq!(sent, [true, true, false, false]);
}

#[test]
fn uncorrelated_spreads_consecutive_messages() {
    let slots = vec![
        slot(0, 0, 0.05, 100.0),
        slot(0, 1, 0.05, 100.0),
        slot(1, 0, 0.05, 100.0),
    ];
    let mut cycle = cycle(vec![labelled(0, 0.0, 0.0), labelled(1, 0.0, 0.0)], slots);
    for channel in 0..2 {
        cycle.correlation.set_apart(channel, vec![0.9]);
    }
    let (schedule, _) = plan(&cycle, "uncorrelated(v)");
    let channels: Vec<u32> = schedule
        .iter()
        .flatten()
        .map(|&slot| cycle.slots[slot as usize].channel)
        .collect();
    assert_eq!(channels.len(), 2);
    assert_ne!(channels[0], channels[1]);
}

#[test]
fn keep_whole_sends_no_more_of_a_message_that_is_lost_in_part() {
    let adus = vec![
        labelled(1, 0.0, 7.0),
        labelled(2, 0.0, 8.0),
        labelled(3, 0.0, 7.0),
    ];
    let slots = (0..4).map(|n| slot(0, 10 + n, 0.05, 100.0)).collect();
    let mut cycle = cycle(adus, slots);
    let sent = |outcome| Sent {
        adu: labelled(0, 0.0, 7.0),
        slot: slot(0, 9, 0.05, 100.0),
        outcome,
    };
    let mut planned = |outcome| {
        cycle.history = vec![sent(outcome)];
        let (schedule, objectives) = plan(&cycle, "keep_whole(v, group)");
        let sent: Vec<bool> = schedule.iter().map(Option::is_some).collect();
        (sent, objectives.tried())
    };
    // While nothing is lost, nothing is searched.
    assert_eq!(planned(Outcome::Open), (vec![true, true, true], 0));
    assert_eq!(planned(Outcome::Lost).0, [false, true, false]);
    let late = Outcome::Acked { latency_ms: 900.0 };
    assert_eq!(planned(late).0, [false, true, false]);
}
