//! Random networks whose routes may share bottlenecks, with the ground truth.

use std::time::Duration;

use anabranch_base::{Instant, Random, Rate, Seed};
use anabranch_link::{
    Config, Queue, RateSource, Traffic,
    duplex::Configs,
    source::Walk,
    traffic::{Paced, ParetoOnOff, Sizes},
};
use anabranch_session::Controller;

use super::Topology;
use crate::flow::FlowPlan;

/// Rate of a route's private wires as a multiple of its bottleneck's, from the least to the largest. With
/// [`PRIVATE_LOAD_MAX`] of them taken, 3.5 times the bottleneck's rate is left on average.
const PRIVATE_FACTOR: std::ops::Range<f64> = 5.0..10.0;
/// Largest load on a private wire, as a fraction of its rate.
const PRIVATE_LOAD_MAX: f64 = 0.3;

/// A network for the detection of shared bottlenecks, with their location.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// Two to four routes, named `route 0` and so on, in this order.
    pub topology: Topology,
    /// The bottlenecks.
    pub bottlenecks: Vec<Bottleneck>,
    /// Bottleneck of each route, as an index of `bottlenecks`.
    pub bottleneck_of: Vec<usize>,
}

/// A wire that is narrower than every other of the routes over it.
#[derive(Debug, Clone, PartialEq)]
pub struct Bottleneck {
    /// Its points, in the direction of the routes.
    pub between: [String; 2],
    /// Its rate.
    pub rate: Rate,
    /// Mean load of cross-traffic, flows not included.
    pub load: Rate,
    /// Number of greedy flows that compete in addition.
    pub flows: usize,
}

impl Shared {
    /// True if two routes, by their index in the plan, share their bottleneck.
    pub fn shares(&self, one: usize, other: usize) -> bool {
        self.bottleneck_of[one] == self.bottleneck_of[other]
    }
}

/// Draws a network: two to four routes; each has, with even chances, a bottleneck of its own or that of an
/// earlier route.
///
/// A bottleneck carries 4 to 40 Mbit/s, 2 to 30 ms away, with a queue of 20 to 200 ms. Cross-traffic takes 20 to 85 %
/// of it (Poisson, Pareto on–off or paced at a rate that follows a random walk), and in one case of four a cubic or
/// newreno flow competes for the rest. Each route has private wires before and after it, of 5 to 10 times the rate and
/// 1 to 40 ms, with up to 30 % load of their own, so that delays vary there, too. The same seed gives the same network.
pub fn random(seed: Seed) -> Shared {
    let mut random = seed.stream("topology");
    let routes = random.between(2, 4) as usize;
    let mut drawn = Shared {
        topology: Topology::default(),
        bottlenecks: Vec::new(),
        bottleneck_of: Vec::new(),
    };
    for route in 0..routes {
        let fresh = drawn.bottlenecks.len();
        let is_shared = route > 0 && random.chance(0.5);
        let bottleneck = if is_shared {
            random.below(fresh as u64) as usize
        } else {
            drawn.add_bottleneck(&mut random);
            fresh
        };
        drawn.add_route(&mut random, route, bottleneck);
    }
    drawn
}

impl Shared {
    fn add_bottleneck(&mut self, random: &mut Random) {
        let index = self.bottlenecks.len();
        let between = [format!("entry {index}"), format!("exit {index}")];
        let via = [between[0].as_str(), between[1].as_str()];
        let rate = Rate::from_kbps(random.between(4_000, 40_000));
        let queue = Queue::time(Duration::from_millis(random.between(20, 200)));
        let config = wire(rate, random.between(2, 30), queue);
        self.topology.wire(via[0], via[1], config);
        let load = rate * random.uniform(0.2, 0.85);
        let traffic = any_traffic(random, load);
        let load = traffic.mean();
        self.topology.cross(&via, traffic);
        let flows = usize::from(random.chance(0.25));
        for _ in 0..flows {
            let controller = if random.chance(0.5) {
                Controller::Cubic
            } else {
                Controller::NewReno
            };
            let start = Instant::from_millis(random.below(2_000));
            let plan = FlowPlan::greedy(controller, start);
            self.topology.flow(&via, plan);
        }
        self.bottlenecks.push(Bottleneck {
            between,
            rate,
            load,
            flows,
        });
    }

    fn add_route(&mut self, random: &mut Random, route: usize, bottleneck: usize) {
        let Bottleneck { between, rate, .. } = self.bottlenecks[bottleneck].clone();
        let [entry, exit] = between;
        let (source, sink) = (format!("source {route}"), format!("sink {route}"));
        for via in [[&source, &entry], [&exit, &sink]] {
            let factor = random.uniform(PRIVATE_FACTOR.start, PRIVATE_FACTOR.end);
            let queue = Queue::time(Duration::from_millis(random.between(10, 50)));
            let config = wire(rate * factor, random.between(1, 40), queue);
            let via = via.map(String::as_str);
            self.topology.wire(via[0], via[1], config);
            let load = rate * factor * random.uniform(0.05, PRIVATE_LOAD_MAX);
            self.topology.cross(&via, any_traffic(random, load));
        }
        let name = format!("route {route}");
        self.topology.route(&name, &[&source, &entry, &exit, &sink]);
        self.bottleneck_of.push(bottleneck);
    }
}

fn wire(rate: Rate, delay_ms: u64, queue: Queue) -> Configs {
    Configs::symmetric(Config {
        rate: RateSource::Constant(rate),
        delay: Duration::from_millis(delay_ms),
        queue,
        ..Config::default()
    })
}

/// Cross-traffic of this mean rate.
fn any_traffic(random: &mut Random, mean: Rate) -> Traffic {
    let sizes = Sizes::Fixed(random.between(300, 1_500) as usize);
    match random.below(3) {
        0 => Traffic::poisson(mean, sizes),
        1 => {
            let sources = random.between(4, 40) as u32;
            let share = random.uniform(0.2, 0.6);
            let on = Duration::from_millis(random.between(100, 1_000));
            Traffic::ParetoOnOff(ParetoOnOff {
                sources,
                peak: mean * (1.0 / (f64::from(sources) * share)),
                on_mean: on,
                off_mean: on.mul_f64((1.0 - share) / share),
                shape: random.uniform(1.3, 1.8),
                sizes,
            })
        }
        _ => Traffic::Paced(Paced {
            rate: RateSource::Walk(Walk {
                base: mean,
                spread: random.uniform(0.3, 0.9),
                every: Duration::from_millis(random.between(200, 2_000)),
            }),
            sizes,
        }),
    }
}
