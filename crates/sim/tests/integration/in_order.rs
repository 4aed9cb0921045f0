//! Pictures of several packets on an unreliable ordered stream, over paths of different delays that lose packets.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Loss, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

const LIFETIME: Duration = Duration::from_millis(800);
const PICTURES: u64 = 500;

fn path(mbps: u64, delay_ms: u64, loss: Loss) -> Configs {
    let way = |loss| LinkConfig {
        rate: RateSource::Constant(Rate::from_mbps(mbps)),
        delay: Duration::from_millis(delay_ms),
        loss,
        ..LinkConfig::default()
    };
    Configs {
        forward: way(loss),
        backward: way(Loss::None),
    }
}

/// Twenty seconds of pictures of 9,000 bytes, 25 a second. Returns the world, with the receiver as node 1.
fn play(seed: u64, paths: impl IntoIterator<Item = Configs>, cut: Option<Duration>) -> World {
    let mut world = World::new(Seed(seed));
    let spec = StreamSpec {
        reliable: false,
        notify: true,
        lifetime: Some(LIFETIME),
        label: "video".into(),
        ..StreamSpec::default()
    };
    let load = Load {
        spec,
        adu_bytes: 9_000,
        every: Some(Duration::from_millis(40)),
        adus: PICTURES,
        start: Instant::from_secs(1),
    };
    let sender = Sender::new(World::node_id(1), vec![load]);
    let a = world.add_node(Config::default(), AllowList::default(), sender);
    let allowed = AllowList::of([World::node_id(0)]);
    let b = world.add_node(Config::default(), allowed, Receiver::new());
    let mut links = Vec::new();
    for configs in paths {
        let wire = world.add_wire(a, b, configs).expect("a valid link");
        links.push(world.link(a, wire));
    }
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    if let Some(at) = cut {
        world.schedule(at, |world| world.set_wire_up(0, false));
    }
    world.run_until(Instant::from_secs(24));
    world
}

#[test]
fn a_picture_that_is_complete_later_than_the_next_one_is_shown() {
    // The load needs both paths, so that pictures overtake each other.
    let paths = [path(1, 15, Loss::None), path(1, 120, Loss::None)];
    let mut world = play(1, paths, None);
    let (_, acked, lost, expired) = world.app::<Sender>(0).outcomes("video").unwrap();
    let came = world.app::<Receiver>(1).record("video");
    assert!(
        came.numbers.is_sorted_by(|a, b| a < b) && came.corrupt == 0,
        "{:?}",
        came.numbers
    );
    assert_eq!(
        came.numbers.len() as u64,
        acked,
        "{lost} lost, {expired} expired"
    );
    let most = came.delays.iter().max().unwrap();
    assert!(*most <= LIFETIME, "{most:?}");
}

#[test]
fn a_picture_that_is_lost_holds_up_the_next_until_its_loss_is_known() {
    let lossy = || Loss::bursts(0.02, 1.5).expect("in range");
    let paths = [path(4, 30, lossy()), path(4, 40, lossy())];
    let mut world = play(2, paths, None);
    let (_, acked, lost, _) = world.app::<Sender>(0).outcomes("video").unwrap();
    assert!(lost > 10, "{lost}");
    let came = world.app::<Receiver>(1).record("video");
    assert!(came.numbers.is_sorted_by(|a, b| a < b));
    assert_eq!(came.numbers.len() as u64, acked);
    // Two round trips: the time in which a loss is noticed and stated.
    assert!(
        came.delay_quantile(1.0) < Duration::from_millis(250),
        "{:?}",
        came.delay_quantile(1.0)
    );
}

#[test]
fn a_path_that_is_cut_holds_up_the_others_for_a_lifetime_at_most() {
    let paths = [path(4, 30, Loss::None), path(4, 40, Loss::None)];
    let mut world = play(3, paths, Some(Duration::from_secs(9)));
    let came = world.app::<Receiver>(1).record("video");
    assert!(came.numbers.is_sorted_by(|a, b| a < b));
    assert_eq!(came.numbers.last(), Some(&(PICTURES - 1)));
    assert!(
        came.numbers.len() as u64 > PICTURES - 20,
        "{}",
        came.numbers.len()
    );
    let most = came.delays.iter().max().unwrap();
    assert!(*most <= LIFETIME, "{most:?}");
    assert!(came.gap_max <= LIFETIME, "{:?}", came.gap_max);
}
