use std::time::Duration;

use anabranch_base::{Instant, Random, Rate, Seed};
use proptest::prelude::*;

use super::*;
use crate::PacketOrder;
use anabranch_spec::{Correlation, Slot};

/// Sends packets `gap_ms` apart with the round trips of `trip` (`None`: lost), outcomes coming back in the order of time; calls
/// `judge` with what was expected of each packet when it was sent, and with the truth.
fn drive(
    model: &mut dyn ChannelModel,
    packets: u64,
    gap_ms: f64,
    mut trip: impl FnMut(u64) -> Option<f64>,
    mut judge: impl FnMut(u64, Expectation, Option<f64>),
) {
    let mut order = PacketOrder::new();
    let mut coming = std::collections::BinaryHeap::new();
    for number in 0..packets {
        let at_us = (number as f64 * gap_ms * 1e3) as u64;
        while let Some(&std::cmp::Reverse((when, number, rtt_us))) = coming.peek() {
            if when > at_us {
                break;
            }
            coming.pop();
            let when = Instant::from_micros(when);
            let outcome = match rtt_us {
                Some(us) => order.acked(number, when, Duration::from_micros(us)),
                None => order.lost(number, when),
            };
            model.observe(&outcome.unwrap());
        }
        let at = Instant::from_micros(at_us);
        let (expected, truth) = (model.expect(0, at), trip(number));
        judge(number, expected, truth);
        model.sent(Packet {
            index: order.sent(number, at).unwrap(),
            at,
            bytes: 768,
        });
        let rtt_us = truth.map(|ms| (ms * 1e3) as u64);
        let known_us = at_us + rtt_us.unwrap_or(2_000_000);
        coming.push(std::cmp::Reverse((known_us, number, rtt_us)));
    }
}

/// Accuracy of predicted round trips.
#[derive(Debug, Default)]
struct Score {
    count: f64,
    off_ms: f64,
    covered: f64,
    below: [f64; LEVELS.len()],
}

impl Score {
    fn of(
        model: &mut dyn ChannelModel,
        packets: u64,
        gap_ms: f64,
        trip: impl FnMut(u64) -> Option<f64>,
    ) -> Self {
        let mut score = Self::default();
        drive(model, packets, gap_ms, trip, |number, expected, truth| {
            let (Some(trip), Some(truth)) = (expected.round_trip, truth) else {
                return;
            };
            if number < packets / 4 {
                return;
            }
            score.count += 1.0;
            score.off_ms += (truth - trip.quantile(0.5)).abs();
            let (low, high) = (trip.quantile(0.05), trip.quantile(0.95));
            score.covered += f64::from(u8::from((low..=high).contains(&truth)));
            for (below, level) in score.below.iter_mut().zip(LEVELS) {
                *below += f64::from(u8::from(truth <= trip.quantile(level)));
            }
        });
        score.off_ms /= score.count;
        score.covered /= score.count;
        score
            .below
            .iter_mut()
            .for_each(|below| *below /= score.count);
        score
    }
}

/// A queue that is held for a while and then drains faster than it fills: round trips fall while it drains, and jump
/// [Horde §A.3.5, Figure A-10a].
fn sawtooth(random: &mut Random) -> impl FnMut(u64) -> Option<f64> + '_ {
    let (mut left, mut step, mut trip) = (0_u32, 0.0, 0.0);
    move |_| {
        if left == 0 {
            let length = random.between(9, 12) as u32;
            left = length;
            trip = random.normal(1150.0, 40.0);
            step = (trip - 550.0) / f64::from(length);
        }
        left -= 1;
        trip -= step;
        Some((trip + random.normal(0.0, 15.0)).max(50.0))
    }
}

#[test]
fn the_cellular_model_foresees_a_draining_queue() {
    let score = |model: &mut dyn ChannelModel| {
        let mut random = Seed(3).stream("sawtooth");
        Score::of(model, 6000, 70.0, sawtooth(&mut random))
    };
    let generic = score(&mut Generic::new());
    let cellular = score(&mut Cellular::new());
    assert!(
        cellular.off_ms < 0.75 * generic.off_ms,
        "{cellular:?} against {generic:?}"
    );
    for score in [generic, cellular] {
        assert!((score.covered - 0.9).abs() < 0.03, "{score:?}");
    }
}

#[test]
fn expected_distributions_are_kept() {
    type Make = fn() -> Box<dyn ChannelModel>;
    let models: [Make; 4] = [
        || Box::new(Generic::new()),
        || Box::new(Cellular::new()),
        || Box::new(Satellite::new()),
        || Box::new(Recognised::new()),
    ];
    for make in models {
        for (name, mean, deviation) in [("fixed", 20.0, 0.05), ("cdma", 600.0, 50.0)] {
            let mut random = Seed(8).stream(name);
            let mut model = make();
            let score = Score::of(model.as_mut(), 8000, 50.0, |_| {
                Some(random.normal(mean, deviation).max(1.0))
            });
            for (below, level) in score.below.iter().zip(LEVELS) {
                assert!(
                    (below - level).abs() < 0.03,
                    "{} on {name}, {level}: {score:?}",
                    model.technology()
                );
            }
        }
    }
}

/// Losses in bursts: expected and true rate agree, in bursts and out of them.
#[test]
fn expected_losses_come_true() {
    for (rate, burst) in [(0.005, 6.0), (0.2, 4.0), (0.03, 1.5)] {
        let mut random = Seed(4).stream("losses");
        let mut is_bad = false;
        let mut model = Cellular::new();
        // Expected and true losses, of packets expected to be lost more, and less, often than on average.
        let mut sums = [(0.0, 0.0, 0.0); 2];
        drive(
            &mut model,
            60_000,
            50.0,
            |_| {
                let begins = rate / (1.0 - rate) / burst;
                is_bad = random.chance(if is_bad { 1.0 - 1.0 / burst } else { begins });
                (!is_bad).then_some(40.0)
            },
            |number, expected, truth| {
                if number > 10_000 {
                    let sum = &mut sums[usize::from(expected.loss > 1.5 * rate)];
                    sum.0 += 1.0;
                    sum.1 += expected.loss;
                    sum.2 += f64::from(u8::from(truth.is_none()));
                }
            },
        );
        let (expected, truth) = (sums[0].1 + sums[1].1, sums[0].2 + sums[1].2);
        assert!((expected / truth - 1.0).abs() < 0.1, "{rate}: {sums:?}");
        let together = model.lost_together(1);
        assert!(together > rate / (2.0 - rate), "bursts: {together}");
        assert!(model.lost_together(200) < together);
    }
}

#[test]
fn a_satellite_is_recognised_and_foreseen() {
    let mut random = Seed(2).stream("satellite");
    let (mut turn, mut level) = (0, 50.0);
    let mut trip = move |number: u64| {
        let at = number as f64 * 0.1;
        if (at / 15.0) as u64 != turn {
            (turn, level) = ((at / 15.0) as u64, random.uniform(35.0, 80.0));
        }
        let lost = random.chance(if at % 15.0 < 0.5 { 0.3 } else { 0.005 });
        (!lost).then(|| level * random.normal(1.0, 0.06))
    };
    let mut model = Recognised::new();
    let mut losses = [(0.0, 0.0); 2];
    drive(
        &mut model,
        20_000,
        100.0,
        &mut trip,
        |number, expected, _| {
            if number > 12_000 {
                let near = usize::from(number as f64 * 0.1 % 15.0 < 0.5);
                losses[near].0 += 1.0;
                losses[near].1 += expected.loss;
            }
        },
    );
    assert_eq!(model.technology(), Technology::Satellite);
    let [away, near] = losses.map(|(count, sum)| sum / count);
    assert!(near > 0.15 && away < 0.04, "{near} {away}");
}

#[test]
fn what_is_recognised() {
    for (mean, deviation, technology) in [
        (20.0, 0.5, Technology::Generic),
        (3.0, 1.5, Technology::Generic),
        (60.0, 15.0, Technology::Cellular),
    ] {
        let mut random = Seed(5).stream("recognised");
        let mut model = Recognised::new();
        let trip = |_| Some(random.normal(mean, deviation).max(0.5));
        drive(&mut model, 4000, 20.0, trip, |_, _, _| {});
        assert_eq!(model.technology(), technology, "{mean} ± {deviation}");
    }
}

#[test]
fn names_are_read_back() {
    for text in ["auto", "generic", "cellular", "satellite"] {
        let choice: Choice = text.parse().unwrap();
        assert_eq!(choice.to_string(), text);
        if let Choice::Fixed(technology) = choice {
            assert_eq!(choice.model().technology(), technology);
        }
    }
    let error = "wimax".parse::<Choice>().unwrap_err().to_string();
    assert!(
        error.contains("'wimax'") && error.contains("cellular"),
        "{error}"
    );
}

/// A supply of slots, one every `gap_ms`, all used in each cycle.
fn supplied(gap_ms: impl Fn(u64) -> f64, cycles: u64) -> (f64, f64, f64) {
    let (mut model, mut maker) = (Generic::new(), Slots::new(0));
    let (mut next_ms, mut sent, mut count) = (0.0, 0_u64, 0_u64);
    let mut open: Vec<(u64, f64, f64)> = Vec::new();
    let (mut kept, mut claimed, mut all) = (0.0, 0.0, 0.0);
    for cycle in 1..=cycles {
        let now_ms = cycle as f64 * 50.0;
        let mut ready = 0;
        while next_ms <= now_ms {
            // Slots come in order: of those waited for, this one came in time or not.
            open.retain(|&(number, by_ms, confidence)| {
                if number != sent + u64::from(ready) {
                    return true;
                }
                if cycle > cycles / 2 {
                    all += 1.0;
                    claimed += confidence;
                    kept += f64::from(u8::from(next_ms <= by_ms));
                }
                false
            });
            count += 1;
            next_ms += gap_ms(count);
            ready += 1;
        }
        let supply = Supply {
            now: Instant::from_micros((now_ms * 1e3) as u64),
            next: sent,
            ready,
            rate: Rate::from_bps(800_000),
            wait: None,
            round_trip: Duration::from_millis(100),
            round_trip_min: Duration::ZERO,
            queue: Duration::ZERO,
            bytes_max: 1_000,
            cost_per_byte: 0.0,
            slots_max: usize::MAX,
        };
        let mut slots: Vec<Slot> = Vec::new();
        maker.offer(&supply, Duration::from_millis(300), &mut model, &mut slots);
        for slot in &slots {
            assert!((0.0..=1.0).contains(&slot.confidence) && slot.wait_ms <= 300.0);
        }
        if let Some(last) = slots.last()
            && last.is_phantom()
            && !open.iter().any(|&(number, ..)| number == last.sequence)
        {
            open.push((last.sequence, now_ms + last.wait_ms, last.confidence));
        }
        sent += u64::from(ready);
    }
    (kept / all, claimed / all, all)
}

#[test]
fn phantoms_come_as_often_as_their_confidence_says() {
    // At the stated rate, slower than it, and unsteadily.
    for (name, kept_min) in [("steady", 0.95), ("slower", 0.75), ("unsteady", 0.7)] {
        let gap = |n: u64| match name {
            "steady" => 10.0,
            "slower" => 17.0,
            _ => 20.0 * Seed(n / 40).stream("gap").unit(),
        };
        let (kept, claimed, all) = supplied(gap, 4000);
        assert!(all > 200.0, "{name}: {all}");
        assert!(kept >= kept_min, "{name}: {kept}");
        assert!(
            (kept - claimed).abs() < 0.2,
            "{name}: {kept}, said {claimed}"
        );
    }
}

/// Now and then a queue that drains: what is promised after it stays near, by every model.
#[test]
fn a_jump_is_not_blown_up() {
    for choice in ["generic", "cellular", "satellite"] {
        let mut model = choice.parse::<Choice>().unwrap().model();
        let mut order = PacketOrder::new();
        let mut random = Seed(4).stream("jumps");
        let mut maker = Slots::new(0).limited(1, 0);
        let (mut errors, mut smoothed_errors) = (0.0, 0.0);
        let (mut smoothed, mut slots) = (350.0, Vec::new());
        for number in 0..4_000_u64 {
            let at = Instant::from_millis(number * 50);
            let supply = Supply {
                now: at,
                next: number,
                ready: 1,
                rate: Rate::from_mbps(1),
                wait: None,
                round_trip: Duration::from_millis(350),
                round_trip_min: Duration::ZERO,
                queue: Duration::ZERO,
                bytes_max: 1_000,
                cost_per_byte: 0.0,
                slots_max: usize::MAX,
            };
            slots.clear();
            maker.offer(&supply, Duration::ZERO, model.as_mut(), &mut slots);
            let trip = |number: u64| 340.0 + 460.0 * (1.0 - (number % 65) as f64 / 15.0).max(0.0);
            let noise = random.uniform(0.0, 20.0);
            if number > 2_000 {
                errors += (slots[0].round_trip_ms - trip(number)).abs();
                smoothed_errors += (smoothed - trip(number)).abs();
            }
            let index = order.sent(number, at).unwrap();
            let bytes = 200;
            model.sent(Packet { index, at, bytes });
            if let Some(old) = number.checked_sub(9) {
                let rtt_ms = trip(old) + noise;
                smoothed += (rtt_ms - smoothed) / 8.0;
                let outcome = order.acked(old, at, Duration::from_secs_f64(rtt_ms / 1e3));
                model.observe(&outcome.unwrap());
            }
        }
        assert!(
            errors < 1.05 * smoothed_errors,
            "{choice}: {errors}, {smoothed_errors}"
        );
    }
}

/// A queue shows by bytes in flight before a round trip does; the prediction stays what the model expects.
#[test]
fn a_queue_that_round_trips_do_not_show_yet_is_counted_on() {
    let (mut order, mut model) = (PacketOrder::new(), Generic::new());
    for number in 0..200 {
        let at = Instant::from_millis(number * 10);
        let index = order.sent(number, at).unwrap();
        let bytes = 1_000;
        model.sent(Packet { index, at, bytes });
        let rtt = Duration::from_millis(100);
        model.observe(&order.acked(number, at + rtt, rtt).unwrap());
    }
    let mut offered = |queue_ms| {
        let supply = Supply {
            now: Instant::from_secs(3),
            next: 200,
            ready: 1,
            rate: Rate::from_mbps(1),
            wait: None,
            round_trip: Duration::from_millis(100),
            round_trip_min: Duration::from_millis(90),
            queue: Duration::from_millis(queue_ms),
            bytes_max: 1_000,
            cost_per_byte: 0.0,
            slots_max: 1,
        };
        let mut slots = Vec::new();
        Slots::new(0).offer(&supply, Duration::ZERO, &mut model, &mut slots);
        slots[0]
    };
    let none = offered(0);
    assert_eq!(none.round_trip_ms, none.predicted_ms);
    assert!((99.0..101.0).contains(&none.predicted_ms), "{none:?}");
    let long = offered(600);
    assert_eq!((long.round_trip_ms, long.deviation_ms), (690.0, 200.0));
    assert_eq!(long.predicted_ms, none.predicted_ms);
}

#[test]
fn as_many_slots_as_asked_for_and_one_prediction_a_moment() {
    let (mut model, mut maker) = (Generic::new(), Slots::new(3).limited(4, 6));
    maker.set_channel(1);
    let mut offer = |ready: u32, now_ms: u64| {
        let supply = Supply {
            now: Instant::from_millis(now_ms),
            next: 0,
            ready,
            rate: Rate::from_mbps(8),
            wait: None,
            round_trip: Duration::from_millis(100),
            round_trip_min: Duration::ZERO,
            queue: Duration::ZERO,
            bytes_max: 1_000,
            cost_per_byte: 0.0,
            slots_max: usize::MAX,
        };
        let mut slots: Vec<Slot> = Vec::new();
        maker.offer(&supply, Duration::from_millis(300), &mut model, &mut slots);
        assert!(slots.iter().all(|slot| slot.channel == 1));
        let real = slots.iter().filter(|slot| !slot.is_phantom()).count();
        (real, slots.len() - real, maker.clone())
    };
    let (real, phantoms, before) = offer(2, 10);
    assert_eq!((real, phantoms), (2, 6));
    let (real, phantoms, after) = offer(5, 10);
    assert_eq!((real, phantoms), (4, 0), "more exist than are listed");
    assert_eq!(
        format!("{before:?}"),
        format!("{after:?}"),
        "a second look at one moment teaches nothing"
    );
}

#[test]
fn channels_that_fail_together_are_known() {
    let mut random = Seed(6).stream("together");
    let mut joint = Joint::new(3);
    let mut fading = 0;
    for n in 0..40_000_u64 {
        let at = Instant::from_millis(n * 10);
        fading = if random.chance(0.002) {
            20
        } else {
            fading - i32::from(fading > 0)
        };
        for channel in 0..3 {
            joint.sent(channel, at);
            let lost = match channel {
                2 => random.chance(0.05),
                _ => fading > 0 && random.chance(0.9),
            };
            if lost {
                joint.lost(channel, at);
            }
        }
    }
    assert!(joint.both(0, 1) > 0.5, "{}", joint.both(0, 1));
    assert!(joint.both(0, 2) < 0.06 && joint.both(1, 2) < 0.06);
    assert_eq!(joint.both(0, 1), joint.both(1, 0));
    assert_eq!((joint.both(0, 0), joint.both(0, 9)), (0.0, 0.0));
    let models = [Generic::new(), Generic::new(), Generic::new()];
    let mut correlation = Correlation::independent(3);
    let models = models.iter().map(|model| model as &dyn ChannelModel);
    let models: Vec<_> = models.enumerate().collect();
    joint.write(&models, &mut correlation);
    let slot = |channel| Slot {
        channel,
        sequence: 5,
        wait_ms: 0.0,
        confidence: 1.0,
        loss: 0.01,
        round_trip_ms: 50.0,
        deviation_ms: 5.0,
        predicted_ms: 50.0,
        cost_per_byte: 0.0,
        bytes_max: 768,
    };
    assert_eq!(correlation.both(&slot(0), &slot(1)), joint.both(0, 1));
    // Channels come and go; what is known of the others stays.
    let (known, apart) = (joint.both(0, 1), joint.both(0, 2));
    assert!(joint.add());
    assert_eq!((joint.both(0, 1), joint.both(0, 2)), (known, apart));
    assert_eq!(joint.both(0, 3), 0.0, "nothing was lost there");
    let mut fewer = joint.clone();
    fewer.remove(0);
    assert_eq!(fewer.channels(), 3);
    assert_eq!(fewer.both(0, 1), joint.both(1, 2));
    fewer.remove(1);
    assert!(fewer.add());
    joint.remove(2);
    assert_eq!(joint.both(0, 1), known);
    joint.remove(7);
    assert_eq!(joint.channels(), 3);
    while joint.add() {}
    assert_eq!(joint.channels(), CHANNELS_MAX);
    assert_eq!(joint.both(0, 1), known);
    // A cycle without the channel 0.
    let mut correlation = Correlation::independent(2);
    joint.write(&models[1..], &mut correlation);
    assert_eq!(correlation.both(&slot(0), &slot(1)), joint.both(1, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any outcomes in any order: probabilities are probabilities, round trips are finite.
    #[test]
    fn answers_stay_within_bounds(
        calls in prop::collection::vec((0u8..4, 0u64..60, 0u64..4_000_000, 0u32..40), 1..400),
        which in 0usize..4,
    ) {
        let choice = ["auto", "generic", "cellular", "satellite"][which];
        let mut model = choice.parse::<Choice>()?.model();
        let mut order = PacketOrder::new();
        let mut number = 0;
        for (n, (call, back, us, ahead)) in calls.into_iter().enumerate() {
            let at = Instant::from_millis(n as u64 * 37);
            let old = u64::saturating_sub(number, back);
            match call {
                0 => {
                    number += back % 3;
                    if let Some(index) = order.sent(number, at) {
                        model.sent(Packet { index, at, bytes: 1 });
                    }
                }
                1 | 2 => {
                    let rtt = Duration::from_micros(us);
                    let outcome = match call {
                        1 => order.acked(old, at, rtt),
                        _ => order.lost(old, at),
                    };
                    if let Some(outcome) = outcome {
                        model.observe(&outcome);
                    }
                }
                _ => {}
            }
            let expected = model.expect(ahead, at + Duration::from_micros(us));
            prop_assert!((0.0..=1.0).contains(&expected.loss), "{expected:?}");
            prop_assert!((0.0..=1.0).contains(&model.lost_together(back)));
            if let Some(trip) = expected.round_trip {
                prop_assert!(trip.mean_ms().is_finite() && trip.mean_ms() >= 0.0, "{trip:?}");
                prop_assert!(trip.deviation_ms().is_finite() && trip.deviation_ms() >= 0.0);
                prop_assert!(trip.quantile(0.1) <= trip.quantile(0.9));
            }
        }
    }
}

#[test]
fn no_more_slots_are_listed_than_are_of_use() {
    let listed = |ready: u32, slots_max: usize| {
        let supply = Supply {
            now: Instant::from_secs(1),
            next: 7,
            ready,
            rate: Rate::from_bps(800_000),
            wait: None,
            round_trip: Duration::from_millis(100),
            round_trip_min: Duration::ZERO,
            queue: Duration::ZERO,
            bytes_max: 1_000,
            cost_per_byte: 0.0,
            slots_max,
        };
        let mut slots: Vec<Slot> = Vec::new();
        let (mut model, mut maker) = (Generic::new(), Slots::new(0));
        maker.offer(&supply, Duration::from_millis(300), &mut model, &mut slots);
        slots
    };
    for ready in [0, 2, 5] {
        let all = listed(ready, usize::MAX);
        assert!(all.len() > 5, "{}", all.len());
        for most in [0, 1, 3, 5] {
            assert_eq!(listed(ready, most), all[..most], "{ready}, {most}");
        }
    }
}
