use anabranch_base::{Rate, Seed, StreamId};
use anabranch_spec::{Demand, Guarantee, OnWarning, StreamSpec};

use super::super::{AdmissionController, Notice};

const STREAM: StreamId = StreamId(1);

/// Promises of a stream, each with the number of its window, and the count of other events.
#[derive(Debug, Default)]
struct Seen {
    promised: Vec<(usize, Guarantee)>,
    warned: usize,
    withdrawn: usize,
}

fn takes(guarantee: Guarantee) -> Guarantee {
    guarantee.with_on_warning(OnWarning::TakeOffer)
}

/// 6 Mbit/s in nine of ten windows.
fn demand() -> Guarantee {
    takes(Guarantee::rate(Rate::from_mbps(6), 0.9))
}

/// A controller that knows 60 windows of a path of 9 Mbit/s, and has promised this.
fn promised(guarantee: Guarantee) -> AdmissionController {
    let mut controller = AdmissionController::new(1);
    for _ in 0..60 {
        controller.end_window(&[9e6], |_| false);
    }
    let spec = StreamSpec::default().with_guarantee(guarantee);
    assert!(controller.open(STREAM, &spec).unwrap().is_some());
    controller
}

/// Lets windows of these capacities pass, in Mbit/s.
fn pass(controller: &mut AdmissionController, mbps: impl IntoIterator<Item = f64>) -> Seen {
    let mut seen = Seen::default();
    for (window, mbps) in mbps.into_iter().enumerate() {
        for notice in controller.end_window(&[mbps * 1e6], |_| false) {
            match notice {
                Notice::Promised(_, grant) => seen.promised.push((window, grant.guarantee)),
                Notice::Warned(..) => seen.warned += 1,
                Notice::Withdrawn(..) => seen.withdrawn += 1,
            }
        }
    }
    seen
}

fn steady(mbps: f64, windows: usize) -> impl Iterator<Item = f64> {
    std::iter::repeat_n(mbps, windows)
}

fn current(controller: &AdmissionController) -> Guarantee {
    controller.explain(STREAM).unwrap().guarantee
}

#[test]
fn a_promise_is_reduced_when_capacity_sinks_and_returns_with_it() {
    let mut controller = promised(demand());
    let down = pass(&mut controller, steady(4.0, 90));
    let rates: Vec<u64> = down
        .promised
        .iter()
        .map(|(_, guarantee)| guarantee.required().as_bps())
        .collect();
    assert!((1..=3).contains(&rates.len()), "{down:?}");
    assert!(down.warned >= 1 && down.withdrawn == 0, "{down:?}");
    let explained = controller.explain(STREAM).unwrap();
    assert!(explained.term.is_some() && !explained.is_warned);
    assert_eq!(explained.wanted, Some(demand()));
    assert_eq!(explained.guarantee.on_warning, OnWarning::TakeOffer);
    let bps = explained.guarantee.required().as_bps();
    assert!((2_500_000..4_000_000).contains(&bps), "{explained:?}");

    let up = pass(&mut controller, steady(9.0, 200));
    assert_eq!(up.promised.len(), 1, "{up:?}");
    assert_eq!(up.promised[0].1, demand());
    // Possible for twenty seconds first.
    assert!(up.promised[0].0 >= 19, "{up:?}");
    let explained = controller.explain(STREAM).unwrap();
    assert_eq!((explained.guarantee, explained.wanted), (demand(), None));
}

#[test]
fn without_that_reaction_the_promise_stays_and_lapses() {
    let mut controller = promised(Guarantee::rate(Rate::from_mbps(6), 0.9));
    let seen = pass(&mut controller, steady(4.0, 90));
    assert_eq!((seen.warned, seen.withdrawn), (1, 1), "{seen:?}");
    assert!(seen.promised.is_empty(), "{seen:?}");
}

#[test]
fn an_owner_is_warned_before_its_promise_is_reduced() {
    let mut controller = promised(demand());
    let mut windows = (0..90).map(|_| controller.end_window(&[4e6], |_| false));
    let events = windows.find(|events| !events.is_empty()).unwrap();
    let [Notice::Warned(_, refusal), Notice::Promised(_, grant)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(Some(grant.guarantee.required()), refusal.offer.rate);
}

#[test]
fn levels_come_first_and_offers_below_the_lowest() {
    let levels = [6, 4].map(Rate::from_mbps);
    let layered = demand().with_levels(levels).unwrap();
    let mut controller = promised(layered);
    let seen = pass(&mut controller, steady(5.5, 90));
    assert_eq!(seen.withdrawn, 0, "{seen:?}");
    let mbps = Rate::from_mbps;
    assert_eq!(current(&controller), layered.at(mbps(4)));
    let seen = pass(&mut controller, steady(2.0, 90));
    assert_eq!(seen.withdrawn, 0, "{seen:?}");
    let reduced = current(&controller);
    assert!(reduced.levels.is_empty() && reduced.required() < mbps(2));
    let seen = pass(&mut controller, steady(9.0, 300));
    assert_eq!(current(&controller), layered, "{seen:?}");
    assert_eq!(controller.explain(STREAM).unwrap().wanted, None);
}

/// Every fourth window carries nothing: no rate is left at this probability, but the rate is in fewer windows.
#[test]
fn a_probability_is_taken_where_no_rate_is_offered() {
    let mut controller = promised(demand());
    let seen = pass(
        &mut controller,
        (0..200).map(|window| f64::from(u8::from(window % 4 != 0)) * 9.0),
    );
    assert_eq!(seen.withdrawn, 0, "{seen:?}");
    let reduced = current(&controller);
    assert!(reduced.probability() < Some(0.9), "{reduced:?}");
}

#[test]
fn a_window_constraint_serves_fewer_packets() {
    let constraint = |serve| {
        takes(Guarantee::new(Demand::Packets {
            serve,
            of: 1_000,
            packet_bytes: 1_000,
            probability: 0.9,
        }))
    };
    let mut controller = promised(constraint(800));
    let seen = pass(&mut controller, steady(4.0, 90));
    assert_eq!(seen.withdrawn, 0, "{seen:?}");
    let reduced = current(&controller);
    let serve = (reduced.required().as_bps() / 8_000) as u32;
    assert_eq!(reduced, constraint(serve));
    assert!((200..500).contains(&serve), "{serve}");
}

/// On paths that swing at every speed, a promise returns 30 s after the last change at the earliest, and falls in few steps.
#[test]
fn a_promise_never_flaps() {
    let (mut rises, mut falls, mut withdrawn) = (0, 0, 0);
    for seed in 0..20 {
        let mut random = Seed(seed).stream("swing");
        let mut controller = promised(demand());
        let swing_s = [7.0, 20.0, 45.0, 150.0][seed as usize % 4];
        let mbps: Vec<f64> = (0..1_500)
            .map(|window| 6.0 + 4.0 * (f64::from(window) / swing_s).sin() + random.unit())
            .collect();
        let seen = pass(&mut controller, mbps);
        withdrawn += seen.withdrawn;
        let mut before = (0, demand().required());
        let mut steps = 0;
        for (window, guarantee) in seen.promised {
            let rate = guarantee.required();
            // Of another grade, or again after it was withdrawn.
            if rate == before.1 {
                continue;
            }
            match rate > before.1 {
                true => {
                    assert!(window - before.0 >= 30, "{seed}: {rate} in {window}");
                    rises += 1;
                    steps = 0;
                }
                false => {
                    falls += 1;
                    steps += 1;
                    assert!(steps <= 8, "{seed}: {rate} in {window}");
                }
            }
            before = (window, rate);
        }
    }
    // A change in a minute and a half at most, on average.
    assert!(
        rises > 10 && rises + falls < 20 * 1_500 / 90,
        "{rises}, {falls}"
    );
    assert!(withdrawn < falls / 4, "{withdrawn} of {falls}");
}
