//! Presets: typical links of access networks, in both directions.
//!
//! Each describes the whole path to a server in the same country: the access network and [`CORE`] of wired network
//! behind it. Forward is from the subscriber, backward is towards the subscriber. They are for first experiments; a
//! claim needs a recorded [`Trace`](crate::Trace). [`cdma2000`] is the channel of a thesis of 2004; it has a trace,
//! which a text cannot name, so it is made in code only.
//!
//! "Measured" below means: the mean of the recordings named, from published data sets (Zhuge, SatCell, Norwegian HSDPA,
//! Starlink on the Autobahn, NUWiNS multi-carrier); "assumed" has its ordinary meaning.

pub mod cdma2000;

use std::time::Duration;

use anabranch_base::Rate;

use crate::{Config, Jitter, Loss, Queue, RateSource, duplex::Configs, source::Walk};

/// One-way delay of the wired network behind every preset: 1,000 km of fibre at 200,000 km/s.
pub const CORE: Duration = Duration::from_millis(5);

/// A preset's name and the function that makes it.
type Entry = (&'static str, fn() -> Configs);

const ALL: [Entry; 8] = [
    ("fibre", fibre),
    ("dsl", dsl),
    ("wifi", wifi),
    ("5g", nr),
    ("lte", lte),
    ("3g", hsdpa),
    ("leo", leo),
    ("geo", geo),
];

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|&(name, _)| name)
}

/// The preset of this name.
pub fn by_name(name: &str) -> Option<Configs> {
    let (_, make) = ALL.iter().find(|&&(other, _)| other == name)?;
    Some(make())
}

/// Fibre to the home, the usual product: 500 Mbit/s up, 1 Gbit/s down.
///
/// 1 ms of access delay and up to 0.5 ms of jitter (waiting for an upstream grant) are those of a passive optical
/// network; shallow queues (20 ms) and no loss are assumed.
pub fn fibre() -> Configs {
    let direction = |mbps| Config {
        rate: RateSource::Constant(Rate::from_mbps(mbps)),
        delay: CORE + ms(1),
        jitter: Jitter::uniform(Duration::from_micros(500)),
        queue: Queue::time(ms(20)),
        ..Config::default()
    };
    Configs {
        forward: direction(500),
        backward: direction(1_000),
    }
}

/// VDSL2, the usual product: 10 Mbit/s up, 50 Mbit/s down.
///
/// 8 ms is the interleaver's usual depth; 1 in 10,000 packets lost is what passes the error correction of a noisy line
/// (assumed). Home routers queue 250 ms upstream, the known bufferbloat.
pub fn dsl() -> Configs {
    let direction = |mbps, queue_ms| Config {
        rate: RateSource::Constant(Rate::from_mbps(mbps)),
        delay: CORE + ms(8),
        jitter: Jitter::uniform(ms(1)),
        loss: Loss::Random {
            probability: 0.0001,
        },
        queue: Queue::time(ms(queue_ms)),
        ..Config::default()
    };
    Configs {
        forward: direction(10, 250),
        backward: direction(50, 100),
    }
}

/// Shared Wi-Fi in an office or a restaurant, on a fast line: the same in both directions.
///
/// 27 Mbit/s is the measured median over office and restaurant recordings; a spread of ±60 % gives their
/// standard deviation (a third of the mean), redrawn every 200 ms, their sampling step. Retransmissions
/// on the air make the jitter (normal, 3 ms) and leave 0.5 % lost in pairs (assumed).
pub fn wifi() -> Configs {
    Configs::symmetric(Config {
        rate: walk(27_000, 0.6, 200),
        delay: CORE + ms(2),
        jitter: Jitter::normal(ms(3)),
        loss: bursts(0.005, 2.0),
        queue: Queue::time(ms(100)),
        ..Config::default()
    })
}

/// 5G and LTE mixed, on the road: 20 Mbit/s up, 94 Mbit/s down.
///
/// 94 Mbit/s is the measured median of 36 drives on three carriers, whose deviation is three quarters of
/// the mean; a walk gives at most 0.58, with ±100 %. Delay: half of 44 ms, the measured median round
/// trip of the best carrier. Loss 0.1 % in pairs, as measured by its pings. The uplink is assumed.
pub fn nr() -> Configs {
    let direction = |kbps| Config {
        rate: walk(kbps, 1.0, 1_000),
        delay: ms(22),
        jitter: Jitter::normal(ms(5)),
        loss: bursts(0.001, 2.0),
        queue: Queue::time(ms(150)),
        ..Config::default()
    };
    Configs {
        forward: direction(20_000),
        backward: direction(94_000),
    }
}

/// LTE in a city: 5 Mbit/s up, 16 Mbit/s down.
///
/// 16 Mbit/s is the measured mean in New York taxis and rooms, with a deviation of half the mean, hence
/// ±80 % every second. Delay: half of 59 ms, a measured median round trip. 0.65 % lost in bursts of two is
/// what pings of two carriers lost. Queue: 300 ms, deep as base stations' are. The uplink is assumed.
pub fn lte() -> Configs {
    let direction = |kbps| Config {
        rate: walk(kbps, 0.8, 1_000),
        delay: ms(30),
        jitter: Jitter::normal(ms(6)),
        loss: bursts(0.0065, 2.0),
        queue: Queue::time(ms(300)),
        ..Config::default()
    };
    Configs {
        forward: direction(5_000),
        backward: direction(16_000),
    }
}

/// 3G (HSDPA) on the move: 384 kbit/s up, 1.45 Mbit/s down.
///
/// 1.45 Mbit/s is the measured median over buses, trams, trains, cars and a ferry around Oslo, with a
/// deviation of 0.46 of the mean, hence ±80 %. 384 kbit/s is the uplink of a release-5 phone. 50 ms of
/// delay, up to 20 ms of jitter from 10-ms frames and retransmissions, and queues of one second
/// are assumed.
pub fn hsdpa() -> Configs {
    let direction = |kbps| Config {
        rate: walk(kbps, 0.8, 1_000),
        delay: CORE + ms(50),
        jitter: Jitter::uniform(ms(20)),
        loss: bursts(0.002, 3.0),
        queue: Queue::time(ms(1_000)),
        ..Config::default()
    };
    Configs {
        forward: direction(384),
        backward: direction(1_450),
    }
}

/// A satellite in low orbit (Starlink), moving: 17 Mbit/s up, 220 Mbit/s down.
///
/// Both are the measured medians of six motorway rides, with a deviation of 0.5 to 0.6 of the mean, hence
/// ±90 %. Redrawn every 15 s, when the satellites are assigned anew. Delay: half of 42 ms, the measured
/// median round trip to a near gateway; jitter fits its 90th percentile (72 ms). Loss 0.5 % in bursts
/// of five, as handovers lose it, is assumed.
pub fn leo() -> Configs {
    let direction = |kbps| Config {
        rate: walk(kbps, 0.9, 15_000),
        delay: ms(21),
        jitter: Jitter::normal(ms(9)),
        loss: bursts(0.005, 5.0),
        queue: Queue::time(ms(100)),
        ..Config::default()
    };
    Configs {
        forward: direction(17_000),
        backward: direction(220_000),
    }
}

/// A geostationary satellite: 3 Mbit/s up, 25 Mbit/s down, the usual product.
///
/// Up and down again are 2 × 35,786 km at the speed of light, at least 239 ms; framing, scheduling and the slant range
/// make it about 275 ms. Fading loses 0.2 % in bursts of ten (assumed); modems queue 500 ms (assumed).
pub fn geo() -> Configs {
    let direction = |mbps| Config {
        rate: RateSource::Constant(Rate::from_mbps(mbps)),
        delay: CORE + ms(270),
        jitter: Jitter::normal(ms(5)),
        loss: bursts(0.002, 10.0),
        queue: Queue::time(ms(500)),
        ..Config::default()
    };
    Configs {
        forward: direction(3),
        backward: direction(25),
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn walk(base_kbps: u64, spread: f64, every_ms: u64) -> RateSource {
    RateSource::Walk(Walk {
        base: Rate::from_kbps(base_kbps),
        spread,
        every: ms(every_ms),
    })
}

/// [`Loss::bursts`] for constants that are in range.
fn bursts(rate: f64, burst_packets: f64) -> Loss {
    Loss::bursts(rate, burst_packets).expect("a preset's loss is in range, as a test checks")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Duplex;
    use anabranch_base::Seed;

    #[test]
    fn every_preset_makes_a_link() {
        for name in names() {
            let configs = by_name(name).unwrap();
            assert!(Duplex::new(configs, Seed(1)).is_ok(), "{name}");
        }
        assert!(by_name("carrier pigeon").is_none());
    }

    #[test]
    fn the_laws_of_physics_hold() {
        let light_ms = 2.0 * 35_786.0 / 299.792_458;
        assert!(geo().forward.delay.as_secs_f64() * 1e3 > light_ms);
        assert!(leo().forward.delay < geo().forward.delay);
    }
}
