//! One overlay, one transfer, one fault.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{ChannelId, Instant, NodeId, Rate, Seed};
use anabranch_overlay::{Config, Event};
use anabranch_sim::{
    Context, World,
    overlay::{
        host::Host,
        mesh::{Mesh, SINK, SOURCE, link},
    },
};

/// Fault that occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Relay,
    Near,
    Far,
    Parted,
    Severed,
    Noise,
}

impl Case {
    pub(super) const ALL: [Self; 6] = [
        Self::Relay,
        Self::Near,
        Self::Far,
        Self::Parted,
        Self::Severed,
        Self::Noise,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Near => "near",
            Self::Far => "far",
            Self::Parted => "parted",
            Self::Severed => "severed",
            Self::Noise => "noise",
        }
    }
}

/// Observations of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) left: Option<Duration>,
    pub(super) replaced: Option<Duration>,
    pub(super) gap: Duration,
    pub(super) gap_before: Duration,
    /// Longest time in which nothing was acknowledged on paths that have not failed.
    pub(super) still: Duration,
    pub(super) three_rtt: Duration,
    pub(super) changes: usize,
    pub(super) lost: u64,
    pub(super) goodput_before: Rate,
    pub(super) goodput_after: Rate,
}

const SECOND: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);
const ADU_BYTES: u64 = 64 << 10;
/// Size of the transfer: enough for the time observed.
const BYTES: u64 = 400_000_000;

struct Scene {
    mesh: Mesh,
    nodes: usize,
    round_trips: Vec<Vec<Duration>>,
}

impl Scene {
    fn new(nodes: usize, spread: f64, seed: Seed) -> Option<Self> {
        let mut config = Config::default();
        config.routing.relays = Some(Rate::from_mbps(200));
        config.routing.hops = 2;
        let mut random = seed.stream("round trips");
        let mut round_trips: Vec<Vec<Duration>> = Vec::new();
        for a in 0..nodes {
            let mut row = Vec::new();
            for before in &mut round_trips {
                let round_trip = Duration::from_secs_f64(random.uniform(0.02, 0.08));
                row.push(round_trip);
                before.push(round_trip);
            }
            row.resize(a + 1, Duration::ZERO);
            round_trips.push(row);
        }
        let links = |a: usize, b: usize| {
            let mbps = if (a, b) == (SOURCE, SINK) { 10 } else { 20 };
            link(Rate::from_mbps(mbps), round_trips[a][b], spread)
        };
        let mesh = Mesh::new(nodes, &config, seed, links).ok()?;
        Some(Self {
            mesh,
            nodes,
            round_trips,
        })
    }

    /// Paths that the agent provides now, including the direct one.
    fn paths(&mut self) -> Vec<Vec<NodeId>> {
        let now = self.mesh.world.now();
        let agent = &mut self.mesh.host(SOURCE).agent;
        let routes = agent.routes(&World::node_id(SINK), now);
        routes.map_or_else(Vec::new, |routes| {
            routes.paths.into_iter().map(|path| path.relays).collect()
        })
    }

    fn relays(&mut self) -> Vec<usize> {
        let paths = self.paths();
        let uses = |n: usize| paths.iter().any(|path| path.contains(&World::node_id(n)));
        (2..self.nodes).filter(|&n| uses(n)).collect()
    }

    /// Longest time without a new message between two times, and the record of arrivals.
    fn arrivals(&mut self, from: Instant, until: Instant) -> (Duration, Rate) {
        let received = &self.mesh.host(SINK).received;
        let inside: Vec<Instant> = received
            .iter()
            .map(|&(at, _)| at)
            .filter(|at| (from..=until).contains(at))
            .collect();
        let edges = [from].into_iter().chain(inside.iter().copied());
        let ends = inside.iter().copied().chain([until]);
        let gap = edges
            .zip(ends)
            .map(|(before, after)| after.since(before))
            .max();
        let bytes = inside.len() as u64 * ADU_BYTES;
        (
            gap.unwrap_or_default(),
            Rate::from_bytes_per(bytes, until.since(from)),
        )
    }

    /// Acknowledged bytes, by channel, of paths that lead over none of `gone`.
    fn acknowledged(&mut self, gone: &[usize]) -> BTreeMap<ChannelId, u64> {
        let has_failed = |path: &[NodeId]| gone.iter().any(|&n| path.contains(&World::node_id(n)));
        let act = |host: &mut Host, context: &mut Context<'_>| host.acknowledged(context.engine());
        let all = self.mesh.world.with_app(SOURCE, act);
        let left = all.into_iter().filter(|(_, (path, _))| !has_failed(path));
        left.map(|(channel, (_, bytes))| (channel, bytes)).collect()
    }

    fn changes_since(&mut self, begin: Instant) -> usize {
        let events = &self.mesh.host(SOURCE).events;
        let changes = events
            .iter()
            .filter(|(at, event)| *at > begin && matches!(event, Event::RoutesChanged { .. }));
        changes.count()
    }

    /// Messages that are missing, duplicated, out of order or damaged after the transfer has had time to end.
    fn lost(&mut self) -> u64 {
        let end = self.mesh.world.now() + SECOND * 600;
        let world = &mut self.mesh.world;
        world.run_while(end, |world| !world.app::<Host>(SOURCE).is_delivered());
        let sink = self.mesh.host(SINK);
        let expected = 0..Host::adus(BYTES);
        let wrong = sink.received.iter().zip(expected.clone());
        let wrong = wrong
            .filter(|((_, number), expected)| number != expected)
            .count() as u64;
        let missing = expected.end.abs_diff(sink.received.len() as u64);
        wrong + missing + sink.corrupt
    }
}

pub(super) fn run(case: Case, nodes: usize, seed: Seed) -> Option<Seen> {
    let spread = if case == Case::Noise { 0.2 } else { 0.0 };
    let mut scene = Scene::new(nodes, spread, seed)?;
    scene.mesh.world.run_for(SECOND * 30);
    scene.mesh.send(BYTES);
    scene.mesh.world.run_for(SECOND * 10);
    let before = scene.paths();
    let relays = scene.relays();
    let relay = *relays.first()?;
    let begin = scene.mesh.world.now();
    let mut seen = Seen::default();
    (seen.gap_before, seen.goodput_before) = scene.arrivals(begin - SECOND * 5, begin);
    seen.three_rtt = 3 * (scene.round_trips[SOURCE][relay] + scene.round_trips[relay][SINK]);
    let mut gone = vec![relay];
    match case {
        Case::Relay => scene.mesh.crash(relay),
        Case::Near => scene
            .mesh
            .set_rate(SOURCE, relay, Rate::from_mbps(2))
            .ok()?,
        Case::Far => scene.mesh.set_rate(relay, SINK, Rate::from_mbps(2)).ok()?,
        Case::Parted => {
            // Every other relay in use, and every other one of the remaining nodes.
            let island = |n: usize| usize::from(n > SINK && n % 2 == relay % 2);
            scene.mesh.partition(island);
            gone = relays.iter().copied().filter(|&n| island(n) == 1).collect();
        }
        Case::Severed => scene.mesh.partition(|n| n % 2),
        Case::Noise => gone.clear(),
    }
    let looked = SECOND * if case == Case::Noise { 60 } else { 30 };
    let mut is_healed = false;
    let (mut before_bytes, mut moved_at) = (scene.acknowledged(&gone), begin);
    while scene.mesh.world.now().since(begin) < looked {
        scene.mesh.world.run_for(LOOK);
        let now = scene.mesh.world.now();
        let is_cut = matches!(case, Case::Parted | Case::Severed);
        let bytes = scene.acknowledged(&gone);
        let has_grown = |(channel, now): (&ChannelId, &u64)| {
            before_bytes.get(channel).is_some_and(|before| before < now)
        };
        if bytes.iter().any(has_grown) {
            moved_at = now;
        }
        seen.still = seen.still.max(now.since(moved_at));
        before_bytes = bytes;
        if is_cut && !is_healed && now.since(begin) >= SECOND * 20 {
            scene.mesh.partition(|_| 0);
            is_healed = true;
        }
        if seen.replaced.is_none() && !gone.is_empty() && case != Case::Severed {
            let used = scene.relays();
            let took = now.since(begin);
            let is_left = !used.is_empty() && gone.iter().all(|relay| !used.contains(relay));
            if is_left {
                seen.left.get_or_insert(took);
                let others = nodes - 2 - gone.len() + 1;
                let wanted = before.len().min(others);
                seen.replaced = (scene.paths().len() >= wanted).then_some(took);
            }
        }
    }
    (seen.gap, _) = scene.arrivals(begin, begin + SECOND * 10);
    (_, seen.goodput_after) = scene.arrivals(begin + SECOND * 5, begin + SECOND * 15);
    seen.changes = scene.changes_since(begin);
    seen.lost = scene.lost();
    Some(seen)
}
