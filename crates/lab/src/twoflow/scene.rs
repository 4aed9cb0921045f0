//! Video sessions that share a pipe, in virtual time.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{Config as LinkConfig, Queue, RateSource, duplex::Configs};
use anabranch_session::{AllowList, Config, Order, StreamSpec};
use anabranch_sim::{Hop, NodeIndex, WireIndex, World};
use anabranch_twoflow::{
    Class,
    rate::{self, RETRANSMITTED},
};

use super::{
    film::Film,
    flow::{Dose, Feeder, Part, Sink},
};

/// One way [Two-flow §5.1].
const DELAY: Duration = Duration::from_millis(40);
/// At the bottleneck.
pub(super) const QUEUE: Duration = Duration::from_millis(50);
/// The paper's adjustment interval.
pub(super) const INTERVAL: Duration = Duration::from_secs(8);
/// The enhanced flow starts so much later than the essential one [Two-flow §5.1].
const STAGGER: Duration = INTERVAL;
/// How long a proxy lets its origin wait before it acknowledges.
const ACK_DELAY: Duration = Duration::from_millis(150);
/// Sessions start within this time.
pub(super) const STARTS: Duration = Duration::from_secs(10);
/// Bytes of the largest part of an enhanced frame: one packet.
const PART_BYTES: u32 = 1_380;
/// A full packet with its IP header, and without.
pub(super) const PACKET_BYTES: f64 = 1_500.0;
pub(super) const UDP_BYTES: f64 = 1_472.0;
/// Application bytes of a full packet of each flow; parts of several frames share packets. Measured (`heads`).
pub(super) const ESSENTIAL_BYTES: f64 = 1_400.0;
pub(super) const ENHANCED_BYTES: f64 = 1_412.0;
/// What each connection sends beside its data, acknowledgements of the receiver's reports above all, with IP headers. Measured.
pub(super) const CONTROL_BPS: f64 = 3_000.0;

/// How the essential flow travels. The enhanced one is under `fixed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// `ctcp` over NewReno, as published.
    Ctcp,
    /// `ctcp` over our default.
    Auto,
    /// NewReno alone: the paper's TCP.
    NewReno,
}

impl Method {
    pub(super) const ALL: [Self; 3] = [Self::Ctcp, Self::Auto, Self::NewReno];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ctcp => "ctcp",
            Self::Auto => "ctcp-auto",
            Self::NewReno => "newreno",
        }
    }

    fn is_ctcp(self) -> bool {
        self != Self::NewReno
    }

    pub(super) fn controller(self, target: Rate) -> Option<anabranch_session::Controller> {
        let bps = target.as_bps();
        let text = match self {
            Self::Ctcp => format!("ctcp:{bps} bit/s,newreno"),
            Self::Auto => format!("ctcp:{bps} bit/s"),
            Self::NewReno => "newreno".to_owned(),
        };
        text.parse().ok()
    }
}

/// A video session to be.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) method: Method,
    /// When it starts.
    pub(super) start: Instant,
    /// Segments of the film that it plays.
    pub(super) segments: std::ops::Range<usize>,
    /// The essential flow is one segment ahead; or else each segment's travels while it plays, to see how much of it must lie at
    /// the proxy beforehand.
    pub(super) is_staggered: bool,
    /// What the essential flow's target has beyond what it needs, of what the pipe has to spare.
    pub(super) extra: Rate,
}

/// `n` sessions that start within a short time and play the first `segments` of the film.
pub(super) fn together(n: usize, method: Method, segments: usize, seed: Seed) -> Vec<Plan> {
    let mut random = seed.stream("starts");
    (0..n)
        .map(|_| Plan {
            method,
            start: Instant::EPOCH + Duration::from_secs(1) + STARTS.mul_f64(random.unit()),
            segments: 0..segments,
            is_staggered: true,
            extra: Rate::ZERO,
        })
        .collect()
}

/// The rate of the pipe that `n` sessions just fill, IP headers and what connections send beside data included.
pub(super) fn capacity(film: &Film, n: usize, factor: f64) -> Rate {
    let steps = film.schedule.steps();
    let ip = |bps: u64, bytes: f64| bps as f64 * PACKET_BYTES / bytes;
    let most = (0..steps.len())
        .map(|index| {
            let before = &steps[index.saturating_sub(1)];
            let enhanced = steps[index].enhanced_rate.max(before.enhanced_rate);
            ip(steps[index].essential_rate.as_bps(), ESSENTIAL_BYTES)
                + ip(enhanced.as_bps(), ENHANCED_BYTES)
        })
        .fold(0.0, f64::max);
    Rate::from_bps((factor * n as f64 * (most + 2.0 * CONTROL_BPS)).ceil() as u64)
}

/// One flow in the world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) origin: NodeIndex,
    pub(super) proxy: NodeIndex,
}

/// A video session in the world.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) plan: Plan,
    pub(super) essential: Ends,
    pub(super) enhanced: Ends,
    /// When its play begins: with the enhanced flow.
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

/// The pipe and all that share it.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) wire: WireIndex,
    pub(super) sessions: Vec<Running>,
}

impl Scene {
    /// `None` only where a rate is out of the link model's range.
    pub(super) fn new(film: &Film, plans: &[Plan], capacity: Rate, seed: Seed) -> Option<Self> {
        let mut scene = Self::empty(capacity, QUEUE, seed)?;
        for plan in plans {
            scene.join(film, plan)?;
        }
        Some(scene)
    }

    /// A pipe that nobody uses, with so much queue.
    pub(super) fn empty(capacity: Rate, queue: Duration, seed: Seed) -> Option<Self> {
        let mut world = World::new(seed);
        let one_way = |rate: Rate| LinkConfig {
            rate: RateSource::Constant(rate),
            delay: DELAY,
            // A packet waits so long at most; the model counts the one that is being sent, too.
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
        let mut config = Config::default();
        config.channel.controller = controller;
        // For paths below 1 Mbit/s, as the default's documentation says.
        config.channel.initial_window_packets = 4;
        let mut far = config.clone();
        // Acknowledgements of the proxy's reports ride on data; alone they would take 1 % of a narrow pipe.
        far.channel.ack_delay_max = ACK_DELAY;
        let (origin, proxy) = (self.world.nodes(), self.world.nodes() + 1);
        let app = feeder(World::node_id(proxy));
        self.world.add_node(config, AllowList::default(), app);
        let allowed = AllowList::of([World::node_id(origin)]);
        self.world.add_node(far, allowed, sink);
        let hops = [Hop::forward(self.wire)];
        let route = self
            .world
            .add_route([origin, proxy], &hops, &Hop::reversed(&hops));
        let link = self.world.route_link(origin, route);
        self.world.app::<Feeder>(origin).dial(link);
        self.world.with_node(origin, |_| ());
        Ends { origin, proxy }
    }

    fn add_essential(&mut self, film: &Film, plan: &Plan) -> Option<Ends> {
        let steps = &film.schedule.steps()[plan.segments.clone()];
        let (mut parts, mut doses, mut marks, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
        let origin = steps.first()?.from;
        for step in steps {
            let ahead = usize::from(plan.is_staggered);
            let next = film.segments.all().get(step.segment + ahead);
            for index in next.map_or(0..0, |next| next.frames.clone()) {
                let frame = &film.frames[index];
                if frame.class.is_essential() {
                    parts.push(Part {
                        bytes: frame.bytes,
                        frame: index as u32,
                    });
                    bytes += u64::from(frame.bytes);
                }
            }
            marks.push(bytes);
            let bytes = next.map_or(0, |next| next.essential_bytes);
            let target = rate::target(bytes, step.until - step.from, RETRANSMITTED);
            let target = Rate::from_bps(target.as_bps() + plan.extra.as_bps());
            let rate = udp(target, ESSENTIAL_BYTES);
            doses.push(Dose {
                from: plan.start + (step.from - origin),
                feed: None,
                rate: plan.method.is_ctcp().then_some(rate),
                end: parts.len(),
            });
        }
        let first = doses
            .first()?
            .rate
            .unwrap_or_default()
            .max(Rate::from_kbps(1));
        let controller = plan.method.controller(first)?;
        let spec = StreamSpec::bulk("essential");
        let dial_at = Instant::from_nanos(plan.start.as_nanos().saturating_sub(500_000_000));
        let feeder = |peer| Feeder::new(peer, dial_at, spec, parts.into(), doses);
        Some(self.add_flow(controller, feeder, Sink::marking(marks)))
    }

    fn add_enhanced(&mut self, film: &Film, plan: &Plan, plays_from: Instant) -> Option<Ends> {
        let steps = &film.schedule.steps()[plan.segments.clone()];
        let (mut parts, mut doses, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        let origin = steps.first()?.from;
        for step in steps {
            for index in film.segments.all()[step.segment].frames.clone() {
                let frame = &film.frames[index];
                if frame.class.is_essential() {
                    continue;
                }
                let mut left = frame.bytes;
                while left > 0 {
                    let bytes = left.min(PART_BYTES);
                    left -= bytes;
                    parts.push(Part {
                        bytes,
                        frame: index as u32,
                    });
                    wanted.push(frame.at - origin);
                }
            }
            doses.push(Dose {
                from: plays_from + (step.from - origin),
                feed: Some(step.enhanced_rate.as_bytes_per_s()),
                rate: Some(udp(step.enhanced_rate, ENHANCED_BYTES)),
                end: parts.len(),
            });
        }
        let first = doses.first()?.rate?;
        let controller = anabranch_session::Controller::Fixed(first);
        let spec = StreamSpec {
            reliable: false,
            order: Order::Unordered,
            notify: true,
            label: "enhanced".to_owned(),
            ..StreamSpec::default()
        };
        let dial_at = Instant::from_nanos(plays_from.as_nanos().saturating_sub(500_000_000));
        let parts: Arc<[Part]> = parts.into();
        let rank = |frame: &anabranch_twoflow::Frame| match frame.class {
            Class::Enhanced { rank } => rank,
            Class::Essential => u8::MAX,
        };
        let ranks: Arc<[u8]> = film.frames.iter().map(rank).collect();
        let feeder = |peer| {
            let feeder = Feeder::new(peer, dial_at, spec, parts, doses);
            feeder.thinning(film.groups.clone(), ranks)
        };
        Some(self.add_flow(controller, feeder, Sink::timing(plays_from, wanted)))
    }

    /// Totals of a flow's channel; zero before there is one.
    pub(super) fn count(&mut self, ends: Ends) -> Count {
        let Some(session) = self.world.app::<Feeder>(ends.origin).session() else {
            return Count::default();
        };
        let reports = self.world.engine(ends.origin).channel_stats(session);
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

/// The rate of UDP payload that carries this rate of the application.
pub(super) fn udp(rate: Rate, payload_bytes: f64) -> Rate {
    Rate::from_bps((rate.as_bps() as f64 * UDP_BYTES / payload_bytes).ceil() as u64)
}

/// What both channels hold in a step, in UDP payload: the essential one and the enhanced one.
pub(super) fn udp_rates(step: &anabranch_twoflow::Step) -> [Rate; 2] {
    [
        udp(step.essential_rate, ESSENTIAL_BYTES),
        udp(step.enhanced_rate, ENHANCED_BYTES),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What full packets of each flow carry, and what connections send beside them: the constants above.
    #[test]
    fn heads_are_what_is_reckoned_with() {
        let film = Film::generated(3);
        let plans = together(1, Method::Ctcp, 1, Seed(1));
        let wide = Rate::from_mbps(5);
        let mut scene = Scene::new(&film, &plans, wide, Seed(1)).unwrap();
        scene.world.run_until(Instant::from_secs(250));
        let running = scene.sessions[0].clone();
        let essential = scene.count(running.essential);
        let enhanced = scene.count(running.enhanced);
        let read = |scene: &mut Scene, ends: Ends| scene.world.app::<Sink>(ends.proxy).bytes as f64;
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
