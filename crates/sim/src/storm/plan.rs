//! Plan of a storm: everything that a seed decides before the first packet.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, Random, Rate, Seed};
use anabranch_link::{
    Config as LinkConfig, Jitter, Loss, Queue, RateSource, Traffic, duplex::Configs, source::Walk,
};
use anabranch_session::{
    Config, Controller, DropOrder, Guarantee, Order, Policy, Priority, StreamSpec,
};

use super::{adu::ADU_BYTES_MIN, weather};
use crate::network::Hop;

/// Largest ADU of any load.
const ADU_BYTES_MAX: usize = 200_000;
/// Factor by which faults are spread over more time in storms with promises, which need evidence.
const PROMISED_STRETCH: u32 = 6;
/// ADUs of a promised load, several a second.
const PROMISED_ADUS: u64 = 400;
/// Windows that are small enough to be used up while a reader pauses.
const STREAM_WINDOWS: [u64; 3] = [256 << 10, 384 << 10, 640 << 10];
const SESSION_WINDOWS: [u64; 3] = [1 << 20, 5 << 18, 2 << 20];

/// Path between the two nodes: one wire, or two with a relay between them.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub trunks: Vec<Configs>,
}

/// Ending of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    Finish,
    /// The sender resets it after it has sent this many ADUs.
    Reset {
        after: u64,
        code: u32,
    },
    /// The receiver stops it after it has read this many.
    Stop {
        after: u64,
        code: u32,
    },
}

/// Data sent on a flow.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// Specification without label.
    pub spec: StreamSpec,
    pub adu_bytes: usize,
    pub every: Option<Duration>,
    pub adus: u64,
    pub start: Instant,
    pub ending: Ending,
    /// After so many ADUs, its application discards what waits, again and again; `None`: never.
    pub discard_after: Option<u64>,
    /// Data that the accepting node sends on the stream, if it is duplex: number and size of ADUs.
    pub back: Option<(u64, usize)>,
}

/// Interruption of a node.
#[derive(Debug, Clone, Copy)]
pub(super) enum Upset {
    /// It is killed and started again.
    Restart { side: usize, at: Duration },
    /// It is suspended for a while.
    Suspend {
        side: usize,
        from: Duration,
        to: Duration,
    },
}

/// Budget of one node on one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub side: usize,
    pub path: usize,
    pub cap_kilobytes: u64,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub paths: Vec<Path>,
    /// Loads of the initiator and of the responder.
    pub loads: [Vec<Load>; 2],
    pub config: Config,
    pub faults: Vec<weather::Fault>,
    /// Time of the last fault; then everything is repaired.
    pub weather: Duration,
    /// Cross-traffic by wire and direction, until the faults are repaired.
    pub neighbours: Vec<(Hop, Traffic)>,
    /// Intervals in which each node's application does not read.
    pub pauses: [Vec<(Instant, Instant)>; 2],
    pub upsets: Vec<Upset>,
    pub budget: Option<Budget>,
    /// True if a third node sends arbitrary frames to the responder.
    pub is_hostile: bool,
}

impl Plan {
    pub(super) fn new(seed: Seed) -> Self {
        let mut random = seed.stream("plan");
        let paths: Vec<Path> = (0..random.between(1, 4))
            .map(|_| any_path(&mut random))
            .collect();
        let is_hostile = seed.stream("hostile").chance(0.35);
        let config = any_config(seed, &mut random, is_hostile);
        let is_fast = is_fast(&paths, &config);
        let loads = [0, 1].map(|side| {
            (0..random.between(u64::from(side == 0), 4))
                .map(|_| any_load(&mut random, is_fast))
                .collect()
        });
        let trunks: Vec<Configs> = paths.iter().flat_map(|p| p.trunks.clone()).collect();
        let faults = weather::forecast(&mut seed.stream("weather"), trunks.len());
        let neighbours = weather::neighbours(&mut seed.stream("neighbours"), &trunks);
        let upsets = any_upsets(&mut seed.stream("upsets"));
        let restarts = upsets
            .iter()
            .any(|upset| matches!(upset, Upset::Restart { .. }));
        let mut plan = Self {
            loads,
            config,
            faults,
            weather: weather::WEATHER,
            neighbours,
            pauses: [0, 1].map(|side| any_pauses(&mut seed.stream(&format!("pauses {side}")))),
            upsets,
            budget: None,
            is_hostile,
            paths,
        };
        let mut random = seed.stream("promises");
        if random.chance(0.25) {
            plan.add_promises(&mut random);
        }
        let mut random = seed.stream("budget");
        // A restarted node would begin a new account.
        if plan.paths.len() > 1 && !restarts && random.chance(0.4) {
            plan.set_budget(&mut random);
        }
        plan
    }

    /// Adds promised loads of either node, and spreads the faults over the time in which they send.
    fn add_promises(&mut self, random: &mut Random) {
        for side in [0, 0, 1] {
            if random.chance(0.6) {
                self.loads[side].push(promised_load(random));
            }
        }
        self.weather *= PROMISED_STRETCH;
        for fault in &mut self.faults {
            fault.stretch(PROMISED_STRETCH);
        }
    }

    /// The highest rate that a path may ever have in either direction, faults included.
    pub(super) fn rate_max(&self, path: usize) -> Rate {
        let of_trunk = |(trunk, wire): (&Configs, usize)| {
            let own = match &trunk.forward.rate {
                RateSource::Walk(walk) => walk.base * (1.0 + walk.spread),
                source => source.mean().unwrap_or_default(),
            };
            let faults = self.faults.iter();
            faults
                .filter_map(|fault| fault.rate_of(wire))
                .fold(own, Rate::max)
        };
        let trunks = self.paths[path].trunks.iter().zip(self.wires(path));
        trunks.map(of_trunk).min().unwrap_or_default()
    }

    fn set_budget(&mut self, random: &mut Random) {
        let budget = Budget {
            side: random.below(2) as usize,
            path: random.below(self.paths.len() as u64) as usize,
            cap_kilobytes: random.between(60, 600),
        };
        // No other sender on the wire where its bytes are counted.
        let hop = self.first_hop(budget.side, budget.path);
        self.neighbours.retain(|(other, _)| *other != hop);
        self.budget = Some(budget);
    }

    /// The wires of a path.
    pub(super) fn wires(&self, path: usize) -> std::ops::Range<usize> {
        let before = self.paths[..path].iter().map(|p| p.trunks.len()).sum();
        before..before + self.paths[path].trunks.len()
    }

    /// The hop on which a node's packets begin their path.
    pub(super) fn first_hop(&self, side: usize, path: usize) -> Hop {
        let wires = self.wires(path);
        if side == 0 {
            Hop::forward(wires.start)
        } else {
            Hop::backward(wires.end - 1)
        }
    }

    /// Number of kinds of streams, reliable and not, that this node reads: each has a window of its own.
    pub(super) fn kinds_read(&self, side: usize) -> u64 {
        let peers = self.loads[1 - side].iter();
        let backs = self.loads[side].iter().filter(|load| load.spec.duplex);
        let mut kinds: Vec<bool> = peers.chain(backs).map(|load| load.spec.reliable).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.len().max(1) as u64
    }

    pub(super) fn restart_at(&self) -> Option<Instant> {
        self.upsets.iter().find_map(|upset| match upset {
            Upset::Restart { at, .. } => Some(Instant::EPOCH + *at),
            Upset::Suspend { .. } => None,
        })
    }

    /// Description of the plan.
    pub(super) fn describe(&self) -> String {
        let config = &self.config;
        let mut lines = vec![format!(
            "policy {}, controller {}, model {}, windows {} and {}, send buffer {}",
            config.policy,
            config.channel.controller,
            config.model,
            config.stream_window_bytes,
            config.session_window_bytes,
            config.send_buffer_bytes
        )];
        lines.extend(config.objectives.iter().map(ToString::to_string));
        for (index, path) in self.paths.iter().enumerate() {
            let trunks: Vec<String> = path.trunks.iter().map(|t| t.forward.to_string()).collect();
            lines.push(format!("path {index}: {}", trunks.join("  relay  ")));
        }
        for (side, loads) in self.loads.iter().enumerate() {
            for (index, load) in loads.iter().enumerate() {
                lines.push(format!("load {side}/{index}: {load:?}"));
            }
        }
        lines.extend(self.faults.iter().map(|fault| format!("{fault:?}")));
        let neighbours = self.neighbours.iter();
        lines.extend(neighbours.map(|neighbour| format!("{neighbour:?}")));
        lines.push(format!("pauses {:?}", self.pauses));
        lines.extend(self.upsets.iter().map(|upset| format!("{upset:?}")));
        lines.extend(self.budget.iter().map(|budget| format!("{budget:?}")));
        if self.is_hostile {
            lines.push("with a hostile peer".into());
        }
        lines.join("\n")
    }
}

fn any_config(seed: Seed, random: &mut Random, is_hostile: bool) -> Config {
    let mut config = Config {
        policy: Policy::ALL[random.below(Policy::ALL.len() as u64) as usize],
        ..Config::default()
    };
    config.channel.controller = match random.below(8) {
        0 => Controller::Cubic,
        1 => Controller::NewReno,
        2 => Controller::Bbr3,
        3 => Controller::Fixed(Rate::from_kbps(random.between(500, 4000))),
        _ => Controller::Auto,
    };
    if config.policy.may_plan() {
        config.objectives = any_objectives(&mut seed.stream("objectives"));
        let models = ["auto", "generic", "cellular", "satellite"];
        let model = models[seed.stream("model").below(models.len() as u64) as usize];
        config.model = model.parse().expect("a name");
    }
    let mut random = seed.stream("windows");
    if is_hostile || random.chance(0.7) {
        config.adu_bytes_max = ADU_BYTES_MAX;
        config.stream_window_bytes = STREAM_WINDOWS[random.below(3) as usize];
        config.session_window_bytes = SESSION_WINDOWS[random.below(3) as usize];
        config.send_buffer_bytes = random.between(16, 256) as usize * 1024;
    }
    config
}

/// True if the paths carry some megabytes in the time of a storm, whatever happens.
fn is_fast(paths: &[Path], config: &Config) -> bool {
    let is_eager = matches!(
        config.channel.controller,
        Controller::Auto | Controller::Bbr3
    );
    let is_good = |path: &Path| {
        path.trunks.iter().all(|trunk| {
            let rate = trunk.forward.rate.mean().unwrap_or_default();
            rate >= Rate::from_mbps(5) && trunk.forward.loss == Loss::None
        })
    };
    is_eager && paths.iter().any(is_good)
}

/// Objectives of some streams; none that forbids sending for ever, so that all must arrive in the end.
fn any_objectives(random: &mut Random) -> Option<Arc<str>> {
    const TEXTS: [&str; 5] = [
        "objective { context { adu:a { stream_id <= 1 } } goal { expected(a::latency) < 800 }
           utility { a { 800 - expected(a::latency) } } }",
        "objective { context { adu:a { stream_id >= 2 } } goal { prob(a::lost?) <= 100 }
           utility { a { 101 - prob(a::lost?) } } }",
        "objective { context { adu:a { length < 500 } } goal { expected(a::latency) < 100 } utility { a { 3 } } }",
        "objective { context { adu:a { stream_id == 0 } adu:b { stream_seq == a::stream_seq + 1 } }
           goal { correlated_loss(a, b) <= 25 } utility { a { 125 } } }",
        "objective { context { stream:s { stream_id == 0 } adu:a { stream_id == 0 } }
           goal { expected(s::latency) > 0 } utility { a { 1000 / expected(a::latency) } } }",
    ];
    let text: String = TEXTS.into_iter().filter(|_| random.chance(0.4)).collect();
    (!text.is_empty()).then(|| text.into())
}

fn any_path(random: &mut Random) -> Path {
    let trunks = if random.chance(0.25) { 2 } else { 1 };
    Path {
        trunks: (0..trunks).map(|_| any_wire(random)).collect(),
    }
}

fn any_wire(random: &mut Random) -> Configs {
    let rate = Rate::from_kbps(random.between(300, 20_000));
    let delay = Duration::from_micros(random.between(500, 150_000));
    let loss = match random.below(4) {
        0 => Loss::random(random.uniform(0.0, 0.05)).expect("a probability"),
        1 => Loss::bursts(random.uniform(0.001, 0.05), random.uniform(1.5, 8.0))
            .expect("a rate and a length"),
        _ => Loss::None,
    };
    let jitter = match random.below(4) {
        0 => Jitter::uniform(delay / 4),
        1 => Jitter::uniform(delay / 4).reordering(),
        _ => Jitter::None,
    };
    let source = if random.chance(0.3) {
        RateSource::Walk(Walk {
            base: rate,
            spread: 0.5,
            every: Duration::from_millis(500),
        })
    } else {
        RateSource::Constant(rate)
    };
    let one = LinkConfig {
        rate: source,
        delay,
        jitter,
        loss,
        queue: Queue::time(Duration::from_millis(random.between(20, 400))),
        mtu_bytes: if random.chance(0.3) { 1280 } else { 1500 },
        ..LinkConfig::default()
    };
    Configs::symmetric(one)
}

fn any_load(random: &mut Random, is_fast: bool) -> Load {
    let reliable = random.chance(0.7);
    let timed = random.chance(0.5);
    let adu_bytes = match random.below(4) {
        0 => random.between(ADU_BYTES_MIN as u64, 100),
        1 => random.between(100, 1500),
        2 => random.between(1500, 20_000),
        _ => random.between(20_000, ADU_BYTES_MAX as u64),
    } as usize;
    let budget = if is_fast && random.chance(0.5) {
        random.between(1_500_000, 3_000_000)
    } else {
        random.between(10_000, 800_000)
    };
    let adus = (budget / adu_bytes as u64).clamp(1, 400);
    let lifetime = random
        .chance(0.4)
        .then(|| Duration::from_millis(random.between(30, 2000)));
    let mut spec = StreamSpec {
        reliable,
        order: if random.chance(0.5) {
            Order::Ordered
        } else {
            Order::Unordered
        },
        lifetime,
        priority: Priority([0, 64, 128, 192, 255][random.below(5) as usize]),
        weight: random.between(1, 1000) as u32,
        notify: true,
        notify_fragments: random.chance(0.1),
        duplex: random.chance(0.25),
        ..StreamSpec::default()
    };
    if !reliable {
        spec.partial = random.chance(0.4);
        spec.drop = match random.below(6) {
            0 => Some(DropOrder::Oldest),
            1 => Some(DropOrder::Newest),
            2 => Some(DropOrder::LeastImportant),
            _ => None,
        };
    }
    if reliable && lifetime.is_none() && random.chance(0.2) {
        // Slow enough to take effect, fast enough to end in 20 s.
        let least = Rate::from_bytes_per(adus * adu_bytes as u64, Duration::from_secs(20));
        spec.cap = Some(least.max(Rate::from_kbps(random.between(50, 1500))));
    }
    // No draw of its own, so that seeds keep their meaning.
    if spec.order == Order::Unordered && spec.weight.is_multiple_of(3) {
        spec.order = Order::NewestFirst;
    }
    let may_lose = !reliable || lifetime.is_some();
    let discard_after = (may_lose && adus.is_multiple_of(3)).then_some(1 + adus % 16);
    let back = spec.duplex.then(|| {
        let bytes = random.between(ADU_BYTES_MIN as u64, 5_000);
        (random.between(1, 60), bytes as usize)
    });
    Load {
        ending: any_ending(random, adus),
        spec,
        adu_bytes,
        every: timed.then(|| Duration::from_millis(random.between(1, 60))),
        adus,
        start: Instant::from_millis(random.below(3000)),
        discard_after,
        back,
    }
}

/// A load that demands a share of its rate, and waits for the promise.
fn promised_load(random: &mut Random) -> Load {
    let every = Duration::from_millis(random.between(100, 250));
    let adu_bytes = random.between(200, 3_000);
    let rate = Rate::from_bytes_per(adu_bytes, every) * random.uniform(0.3, 0.9);
    let probability = [0.5, 0.75, 0.9, 0.95][random.below(4) as usize];
    Load {
        spec: StreamSpec {
            notify: true,
            guarantee: Some(Box::new(Guarantee::rate(rate, probability).waiting())),
            ..StreamSpec::default()
        },
        adu_bytes: adu_bytes as usize,
        every: Some(every),
        adus: PROMISED_ADUS,
        start: Instant::from_millis(random.below(3000)),
        ending: Ending::Finish,
        discard_after: None,
        back: None,
    }
}

fn any_ending(random: &mut Random, adus: u64) -> Ending {
    let (after, code) = (random.between(1, adus), random.below(1 << 32) as u32);
    match random.below(12) {
        0 => Ending::Reset { after, code },
        1 => Ending::Stop { after, code },
        _ => Ending::Finish,
    }
}

/// At most three intervals, one after another.
fn any_pauses(random: &mut Random) -> Vec<(Instant, Instant)> {
    let mut at = Instant::EPOCH;
    let count = random.below(4);
    (0..count)
        .map(|_| {
            let from = at + Duration::from_millis(random.between(100, 4_000));
            at = from + Duration::from_millis(random.between(50, 4_000));
            (from, at)
        })
        .collect()
}

fn any_upsets(random: &mut Random) -> Vec<Upset> {
    let mut upsets = Vec::new();
    let side = random.below(2) as usize;
    if random.chance(0.15) {
        let at = Duration::from_millis(random.between(500, 9_000));
        upsets.push(Upset::Restart { side, at });
    } else if random.chance(0.15) {
        let from = Duration::from_millis(random.between(500, 9_000));
        let to = from + Duration::from_millis(random.between(10, 2_500));
        upsets.push(Upset::Suspend { side, from, to });
    }
    upsets
}
