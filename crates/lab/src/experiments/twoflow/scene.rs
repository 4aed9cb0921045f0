//! Video sessions that share a pipe, in virtual time.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config, Link, Priority};
use anabranch_sim::{App, Hop, NodeIndex, WireIndex, World};
use anabranch_twoflow::Class;

use super::{
    film::Film,
    flow::Feeder,
    packets::{ENHANCED_BYTES, ESSENTIAL_BYTES, PACKET_BYTES},
    parts,
    plan::{Method, Plan},
    pumped::Pumped,
    sink::{Account, Sink},
};

/// One-way delay [Two-flow §5.1].
const DELAY: Duration = Duration::from_millis(40);
/// Queue at the bottleneck.
pub(super) const QUEUE: Duration = Duration::from_millis(50);
/// The paper's adjustment interval.
pub(super) const INTERVAL: Duration = Duration::from_secs(8);
/// Delay of the enhanced flow's start after that of the essential one [Two-flow §5.1].
const STAGGER: Duration = INTERVAL;
/// Time for which a proxy may hold back acknowledgements to its origin.
const ACK_DELAY: Duration = Duration::from_millis(150);
/// Time within which sessions start.
pub(super) const STARTS: Duration = Duration::from_secs(10);
/// Rate that each connection sends beside its data, mainly acknowledgements of the receiver's reports, with IP headers.
/// Measured.
pub(super) const CONTROL_BPS: f64 = 3_000.0;

/// `n` sessions that start within a short time and play the first `segments` of the film.
pub(super) fn together(n: usize, method: Method, segments: usize, seed: Seed) -> Vec<Plan> {
    let mut random = seed.stream("starts");
    (0..n)
        .map(|_| Plan {
            method,
            start: Instant::EPOCH + Duration::from_secs(1) + STARTS.mul_f64(random.unit()),
            segments: 0..segments,
            is_staggered: true,
        })
        .collect()
}

/// Rate of the pipe that `n` sessions just fill at their maximum, times `factor`.
pub(super) fn capacity(film: &Film, n: usize, factor: f64) -> Rate {
    let steps = film.schedule.steps();
    let of = |index: usize| {
        let before: &anabranch_twoflow::Step = &steps[index.saturating_sub(1)];
        let enhanced = steps[index].enhanced_rate.max(before.enhanced_rate);
        filled([steps[index].essential_rate, enhanced], n, factor)
    };
    (0..steps.len()).map(of).max().unwrap_or_default()
}

/// The same for sessions whose flows, essential and enhanced, have these rates, including IP headers and the data that
/// connections send beside.
pub(super) fn filled([essential, enhanced]: [Rate; 2], n: usize, factor: f64) -> Rate {
    let ip = |rate: Rate, bytes: f64| rate.as_bps() as f64 * PACKET_BYTES / bytes;
    let one = ip(essential, ESSENTIAL_BYTES) + ip(enhanced, ENHANCED_BYTES) + 2.0 * CONTROL_BPS;
    Rate::from_bps((factor * n as f64 * one).ceil() as u64)
}

/// One flow in the world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) origin: NodeIndex,
    pub(super) proxy: NodeIndex,
    /// Index of its account at the proxy.
    pub(super) flow: usize,
}

/// A video session in the world.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) plan: Plan,
    pub(super) essential: Ends,
    pub(super) enhanced: Ends,
    /// Time at which its play begins, together with the enhanced flow.
    pub(super) plays_from: Instant,
}

/// Totals of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) sent_bytes: u64,
    pub(super) sent: u64,
    pub(super) acked_bytes: u64,
    pub(super) acked: u64,
    pub(super) lost: u64,
    pub(super) window_bytes: u64,
}

/// Losses of a flow.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Packets: retransmitted of an essential flow, lost of an enhanced one.
    pub(super) lost: u64,
    /// Frames of which a part was lost for good.
    pub(super) frames: Vec<u32>,
}

/// The pipe and all sessions that share it.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) wire: WireIndex,
    pub(super) sessions: Vec<Running>,
}

impl Scene {
    /// Builds the scene; `None` only if a rate is out of the link model's range.
    pub(super) fn new(film: &Film, plans: &[Plan], capacity: Rate, seed: Seed) -> Option<Self> {
        let mut scene = Self::empty(capacity, QUEUE, seed)?;
        if plans.iter().any(|plan| plan.method == Method::Pipe) {
            scene.join_piped(film, plans)?;
            return Some(scene);
        }
        for plan in plans {
            scene.join(film, plan)?;
        }
        Some(scene)
    }

    /// An unused pipe with a queue of this length.
    pub(super) fn empty(capacity: Rate, queue: Duration, seed: Seed) -> Option<Self> {
        let mut world = World::new(seed);
        let one_way = |rate: Rate| LinkConfig {
            rate: RateSource::Constant(rate),
            delay: DELAY,
            // Limit on the waiting time of a packet; the model counts the packet in transmission, too.
            queue: Queue::bytes(rate.bytes_in(queue) + PACKET_BYTES as u64),
            ..LinkConfig::default()
        };
        let wire = world
            .add_trunk(Configs::symmetric(one_way(capacity)))
            .ok()?;
        Some(Self {
            world,
            wire,
            sessions: Vec::new(),
        })
    }

    /// Adds a session.
    pub(super) fn join(&mut self, film: &Film, plan: &Plan) -> Option<()> {
        let running = self.add(film, plan)?;
        self.sessions.push(running);
        Some(())
    }

    fn add(&mut self, film: &Film, plan: &Plan) -> Option<Running> {
        let plays_from = plan.start + STAGGER;
        let essential = self.add_essential(film, plan)?;
        let enhanced = self.add_enhanced(film, plan, plays_from)?;
        Some(Running {
            plan: plan.clone(),
            essential,
            enhanced,
            plays_from,
        })
    }

    /// Adds a flow between two nodes of its own.
    pub(super) fn add_flow(
        &mut self,
        controller: anabranch_session::Controller,
        feeder: impl FnOnce(anabranch_base::NodeId) -> Feeder,
        sink: Sink,
    ) -> Ends {
        let [origin, proxy] = self.add_pair(controller, feeder, sink);
        let link = self.link(origin);
        self.world.app::<Feeder>(origin).dial(link);
        self.world.with_node(origin, |_| ());
        Ends {
            origin,
            proxy,
            flow: 0,
        }
    }

    /// Two nodes with a path through the pipe.
    fn add_pair<A: App + 'static>(
        &mut self,
        controller: anabranch_session::Controller,
        app: impl FnOnce(anabranch_base::NodeId) -> A,
        sink: Sink,
    ) -> [NodeIndex; 2] {
        let mut config = Config::default();
        config.channel.controller = controller;
        // For paths below 1 Mbit/s, as the default's documentation recommends.
        config.channel.initial_window_packets = 4;
        let mut far = config.clone();
        // Acknowledgements of the proxy's reports travel with data; alone they would take 1 % of a narrow pipe.
        far.channel.ack_delay_max = ACK_DELAY;
        let (origin, proxy) = (self.world.nodes(), self.world.nodes() + 1);
        let app = app(World::node_id(proxy));
        self.world.add_node(config, AllowList::default(), app);
        let allowed = AllowList::of([World::node_id(origin)]);
        self.world.add_node(far, allowed, sink);
        [origin, proxy]
    }

    /// Link of a node and the next one through the pipe.
    fn link(&mut self, origin: NodeIndex) -> Link {
        let hops = [Hop::forward(self.wire)];
        let route = self
            .world
            .add_route([origin, origin + 1], &hops, &Hop::reversed(&hops));
        self.world.route_link(origin, route)
    }

    fn add_essential(&mut self, film: &Film, plan: &Plan) -> Option<Ends> {
        let flow = parts::essential(film, plan)?;
        let first = flow.doses.first()?.rate.unwrap_or_default();
        let controller = plan.method.controller(first.max(Rate::from_kbps(1)))?;
        let dial_at = before(plan.start);
        let sink = Sink::new(vec![flow.account]);
        let feeder = |peer| Feeder::new(peer, dial_at, flow.spec, flow.parts, flow.doses);
        Some(self.add_flow(controller, feeder, sink))
    }

    fn add_enhanced(&mut self, film: &Film, plan: &Plan, plays_from: Instant) -> Option<Ends> {
        let flow = parts::enhanced(film, plan, plays_from)?;
        let controller = anabranch_session::Controller::Fixed(flow.doses.first()?.rate?);
        let dial_at = before(plays_from);
        let rank = |frame: &anabranch_twoflow::Frame| match frame.class {
            Class::Enhanced { rank } => rank,
            Class::Essential => u8::MAX,
        };
        let ranks: Arc<[u8]> = film.frames.iter().map(rank).collect();
        let sink = Sink::new(vec![flow.account]);
        let feeder = |peer| {
            let feeder = Feeder::new(peer, dial_at, flow.spec, flow.parts, flow.doses);
            feeder.thinning(film.groups.clone(), ranks)
        };
        Some(self.add_flow(controller, feeder, sink))
    }

    /// All flows of these sessions behind one pump, in one channel under `ctcp`.
    fn join_piped(&mut self, film: &Film, plans: &[Plan]) -> Option<()> {
        let (mut flows, mut accounts) = (Vec::new(), Vec::new());
        for plan in plans {
            for mut flow in [
                parts::essential(film, plan)?,
                parts::enhanced(film, plan, plan.start + STAGGER)?,
            ] {
                accounts.push(std::mem::take(&mut flow.account));
                // No flow has priority, as in an origin: the pump already determines what is due.
                flow.spec.priority = Priority::NORMAL;
                flows.push(flow);
            }
        }
        let dial_at = before(plans.iter().map(|plan| plan.start).min()?);
        let controller = Method::Pipe.controller(Rate::from_kbps(1))?;
        let [origin, proxy] = self.add_pair(
            controller,
            |peer| Pumped::new(peer, dial_at, flows, parts::PART_BYTES),
            Sink::new(accounts),
        );
        let link = self.link(origin);
        self.world.app::<Pumped>(origin).dial(link);
        self.world.with_node(origin, |_| ());
        for (index, plan) in plans.iter().enumerate() {
            let ends = |flow| Ends {
                origin,
                proxy,
                flow,
            };
            self.sessions.push(Running {
                plan: plan.clone(),
                essential: ends(2 * index),
                enhanced: ends(2 * index + 1),
                plays_from: plan.start + STAGGER,
            });
        }
        Some(())
    }

    /// Outcome of a flow: packets retransmitted, and losses.
    pub(super) fn outcome(&mut self, ends: Ends) -> Outcome {
        if !self.is_piped() {
            let lost = self.count(ends).lost;
            let feeder = self.world.app::<Feeder>(ends.origin);
            let frame = |&part: &u32| Some(feeder.parts().get(part as usize)?.frame);
            let frames = feeder.lost.iter().filter_map(frame).collect();
            return Outcome { lost, frames };
        }
        let pumped = self.world.app::<Pumped>(ends.origin);
        let frames = pumped.lost_frames(ends.flow);
        let Some((session, stream)) = pumped.session().zip(pumped.stream(ends.flow)) else {
            return Outcome { lost: 0, frames };
        };
        let all = self
            .world
            .engine(ends.origin)
            .session(session)
            .map(|mut session| session.stream_stats())
            .unwrap_or_default();
        let own = all.iter().find(|stats| stats.stream == stream);
        let packets = |bytes: u64| (bytes as f64 / ESSENTIAL_BYTES).ceil() as u64;
        let lost = own.map_or(0, |stats| stats.lost_adus + packets(stats.repaired_bytes));
        Outcome { lost, frames }
    }

    fn is_piped(&self) -> bool {
        let mut plans = self.sessions.iter().map(|running| &running.plan);
        plans.any(|plan| plan.method == Method::Pipe)
    }

    /// Result of a flow.
    pub(super) fn account(&mut self, ends: Ends) -> &Account {
        &self.world.app::<Sink>(ends.proxy).accounts[ends.flow]
    }

    /// Totals of a flow's channel, which other flows may share; zero before there is one.
    pub(super) fn count(&mut self, ends: Ends) -> Count {
        let session = if self.is_piped() {
            self.world.app::<Pumped>(ends.origin).session()
        } else {
            self.world.app::<Feeder>(ends.origin).session()
        };
        let Some(session) = session else {
            return Count::default();
        };
        let reports = self
            .world
            .engine(ends.origin)
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        let Some(report) = reports.first() else {
            return Count::default();
        };
        Count {
            sent_bytes: report.stats.bytes_sent,
            sent: report.stats.packets_sent,
            acked_bytes: report.stats.bytes_acked,
            acked: report.stats.packets_acked,
            lost: report.stats.packets_lost,
            window_bytes: report.stats.window_bytes,
        }
    }
}

/// Time at which to open a connection that is needed at `at`.
fn before(at: Instant) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_sub(500_000_000))
}

#[cfg(test)]
mod tests {
    use super::super::packets::UDP_BYTES;
    use super::*;

    /// Checks the constants of `packets`, and the one above: payload of full packets of each flow, and data that connections
    /// send beside them.
    #[test]
    fn heads_match_the_constants() {
        let film = Film::generated(3);
        let plans = together(1, Method::Ctcp, 1, Seed(1));
        let wide = Rate::from_mbps(5);
        let mut scene = Scene::new(&film, &plans, wide, Seed(1)).unwrap();
        scene.world.run_until(Instant::from_secs(250));
        let running = scene.sessions[0].clone();
        let essential = scene.count(running.essential);
        let enhanced = scene.count(running.enhanced);
        let read = |scene: &mut Scene, ends: Ends| scene.account(ends).bytes as f64;
        let payload = [
            read(&mut scene, running.essential),
            read(&mut scene, running.enhanced),
        ];
        let per = |payload: f64, count: Count| payload * UDP_BYTES / count.sent_bytes as f64;
        let bytes = per(payload[0], essential);
        assert!(
            (ESSENTIAL_BYTES..1.02 * ESSENTIAL_BYTES).contains(&bytes),
            "{bytes}"
        );
        let bytes = per(payload[1], enhanced);
        assert!(
            (ENHANCED_BYTES..1.02 * ENHANCED_BYTES).contains(&bytes),
            "{bytes}"
        );
        let data =
            essential.sent_bytes + enhanced.sent_bytes + 28 * (essential.sent + enhanced.sent);
        let all = scene.world.wire(scene.wire).arrived(true).bytes;
        let control = (all - data) as f64 * 8.0 / 249.0 / 2.0;
        assert!((0.0..CONTROL_BPS).contains(&control), "{control}");
    }
}
