//! Probes: promises within seconds, beside bounds on what they cost.

use crate::common;

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, Rate};
use anabranch_link::RateSource;
use anabranch_session::{
    Config, Grant, Guarantee, LocalDescription, Prior, Refusal, StreamError, StreamSpec,
    metering::{Meter, Model, Period},
};
use anabranch_sim::{
    World,
    apps::{Load, Sender},
};

use common::{link, world};

const FRAME: Duration = Duration::from_millis(40);

fn rate(kbps: u64, probability: f64) -> Guarantee {
    Guarantee::rate(Rate::from_kbps(kbps), probability)
}

fn frames(kbps: u64, guarantee: Option<Guarantee>) -> Load {
    Load {
        spec: StreamSpec {
            guarantee: guarantee.map(Box::new),
            ..StreamSpec::default()
        },
        ..Load::messages(kbps as usize * 5, FRAME, u64::MAX)
    }
}

fn admit(world: &mut World, guarantee: Guarantee) -> Result<Grant, Refusal> {
    let session = world.app::<Sender>(0).session().expect("connected");
    let spec = StreamSpec::default().with_guarantee(guarantee);
    let answer = world.with_node(0, |context| {
        let now = context.now();
        context.engine().session(session)?.admit(now, &spec)
    });
    answer.map_err(|error| match error {
        StreamError::Refused(refusal) => *refusal,
        other => panic!("{other}"),
    })
}

/// The largest rate that would be promised.
fn most(world: &mut World, probability: f64) -> u64 {
    match admit(world, rate(1_000_000, probability)) {
        Err(refusal) => refusal.offer.rate.map_or(0, Rate::as_bps),
        Ok(grant) => panic!("{grant}"),
    }
}

fn run(world: &mut World, until_s: f64) {
    world.run_until(Instant::EPOCH + Duration::from_secs_f64(until_s));
}

/// Bytes that a wire was given to carry.
fn carried(world: &mut World, wire: usize) -> u64 {
    world.wire(wire).duplex.forward.stats().offered.bytes
}

#[test]
fn five_seconds_after_connecting_half_is_promised_of_what_a_minute_shows() {
    for links in [
        vec![link(20, 30)],
        vec![link(8, 60)],
        vec![link(20, 30), link(10, 60)],
        vec![link(2, 80), link(5, 40), link(30, 20)],
    ] {
        let mut world = world(7, links.clone(), vec![frames(1, None)]);
        run(&mut world, 0.5);
        assert_eq!(most(&mut world, 0.9), 0, "nothing is assumed");
        run(&mut world, 5.0);
        let early = [0.75, 0.9, 0.95].map(|p| most(&mut world, p));
        let mut world = common::world(7, links, vec![Load::bulk(1 << 40)]);
        run(&mut world, 60.0);
        let late = [0.75, 0.9, 0.95].map(|p| most(&mut world, p));
        // At 95 %, a little less than half.
        let least = [0.9, 0.7, 0.47];
        for ((early, late), least) in early.into_iter().zip(late).zip(least) {
            let part = early as f64 / late as f64;
            assert!((least..=1.02).contains(&part), "{early} of {late}");
        }
    }
}

#[test]
fn a_stream_that_waits_is_promised_within_seconds_and_its_windows_are_kept() {
    let guarantee = rate(4_000, 0.9);
    let mut world = world(
        8,
        vec![link(20, 30), link(10, 60)],
        vec![frames(4_000, Some(guarantee.waiting()))],
    );
    run(&mut world, 5.0);
    let explained = |world: &mut World| {
        let session = world.app::<Sender>(0).session().expect("connected");
        let stream = anabranch_base::StreamId::new(0, true);
        let session = world.engine(0).session(session).expect("it is open");
        session.stream(stream).explain().expect("it asked")
    };
    assert!(
        explained(&mut world).term.is_some(),
        "{:#?}",
        explained(&mut world)
    );
    run(&mut world, 90.0);
    let after = explained(&mut world);
    assert!(after.term.is_some(), "{after:#?}");
    assert_eq!(after.account.broken, 0, "{after:#?}");
    assert_eq!(after.account.withdrawn, 0, "{after:#?}");
    assert!(after.account.kept >= 80, "{after:#?}");
}

/// Its data leaves no gap, and shows a lower bound of what the path carries.
#[test]
fn a_promise_by_probes_stands_while_its_stream_sends() {
    for (links, kbps, frame_ms) in [
        (vec![link(20, 30)], 2_000, 2),
        (vec![link(20, 30)], 4_000, 40),
        (vec![link(20, 30)], 10_000, 2),
        (vec![link(20, 30), link(10, 60)], 12_000, 2),
    ] {
        let guarantee = rate(kbps, 0.9).waiting();
        let load = Load {
            spec: StreamSpec::default().with_guarantee(guarantee),
            ..Load::messages(
                (kbps * frame_ms / 8) as usize,
                Duration::from_millis(frame_ms),
                u64::MAX,
            )
        };
        let mut world = world(8, links, vec![load]);
        run(&mut world, 120.0);
        let session = world.app::<Sender>(0).session().expect("connected");
        let stream = anabranch_base::StreamId::new(0, true);
        let session = world.engine(0).session(session).expect("it is open");
        let account = session.stream(stream).explain().expect("it asked").account;
        assert_eq!((account.broken, account.withdrawn), (0, 0), "{kbps} kbit/s");
        assert!(account.kept >= 113, "{account:?}, {kbps} kbit/s");
    }
}

/// Evidence of an hour ago is promised with more caution, and not at all once probes show that the capacity is gone.
#[test]
fn evidence_ages_while_a_session_is_idle() {
    let after = |sinks: bool| {
        // 60 s of bulk data.
        let mut world = world(12, vec![link(20, 30)], vec![Load::bulk(145_000_000)]);
        run(&mut world, 58.0);
        let at_once = most(&mut world, 0.95);
        run(&mut world, 62.0);
        if sinks {
            let now = world.now();
            let rate = RateSource::Constant(Rate::from_mbps(5));
            let set = world.wire(0).duplex.forward.set_rate(now, rate);
            set.expect("a valid rate");
        }
        run(&mut world, 3_660.0);
        let later = most(&mut world, 0.95);
        run(&mut world, 3_669.0);
        (at_once, later, most(&mut world, 0.95))
    };
    let (at_once, later, probed) = after(false);
    assert!(at_once > 17_000_000, "{at_once}");
    assert!((later as f64) < 0.9 * at_once as f64, "{later}");
    assert!(probed > 16_000_000, "{probed}");
    let (_, _, probed) = after(true);
    assert!((2_000_000..5_000_000).contains(&probed), "{probed}");
}

#[test]
fn more_than_was_ever_sent_is_promised_after_a_probe_or_refused_with_the_reason() {
    let mut world = world(9, vec![link(20, 30)], vec![frames(1_000, None)]);
    run(&mut world, 60.0);
    assert!(admit(&mut world, rate(8_000, 0.9)).is_err(), "nobody asked");
    run(&mut world, 65.0);
    let grant = admit(&mut world, rate(8_000, 0.9));
    assert!(grant.is_ok(), "{grant:?}");
    let refusal = admit(&mut world, rate(25_000, 0.9)).unwrap_err();
    assert!(
        refusal.to_string().contains("25.5 Mbit/s would be needed"),
        "{refusal}"
    );
}

/// A stream waits for what cannot be, and sends a single message: nearly all that leaves is probes.
#[test]
fn probes_stay_within_their_budget_and_become_rare() {
    let waiting = frames(1, Some(rate(900_000, 0.9).waiting()));
    let once = Load {
        spec: waiting.spec,
        ..Load::messages(1_000, Duration::from_secs(1_000), 2)
    };
    let links = vec![link(20, 30), link(10, 60), link(40, 10)];
    let mut world = world(10, links, vec![once]);
    let sent: Vec<u64> = (1..600)
        .map(|second| {
            run(&mut world, f64::from(second));
            (0..3).map(|wire| carried(&mut world, wire)).sum()
        })
        .collect();
    eprintln!("{:?}", sent.iter().take(40).collect::<Vec<_>>());
    let in_ten = || sent.windows(11).map(|ten| ten[10] - ten[0]);
    // The rest is what keeps the paths alive, and acknowledges reports.
    let most = in_ten().max().unwrap();
    assert!((50_000..70_000).contains(&most), "{most}");
    let last = in_ten().next_back().unwrap();
    assert!(last < 24_000, "{last}");
    assert!(sent[598] - sent[0] < 1_100_000, "{}", sent[598] - sent[0]);
}

#[test]
fn metered_paths_are_not_probed_unless_that_is_permitted() {
    let [unasked, refused, permitted] =
        [(false, false), (true, false), (true, true)].map(|(asks, metered)| {
            let mut config = Config::default();
            config.probing.metered = metered;
            let mut world =
                common::world_with(11, config, vec![link(20, 30)], vec![frames(1, None)]);
            let socket = world.link(0, 0).socket;
            let model: Model = "0.02/MB".parse().expect("a price");
            let (now, meter) = (world.now(), Meter::new(model, Period(1), 0));
            world.engine(0).set_meter(now, socket, Some(meter));
            run(&mut world, 1.0);
            if asks {
                let _ = admit(&mut world, rate(1_000, 0.9));
            }
            run(&mut world, 12.0);
            carried(&mut world, 0)
        });
    assert!(refused < unasked + 500, "{refused} {unasked}");
    assert!(permitted > unasked + 15_000, "{permitted} {unasked}");
}

/// Knowledge of an interface from one session makes the promises of the next one larger, after a restart as well.
#[test]
fn an_interface_that_was_steady_is_promised_most_of_its_rate_within_seconds() {
    let described = |world: &mut World| {
        let socket = world.link(0, 0).socket;
        world.engine(0).describe_socket(
            socket,
            LocalDescription {
                name: Some("lte0".into()),
                ..LocalDescription::default()
            },
        );
    };
    let mut before = world(12, vec![link(20, 30)], vec![Load::bulk(1 << 40)]);
    described(&mut before);
    assert!(before.engine(0).evidence().is_empty(), "nothing is known");
    run(&mut before, 60.0);
    let learnt = before.engine(0).evidence();
    let (shares, windows) = learnt["lte0"];
    assert!(windows >= 50 && shares[4] > 0.8, "{learnt:?}");

    let early = |weight| {
        let prior = Prior { shares, weight };
        let config = Config {
            priors: Arc::new([("lte0".into(), prior)].into()),
            ..Config::default()
        };
        let mut after = common::world_with(13, config, vec![link(20, 30)], vec![frames(1, None)]);
        described(&mut after);
        run(&mut after, 0.5);
        let _ = admit(&mut after, rate(1_000, 0.9));
        run(&mut after, 5.0);
        [0.95, 0.99].map(|probability| most(&mut after, probability))
    };
    // The link's 20 Mbit/s have room for 18.7 of a stream's own.
    let [at_95, at_99] = early(1.0);
    assert!(at_95 > 16_000_000 && at_99 > 14_000_000, "{at_95} {at_99}");
    let [without, nothing] = early(0.0);
    assert!(without < 12_000_000, "{without}");
    assert_eq!(nothing, 0);
}
