//! Path preferences and redundancy of streams: which paths carry their data, and what happens when paths fail.

use crate::common;

use std::time::Duration;

use anabranch_base::{Instant, Rate, StreamId};
use anabranch_session::{
    Guarantee, LocalDescription, Preferences, Profile, StreamParameters, StreamSpec,
    metering::{Meter, Model, Period},
};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

use common::link;

const SENDER: usize = 0;
const RECEIVER: usize = 1;
/// Bytes of handshakes, probes and acknowledgements on a path that carries no data, in some seconds.
const IDLE_BYTES: u64 = 60_000;

fn rules(texts: &[&str]) -> Preferences {
    let rules = texts.iter().map(|text| text.parse().unwrap()).collect();
    Preferences::new(rules).unwrap()
}

fn with_rules(load: Load, texts: &[&str]) -> Load {
    let spec = StreamSpec {
        paths: rules(texts),
        ..load.spec
    };
    Load { spec, ..load }
}

/// Links named `eth0` (fibre, 20 Mbit/s, 20 ms) and `wwan0` (LTE, 10 Mbit/s, 60 ms).
fn named(seed: u64, loads: Vec<Load>) -> World {
    let mut world = common::world(seed, [link(20, 20), link(10, 60)], loads);
    for (index, (name, technology)) in [("eth0", "fibre"), ("wwan0", "lte")]
        .into_iter()
        .enumerate()
    {
        let socket = world.link(SENDER, index).socket;
        let description = LocalDescription {
            name: Some(name.into()),
            technology: Some(technology.into()),
            ..LocalDescription::default()
        };
        world.engine(SENDER).describe_socket(socket, description);
    }
    world
}

fn set_price(world: &mut World, wire: usize, price: &str) {
    let socket = world.link(SENDER, wire).socket;
    let model: Model = price.parse().unwrap();
    let (now, meter) = (world.now(), Meter::new(model, Period(1), 0));
    world.engine(SENDER).set_meter(now, socket, Some(meter));
    world.with_node(SENDER, |_| ());
}

fn carried(world: &mut World, wire: usize) -> u64 {
    world.wire(wire).duplex.forward.stats().offered.bytes
}

fn run(world: &mut World, until: u64) -> bool {
    world.run_while(Instant::from_secs(until), |w| {
        !w.app::<Sender>(SENDER).is_done()
    });
    world.app::<Sender>(SENDER).is_done()
}

fn assert_whole(world: &mut World, label: &str, adus: u64) {
    let mut numbers = world.app::<Receiver>(RECEIVER).record(label).numbers;
    numbers.sort_unstable();
    assert_eq!(numbers, (0..adus).collect::<Vec<u64>>(), "each once");
    assert_eq!(world.audit(), Vec::<String>::new());
}

#[test]
fn bulk_data_keeps_off_a_path_with_a_price_until_no_other_works() {
    let load = Load::bulk(8_000_000);
    let adus = load.adus;
    let mut world = named(1, vec![load]);
    set_price(&mut world, 1, "0.01/MB");
    assert!(!run(&mut world, 2));
    let idle = carried(&mut world, 1);
    assert!(idle < IDLE_BYTES, "{idle}");
    world.set_wire_up(0, false);
    assert!(run(&mut world, 60));
    let busy = carried(&mut world, 1);
    assert!(busy > 2_000_000, "{busy}");
    assert_whole(&mut world, "bulk", adus);
}

#[test]
fn urgent_data_overflows_to_a_path_with_a_price() {
    // 24 Mbit/s: more than the free path holds.
    let load = Load::messages(30_000, Duration::from_millis(10), 300);
    let mut world = named(2, vec![load]);
    set_price(&mut world, 1, "0.01/MB");
    assert!(run(&mut world, 30));
    let priced = carried(&mut world, 1);
    assert!(priced > 500_000, "{priced}");
    assert_whole(&mut world, "messages", 300);
}

#[test]
fn a_path_that_is_never_to_be_used_carries_nothing_even_alone() {
    let load = with_rules(Load::bulk(4_000_000), &["never interface=wwan*"]);
    let adus = load.adus;
    let mut world = named(3, vec![load]);
    assert!(!run(&mut world, 1));
    world.set_wire_up(0, false);
    assert!(!run(&mut world, 20), "it waits for its path");
    let idle = carried(&mut world, 1);
    assert!(idle < IDLE_BYTES, "{idle}");
    world.set_wire_up(0, true);
    assert!(run(&mut world, 60));
    assert_whole(&mut world, "bulk", adus);
}

#[test]
fn light_data_stays_on_the_preferred_path_and_heavy_data_overflows() {
    let light = Load::messages(1_000, Duration::from_millis(20), 200);
    let mut world = named(4, vec![with_rules(light, &["prefer interface=wwan0"])]);
    assert!(run(&mut world, 30));
    let other = carried(&mut world, 0);
    assert!(other < IDLE_BYTES, "{other}");
    assert_whole(&mut world, "messages", 200);

    let heavy = with_rules(Load::bulk(8_000_000), &["prefer interface=wwan0"]);
    let adus = heavy.adus;
    let mut world = named(5, vec![heavy]);
    assert!(run(&mut world, 30));
    for wire in 0..2 {
        let bytes = carried(&mut world, wire);
        assert!(bytes > 2_000_000, "{bytes} on {wire}");
    }
    assert_whole(&mut world, "bulk", adus);
}

#[test]
fn every_packet_of_a_redundant_stream_goes_over_both_paths() {
    let messages = Load::messages(1_000, Duration::from_millis(20), 300);
    let spec = StreamSpec {
        redundant: true,
        ..messages.spec
    };
    let mut world = named(6, vec![Load { spec, ..messages }]);
    world.run_until(Instant::from_secs(3));
    for wire in 0..2 {
        let bytes = carried(&mut world, wire);
        assert!(bytes > 130_000, "{bytes} on {wire}: 150 messages");
    }
    // The near path goes silent: no message is later than the far path's delay.
    world.set_wire_up(0, false);
    assert!(run(&mut world, 30));
    let record = world.app::<Receiver>(RECEIVER).record("messages");
    let latest = record.delay_quantile(1.0);
    assert!(latest <= Duration::from_millis(35), "{latest:?}");
    assert_whole(&mut world, "messages", 300);
}

#[test]
fn a_stream_becomes_redundant_and_ceases_to_be() {
    let messages = Load::messages(1_000, Duration::from_millis(20), 450);
    let mut world = named(6, vec![messages]);
    let adjust = |world: &mut World, redundant: bool| {
        let id = world.app::<Sender>(SENDER).session().expect("it is up");
        let changed = StreamParameters {
            redundant: Some(redundant),
            ..StreamParameters::default()
        };
        world.with_node(SENDER, |context| {
            let engine = context.engine();
            engine
                .session(id)
                .expect("it is open")
                .stream(StreamId(0))
                .adjust(changed)
                .expect("in range");
        });
    };
    // Bytes on the far path in each of three spans.
    let mut far = [0; 3];
    let mut before = 0;
    for (index, redundant) in [false, true, false].into_iter().enumerate() {
        world.run_until(Instant::from_millis(500 + 2_500 * index as u64));
        adjust(&mut world, redundant);
        world.run_until(Instant::from_millis(3_000 + 2_500 * index as u64));
        let carried = carried(&mut world, 1);
        far[index] = carried - before;
        before = carried;
    }
    assert!(far[1] > 110_000, "125 messages: {far:?}");
    assert!(far[0] < 40_000 && far[2] < 40_000, "{far:?}");
    assert!(run(&mut world, 30));
    assert_whole(&mut world, "messages", 450);
}

#[test]
fn a_promise_is_made_only_on_paths_that_the_preferences_permit() {
    let warm = Load {
        adus: u64::MAX,
        ..Load::bulk(1)
    };
    let mut world = named(7, vec![warm]);
    world.run_until(Instant::from_secs(40));
    let session = world.app::<Sender>(SENDER).session().unwrap();
    let mut admit = |mbps: u64, texts: &[&str]| {
        let guarantee = Guarantee::rate(Rate::from_mbps(mbps), 0.9);
        let spec = StreamSpec {
            paths: rules(texts),
            ..StreamSpec::default().with_guarantee(guarantee)
        };
        world.with_node(SENDER, |context| {
            let now = context.now();
            let mut session = context.engine().session(session).unwrap();
            session.admit(now, &spec).map(|grant| grant.to_string())
        })
    };
    assert!(admit(12, &[]).is_ok());
    assert!(admit(12, &["never interface=wwan*"]).is_ok());
    assert!(admit(12, &["never interface=eth*"]).is_err());
    assert!(admit(6, &["never interface=eth*"]).is_ok());
    assert!(admit(6, &["backup interface=wwan*"]).is_ok());
    assert!(admit(22, &["backup interface=wwan*"]).is_err());
    assert!(admit(1, &["never any"]).is_err());

    // In force, it is served where it may be: the rest of the data leaves capacity there.
    let spec = StreamSpec {
        paths: rules(&["never interface=eth*"]),
        ..StreamSpec::default().with_guarantee(Guarantee::rate(Rate::from_mbps(6), 0.9))
    };
    let opened = world.with_node(SENDER, |context| {
        let now = context.now();
        let mut session = context.engine().session(session).unwrap();
        session.open_stream(now, spec)
    });
    let stream: StreamId = opened.unwrap();
    let engine = world.engine(SENDER).session(session).unwrap();
    let explained = engine.stream(stream).explain().unwrap();
    assert_eq!(explained.shares.len(), 1, "{explained:?}");
}

/// Bytes that go over each path of 4 MB of bulk data under these rules, with these prices.
fn shares(seed: u64, rules: &[&str], prices: [&str; 2]) -> [u64; 2] {
    let load = with_rules(Load::bulk(4_000_000), rules);
    let adus = load.adus;
    let mut world = named(seed, vec![load]);
    for (wire, price) in prices.into_iter().enumerate() {
        set_price(&mut world, wire, price);
    }
    assert!(run(&mut world, 60), "{rules:?} {prices:?}");
    assert_whole(&mut world, "bulk", adus);
    [0, 1].map(|wire| carried(&mut world, wire))
}

/// Asserts that bulk data uses only one of the paths under the rules, and both without them.
fn decides(seed: u64, rules: &[&str], prices: [&str; 2], used: usize) {
    let bytes = shares(seed, rules, prices);
    // A backup is used until another path is up.
    let other_max = match rules[0].starts_with("backup") {
        true => 300_000,
        false => IDLE_BYTES,
    };
    assert!(bytes[used] > 3_700_000, "{rules:?} {prices:?}: {bytes:?}");
    assert!(
        bytes[1 - used] < other_max,
        "{rules:?} {prices:?}: {bytes:?}"
    );
    let bytes = shares(seed, &["neutral any"], prices);
    assert!(bytes.iter().all(|&bytes| bytes > 500_000), "{bytes:?}");
}

#[test]
fn every_selector_decides_which_path_carries_the_data() {
    let free = ["free", "free"];
    let money = ["0.01/MB", "0.05/MB"];
    let energy = ["2 J/MB", "0.1 J/MB"];
    decides(8, &["never interface=eth*"], free, 1);
    decides(9, &["never technology=lte"], free, 0);
    decides(10, &["backup technology=fibre"], free, 1);
    decides(11, &["never price>0.02/MB", "neutral any"], money, 0);
    decides(12, &["backup price>0.02/MB", "neutral any"], money, 0);
    decides(13, &["never energy>1J/MB", "neutral any"], energy, 1);
    decides(14, &["backup energy>1J/MB", "neutral any"], energy, 1);
    // Money and energy are not compared with each other.
    decides(
        15,
        &["never energy", "neutral any"],
        ["0.01/MB", "0.1 J/MB"],
        0,
    );
    decides(
        16,
        &["never price", "neutral any"],
        ["0.01/MB", "0.1 J/MB"],
        1,
    );
    decides(17, &["never metered"], ["1 GB then stop", "free"], 1);
}

#[test]
fn light_data_goes_where_it_is_preferred_and_keeps_off_what_it_avoids() {
    for (rule, prices, used) in [
        ("avoid interface=eth0", ["free", "free"], 1),
        ("avoid technology=fibre", ["free", "free"], 1),
        ("prefer technology=lte", ["free", "free"], 1),
        ("avoid energy>1J/MB", ["2 J/MB", "free"], 1),
        ("prefer price>0.02/MB", ["0.01/MB", "0.03/MB"], 1),
        ("avoid price>0.02/MB", ["0.01/MB", "0.03/MB"], 0),
    ] {
        let light = Load::messages(1_000, Duration::from_millis(20), 200);
        let mut world = named(18, vec![with_rules(light, &[rule, "neutral any"])]);
        for (wire, price) in prices.into_iter().enumerate() {
            set_price(&mut world, wire, price);
        }
        assert!(run(&mut world, 30));
        let other = carried(&mut world, 1 - used);
        assert!(other < IDLE_BYTES, "{rule}: {other}");
        assert_whole(&mut world, "messages", 200);
        // What does not fit on the other path overflows.
        let heavy = with_rules(Load::bulk(8_000_000), &[rule, "neutral any"]);
        let mut world = named(19, vec![heavy]);
        for (wire, price) in prices.into_iter().enumerate() {
            set_price(&mut world, wire, price);
        }
        assert!(run(&mut world, 30));
        for wire in 0..2 {
            let bytes = carried(&mut world, wire);
            assert!(bytes > 1_000_000, "{rule}: {bytes} on {wire}");
        }
    }
}

#[test]
fn a_price_that_a_quota_hides_counts_when_the_quota_is_used_up() {
    let load = with_rules(Load::bulk(12_000_000), &["never price>0.02/MB"]);
    let adus = load.adus;
    let mut world = named(20, vec![load]);
    set_price(&mut world, 1, "1 MB then 0.05/MB");
    assert!(run(&mut world, 60));
    let quota = carried(&mut world, 1);
    let expected = 900_000..1_000_000 + IDLE_BYTES;
    assert!(expected.contains(&quota), "{quota}");
    assert_whole(&mut world, "bulk", adus);
}

#[test]
fn beside_data_that_needs_a_priced_path_the_rest_stays_off_it() {
    // 24 Mbit/s of messages fill the free path, and need 4 of the 10 Mbit/s of the other; 6 are left.
    let messages = Load::messages(30_000, Duration::from_millis(10), 1_000);
    let mut world = named(21, vec![messages, Load::bulk(1 << 40)]);
    set_price(&mut world, 1, "0.01/MB");
    world.run_until(Instant::from_secs(10));
    let priced = carried(&mut world, 1);
    let (needed, all) = (5_000_000, 12_500_000);
    assert!(priced > needed / 2, "{priced}");
    assert!(priced < (needed + all) / 2, "{priced}");
    assert_eq!(world.audit(), Vec::<String>::new());
}

#[test]
fn background_data_leaves_a_quota_to_others() {
    let of = |profile: Profile| {
        let load = Load::bulk(4_000_000);
        let spec = StreamSpec {
            label: "bulk".into(),
            ..profile.spec()
        };
        let mut world = named(22, vec![Load { spec, ..load }]);
        set_price(&mut world, 1, "100 MB then stop");
        assert!(run(&mut world, 60));
        carried(&mut world, 1)
    };
    assert!(of(Profile::Background) < IDLE_BYTES);
    assert!(
        of(Profile::Bulk) > 500_000,
        "what is left of a quota has no price"
    );
}
