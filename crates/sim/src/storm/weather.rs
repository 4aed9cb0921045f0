//! Faults of the wires, and their schedule.

use std::time::Duration;

use anabranch_base::{Instant, Random, Rate};
use anabranch_link::{
    Loss, RateSource, Traffic,
    duplex::Configs,
    traffic::{ParetoOnOff, Sizes},
};

use super::plan::Plan;
use crate::{network::Hop, world::World};

/// Time of the last fault in most storms; then everything is repaired.
pub(super) const WEATHER: Duration = Duration::from_secs(12);

/// A fault of one wire.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    wire: usize,
    from: Duration,
    to: Duration,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Cut,
    Rate(u64),
    Loss(f64),
    Delay(u64),
}

impl Fault {
    /// Begins so many times later, and lasts so much longer.
    pub(super) fn stretch(&mut self, times: u32) {
        self.from *= times;
        self.to *= times;
    }

    /// The rate that it gives a wire.
    pub(super) fn rate_of(&self, wire: usize) -> Option<Rate> {
        match self.kind {
            Kind::Rate(kbps) if self.wire == wire => Some(Rate::from_kbps(kbps)),
            _ => None,
        }
    }
}

/// Draws the faults of a storm.
pub(super) fn forecast(random: &mut Random, wires: usize) -> Vec<Fault> {
    (0..random.below(8))
        .map(|_| {
            let from = Duration::from_millis(random.below(9_000));
            let length = Duration::from_millis(random.between(20, 3_000));
            Fault {
                wire: random.below(wires as u64) as usize,
                from,
                to: from + length,
                kind: match random.below(5) {
                    0 => Kind::Rate(random.between(100, 2000)),
                    1 => Kind::Loss(random.uniform(0.05, 0.5)),
                    2 => Kind::Delay(random.between(1, 400)),
                    _ => Kind::Cut,
                },
            }
        })
        .collect()
}

/// Draws the other senders: in one case of four over each direction of each wire, 10 to 60 % of its mean rate.
pub(super) fn neighbours(random: &mut Random, wires: &[Configs]) -> Vec<(Hop, Traffic)> {
    let mut drawn = Vec::new();
    for (index, wire) in wires.iter().enumerate() {
        for (hop, config) in [
            (Hop::forward(index), &wire.forward),
            (Hop::backward(index), &wire.backward),
        ] {
            if !random.chance(0.25) {
                continue;
            }
            let rate = config.rate.mean().unwrap_or_default() * random.uniform(0.1, 0.6);
            let traffic = if random.chance(0.5) {
                Traffic::poisson(rate, Sizes::Fixed(1_200))
            } else {
                Traffic::ParetoOnOff(ParetoOnOff {
                    sources: 4,
                    peak: rate * 0.5,
                    on_mean: Duration::from_millis(200),
                    off_mean: Duration::from_millis(200),
                    shape: 1.5,
                    sizes: Sizes::Fixed(1_200),
                })
            };
            drawn.push((hop, traffic));
        }
    }
    drawn
}

/// Schedules the faults and the other senders of a plan in the world; returns the time at which all faults are repaired.
pub(super) fn schedule(world: &mut World, plan: &Plan) -> Instant {
    let Plan {
        faults, weather, ..
    } = plan;
    for (hop, traffic) in &plan.neighbours {
        let cross = world
            .add_cross_traffic(&[*hop], traffic)
            .expect("a valid plan");
        world.schedule(*weather, move |world| world.stop_cross_traffic(cross));
    }
    for fault in faults {
        let (wire, kind) = (fault.wire, fault.kind);
        let original = world.wire(wire).duplex.forward.config().clone();
        world.schedule(fault.from, move |world| strike(world, wire, kind));
        world.schedule(fault.to, move |world| repair(world, wire, &original));
    }
    // Overlapping faults of one wire may leave one behind; at the end every wire is restored.
    let wires: Vec<_> = faults.iter().map(|fault| fault.wire).collect();
    for wire in wires {
        let original = world.wire(wire).duplex.forward.config().clone();
        world.schedule(*weather, move |world| repair(world, wire, &original));
    }
    Instant::EPOCH + *weather
}

fn strike(world: &mut World, wire: usize, kind: Kind) {
    let now = world.now();
    let duplex = &mut world.wire(wire).duplex;
    for link in [&mut duplex.forward, &mut duplex.backward] {
        let changed = match kind {
            Kind::Cut => {
                link.set_up(now, false);
                Ok(())
            }
            Kind::Rate(kbps) => link.set_rate(now, RateSource::Constant(Rate::from_kbps(kbps))),
            Kind::Loss(probability) => {
                Loss::random(probability).and_then(|loss| link.set_loss(loss))
            }
            Kind::Delay(ms) => link.set_delay(Duration::from_millis(ms)),
        };
        changed.expect("faults are within range");
    }
}

fn repair(world: &mut World, wire: usize, original: &anabranch_link::Config) {
    let now = world.now();
    let duplex = &mut world.wire(wire).duplex;
    for link in [&mut duplex.forward, &mut duplex.backward] {
        link.set_up(now, true);
        link.set_rate(now, original.rate.clone())
            .and_then(|()| link.set_loss(original.loss))
            .and_then(|()| link.set_delay(original.delay))
            .expect("it was valid before");
    }
}
