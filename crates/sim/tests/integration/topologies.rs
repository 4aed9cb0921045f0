//! Named topologies, compared with their papers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch_base::{Instant, Seed};
use anabranch_link::{Duplex, Recording, Traffic, Verdict, traffic::Replay};
use anabranch_session::{AllowList, Config, Controller};
use anabranch_sim::{
    Hop, Topology, World,
    apps::{Load, Receiver, Sender},
    topology::{
        DIRECT, HORDE_CHANNELS, Laid, PACKET_BYTES, PATH_A, PATH_B, VIA_GATECH, figure8,
        figure8_with, horde_six, random, three_sites,
    },
};

/// A world with this network, a sender and a receiver; the named routes are dialled at once.
fn world(topology: &Topology, seed: u64, loads: Vec<Load>, routes: &[&str]) -> (World, Laid) {
    let mut world = World::new(Seed(seed));
    let mut config = Config::default();
    config.channel.controller = Controller::Cubic;
    let sender = Sender::new(World::node_id(1), loads);
    let a = world.add_node(config.clone(), AllowList::default(), sender);
    let b = world.add_node(config, AllowList::of([World::node_id(0)]), Receiver::new());
    let laid = topology.lay(&mut world).expect("a valid plan");
    let links = routes
        .iter()
        .map(|name| {
            laid.connect_by(&mut world, [a, b], name)
                .expect("a route")
                .1
        })
        .collect();
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    (world, laid)
}

/// Rate that cross-traffic leaves on the wire from one point to the next in each second, in Mbit/s, sorted.
fn available_mbps(topology: &Topology, seed: u64, via: [&str; 2], seconds: usize) -> Vec<f64> {
    let left = topology.available_bps(Seed(seed), via, (Duration::from_secs(1), seconds));
    let left = left.expect("a valid plan").expect("a wire");
    let mut left: Vec<f64> = left.into_iter().map(|bps| bps / 1e6).collect();
    left.sort_by(f64::total_cmp);
    left
}

fn mean_and_deviation(samples: &[f64]) -> (f64, f64) {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let square = |x: &f64| (x - mean).powi(2);
    let variance = samples.iter().map(square).sum::<f64>() / count;
    (mean, variance.sqrt())
}

/// The value exceeded with this probability.
fn exceeded(sorted: &[f64], probability: f64) -> f64 {
    sorted[(sorted.len() as f64 * (1.0 - probability)) as usize]
}

/// IQ-Paths Table III: WFQ used path B alone and got 45.84 Mbit/s, with a deviation of 11.4, above 24.9 in
/// 95 % and 19.7 in 99 % of the time; MSFQ got 84.4 from both.
#[test]
fn figure8_leaves_what_table_iii_found() {
    let topology = figure8();
    let b = available_mbps(&topology, 1, ["N-2", "N-4"], 1_500);
    let (mean, deviation) = mean_and_deviation(&b);
    assert!((mean - 45.8).abs() < 2.0, "path B: {mean}");
    assert!((deviation - 11.4).abs() < 1.2, "path B: {deviation}");
    assert!(
        (exceeded(&b, 0.95) - 24.9).abs() < 4.5,
        "{}",
        exceeded(&b, 0.95)
    );
    assert!(
        (exceeded(&b, 0.99) - 19.7).abs() < 4.5,
        "{}",
        exceeded(&b, 0.99)
    );

    let a = available_mbps(&topology, 1, ["N-3", "N-5"], 1_500);
    let (mean_a, deviation_a) = mean_and_deviation(&a);
    eprintln!(
        "MEASURE B {mean} {deviation} p5 {} p1 {} A {mean_a} {deviation_a} p1 {}",
        exceeded(&b, 0.95),
        exceeded(&b, 0.99),
        exceeded(&a, 0.99)
    );
    assert!((mean_a - 38.6).abs() < 1.0, "path A: {mean_a}");
    assert!(mean_a < mean && deviation_a < deviation / 3.0);
    // Table II: Atom and Bond1, 3.249 and 22.148 Mbit/s, fit into path A for 99 % of the time, and not into
    // path B.
    let needed = 3.249 + 22.148;
    assert!(exceeded(&a, 0.99) > needed);
    assert!(exceeded(&b, 0.99) < needed);
}

#[test]
fn figure8_carries_its_cross_traffic_and_two_paths() {
    let topology = figure8();
    let loads = vec![Load::bulk(u64::MAX)];
    let (mut world, laid) = world(&topology, 2, loads, &[PATH_A, PATH_B]);
    world.run_until(Instant::from_secs(10));
    let session = world.app::<Sender>(0).session().unwrap();
    let channels = world
        .engine(0)
        .session(session)
        .map(|mut session| session.channel_stats())
        .unwrap_or_default();
    assert_eq!(channels.len(), 2);
    for channel in channels {
        // 12 ms one way, and 0.12 ms to send a packet on each of three hops.
        let rtt_min = channel.stats.rtt_min;
        let range = Duration::from_millis(24)..Duration::from_millis(26);
        assert!(range.contains(&rtt_min), "{rtt_min:?}");
    }
    let record = world.app::<Receiver>(1).record("bulk");
    let mbps = record.bytes as f64 * 8e-6 / 10.0;
    // Both leave 84 Mbit/s on average; cubic under bursts gets less.
    assert!((45.0..95.0).contains(&mbps), "{mbps}");
    for (from, to) in [("N-3", "N-5"), ("N-2", "N-4")] {
        let wire = laid.wire(from, to).unwrap();
        let busy = world.wire(wire).arrived(true).bytes as f64 * 8e-6 / 10.0;
        assert!((80.0..100.1).contains(&busy), "{from} to {to}: {busy}");
    }
    assert_eq!(world.audit(), Vec::<String>::new());
}

/// Recorded packets replayed over the shared wires, as in the paper. The recording has the format of the Bellcore files
/// and is synthetic: frames of 64 and 1518 bytes in turn, 1 ms apart.
#[test]
fn figure8_replays_recordings() {
    let line = |index: u32| {
        let frame = if index.is_multiple_of(2) { 64 } else { 1518 };
        format!("{:12.6} {frame:5} \n", 0.5 + f64::from(index) / 1e3)
    };
    let text: String = (0..10_000).map(line).collect();
    let recording = Arc::new(Recording::parse("made up", text.as_bytes()).unwrap());
    // 46 and 1500 bytes each 2 ms: 6.184 Mbit/s.
    let play = |speed, start| {
        Traffic::Replay(Replay {
            recording: recording.clone(),
            speed,
            start: Duration::from_secs(start),
        })
    };
    let slow = [0, 3, 6].map(|start| play(2.0, start));
    let fast = [0, 3, 6].map(|start| play(4.0, start));
    let topology = figure8_with(slow, fast);
    let (mut world, laid) = world(&topology, 1, vec![], &[PATH_A]);
    world.run_until(Instant::from_secs(20));
    for ((from, to), mbps) in [(("N-3", "N-5"), 37.1), (("N-2", "N-4"), 74.2)] {
        let wire = laid.wire(from, to).unwrap();
        let carried = world.wire(wire).arrived(true).bytes as f64 * 8e-6 / 20.0;
        assert!((carried - mbps).abs() < 0.2, "{from} to {to}: {carried}");
    }
    assert_eq!(world.audit(), Vec::<String>::new());
}

/// Daemons §3 and Table 1: 35 ms at least; means of 21 transfers of 1.14 Mbit/s direct and 2.41 over both.
#[test]
fn three_sites_leave_what_table_1_found() {
    let topology = three_sites();
    let direct = mean_and_deviation(&available_mbps(&topology, 1, ["ORNL", "LSU"], 4_000)).0;
    assert!((direct - 1.14).abs() < 0.06, "{direct}");
    let second = mean_and_deviation(&available_mbps(&topology, 1, ["GaTech", "LSU"], 4_000)).0;
    assert!((direct + second - 2.41).abs() < 0.12, "{second}");
}

#[test]
fn two_paths_between_the_sites_carry_twice_as_much_as_one() {
    let bytes = 10_000_000;
    let mbps = |routes: &[&str]| {
        let (mut world, _) = world(&three_sites(), 4, vec![Load::bulk(bytes)], routes);
        world.run_while(Instant::from_secs(400), |w| !w.app::<Sender>(0).is_done());
        assert!(world.app::<Sender>(0).is_done(), "{routes:?}");
        let session = world.app::<Sender>(0).session().unwrap();
        let channels = world
            .engine(0)
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        let rtt_min = channels.iter().map(|c| c.stats.rtt_min).min().unwrap();
        let seconds = world.app::<Receiver>(1).record("bulk").last_at.unwrap();
        (rtt_min, bytes as f64 * 8e-6 / seconds.as_secs_f64())
    };
    let (rtt_min, one) = mbps(&[DIRECT]);
    let range = Duration::from_millis(70)..Duration::from_millis(80);
    assert!(range.contains(&rtt_min), "{rtt_min:?}");
    // Table 1: 0.66 to 1.88 Mbit/s with one, 1.13 to 4.26 with two, 2.1 times as much on average.
    assert!((0.66..1.88).contains(&one), "{one}");
    let (_, two) = mbps(&[DIRECT, VIA_GATECH]);
    assert!((1.13..4.26).contains(&two), "{two}");
    assert!((1.6..2.6).contains(&(two / one)), "{two} of {one}");
}

/// Horde Figure 7-5: round trips are Gaussian; Figure 7-6: bursts of powers of two, each a fifth as frequent as the one
/// before.
#[test]
fn horde_channels_are_those_of_the_figures() {
    for (index, channel) in HORDE_CHANNELS.iter().enumerate() {
        let seed = Seed(index as u64);
        let mut duplex = Duplex::new(channel.configs(), seed).unwrap();
        let (mut round_trips, mut lost, mut run) = (Vec::new(), 0u32, 0u32);
        let mut runs: BTreeMap<u32, u32> = BTreeMap::new();
        // A packet every two seconds finds the channel idle; the answer is small.
        let packets = 60_000;
        for number in 0..packets {
            let sent = Instant::from_secs(2 * number);
            let Verdict::Deliver { at, .. } = duplex.forward.offer(sent, PACKET_BYTES, false)
            else {
                lost += 1;
                run += 1;
                continue;
            };
            if run > 0 {
                *runs.entry(run).or_default() += 1;
                run = 0;
            }
            let Verdict::Deliver { at, .. } = duplex.backward.offer(at, 40, false) else {
                panic!("the reverse path loses nothing");
            };
            round_trips.push(at.since(sent).as_secs_f64());
        }
        let name = channel.name;
        let (mean, deviation) = mean_and_deviation(&round_trips);
        // The answer takes 5 ms at most.
        let off = mean - channel.rtt_mean.as_secs_f64();
        assert!((0.0..0.007).contains(&off), "{name}: {mean}");
        let ratio = deviation / channel.rtt_deviation.as_secs_f64();
        assert!((ratio - 1.0).abs() < 0.03, "{name}: {deviation}");
        // Gaussian: 68.3 % within one deviation.
        let near = |rtt: &&f64| (**rtt - mean).abs() < deviation;
        let share = round_trips.iter().filter(near).count() as f64 / round_trips.len() as f64;
        assert!((share - 0.683).abs() < 0.01, "{name}: {share}");

        let loss = f64::from(lost) / packets as f64;
        assert!((loss / channel.loss - 1.0).abs() < 0.2, "{name}: {loss}");
        let total: u32 = runs.values().sum();
        for (&length, &count) in &runs {
            assert!(length.is_power_of_two() && length <= channel.burst_max);
            let doublings = length.ilog2() as i32;
            let longer: f64 = (1..=channel.burst_max.ilog2() as i32)
                .map(|i| 0.2f64.powi(i))
                .sum();
            let share = if length == 1 {
                1.0 - longer
            } else {
                0.2f64.powi(doublings)
            };
            let expected = share * f64::from(total);
            // Four deviations of the count.
            let tolerance = 4.0 * expected.sqrt() + 1.0;
            assert!(
                (f64::from(count) - expected).abs() < tolerance,
                "{name}: {count} bursts of {length}, expected {expected}"
            );
        }
        assert!(runs.contains_key(&1) && runs.contains_key(&2), "{name}");
    }
}

#[test]
fn a_session_holds_over_hordes_six_channels() {
    let names = HORDE_CHANNELS.map(|channel| channel.name);
    let loads = vec![Load::bulk(1_000_000)];
    let (mut world, _) = world(&horde_six(), 1, loads, &names);
    world.run_while(Instant::from_secs(300), |w| !w.app::<Sender>(0).is_done());
    assert!(world.app::<Sender>(0).is_done(), "at {}", world.now());
    let record = world.app::<Receiver>(1).record("bulk");
    assert_eq!(record.corrupt, 0);
    let kbps = record.bytes as f64 * 8e-3 / record.last_at.unwrap().as_secs_f64();
    // The two CDMA channels have 120 kbit/s each, all six have 328.
    assert!((120.0..328.0).contains(&kbps), "{kbps}");
    let session = world.app::<Sender>(0).session().unwrap();
    assert_eq!(
        world
            .engine(0)
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default()
            .len(),
        6
    );
}

#[test]
fn random_networks_match_their_ground_truth() {
    let (mut shared, mut apart, mut flows) = (0, 0, 0);
    for seed in 0..60 {
        let drawn = random(Seed(seed));
        assert_eq!(drawn, random(Seed(seed)));
        let topology = &drawn.topology;
        let routes = topology.routes.len();
        assert!((2..=4).contains(&routes));
        assert_eq!(drawn.bottleneck_of.len(), routes);
        for (route, plan) in topology.routes.iter().enumerate() {
            // The narrowest wire of the route is its bottleneck, with and without the load.
            let truth = &drawn.bottlenecks[drawn.bottleneck_of[route]];
            let left = |pair: &[String]| {
                let rate = topology.config(&pair[0], &pair[1]).unwrap().rate.mean();
                let load = topology.load_bps(&pair[0], &pair[1]);
                (rate.unwrap().as_bps(), rate.unwrap().as_bps() - load)
            };
            let narrowest = plan.via.windows(2).min_by_key(|pair| left(pair).0).unwrap();
            let tightest = plan.via.windows(2).min_by_key(|pair| left(pair).1).unwrap();
            assert_eq!(narrowest, truth.between);
            assert_eq!(tightest, truth.between);
            let (rate_bps, left_bps) = left(narrowest);
            assert_eq!(rate_bps, truth.rate.as_bps());
            assert_eq!(rate_bps - left_bps, truth.load.as_bps());
            let load = truth.load.as_bps() as f64 / rate_bps as f64;
            assert!((0.19..0.86).contains(&load), "seed {seed}: {load}");
        }
        for one in 0..routes {
            for other in 0..one {
                // Two routes share a bottleneck exactly if they have a wire in common.
                let [a, b] = [one, other].map(|route| &topology.routes[route].via);
                let common = a.windows(2).any(|pair| b.windows(2).any(|p| p == pair));
                assert_eq!(drawn.shares(one, other), common);
                *(if common { &mut shared } else { &mut apart }) += 1;
            }
        }
        flows += topology.flows.len();
        topology.lay(&mut World::new(Seed(seed))).unwrap();
    }
    assert!(
        shared > 30 && apart > 30 && flows > 10,
        "{shared} {apart} {flows}"
    );
}

/// The truth can be observed: the queues along two routes rise and fall together if they share a bottleneck. Not in
/// every pair, since a bottleneck may be lightly loaded and the private wires have queues, too.
#[test]
fn routes_that_share_a_bottleneck_see_the_same_queue() {
    let mut correlations = [Vec::new(), Vec::new()];
    for seed in 0..12 {
        let drawn = random(Seed(seed));
        let mut world = World::new(Seed(seed));
        let laid = drawn.topology.lay(&mut world).unwrap();
        let plans = &drawn.topology.routes;
        // Ten times a second, after the flows have begun.
        world.run_until(Instant::from_secs(3));
        let mut delays = vec![Vec::new(); plans.len()];
        for _ in 0..200 {
            world.run_for(Duration::from_millis(100));
            let now = world.now();
            for (plan, delays) in plans.iter().zip(&mut delays) {
                let hops = laid.hops(&plan.name).unwrap();
                let mut delay =
                    |hop: &Hop| world.wire(hop.wire).one_way(hop.forward).queue_delay(now);
                let sum: Duration = hops.iter().map(&mut delay).sum();
                delays.push(sum.as_secs_f64());
            }
        }
        for one in 0..plans.len() {
            for other in 0..one {
                let same = correlation(&delays[one], &delays[other]);
                correlations[usize::from(drawn.shares(one, other))].push(same);
            }
        }
        assert_eq!(world.audit(), Vec::<String>::new());
    }
    let [(apart, spread), (shared, _)] = correlations.each_ref().map(|c| mean_and_deviation(c));
    assert!(correlations.iter().all(|c| c.len() >= 8));
    assert!(shared > 0.7, "shared: {shared}");
    assert!(
        apart.abs() < 0.2 && spread < 0.3,
        "apart: {apart} ± {spread}"
    );
}

fn correlation(xs: &[f64], ys: &[f64]) -> f64 {
    let ((x_mean, x_deviation), (y_mean, y_deviation)) =
        (mean_and_deviation(xs), mean_and_deviation(ys));
    let products = xs.iter().zip(ys).map(|(x, y)| (x - x_mean) * (y - y_mean));
    products.sum::<f64>() / xs.len() as f64 / (x_deviation * y_deviation).max(1e-12)
}
