//! `aimd` and `binomial`: requirements on controllers that fill the queue until it overflows.

use proptest::prelude::*;

use super::super::harness::{Outcome, Path, run};
use crate::config::{Aimd, Binomial, Controller};

const AIMD: Controller = Controller::Aimd(Aimd {
    increase: 1.0,
    decrease: 0.5,
});
const SQRT: Controller = Controller::Binomial(Binomial::SQRT);
const IIAD: Controller = Controller::Binomial(Binomial::IIAD);
const ALL: [Controller; 3] = [AIMD, SQRT, IIAD];

/// Smallest and largest rate in tenths of seconds from here on, in bytes per second.
fn swing(out: &Outcome, from_s: f64) -> (f64, f64) {
    let tenths = &out.tenths[(from_s * 10.0) as usize..];
    // Over five tenths, which is five round trips and more.
    let rates = tenths
        .chunks_exact(5)
        .map(|part| part.iter().sum::<u64>() as f64 * 2.0);
    rates.fold((f64::INFINITY, 0.0), |(least, most), rate| {
        (rate.min(least), rate.max(most))
    })
}

/// A queue of one bandwidth-delay product, which halving the window needs.
#[test]
fn a_steady_link_is_filled() {
    for controller in ALL {
        let out = run(controller, &Path::steady(), 60.0, 1);
        assert!(out.rate(10.0, 60.0) > 0.99 * 5e6, "{controller}");
        assert!(out.lost < out.sent / 400, "{controller}: lost {}", out.lost);
    }
}

/// Purpose of binomial controllers: with a short queue, AIMD empties it and SQRT does not.
#[test]
fn sqrt_swings_less_than_aimd() {
    let shallow = Path {
        queue_bytes: 50_000.0,
        ..Path::steady()
    };
    let [aimd, sqrt, iiad] = ALL.map(|controller| {
        let (least, most) = swing(&run(controller, &shallow, 90.0, 1), 30.0);
        least / most
    });
    assert!(aimd < 0.75, "{aimd}");
    assert!(sqrt > 0.9 && iiad > 0.9, "{sqrt} {iiad}");
}

/// The rate at loss p is that of W = c/√p packets a round trip: √1.5 for AIMD(1, ½), and √(α/β) = √1.5 for the
/// others [Bansal and Balakrishnan §III].
///
/// IIAD takes minutes to come down from where slow start ended, two thirds of a packet a loss.
#[test]
fn random_loss_has_the_published_price() {
    for controller in [AIMD, SQRT] {
        let lossy = Path {
            loss: 0.001,
            ..Path::steady()
        };
        let rates = (1..=4).map(|seed| run(controller, &lossy, 120.0, seed).rate(40.0, 120.0));
        let mean = rates.sum::<f64>() / 4.0;
        let window = (1.5f64 / 0.001).sqrt();
        let expected = window * 1_500.0 / 0.05;
        let part = mean / expected;
        assert!((0.75..1.3).contains(&part), "{controller}: {part}");
    }
}

#[test]
fn a_blackout_is_survived() {
    for controller in ALL {
        let dark = Path {
            blackout: (10.0, 14.0),
            ..Path::steady()
        };
        let out = run(controller, &dark, 60.0, 1);
        assert_eq!(out.rate(11.0, 14.0), 0.0, "{controller}");
        assert!(out.window_least <= 6_000, "{controller}");
        assert!(out.rate(30.0, 60.0) > 0.9 * 5e6, "{controller}");
    }
}

#[test]
fn a_phase_without_data_changes_nothing() {
    for controller in ALL {
        let limited = Path {
            limited: (20.0, 40.0, 5e5),
            ..Path::steady()
        };
        let out = run(controller, &limited, 60.0, 1);
        let during = out.rate(22.0, 40.0);
        assert!((during - 5e5).abs() < 0.02 * 5e5, "{controller}: {during}");
        assert!(out.rate(41.0, 60.0) > 0.98 * 5e6, "{controller}");
    }
}

/// The share w multiplies the rate at a given loss of the whole flow.
#[test]
fn half_a_share_is_half_the_rate() {
    for controller in [AIMD, SQRT] {
        let rate = |share| {
            let path = Path {
                loss: 0.002,
                share,
                ..Path::steady()
            };
            let rates = (1..=4).map(|seed| run(controller, &path, 120.0, seed).rate(40.0, 120.0));
            rates.sum::<f64>()
        };
        let part = rate(0.5) / rate(1.0);
        assert!((0.4..0.6).contains(&part), "{controller}: {part}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// On any link with any parameters: windows within bounds, rates finite (the harness asserts it), never stuck.
    #[test]
    fn any_parameters_survive_any_link(
        k in 0.0f64..=2.0,
        l in 0.0f64..=1.0,
        increase in 0.01f64..100.0,
        decrease in 0.01f64..100.0,
        share in 0.01f64..=1.0,
        rtt_ms in 1u32..400,
        queue_packets in 1u32..400,
        loss in 0.0f64..0.3,
        seed in any::<u64>(),
    ) {
        let parameters = Binomial { k, l, increase, decrease };
        let path = Path {
            rate: |s| if s < 3.0 { 4e5 } else { 8e4 },
            rtt_s: f64::from(rtt_ms) * 1e-3,
            queue_bytes: f64::from(queue_packets) * 1_500.0,
            loss,
            pause: (2.0, 2.5),
            blackout: (4.0, 4.5),
            share,
            ..Path::steady()
        };
        let out = run(Controller::Binomial(parameters), &path, 8.0, seed);
        prop_assert!(out.window_least >= 4 * 1_500);
        prop_assert!(out.window_most <= 1_500_000_000);
        prop_assert!(out.rate(5.0, 8.0) > 0.0);
    }
}
