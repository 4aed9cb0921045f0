//! Places against a search of all pairs, and examples computed by hand.

use std::time::Duration;

use anabranch_base::{Instant, Rate};
use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn leg(rates_kbps: &[u64], delay_ms: u32) -> Leg {
    let rates = rates_kbps.iter().map(|kbps| Rate::from_bps(1_000 * kbps));
    Leg::new(rates, MS * delay_ms).expect("there are windows")
}

/// A processor that takes 1 ns for a unit.
const FAST: Processor = Processor {
    unit_ps: 1_000.0,
    free: 1.0,
};

/// Ten ADUs a second of 10 kB, which take 2 ms of work.
const FLOW: Flow = Flow {
    period: Duration::from_millis(100),
    bytes: 10_000.0,
    units: 2_000_000.0,
};

const DEMAND: Demand = Demand {
    share: 0.95,
    deadline: Some(Duration::from_millis(250)),
};

fn candidate(first: Option<Leg>, last: Option<Leg>, derived: f64) -> Candidate {
    Candidate {
        first,
        processor: FAST,
        last: vec![Last {
            leg: last,
            bytes: derived,
        }],
    }
}

fn estimates(candidates: &[Candidate], flow: &Flow, demand: &Demand) -> Vec<Option<Estimate>> {
    let estimate = |candidate| Some(Estimate::of(candidate, flow, demand));
    candidates.iter().map(estimate).collect()
}

#[test]
fn a_filter_belongs_before_the_narrow_leg() {
    // 0.8 Mbit/s are made, a tenth is left: 80 kbit/s.
    let wide = || Some(leg(&[8_000], 10));
    let narrow = || Some(leg(&[400], 10));
    let at_source = candidate(None, narrow(), 1_000.0);
    let on_the_way = candidate(wide(), narrow(), 1_000.0);
    let after = candidate(narrow(), wide(), 1_000.0);
    let all = estimates(&[on_the_way, after, at_source], &FLOW, &DEMAND);
    // 10 ms + 80,000 bit / 8 Mbit/s, 2 ms of work, 10 ms + 8,000 bit / 400 kbit/s.
    let [way, after, source] = [0, 1, 2].map(|at| all[at].unwrap());
    assert!((way.time_s - 0.052).abs() < 1e-9, "{way:?}");
    assert_eq!((way.share, way.bytes), (1.0, 11_000.0));
    // 800 kbit/s do not fit.
    assert_eq!((after.share, after.tightest), (0.0, Part::First));
    assert!((after.use_share - 2.0).abs() < 1e-9);
    assert_eq!(
        after.to_string(),
        "never in time, because of the source leg (200 % of it are needed)"
    );
    // Without the first leg.
    assert!((source.time_s - 0.032).abs() < 1e-9, "{source:?}");
    assert_eq!(
        (source.bytes, source.to_string()),
        (
            1_000.0,
            "in time in 100 % of windows, after 32 ms".to_owned()
        )
    );
    assert_eq!(best(&all, &DEMAND), Some(2));
    assert_eq!(best(&all[..2], &DEMAND), Some(0));
}

#[test]
fn a_busy_processor_moves_the_operator_away() {
    let busy = Processor {
        unit_ps: 1_000.0,
        free: 0.01,
    };
    // 2 ms of work on a hundredth of a processor take 200 ms, more than the time between two ADUs.
    let near = Candidate {
        processor: busy,
        ..candidate(None, Some(leg(&[8_000], 10)), 1_000.0)
    };
    let far = candidate(Some(leg(&[8_000], 40)), Some(leg(&[8_000], 40)), 1_000.0);
    let all = estimates(&[near, far], &FLOW, &DEMAND);
    assert_eq!(all[0].unwrap().tightest, Part::Processing);
    assert_eq!(best(&all, &DEMAND), Some(1));
}

#[test]
fn the_demand_decides_between_quick_and_certain() {
    // Quick in nine windows of ten, and cut in the tenth.
    let risky = leg(
        &[
            0, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000,
        ],
        5,
    );
    let steady = leg(&[2_000], 60);
    let last = || Some(leg(&[10_000], 5));
    let candidates = [
        candidate(Some(risky), last(), 1_000.0),
        candidate(Some(steady), last(), 1_000.0),
    ];
    let strict = estimates(&candidates, &FLOW, &DEMAND);
    assert!((strict[0].unwrap().share - 0.9).abs() < 1e-9);
    assert_eq!(best(&strict, &DEMAND), Some(1));
    let lenient = Demand {
        share: 0.8,
        ..DEMAND
    };
    assert_eq!(
        best(&estimates(&candidates, &FLOW, &lenient), &lenient),
        Some(0)
    );
    assert_eq!(
        best(&[None, strict[1]], &lenient),
        Some(1),
        "the other is unknown"
    );
    assert_eq!(best(&[None, None], &lenient), None);
}

#[test]
fn the_subscriber_that_has_it_worst_counts() {
    let mut two = candidate(Some(leg(&[8_000], 10)), Some(leg(&[8_000], 10)), 1_000.0);
    let alone = Estimate::of(&two, &FLOW, &DEMAND);
    two.last.push(Last {
        leg: Some(leg(&[50, 8_000], 10)),
        bytes: 1_000.0,
    });
    let both = Estimate::of(&two, &FLOW, &DEMAND);
    assert_eq!((alone.share, both.share), (1.0, 0.5));
    assert_eq!(both.bytes, 12_000.0);
    assert_eq!((both.tightest, alone.tightest), (Part::First, Part::First));
}

#[test]
fn a_mean_and_its_deviation_stand_for_windows() {
    let leg = Leg::of_mean(Rate::from_mbps(1), 0.1, MS);
    let rates = leg.rates();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    assert!((mean / 1e6 - 1.0).abs() < 1e-9, "{mean}");
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / 32.0;
    assert!(
        (variance.sqrt() / 1e5 - 1.0).abs() < 0.1,
        "{}",
        variance.sqrt()
    );
    assert!(rates.is_sorted());
    let certain = Leg::of_mean(Rate::from_mbps(1), 0.0, MS);
    assert!(certain.rates().iter().all(|rate| (rate - 1e6).abs() < 1e-6));
    assert_eq!(Leg::new([], MS), None);
}

/// Time and share by looking at every pair of windows.
fn searched(candidate: &Candidate, flow: &Flow, demand: &Demand) -> (f64, f64) {
    let none = [f64::INFINITY];
    let rates = |leg: &Option<Leg>| {
        leg.as_ref()
            .map_or(none.to_vec(), |leg| leg.rates().to_vec())
    };
    let delay = |leg: &Option<Leg>| leg.as_ref().map_or(0.0, Leg::delay);
    let period = flow.period.as_secs_f64();
    let work = flow.units * candidate.processor.unit_ps * 1e-12 / candidate.processor.free;
    let last = &candidate.last[0];
    let (mut kept, mut all, mut sum) = (0.0, 0.0, 0.0);
    for first_rate in rates(&candidate.first) {
        for last_rate in rates(&last.leg) {
            all += 1.0;
            let keeps_up = first_rate * period >= 8.0 * flow.bytes
                && last_rate * period >= 8.0 * last.bytes
                && work <= period;
            let on = |bytes: f64, rate: f64| if bytes > 0.0 { 8.0 * bytes / rate } else { 0.0 };
            let time = delay(&candidate.first)
                + on(flow.bytes, first_rate)
                + work
                + delay(&last.leg)
                + on(last.bytes, last_rate);
            let limit = demand
                .deadline
                .map_or(f64::INFINITY, |limit| limit.as_secs_f64());
            if keeps_up && time <= limit {
                kept += 1.0;
                sum += time;
            }
        }
    }
    (
        kept / all,
        if kept > 0.0 {
            sum / kept
        } else {
            f64::INFINITY
        },
    )
}

fn any_leg() -> impl Strategy<Value = Option<Leg>> {
    let leg = (prop::collection::vec(0u64..3_000, 1..12), 0u32..120)
        .prop_map(|(rates, delay)| leg(&rates, delay));
    prop::option::weighted(0.8, leg)
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let processor =
        (1.0..20_000.0, 0.05..1.0).prop_map(|(unit_ps, free)| Processor { unit_ps, free });
    (any_leg(), processor, any_leg(), 0.0..20_000.0).prop_map(|(first, processor, leg, bytes)| {
        Candidate {
            first,
            processor,
            last: vec![Last { leg, bytes }],
        }
    })
}

proptest! {
    #[test]
    fn the_choice_is_that_of_a_search_of_all_pairs(
        candidates in prop::collection::vec(any_candidate(), 1..6),
        bytes in 0.0..20_000.0,
        units in 0.0..1e7,
        share in 0.0..1.0,
        deadline in prop::option::of(1u64..500),
    ) {
        // No deadline falls on a time exactly.
        let deadline = deadline.map(|ms| Duration::from_micros(1_000 * ms + 137));
        let (flow, demand) = (Flow { bytes, units, ..FLOW }, Demand { share, deadline });
        let all = estimates(&candidates, &flow, &demand);
        for (candidate, estimate) in candidates.iter().zip(&all) {
            let (estimate, (share, time)) = (estimate.unwrap(), searched(candidate, &flow, &demand));
            prop_assert!((estimate.share - share).abs() < 1e-9, "{estimate:?} {share}");
            prop_assert!(estimate.time_s == time || (estimate.time_s - time).abs() < 1e-9, "{estimate:?} {time}");
        }
        let chosen = all[best(&all, &demand).unwrap()].unwrap();
        for other in all.iter().flatten() {
            if chosen.keeps(&demand) {
                prop_assert!(!other.keeps(&demand) || chosen.time_s <= other.time_s);
            } else {
                prop_assert!(chosen.share >= other.share);
            }
        }
    }

    #[test]
    fn estimates_that_differ_little_never_move_an_operator(noise in prop::collection::vec((0.9..1.1, 0.9..1.1), 1..200)) {
        let mut keeper = Keeper::new(Rules::default(), 0);
        let of = |time_s| Some(Estimate { share: 1.0, time_s, bytes: 0.0, tightest: Part::First, use_share: 0.5 });
        for (second, (a, b)) in noise.into_iter().enumerate() {
            let now = Instant::from_secs(second as u64);
            prop_assert_eq!(keeper.look(&[of(0.1 * a), of(0.1 * b)], &DEMAND, now), None);
        }
    }

    #[test]
    fn moves_are_never_closer_than_the_time_that_a_place_is_held(
        looks in prop::collection::vec((0u64..5_000, 0.0..1.0, 0.0..1.0, 0.01..1.0, 0.01..1.0), 1..300),
    ) {
        let mut keeper = Keeper::new(Rules::default(), 0);
        let mut moved = None;
        let mut now = Instant::EPOCH;
        for (ms, a, b, c, d) in looks {
            now += Duration::from_millis(ms);
            let of = |share, time_s| Some(Estimate { share, time_s, bytes: 0.0, tightest: Part::First, use_share: 0.5 });
            if keeper.look(&[of(a, c), of(b, d)], &DEMAND, now).is_some() {
                prop_assert!(moved.is_none_or(|at| now.since(at) >= Rules::default().hold));
                moved = Some(now);
            }
        }
    }
}

#[test]
fn an_operator_moves_when_another_place_has_been_better_for_a_while() {
    let rules = Rules::default();
    let mut keeper = Keeper::new(rules, 0);
    let of = |share, time_s| {
        Some(Estimate {
            share,
            time_s,
            bytes: 0.0,
            tightest: Part::Last,
            use_share: 0.5,
        })
    };
    let at = Instant::from_secs;
    let slow_and_quick = [of(1.0, 0.2), of(1.0, 0.1)];
    assert_eq!(keeper.look(&slow_and_quick, &DEMAND, at(0)), None);
    // A look in between that shows nothing better begins the time anew.
    assert_eq!(
        keeper.look(&[of(1.0, 0.1), of(1.0, 0.1)], &DEMAND, at(10)),
        None
    );
    assert_eq!(keeper.look(&slow_and_quick, &DEMAND, at(12)), None);
    assert_eq!(keeper.look(&slow_and_quick, &DEMAND, at(26)), None);
    assert_eq!(keeper.look(&slow_and_quick, &DEMAND, at(27)), Some(1));
    assert_eq!(keeper.current(), 1);
    // One that keeps the demand stays, even if another one that does not would be quicker; and where nothing is known, it stays, too.
    for second in 28..90 {
        assert_eq!(
            keeper.look(&[of(0.9, 0.01), of(0.96, 0.1)], &DEMAND, at(second)),
            None
        );
        assert_eq!(
            keeper.look(&[of(1.0, 0.01), None], &DEMAND, at(second)),
            None
        );
    }
    // The one in use fails.
    assert_eq!(
        keeper.look(&[of(0.9, 0.01), of(0.2, 0.1)], &DEMAND, at(90)),
        None
    );
    assert_eq!(
        keeper.look(&[of(0.9, 0.01), of(0.2, 0.1)], &DEMAND, at(105)),
        Some(0)
    );
    keeper.set(1, at(106));
    assert_eq!(keeper.current(), 1);
}
