use std::sync::Arc;

use super::*;
use crate::{Recording, Trace, source::Playback, source::Walk};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn source(traffic: &Traffic, seed: u64) -> Source {
    Source::new(traffic, Instant::EPOCH, Seed(seed)).unwrap()
}

fn on_off(sources: u32, shape: f64) -> ParetoOnOff {
    ParetoOnOff {
        sources,
        peak: Rate::from_mbps(1),
        on_mean: Duration::from_millis(100),
        off_mean: Duration::from_millis(300),
        shape,
        sizes: Sizes::Fixed(1250),
    }
}

/// The rate over this number of seconds, in bits per second.
fn rate_bps(traffic: &Traffic, seed: u64, seconds: usize) -> f64 {
    let windows = bytes_per_window(source(traffic, seed), SECOND, seconds);
    windows.iter().sum::<u64>() as f64 * 8.0 / seconds as f64
}

fn mean_and_variance(samples: &[f64]) -> (f64, f64) {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let square = |x: &f64| (x - mean).powi(2);
    (mean, samples.iter().map(square).sum::<f64>() / count)
}

/// The Hurst parameter by the variance-time plot: the variance of means of m windows falls as m^(2H − 2).
/// Least squares of its logarithm over m = 2^from … 2^to.
fn hurst(windows: &[u64], from: u32, to: u32) -> f64 {
    let points: Vec<(f64, f64)> = (from..=to)
        .map(|doublings| {
            let size = 1 << doublings;
            let mean = |chunk: &[u64]| chunk.iter().sum::<u64>() as f64 / size as f64;
            let means: Vec<f64> = windows.chunks_exact(size).map(mean).collect();
            let (_, variance) = mean_and_variance(&means);
            ((size as f64).ln(), variance.ln())
        })
        .collect();
    let count = points.len() as f64;
    let x_mean = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let y_mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let covariance: f64 = points
        .iter()
        .map(|(x, y)| (x - x_mean) * (y - y_mean))
        .sum();
    let slope = covariance
        / points
            .iter()
            .map(|(x, _)| (x - x_mean).powi(2))
            .sum::<f64>();
    1.0 + slope / 2.0
}

#[test]
fn constant_traffic_by_hand() {
    let traffic = Traffic::constant(Rate::from_mbps(12), 1500);
    let arrivals: Vec<_> = source(&traffic, 1).take(3).collect();
    let expected = [1, 2, 3].map(|ms| Arrival {
        at: Instant::from_millis(ms),
        bytes: 1500,
    });
    assert_eq!(arrivals, expected);
    let begin = Instant::from_secs(5);
    let first = Source::new(&traffic, begin, Seed(1))
        .unwrap()
        .next()
        .unwrap();
    assert_eq!(first.at, begin + Duration::from_millis(1));
}

#[test]
fn a_rate_trace_is_followed() {
    // 1 s of 8 Mbit/s, then 2 s of nothing, then again.
    let rates = [Rate::from_mbps(8), Rate::ZERO, Rate::ZERO];
    let trace = Trace::from_rates("steps", SECOND, &rates);
    let paced = Traffic::Paced(Paced {
        rate: RateSource::trace(trace.clone()),
        sizes: Sizes::Fixed(1000),
    });
    // The packet due at a second's very end belongs to the next.
    let windows = bytes_per_window(source(&paced, 1), SECOND, 6);
    assert_eq!(windows, [999_000, 1_000, 0, 999_000, 1_000, 0]);

    let scaled = Traffic::Poisson(Poisson {
        rate: RateSource::Trace(Playback {
            trace: trace.into(),
            scale: 2.0,
            start: SECOND,
        }),
        sizes: Sizes::Fixed(1000),
    });
    let windows = bytes_per_window(source(&scaled, 1), SECOND, 3_000);
    assert!(windows.iter().skip(1).step_by(3).all(|&bytes| bytes == 0));
    // 1000 laps of 2000 packets each, give or take four deviations of 1400.
    let total: u64 = windows.iter().sum();
    assert!(total.abs_diff(2_000_000_000) < 6_000_000, "{total}");
}

#[test]
fn poisson_counts_have_the_variance_of_their_mean() {
    let traffic = Traffic::poisson(Rate::from_mbps(4), Sizes::Fixed(500));
    let windows = bytes_per_window(source(&traffic, 3), Duration::from_millis(10), 50_000);
    let counts: Vec<f64> = windows.iter().map(|&bytes| bytes as f64 / 500.0).collect();
    let (mean, variance) = mean_and_variance(&counts);
    assert!((mean / 10.0 - 1.0).abs() < 0.01, "{mean}");
    assert!((variance / 10.0 - 1.0).abs() < 0.04, "{variance}");
    // No memory: 1 − 1/e of the gaps are shorter than the mean, 1 ms.
    let times: Vec<_> = source(&traffic, 4).take(50_001).map(|a| a.at).collect();
    let short = times
        .windows(2)
        .filter(|w| w[1].since(w[0]) < Duration::from_millis(1));
    let share = short.count() as f64 / 50_000.0;
    assert!((share - 0.632).abs() < 0.01, "{share}");
}

#[test]
fn the_internet_mix_has_its_mean() {
    let traffic = Traffic::poisson(Rate::from_mbps(10), Sizes::Imix);
    let packets = 120_000;
    let bytes: usize = source(&traffic, 5).take(packets).map(|a| a.bytes).sum();
    let mean = bytes as f64 / packets as f64;
    assert!(
        (mean / Sizes::Imix.mean_bytes() - 1.0).abs() < 0.02,
        "{mean}"
    );
    assert!((rate_bps(&traffic, 5, 100) / 1e7 - 1.0).abs() < 0.02);
}

#[test]
fn one_on_off_source_has_its_share() {
    // A light tail (α = 5), so that the mean shows within reasonable time.
    let traffic = Traffic::ParetoOnOff(on_off(1, 5.0));
    assert_eq!(traffic.mean(), Rate::from_kbps(250));
    let rate = rate_bps(&traffic, 1, 4_000);
    assert!((rate / 250e3 - 1.0).abs() < 0.03, "{rate}");
    // While it is on, packets are 10 ms apart; never less.
    let times: Vec<_> = source(&traffic, 2).take(5_000).map(|a| a.at).collect();
    let gaps = || times.windows(2).map(|w| w[1].since(w[0]));
    assert_eq!(gaps().min(), Some(Duration::from_millis(10)));
    assert!(
        gaps()
            .filter(|&gap| gap == Duration::from_millis(10))
            .count()
            > 4_500
    );
}

#[test]
fn on_off_sources_begin_in_the_middle_of_things() {
    // Over many runs, the first 100 ms carry as much as any.
    let model = on_off(20, 1.5);
    let first = |seed| {
        let traffic = Traffic::ParetoOnOff(model);
        bytes_per_window(source(&traffic, seed), Duration::from_millis(100), 1)[0] as f64
    };
    let mean = (0..2_000).map(first).sum::<f64>() / 2_000.0;
    let expected = model.mean().as_bps() as f64 / 8.0 / 10.0;
    assert!((mean / expected - 1.0).abs() < 0.03, "{mean} of {expected}");
}

#[test]
fn heavy_tails_make_the_sum_self_similar() {
    let width = Duration::from_millis(100);
    let of = |traffic: &Traffic| {
        // From 0.8 s, well above the mean periods, to 26 s.
        hurst(&bytes_per_window(source(traffic, 11), width, 1 << 14), 3, 8)
    };
    for shape in [1.2, 1.4, 1.6] {
        let model = on_off(50, shape);
        let seen = of(&Traffic::ParetoOnOff(model));
        // The estimator is biased downwards for strong dependence and noisy for any.
        assert!(
            (seen - model.hurst()).abs() < 0.1,
            "H = {seen} for α = {shape}, expected {}",
            model.hurst()
        );
    }
    let seen = of(&Traffic::poisson(Rate::from_mbps(1), Sizes::Fixed(500)));
    assert!((seen - 0.5).abs() < 0.06, "H = {seen} for Poisson");
    // Periods of nearly equal length make the sum regular, so rather below ½.
    let seen = of(&Traffic::ParetoOnOff(on_off(50, 8.0)));
    assert!((0.35..0.55).contains(&seen), "H = {seen} for a light tail");
}

#[test]
fn a_recording_is_replayed_from_any_place_at_any_speed() {
    let text = b"t_s,bytes\n0,100\n1,200\n2,300\n";
    let recording = Arc::new(Recording::parse("test", text).unwrap());
    assert_eq!(recording.duration(), Duration::from_secs(3));
    let play = |speed, start_ms| {
        let replay = Replay {
            recording: recording.clone(),
            speed,
            start: Duration::from_millis(start_ms),
        };
        let arrivals = source(&Traffic::Replay(replay), 1).take(4);
        let pair = |arrival: Arrival| (arrival.at.as_micros() / 1_000, arrival.bytes);
        arrivals.map(pair).collect::<Vec<_>>()
    };
    assert_eq!(
        play(1.0, 0),
        [(0, 100), (1000, 200), (2000, 300), (3000, 100)]
    );
    assert_eq!(
        play(2.0, 0),
        [(0, 100), (500, 200), (1000, 300), (1500, 100)]
    );
    assert_eq!(
        play(1.0, 1_500),
        [(500, 300), (1500, 100), (2500, 200), (3500, 300)]
    );
    // After the last packet; and a whole lap later.
    assert_eq!(
        play(1.0, 2_500),
        [(500, 100), (1500, 200), (2500, 300), (3500, 100)]
    );
    assert_eq!(play(1.0, 4_500), play(1.0, 1_500));
}

#[test]
fn values_out_of_range_are_refused() {
    let refusal = |traffic: Traffic| traffic.validate().unwrap_err().to_string();
    let unlimited = Traffic::Paced(Paced {
        rate: RateSource::Unlimited,
        sizes: Sizes::Imix,
    });
    assert!(refusal(unlimited).contains("unlimited"));
    assert!(refusal(Traffic::constant(Rate::ZERO, 500)).contains("1000 bit/s"));
    assert!(refusal(Traffic::constant(Rate::from_mbps(1), 19)).contains("20"));
    let with = |change: fn(&mut ParetoOnOff)| {
        let mut model = on_off(5, 1.5);
        change(&mut model);
        refusal(Traffic::ParetoOnOff(model))
    };
    assert!(with(|m| m.sources = 0).contains("10000"));
    assert!(with(|m| m.shape = 1.0).contains("above 1"));
    assert!(with(|m| m.shape = f64::NAN).contains("above 1"));
    assert!(with(|m| m.off_mean = Duration::ZERO).contains("off time"));
    assert!(with(|m| m.peak = Rate::ZERO).contains("1000 bit/s"));
    let recording = Recording::parse("t", b"1\n2\n").unwrap();
    let replay = Replay {
        speed: 0.0,
        ..Replay::new(recording)
    };
    assert!(refusal(Traffic::Replay(replay)).contains("speed"));
}

fn any_rate_source() -> impl Strategy<Value = RateSource> {
    let rate = || (100_000..50_000_000u64).prop_map(Rate::from_bps);
    let walk = (rate(), 0.0..0.5, 20..200u64).prop_map(|(base, spread, ms)| {
        RateSource::Walk(Walk {
            base,
            spread,
            every: Duration::from_millis(ms),
        })
    });
    let trace = prop::collection::vec(rate(), 1..6).prop_map(|rates| {
        RateSource::trace(Trace::from_rates("t", Duration::from_millis(70), &rates))
    });
    prop_oneof![rate().prop_map(RateSource::Constant), walk, trace]
}

fn any_traffic() -> impl Strategy<Value = Traffic> {
    let sizes = || prop_oneof![(20..1500usize).prop_map(Sizes::Fixed), Just(Sizes::Imix)];
    let paced = (any_rate_source(), sizes())
        .prop_map(|(rate, sizes)| Traffic::Paced(Paced { rate, sizes }));
    let poisson = (any_rate_source(), sizes())
        .prop_map(|(rate, sizes)| Traffic::Poisson(Poisson { rate, sizes }));
    // Tails light enough for the mean to show.
    let on_off = (1..40u32, 1..20u64, 5..50u64, 5..50u64, 3.0..10.0, sizes()).prop_map(
        |(sources, mbps, on, off, shape, sizes)| {
            Traffic::ParetoOnOff(ParetoOnOff {
                sources,
                peak: Rate::from_mbps(mbps),
                on_mean: Duration::from_millis(on),
                off_mean: Duration::from_millis(off),
                shape,
                sizes,
            })
        },
    );
    let packets = prop::collection::vec((0..50u32, 20..1500u32), 2..30);
    let replay = (packets, 0.5..20.0, 0..3_000u64).prop_map(|(packets, speed, start_ms)| {
        let mut text = "t_s,bytes\n0,40\n".to_owned();
        let mut at_ms = 1;
        for (gap_ms, bytes) in packets {
            at_ms += gap_ms;
            text += &format!("{},{bytes}\n", f64::from(at_ms) / 1e3);
        }
        Traffic::Replay(Replay {
            recording: Recording::parse("any", text.as_bytes()).unwrap().into(),
            speed,
            start: Duration::from_millis(start_ms),
        })
    });
    prop_oneof![paced, poisson, on_off, replay]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_source_keeps_order_repeats_and_has_its_rate(traffic in any_traffic(), seed: u64) {
        let arrivals: Vec<_> = source(&traffic, seed).take(20_000).collect();
        prop_assert!(arrivals.windows(2).all(|pair| pair[0].at <= pair[1].at));
        prop_assert!(arrivals.iter().all(|a| (20..=1500).contains(&a.bytes)));
        prop_assert_eq!(&arrivals, &source(&traffic, seed).take(20_000).collect::<Vec<_>>());

        let seconds = arrivals[arrivals.len() - 1].at.as_secs_f64();
        let bits: usize = arrivals.iter().map(|a| a.bytes * 8).sum();
        let rate = bits as f64 / seconds / traffic.mean().as_bps() as f64;
        // Few seconds are few periods of an on-off source and few laps of a trace.
        let is_near = match traffic {
            Traffic::ParetoOnOff(_) => 0.5..1.8,
            _ => 0.85..1.15,
        };
        if seconds > 5.0 {
            prop_assert!(is_near.contains(&rate), "{} of the mean", rate);
        }
    }
}
