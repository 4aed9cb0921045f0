use anabranch_base::Seed;
use anabranch_stats::joint::Cell;
use proptest::prelude::*;

use super::*;

const WINDOW: Duration = Duration::from_millis(200);

fn path(path: usize) -> PathNow {
    PathNow {
        path,
        in_flight_bytes: 0.0,
        rtt_min: Duration::from_millis(40),
        bytes_per_s: 0.0,
        reserved_bytes_per_s: 0.0,
    }
}

fn question(paths: &[PathNow], bytes: f64, within_ms: u64) -> Question<'_> {
    Question {
        paths,
        bytes,
        within: Duration::from_millis(within_ms),
        expiring_bytes: 0.0,
        expires: Duration::ZERO,
        is_redundant: false,
        phase: 0.0,
        window: WINDOW,
    }
}

/// So many windows of one path, in megabytes per second.
fn known(windows: impl IntoIterator<Item = f64>) -> Deliveries {
    let mut deliveries = Deliveries::default();
    for rate in windows {
        deliveries.push(&[Cell::Exact(rate * 8e6)], false);
    }
    deliveries
}

fn near(probability: Option<f64>, expected: f64) {
    let probability = probability.expect("enough is known");
    assert!((probability - expected).abs() < 0.02, "{probability}");
}

/// 1 MB/s and a round trip of 40 ms: 220 ms are 20 ms on the way and 200 ms of 1 MB/s.
#[test]
fn a_steady_path_delivers_what_fits() {
    let deliveries = known([1.0; 300]);
    let free = [path(0)];
    near(on_time(&deliveries, &question(&free, 199_000.0, 220)), 1.0);
    near(on_time(&deliveries, &question(&free, 201_000.0, 220)), 0.0);
    // 90,000 bytes in flight: 40,000 of them are on the way, 50,000 in the queue.
    let busy = [PathNow {
        in_flight_bytes: 90_000.0,
        ..path(0)
    }];
    near(on_time(&deliveries, &question(&busy, 149_000.0, 220)), 1.0);
    near(on_time(&deliveries, &question(&busy, 151_000.0, 220)), 0.0);
    let shared = [PathNow {
        reserved_bytes_per_s: 500_000.0,
        ..path(0)
    }];
    near(on_time(&deliveries, &question(&shared, 99_000.0, 220)), 1.0);
    near(
        on_time(&deliveries, &question(&shared, 101_000.0, 220)),
        0.0,
    );
    // Of 300,000 bytes ahead, 100,000 are sent before they are given up, and the last of these arrives after 120 ms; 100,000 can follow.
    let behind = |bytes| Question {
        expiring_bytes: 300_000.0,
        expires: Duration::from_millis(100),
        ..question(&free, bytes, 220)
    };
    near(on_time(&deliveries, &behind(99_000.0)), 1.0);
    near(on_time(&deliveries, &behind(101_000.0)), 0.0);
    // Behind 60,000 bytes that arrive nevertheless, 140,000 can follow.
    let few = |bytes| Question {
        expiring_bytes: 60_000.0,
        ..behind(bytes)
    };
    near(on_time(&deliveries, &few(139_000.0)), 1.0);
    near(on_time(&deliveries, &few(141_000.0)), 0.0);
    // A queue of 50,000 bytes is there when the data ahead is given up, too.
    let queued = Question {
        paths: &busy,
        ..behind(49_000.0)
    };
    near(on_time(&deliveries, &queued), 1.0);
    let queued = Question {
        bytes: 51_000.0,
        ..queued
    };
    near(on_time(&deliveries, &queued), 0.0);
    // Light is not faster.
    assert_eq!(on_time(&deliveries, &question(&free, 1.0, 19)), Some(0.0));
}

/// Every fourth window is slow, whatever came before.
#[test]
fn the_share_of_slow_windows_counts() {
    let mut random = Seed(3).stream("slow");
    let deliveries = known((0..600).map(|_| match random.unit() < 0.25 {
        true => 0.2,
        false => 1.0,
    }));
    let free = [path(0)];
    let probability = on_time(&deliveries, &question(&free, 150_000.0, 180)).unwrap();
    assert!((probability - 0.75).abs() < 0.12, "{probability}");
}

/// Ten seconds of 1 MB/s and ten of 0.3 MB/s in turn: now is one of them.
#[test]
fn windows_like_the_present_one_count() {
    let swing = |slow_last: bool| {
        known(
            (0..600).map(|window| match (window / 50 % 2 == 1) == slow_last {
                true => 0.3,
                false => 1.0,
            }),
        )
    };
    let free = [path(0)];
    let at = |slow| on_time(&swing(slow), &question(&free, 100_000.0, 180)).unwrap();
    assert!(at(false) > 0.9, "{}", at(false));
    assert!(at(true) < 0.15, "{}", at(true));
}

#[test]
fn two_paths_share_the_data_or_each_carries_all() {
    let mut deliveries = Deliveries::default();
    for _ in 0..200 {
        deliveries.push(&[Cell::Exact(8e6), Cell::Exact(4e6)], false);
    }
    let both = [path(0), path(1)];
    near(on_time(&deliveries, &question(&both, 290_000.0, 220)), 1.0);
    let redundant = Question {
        is_redundant: true,
        ..question(&both, 210_000.0, 220)
    };
    near(on_time(&deliveries, &redundant), 0.0);
    let redundant = Question {
        bytes: 190_000.0,
        ..redundant
    };
    near(on_time(&deliveries, &redundant), 1.0);
}

#[test]
fn too_little_is_known_where_paths_were_not_filled() {
    let free = [path(0)];
    let short = known([1.0; 40]);
    assert_eq!(on_time(&short, &question(&free, 1.0, 500)), None);
    let mut light = Deliveries::default();
    for _ in 0..300 {
        light.push(&[Cell::AtLeast(8e5)], false);
    }
    near(on_time(&light, &question(&free, 10_000.0, 220)), 1.0);
    assert_eq!(on_time(&light, &question(&free, 100_000.0, 220)), None);
    // It delivers 1 MB/s when there is that much.
    let quick = [PathNow {
        bytes_per_s: 1e6,
        ..path(0)
    }];
    near(on_time(&light, &question(&quick, 100_000.0, 220)), 1.0);
    assert_eq!(on_time(&light, &question(&quick, 300_000.0, 220)), None);
    assert_eq!(on_time(&light, &question(&[], 1.0, 220)), None);
}

/// Two paths, of which the second is left unused in part.
#[test]
fn what_is_carried_while_data_waits_is_all_that_there_is() {
    let answer = |has_waited, bytes| {
        let mut deliveries = Deliveries::default();
        for _ in 0..300 {
            deliveries.push(&[Cell::Exact(8e6), Cell::AtLeast(8e5)], has_waited);
        }
        let both = [path(0), path(1)];
        on_time(&deliveries, &question(&both, bytes, 220))
    };
    // 220,000 bytes in 200 ms.
    assert_eq!(answer(false, 250_000.0), None);
    near(answer(true, 250_000.0), 0.0);
    near(answer(true, 210_000.0), 1.0);
}

fn cell() -> impl Strategy<Value = Cell> {
    prop_oneof![
        1 => Just(Cell::Missing),
        6 => (0.0..2e7).prop_map(Cell::Exact),
        3 => (0.0..2e7).prop_map(Cell::AtLeast),
    ]
}

fn path_now(place: usize) -> impl Strategy<Value = PathNow> {
    (0.0..3e5, 0_u64..400, 0.0..2e6, 0.0..1e6).prop_map(
        move |(in_flight_bytes, rtt_ms, bytes_per_s, reserved_bytes_per_s)| PathNow {
            path: place,
            in_flight_bytes,
            rtt_min: Duration::from_millis(rtt_ms),
            bytes_per_s,
            reserved_bytes_per_s,
        },
    )
}

proptest! {
    /// More time or fewer bytes never make it less probable, and it is a probability.
    #[test]
    fn the_probability_is_monotone(
        rows in prop::collection::vec(([cell(), cell()], any::<bool>()), 50..120),
        paths in (path_now(0), path_now(1)),
        bytes in 1.0..1e6,
        more in 0.0..1e6,
        within_ms in 0_u64..4_000,
        longer_ms in 0_u64..4_000,
        phase in 0.0..1.0,
        (expiring_bytes, expires_ms) in (0.0..1e6, 0_u64..4_000),
        is_redundant: bool,
    ) {
        let mut deliveries = Deliveries::default();
        rows.iter().for_each(|(row, has_waited)| deliveries.push(row, *has_waited));
        let paths = [paths.0, paths.1];
        let expires = Duration::from_millis(expires_ms);
        let asked = Question { is_redundant, phase, expiring_bytes, expires, ..question(&paths, bytes, within_ms) };
        let longer = Question { within: asked.within + Duration::from_millis(longer_ms), ..asked };
        let larger = Question { bytes: bytes + more, ..asked };
        let busier = paths.map(|path| PathNow {
            in_flight_bytes: path.in_flight_bytes + more,
            ..path
        });
        // More in flight delays also what is given up at its deadline: without such data, it is never better.
        let plain = Question { expiring_bytes: 0.0, ..asked };
        let busier = Question { paths: &busier, ..plain };
        if let (Some(plain), Some(busier)) =
            (on_time(&deliveries, &plain), on_time(&deliveries, &busier))
        {
            prop_assert!(busier <= plain + 1e-12);
        }
        let answer = on_time(&deliveries, &asked);
        if let Some(answer) = answer {
            prop_assert!((0.0..=1.0).contains(&answer));
            let behind = Question { expiring_bytes: expiring_bytes + more, ..asked };
            for less in [larger, behind] {
                if let Some(less) = on_time(&deliveries, &less) {
                    prop_assert!(less <= answer + 1e-12);
                }
            }
            if let Some(longer) = on_time(&deliveries, &longer) {
                prop_assert!(answer <= longer + 1e-12);
            }
        }
    }
}
